// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/choose.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "pliant/common/errors.h"
#include "pliant/model/exchange.h"
#include "pliant/plan/candidates.h"
#include "pliant/plan/density.h"
#include "tools/pliant-bench/agree.h"
#include "tools/pliant-bench/predict.h"

namespace pliant::bench {
namespace {

// Prices of stages by themselves; many plans have a stage in common. Their sum is a little more
// than the price of the whole, in which ranks that are done early go on.
class Sums {
 public:
  explicit Sums(const plan::World& world) : world_(world) {}

  double of(const plan::Plan& plan, std::size_t count) {
    double sum = 0;
    for (const auto& stage :
         model::stages(plan, count, plan::entries_of(plan.density, count), world_.size)) {
      const auto [place, added] =
          known_.try_emplace({stage.builder, stage.shape.segments, stage.block_bytes.front()});
      if (added) place->second = model::price(stage, world_.links).value;
      sum += place->second;
    }
    return sum;
  }

 private:
  const plan::World& world_;
  std::map<std::tuple<const schedule::Builder*, int, double>, double> known_;
};

constexpr std::size_t kShortlist = 6;  // plans that are priced as a whole

std::vector<plan::Plan> choices(const plan::Pins& pins, int ranks) {
  plan::Pins gradients = pins;
  gradients.kind = plan::Kind::kGradients;
  gradients.fuse = plan::Fusion::kBucket;
  std::vector<plan::Plan> all;
  for (plan::Plan plan : plan::candidates(
           ranks, {.pins = gradients, .updates = false, .backend_all_reduce = false})) {
    const bool open =
        plan.scheme == plan::Scheme::kShared && is_segmented(plan.bcast) && plan.segments == 0;
    for (const int segments : open ? segment_candidates() : std::vector<int>{plan.segments}) {
      plan.segments = segments;
      all.push_back(plan);
    }
  }
  return all;
}

std::size_t cheapest_of(const std::vector<plan::Plan>& all, int ranks, std::size_t count,
                        const plan::Link& link) {
  const plan::World world = plan::uniform_world(ranks, link);
  Sums sums(world);
  std::vector<std::pair<double, std::size_t>> ranking;
  for (std::size_t i = 0; i < all.size(); ++i) ranking.emplace_back(sums.of(all[i], count), i);
  std::ranges::sort(ranking);
  ranking.resize(std::min(ranking.size(), kShortlist));
  for (auto& [price, i] : ranking)
    price =
        model::price_exchange(all[i], count, plan::entries_of(all[i].density, count), world).value;
  return std::ranges::min(ranking).second;
}

}  // namespace

plan::Plan cheapest(const plan::Pins& pins, int ranks, std::size_t count, const plan::Link& link) {
  const auto all = choices(pins, ranks);
  return all[cheapest_of(all, ranks, count, link)];
}

std::vector<plan::Plan> plans_for(comm::Communicator& communicator, const Options& options,
                                  std::size_t count) {
  std::vector<plan::Plan> plans = options.plans;
  const int ranks = communicator.size();
  for (const auto& pins : options.schemes) {
    const auto all = choices(pins, ranks);
    const std::size_t mine =
        communicator.rank() == 0
            ? cheapest_of(all, ranks, count, options.link.value_or(kAssumedLink))
            : 0;
    plans.push_back(all[static_cast<std::size_t>(
        max_over_ranks(communicator, static_cast<double>(mine), options.deadline))]);
  }
  std::vector<plan::Plan> different;
  for (const auto& plan : plans) {
    if (std::ranges::find(different, plan) == different.end()) different.push_back(plan);
  }
  return different;
}

}  // namespace pliant::bench
