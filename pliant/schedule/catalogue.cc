// SPDX-License-Identifier: MIT
#include "pliant/schedule/catalogue.h"

#include <algorithm>
#include <array>
#include <string>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"
#include "pliant/schedule/all_gather.h"
#include "pliant/schedule/all_reduce.h"
#include "pliant/schedule/broadcast.h"
#include "pliant/schedule/reduce_scatter.h"

namespace pliant::schedule {
namespace {

template <Schedule (*kBuild)(int, int)>
Schedule plain(int rank, const Shape& shape) {
  return kBuild(rank, shape.size);
}
template <Schedule (*kBuild)(int, int, int)>
Schedule rooted(int rank, const Shape& shape) {
  return kBuild(rank, shape.size, shape.root);
}
template <Schedule (*kBuild)(int, int, int, int)>
Schedule segmented(int rank, const Shape& shape) {
  return kBuild(rank, shape.size, shape.root, shape.segments);
}

int one(const Shape&) { return 1; }
int per_rank(const Shape& shape) { return shape.size; }
int per_segment(const Shape& shape) { return shape.segments; }

constexpr std::array kBuilders = {
    Builder{Collective::kReduceScatter, "ring", plain<ring_reduce_scatter>, per_rank},
    Builder{Collective::kReduceScatter, "halving", plain<halving_reduce_scatter>, per_rank},
    Builder{Collective::kReduceScatter, "circulant", plain<circulant_reduce_scatter>, per_rank},
    Builder{Collective::kReduceScatter, "direct", plain<direct_reduce_scatter>, per_rank},
    Builder{Collective::kAllGather, "ring", plain<ring_all_gather>, per_rank},
    Builder{Collective::kAllGather, "recursive-doubling", plain<doubling_all_gather>, per_rank},
    Builder{Collective::kAllGather, "bruck", plain<bruck_all_gather>, per_rank},
    Builder{Collective::kBroadcast, "binomial", rooted<binomial_broadcast>, one},
    Builder{Collective::kBroadcast, "chain", segmented<chain_broadcast>, per_segment, true},
    Builder{Collective::kBroadcast, "double-tree", segmented<double_tree_broadcast>, per_segment,
            true},
    Builder{Collective::kBroadcast, "scatter-allgather", rooted<scatter_all_gather_broadcast>,
            per_rank},
    Builder{Collective::kAllReduce, "ring", plain<ring_all_reduce>, per_rank},
    Builder{Collective::kAllReduce, "halving-doubling", plain<halving_doubling_all_reduce>,
            per_rank},
    Builder{Collective::kAllReduce, "recursive-doubling", plain<doubling_all_reduce>, one},
    Builder{Collective::kAllReduce, "tree", plain<tree_all_reduce>, one},
};

}  // namespace

std::string_view to_string(Collective collective) {
  constexpr std::array<std::string_view, 4> names = {"reduce-scatter", "all-gather", "broadcast",
                                                     "all-reduce"};
  return names.at(static_cast<std::size_t>(collective));
}

std::span<const Builder> builders() { return kBuilders; }

const Builder& find_builder(Collective collective, std::string_view name) {
  std::vector<std::string> names;
  for (const Builder& builder : kBuilders) {
    if (builder.collective != collective) continue;
    if (builder.name == name) return builder;
    names.emplace_back(builder.name);
  }
  throw InputError(
      fmt::format("no {} is called '{}'{}", to_string(collective), name, suggestion(name, names)));
}

std::vector<Schedule> build_all(const Builder& builder, const Shape& shape) {
  std::vector<Schedule> all;
  all.reserve(static_cast<std::size_t>(shape.size));
  for (int rank = 0; rank < shape.size; ++rank) all.push_back(builder.build(rank, shape));
  return all;
}

}  // namespace pliant::schedule
