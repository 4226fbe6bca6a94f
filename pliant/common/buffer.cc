// SPDX-License-Identifier: MIT
#include "pliant/common/buffer.h"

#include <sys/mman.h>

#include <new>

namespace pliant::detail {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} * 1024 * 1024;
// Smaller ones are walked too quickly for it to matter.
constexpr std::size_t kLarge = 2 * kHugePage;

}  // namespace

std::shared_ptr<void> allocate(std::size_t bytes) {
  const std::align_val_t alignment{bytes >= kLarge ? kHugePage : kBufferAlignment};
  void* memory = ::operator new(bytes, alignment);
  // Whole pages only: nothing is made resident beyond the buffer's end. Where the kernel refuses,
  // pages stay as they are.
  if (bytes >= kLarge) (void)::madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return {memory, [alignment](void* p) { ::operator delete(p, alignment); }};
}

}  // namespace pliant::detail
