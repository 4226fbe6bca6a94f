// SPDX-License-Identifier: MIT
#include "pliant/exchange/run_dense.h"

#include <cstring>

#include "pliant/common/errors.h"
#include "pliant/common/split.h"
#include "pliant/kernels/dense.h"

namespace pliant::exchange {
namespace {

std::span<const float> floats(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

DenseBlocks::DenseBlocks(comm::Floats floats, int count, Workspace& workspace, Complaint& complaint)
    : floats_(std::move(floats)),
      begins_(split_points(floats_.data.size(), static_cast<std::size_t>(count))),
      workspace_(workspace),
      complaint_(complaint) {}

std::span<float> DenseBlocks::block(int b) const {
  const auto i = static_cast<std::size_t>(b);
  return floats_.data.subspan(begins_[i], begins_[i + 1] - begins_[i]);
}

std::size_t DenseBlocks::size_of(const schedule::Move& move) const {
  std::size_t size = 0;
  for (const int b : move.blocks) size += block(b).size();
  return size;
}

std::optional<std::span<float>> DenseBlocks::together(const schedule::Move& move) const {
  for (std::size_t i = 1; i < move.blocks.size(); ++i) {
    if (move.blocks[i] != move.blocks[i - 1] + 1) return std::nullopt;
  }
  return floats_.data.subspan(begins_[static_cast<std::size_t>(move.blocks.front())],
                              size_of(move));
}

comm::Region DenseBlocks::outgoing(const schedule::Move& move, schedule::OnArrival) {
  if (const auto whole = together(move)) return {std::as_writable_bytes(*whole), floats_.owner};
  comm::Region packed = workspace_.take(size_of(move) * sizeof(float));
  std::byte* to = packed.bytes.data();
  for (const int b : move.blocks) {
    const auto from = std::as_bytes(block(b));
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    to += from.size();
  }
  return packed;
}

// A block is received by copy only once it is complete, that is after this rank's own part of it
// has been sent and used, so the final bytes may land in place however early they come.
comm::Region DenseBlocks::room(const schedule::Move& move, schedule::OnArrival on_arrival) {
  const auto whole = together(move);
  if (whole && on_arrival == schedule::OnArrival::kCopy)
    return {std::as_writable_bytes(*whole), floats_.owner};
  return workspace_.take(size_of(move) * sizeof(float));
}

void DenseBlocks::arrived(const schedule::Move& move, schedule::OnArrival on_arrival,
                          const comm::Region& message) {
  std::span<const float> values = floats(message.bytes);
  if (values.size() != size_of(move)) {
    return refuse(
        fmt::format("rank {} sent {} floats instead of {}: do the ranks exchange the same bucket?",
                    move.peer, values.size(), size_of(move)));
  }
  for (const int b : move.blocks) {
    const std::span<float> mine = block(b);
    const std::span<const float> theirs = values.first(mine.size());
    values = values.subspan(mine.size());
    if (on_arrival == schedule::OnArrival::kCombine) {
      kernels::add(mine, theirs);
    } else if (mine.data() != theirs.data() && !mine.empty()) {
      std::memcpy(mine.data(), theirs.data(), mine.size_bytes());
    }
  }
}

Traffic run_dense(comm::Communicator& communicator, const schedule::Builder& builder,
                  const schedule::Shape& shape, const comm::Floats& floats, Workspace& workspace,
                  const RunOptions& options) {
  require(shape.size == communicator.size(), "exchange: a schedule for {} ranks, run by {}",
          shape.size, communicator.size());
  workspace.reset();
  Complaint complaint;
  DenseBlocks blocks(floats, builder.blocks(shape), workspace, complaint);
  const Traffic traffic =
      run(communicator, builder.build(communicator.rank(), shape), blocks, options);
  complaint.raise();
  return traffic;
}

Traffic all_reduce(comm::Communicator& communicator, const comm::Floats& floats,
                   std::string_view schedule, Workspace& workspace, const RunOptions& options) {
  const auto& builder = schedule::find_builder(schedule::Collective::kAllReduce, schedule);
  return run_dense(communicator, builder, {communicator.size()}, floats, workspace, options);
}

}  // namespace pliant::exchange
