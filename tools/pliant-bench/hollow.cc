// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/hollow.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "pliant/common/errors.h"
#include "pliant/common/split.h"

namespace pliant::bench {
namespace {

// Mapped again and again. Small enough to stay in a cache, large enough that 256 ranks of 128 MiB
// need fewer mappings than Linux allows a process (65,530).
constexpr std::size_t kTile = 1 << 20;

struct Mapping {
  std::byte* data;
  std::size_t size;
  Mapping(std::byte* memory, std::size_t bytes) : data(memory), size(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(data, size); }
};

}  // namespace

comm::Region hollow_memory(std::size_t size) {
  const std::size_t mapped = std::max<std::size_t>(1, (size + kTile - 1) / kTile) * kTile;
  const int file = memfd_create("pliant-bench", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kTile) != 0)
    throw io_error_from_errno("making memory for messages without content");
  void* base = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bool fine = base != MAP_FAILED;
  for (std::size_t at = 0; fine && at < mapped; at += kTile) {
    fine = mmap(static_cast<std::byte*>(base) + at, kTile, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  }
  close(file);
  if (!fine) throw io_error_from_errno("mapping memory for messages without content");
  const auto mapping = std::make_shared<Mapping>(static_cast<std::byte*>(base), mapped);
  return {{mapping->data, size}, mapping};
}

HollowBlocks::HollowBlocks(comm::Region hollow, std::vector<double> block_bytes)
    : hollow_(std::move(hollow)), block_bytes_(std::move(block_bytes)) {}

HollowBlocks::HollowBlocks(comm::Region hollow, std::size_t count, int blocks)
    : hollow_(std::move(hollow)) {
  const auto points = split_points(count, static_cast<std::size_t>(blocks));
  for (std::size_t b = 1; b < points.size(); ++b)
    block_bytes_.push_back(static_cast<double>((points[b] - points[b - 1]) * sizeof(float)));
}

std::size_t HollowBlocks::bytes_of(const schedule::Move& move) const {
  double bytes = 0;
  for (const int b : move.blocks) bytes += block_bytes_[static_cast<std::size_t>(b)];
  return static_cast<std::size_t>(bytes);
}

comm::Region HollowBlocks::outgoing(const schedule::Move& move, schedule::OnArrival) {
  return {hollow_.bytes.first(bytes_of(move)), hollow_.owner};
}

comm::Region HollowBlocks::room(const schedule::Move& move, schedule::OnArrival on_arrival) {
  return outgoing(move, on_arrival);
}

void HollowBlocks::arrived(const schedule::Move&, schedule::OnArrival, const comm::Region&) {}

}  // namespace pliant::bench
