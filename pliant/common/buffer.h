// SPDX-License-Identifier: MIT
// Buffer of memory aligned for SIMD, with shared ownership: a communicator keeps the buffer of a
// message in flight alive after the caller has released it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

namespace pliant {

// One cache line, and the widest vector register there is today.
inline constexpr std::size_t kBufferAlignment = 64;

namespace detail {
// Uninitialised bytes, aligned; std::bad_alloc if there are none. Large ones ask the kernel for
// huge pages: a pass over millions of entries then misses the TLB, and stops prefetching at the end
// of a page, 512 times less often.
[[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes);
}  // namespace detail

// `size` uninitialised elements with shared ownership. Copying the Buffer shares the memory.
template <typename T>
requires std::is_trivially_copyable_v<T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) : size_(size) {
    if (size > 0) data_ = std::static_pointer_cast<T>(detail::allocate(size * sizeof(T)));
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T* data() const { return data_.get(); }
  [[nodiscard]] std::span<T> span() const { return {data_.get(), size_}; }
  [[nodiscard]] T& operator[](std::size_t i) const { return data_.get()[i]; }
  // True if another owner holds the memory too.
  [[nodiscard]] bool shared() const { return data_.use_count() > 1; }
  [[nodiscard]] std::shared_ptr<const void> owner() const { return data_; }

 private:
  std::shared_ptr<T> data_;
  std::size_t size_ = 0;
};

}  // namespace pliant
