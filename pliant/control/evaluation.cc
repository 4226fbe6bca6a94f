// SPDX-License-Identifier: MIT
#include "pliant/control/evaluation.h"

#include <algorithm>

#include "pliant/common/errors.h"

namespace pliant::control {
namespace {

using model::Prediction;
using plan::Plan;

// Predictions that differ by less are equal: codec costs are measured.
constexpr double kSame = 1.001;

Prediction with_overhead(Prediction prediction, double overhead) {
  if (is_plain(prediction.plan)) return prediction;
  prediction.step += Seconds{overhead / prediction.plan.every};
  return prediction;
}

}  // namespace

bool is_plain(const Plan& plan) {
  return plan.kind == plan::Kind::kGradients && plan.scheme == plan::Scheme::kDense &&
         plan.values == plan::ValueCode::kF32 && plan.reduce == plan::AllReduce::kBackend &&
         plan.fuse == plan::Fusion::kBucket;
}

Evaluation::Evaluation(const model::Inputs& inputs, const Options& options, model::PriceBook& book,
                       double overhead)
    : inputs_(inputs), options_(options), book_(book), overhead_(overhead) {
  std::vector<Plan> plans = plan::candidates(inputs.world.size, options.candidates);
  std::erase_if(plans, [&](const Plan& plan) {
    return !allowed(plan, options.candidates.pins, options.guards, inputs.adam) || has_twin(plan);
  });
  require(!plans.empty(), "no plan is left by the guard-rails");
  all_ = model::predict_all(plans, inputs, book);
  for (Prediction& each : all_) each = with_overhead(each, overhead_);
}

// Star and var are predicted alike. Where both may be chosen star, the plainer one, is enough.
bool Evaluation::has_twin(const Plan& plan) const {
  if (plan.leader != plan::Leader::kVar || options_.candidates.pins.leader) return false;
  Plan star = plan;
  star.leader = plan::Leader::kStar;
  return allowed(star, options_.candidates.pins, options_.guards, inputs_.adam);
}

std::optional<Prediction> Evaluation::best_of(const Choices& allowed) const {
  const Prediction* found = options_.policy == Policy::kKnee ? knee(allowed) : nullptr;
  if (found == nullptr) found = fastest_unless_plain_does(allowed);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

// Compression must be predicted to be clearly better than the backend's own all-reduce of plain
// floats; of gradients, if updates are no quicker.
const Prediction* Evaluation::fastest_unless_plain_does(const Choices& allowed) const {
  const Prediction* best = fastest(allowed);
  const Prediction* plain = nullptr;
  for (const Prediction* each : allowed) {
    const bool is_plain = each->plan.scheme == plan::Scheme::kDense &&
                          each->plan.reduce == plan::AllReduce::kBackend && each->plan.every == 1 &&
                          each->plan.late == 0;
    if (is_plain && (plain == nullptr || each->speed() > kSame * plain->speed())) plain = each;
  }
  const bool plain_does =
      plain != nullptr && plain->speed() * options_.better_than_plain >= best->speed();
  return plain_does ? plain : best;
}

Prediction Evaluation::goal(const std::optional<Plan>& in_force) const {
  const Prediction free = *best([](const Plan&) { return true; });
  if (!in_force || in_force->kind == free.plan.kind) return free;
  const auto stay = best([&](const Plan& plan) { return plan.kind == in_force->kind; });
  return !stay || repays(*stay, free) ? free : *stay;
}

// The time saved over `repay_steps` steps of the new kind, against the old kind's time for the same
// progress. The cost is one dense exchange of the old kind with nothing to hide it.
bool Evaluation::repays(const Prediction& stay, const Prediction& go) const {
  Plan flush{.kind = stay.plan.kind};
  if (!options_.candidates.backend_all_reduce) flush.reduce = plan::AllReduce::kHalvingDoubling;
  const double cost = model::predict(flush, inputs_, book_).exchange.value;
  const double saved = go.counted / stay.speed() - go.step.value;
  return saved * static_cast<double>(options_.repay_steps) > cost;
}

Prediction Evaluation::predict(const Plan& plan) const {
  const auto known = std::ranges::find(all_, plan, &Prediction::plan);
  return known != all_.end() ? *known : predict(plan, inputs_);
}

Prediction Evaluation::predict(const Plan& plan, const model::Inputs& inputs) const {
  return with_overhead(model::predict(plan, inputs, book_), overhead_);
}

const Prediction* Evaluation::plain() const {
  const auto found = std::ranges::find_if(all_, is_plain, &Prediction::plan);
  return found == all_.end() ? nullptr : &*found;
}

std::size_t Evaluation::correction_of(const Plan& plan) const {
  return model::weigh_step(plan, inputs_, book_).correction;
}

double advantage(const Prediction& a, const Prediction& b, Policy policy) {
  if (policy != Policy::kKnee) return a.speed() / b.speed();
  const auto ratio = [](double x, double y) { return std::max(x / y, y / x); };
  return std::max(ratio(a.step.value, b.step.value), ratio(a.gain, b.gain));
}

}  // namespace pliant::control
