// SPDX-License-Identifier: MIT
// Choices that a plan is made of, with the word for each in a plan's text. Wire codes are in
// codes.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace pliant::plan {

enum class Kind : std::uint8_t { kGradients, kUpdates };
enum class Scheme : std::uint8_t { kDense, kUnion, kShared, kSrs };
enum class Leader : std::uint8_t { kStar, kVar };  // of shared: round mod N, or the largest energy

// One schedule per stage. Each runs at any number of ranks: where recursive halving or doubling
// needs a power of two, the any-size twin with the same rounds and bytes runs instead (circulant
// for halving, Bruck for the doubling all-gather), so a pinned plan survives a restart at another
// world size.
enum class AllReduce : std::uint8_t {
  kBackend,  // the backend's own
  kRing,
  kHalvingDoubling,
  kRecursiveDoubling,
  kTree
};
enum class AllGather : std::uint8_t { kRing, kRecursiveDoubling, kBruck };
enum class Broadcast : std::uint8_t { kBinomial, kChain, kDoubleTree, kScatterAllgather };
// Schedules of srs. There is no ring: it moves the bytes of direct, but waits and trims N-1 times
// instead of once.
enum class ReduceScatter : std::uint8_t { kHalving, kCirculant, kDirect };

enum class Fusion : std::uint8_t {
  kBucket,
  kTwo,
  kAll
};  // each bucket by itself, two groups of buckets, all in one

inline constexpr std::array kKinds = {Kind::kGradients, Kind::kUpdates};
inline constexpr std::array kSchemes = {Scheme::kDense, Scheme::kUnion, Scheme::kShared,
                                        Scheme::kSrs};
inline constexpr std::array kLeaders = {Leader::kStar, Leader::kVar};
inline constexpr std::array kAllReduces = {AllReduce::kBackend, AllReduce::kRing,
                                           AllReduce::kHalvingDoubling,
                                           AllReduce::kRecursiveDoubling, AllReduce::kTree};
inline constexpr std::array kAllGathers = {AllGather::kRing, AllGather::kRecursiveDoubling,
                                           AllGather::kBruck};
inline constexpr std::array kBroadcasts = {Broadcast::kBinomial, Broadcast::kChain,
                                           Broadcast::kDoubleTree, Broadcast::kScatterAllgather};
inline constexpr std::array kReduceScatters = {ReduceScatter::kHalving, ReduceScatter::kCirculant,
                                               ReduceScatter::kDirect};
inline constexpr std::array kFusions = {Fusion::kBucket, Fusion::kTwo, Fusion::kAll};

constexpr std::string_view to_string(Kind kind) {
  return kind == Kind::kGradients ? "gradients" : "updates";
}
constexpr std::string_view to_string(Scheme scheme) {
  constexpr std::array<std::string_view, 4> names = {"dense", "union", "shared", "srs"};
  return names.at(static_cast<std::size_t>(scheme));
}
constexpr std::string_view to_string(Leader leader) {
  return leader == Leader::kStar ? "star" : "var";
}
constexpr std::string_view to_string(AllReduce schedule) {
  constexpr std::array<std::string_view, 5> names = {"backend", "ring", "halving-doubling",
                                                     "recursive-doubling", "tree"};
  return names.at(static_cast<std::size_t>(schedule));
}
constexpr std::string_view to_string(AllGather schedule) {
  constexpr std::array<std::string_view, 3> names = {"ring", "recursive-doubling", "bruck"};
  return names.at(static_cast<std::size_t>(schedule));
}
constexpr std::string_view to_string(Broadcast schedule) {
  constexpr std::array<std::string_view, 4> names = {"binomial", "chain", "double-tree",
                                                     "scatter-allgather"};
  return names.at(static_cast<std::size_t>(schedule));
}
constexpr std::string_view to_string(ReduceScatter schedule) {
  constexpr std::array<std::string_view, 3> names = {"halving", "circulant", "direct"};
  return names.at(static_cast<std::size_t>(schedule));
}
constexpr std::string_view to_string(Fusion fusion) {
  constexpr std::array<std::string_view, 3> names = {"bucket", "2", "all"};
  return names.at(static_cast<std::size_t>(fusion));
}

// Stages of a scheme.
constexpr bool has_scatter(Scheme scheme) { return scheme == Scheme::kSrs; }
constexpr bool has_gather(Scheme scheme) {
  return scheme == Scheme::kUnion || scheme == Scheme::kSrs;
}
constexpr bool has_bcast(Scheme scheme) { return scheme == Scheme::kShared; }
constexpr bool has_reduce(Scheme scheme) {
  return scheme == Scheme::kDense || scheme == Scheme::kShared;
}
constexpr bool is_segmented(Broadcast schedule) {
  return schedule == Broadcast::kChain || schedule == Broadcast::kDoubleTree;
}
// Schedules that carry float32 only. In recursive doubling both partners would keep the same
// rounding error; the backend's own all-reduce has no codes.
constexpr bool needs_f32(AllReduce schedule) {
  return schedule == AllReduce::kBackend || schedule == AllReduce::kRecursiveDoubling;
}

}  // namespace pliant::plan
