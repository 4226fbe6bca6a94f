// SPDX-License-Identifier: MIT
// Memory of the late device: an address range that the host cannot touch, and pinned host memory.
//
// The same pages are mapped twice. Tensors hold addresses of the first mapping, which nobody may
// read or write: a host access is a fault with a message. Kernels use the second mapping.
//
// A block that is freed belongs to the stream on which it was allocated, as in torch's own caching
// allocators: that stream overwrites it with NaN, and its later work may use it again.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "python/tests/support/late/streams.h"

namespace late {

// For work of `stream`, on its device.
[[nodiscard]] void* allocate(std::size_t bytes, Stream& stream);
void free(void* block);
// Another stream uses the block: it is not overwritten before that stream has got so far.
void used_by(const void* block, Stream& stream);
[[nodiscard]] int device_of(const void* block);
// From now on blocks of so many bytes or more are refused. 0: none.
void refuse_memory(std::size_t bytes);
[[nodiscard]] bool is_refused(std::size_t bytes);

// The address at which kernels find what a tensor has at `address`. Null stays null.
[[nodiscard]] void* for_kernels(const void* address);
[[nodiscard]] bool is_for_kernels(const void* address);

[[nodiscard]] void* allocate_pinned(std::size_t bytes);  // throws if it is refused
void free_pinned(void* block);
void refuse_pinned(bool refuse);
[[nodiscard]] bool is_pinned(const void* address);
// Keeps pinned memory that contains this address; null if none does.
[[nodiscard]] std::shared_ptr<void> keep_pinned(const void* address);
[[nodiscard]] std::size_t pinned_allocations();  // so far

}  // namespace late
