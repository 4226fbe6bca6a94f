// SPDX-License-Identifier: MIT
// Memory aligned for SIMD and shared between those who may still touch it: a communicator with a message in flight keeps
// its buffer alive after the caller has gone.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace pliant {

// One cache line, and the widest vector register there is today.
inline constexpr std::size_t kBufferAlignment = 64;

// `size` uninitialised elements with shared ownership. Copying the Buffer shares the memory.
template <typename T>
requires std::is_trivially_copyable_v<T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    void* memory = ::operator new (size * sizeof(T), std::align_val_t{kBufferAlignment});
    data_ = std::shared_ptr<T>(static_cast<T*>(memory), [](T* p) { ::operator delete (p, std::align_val_t{kBufferAlignment}); });
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T* data() const { return data_.get(); }
  [[nodiscard]] std::span<T> span() const { return {data_.get(), size_}; }
  [[nodiscard]] T& operator[](std::size_t i) const { return data_.get()[i]; }
  // Does somebody else hold the memory too?
  [[nodiscard]] bool shared() const { return data_.use_count() > 1; }
  [[nodiscard]] std::shared_ptr<const void> owner() const { return data_; }

 private:
  std::shared_ptr<T> data_;
  std::size_t size_ = 0;
};

}  // namespace pliant
