// SPDX-License-Identifier: MIT
#include "pliant/common/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace pliant {
namespace {

TEST(Buffer, IsAlignedAndSharedAndOutlivesItsFirstOwner) {
  Buffer<float> first(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % kBufferAlignment, 0U);
  first[999] = 7;
  const Buffer<float> second = first;
  first = Buffer<float>();
  EXPECT_EQ(second[999], 7);
  EXPECT_EQ(first.size(), 0U);
}

TEST(Buffer, OfManyPagesIsWritableFromEndToEnd) {
  const std::size_t sizes[] = {(4U << 20U) - 1, 4U << 20U, (4U << 20U) + 1, (6U << 20U) + 4097};
  for (const std::size_t size : sizes) {
    const Buffer<char> buffer(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kBufferAlignment, 0U);
    std::ranges::fill(buffer.span(), 'x');
    EXPECT_EQ(buffer[size - 1], 'x');
  }
}

TEST(Buffer, OfNothingIsNothing) {
  const Buffer<int> empty(0);
  EXPECT_TRUE(empty.span().empty());
  EXPECT_EQ(empty.owner(), nullptr);
}

}  // namespace
}  // namespace pliant
