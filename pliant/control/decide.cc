// SPDX-License-Identifier: MIT
#include "pliant/control/decide.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/control/front.h"
#include "pliant/plan/density.h"

namespace pliant::control {
namespace {

using model::Prediction;
using plan::Plan;

constexpr double kDensityRounding = 1 + 1e-9;

// Predictions that are nearer to each other are equal: codec costs are measured.
constexpr double kSame = 1.001;

// The inputs that move while training runs, in one row of numbers.
std::vector<double> marks_of(const model::Inputs& inputs) {
  const plan::Link link = model::worst_link(inputs.world);
  std::vector<double> marks = {link.latency.value,
                               link.seconds_per_byte,
                               inputs.compute.value,
                               static_cast<double>(inputs.world.size),
                               static_cast<double>(inputs.lanes),
                               static_cast<double>(inputs.buffers),
                               inputs.overlap.value_or(-1),
                               inputs.coding};
  if (!all_equal(inputs.world.links)) {
    for (const plan::Link& each : inputs.world.links) {
      marks.push_back(each.latency.value);
      marks.push_back(each.seconds_per_byte);
    }
  }
  for (const model::Bucket& bucket : inputs.buckets) marks.push_back(bucket.ready.value);
  for (const double factor : inputs.corrections.factors) marks.push_back(factor);
  return marks;
}

bool moved(const std::vector<double>& now, const std::vector<double>& then,
           const model::Inputs& inputs, double tolerance) {
  if (now.size() != then.size()) return true;
  const plan::Link& link = inputs.world.links.front();
  for (std::size_t i = 0; i < now.size(); ++i) {
    double allowed = tolerance;
    if (i == 0)
      allowed = std::max(allowed,
                         2 * link.latency_uncertainty.value / std::max(link.latency.value, 1e-12));
    if (i == 1)
      allowed = std::max(
          allowed, 2 * link.seconds_per_byte_uncertainty / std::max(link.seconds_per_byte, 1e-18));
    if (std::abs(now[i] - then[i]) > allowed * std::max(std::abs(now[i]), std::abs(then[i])))
      return true;
  }
  return false;
}

std::uint64_t digest(const std::vector<double>& marks, const Inputs& inputs, const State& state) {
  std::vector<double> all = marks;
  for (const model::Bucket& bucket : inputs.model.buckets)
    all.push_back(static_cast<double>(bucket.length));
  for (const std::int64_t step : inputs.last_seen) all.push_back(static_cast<double>(step));
  all.push_back(static_cast<double>(inputs.step));
  all.push_back(static_cast<double>(state.epoch));
  all.push_back(inputs.changed ? 1 : 0);
  return pliant::hash(std::as_bytes(std::span(all)),
                      state.in_force ? plan::hash(*state.in_force) : 0);
}

std::string describe(const model::Inputs& inputs) {
  double elements = 0;
  for (const model::Bucket& bucket : inputs.buckets) elements += static_cast<double>(bucket.length);
  return fmt::format("{} ranks, {}, {:.3g} M elements, compute {}", inputs.world.size,
                     describe(model::worst_link(inputs.world)), elements / 1e6,
                     pliant::to_string(inputs.compute));
}

// One evaluation: all candidates predicted, and every question about them.
class Evaluation {
 public:
  Evaluation(const Inputs& inputs, const Options& options, const State& state,
             model::PriceBook& book)
      : inputs_(inputs), options_(options), state_(state), book_(book) {
    std::vector<Plan> plans = plan::candidates(inputs.model.world.size, options.candidates);
    std::erase_if(plans, [&](const Plan& plan) {
      return !guarded(plan, options.candidates.pins, options.guards, inputs.model.adam) ||
             has_twin(plan);
    });
    require(!plans.empty(), "no plan is left by the guard-rails");
    all_ = model::predict_all(plans, inputs.model, book);
  }

  // Star and var are predicted alike; where both may be chosen star, the plainer, is enough.
  [[nodiscard]] bool has_twin(const Plan& plan) const {
    if (plan.leader != plan::Leader::kVar || options_.candidates.pins.leader) return false;
    Plan star = plan;
    star.leader = plan::Leader::kStar;
    return guarded(star, options_.candidates.pins, options_.guards, inputs_.model.adam);
  }

  [[nodiscard]] const std::vector<Prediction>& all() const { return all_; }

  template <typename May>
  [[nodiscard]] Choices those(May may) const {
    Choices some;
    for (const Prediction& each : all_) {
      if (may(each.plan)) some.push_back(&each);
    }
    return some;
  }

  // What the policy wants, of the plans that `may` allows; nothing if there is none.
  template <typename May>
  [[nodiscard]] std::optional<Prediction> best(May may) const {
    const Choices allowed = those(may);
    const Prediction* found = options_.policy == Policy::kKnee ? knee(allowed) : nullptr;
    if (found == nullptr) found = fastest_unless_plain_does(allowed);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }

  // Compression must be predicted to be clearly better than the engine's own all-reduce of plain
  // floats; of gradients, if updates are no quicker.
  [[nodiscard]] const Prediction* fastest_unless_plain_does(const Choices& allowed) const {
    const Prediction* best = fastest(allowed);
    const Prediction* plain = nullptr;
    for (const Prediction* each : allowed) {
      const bool is_plain = each->plan.scheme == plan::Scheme::kDense &&
                            each->plan.reduce == plan::AllReduce::kBackend &&
                            each->plan.every == 1 && each->plan.late == 0;
      if (is_plain && (plain == nullptr || each->speed() > kSame * plain->speed())) plain = each;
    }
    return plain != nullptr && plain->speed() * options_.better_than_plain >= best->speed() ? plain
                                                                                            : best;
  }

  // The goal: the policy's choice, of another kind only if the change repays its flush.
  [[nodiscard]] Prediction goal() const {
    const Prediction free = *best([](const Plan&) { return true; });
    if (!state_.in_force || state_.in_force->kind == free.plan.kind) return free;
    const plan::Kind same_kind = state_.in_force->kind;
    const auto stay = best([&](const Plan& plan) { return plan.kind == same_kind; });
    if (!stay || repays(*stay, free)) return free;
    return *stay;
  }

  [[nodiscard]] Prediction predict(const Plan& plan) const {
    const auto known = std::ranges::find(all_, plan, &Prediction::plan);
    return known != all_.end() ? *known : model::predict(plan, inputs_.model, book_);
  }

 private:
  // Saved over 200 steps of the new kind, against the time that the old one takes for the same
  // progress; the flush is one dense exchange of the old kind with nothing to hide it.
  [[nodiscard]] bool repays(const Prediction& stay, const Prediction& go) const {
    Plan flush{.kind = stay.plan.kind};
    if (!options_.candidates.backend_all_reduce) flush.reduce = plan::AllReduce::kHalvingDoubling;
    if (flush.kind == plan::Kind::kUpdates) flush.fuse = Plan{}.fuse;
    const double cost = model::predict(flush, inputs_.model, book_).exchange.value;
    const double saved = go.efficiency / stay.speed() - go.step.value;
    return saved * static_cast<double>(options_.repay_steps) > cost;
  }

  const Inputs& inputs_;
  const Options& options_;
  const State& state_;
  model::PriceBook& book_;
  std::vector<Prediction> all_;
};

// How much better `a` is than `b`; for knee, which has no single number, any clear difference
// counts.
double advantage(const Prediction& a, const Prediction& b, Policy policy) {
  if (policy != Policy::kKnee) return a.speed() / b.speed();
  const auto ratio = [](double x, double y) { return std::max(x / y, y / x); };
  return std::max(ratio(a.step.value, b.step.value), ratio(a.gain, b.gain));
}

// The sparsest that the ramp allows now. Whoever became denser a moment ago may go back to where
// they were.
double ramp_floor(const State& state, const Options& options, std::int64_t step) {
  if (!state.in_force) return options.ramp_start;
  const double now = state.in_force->density;
  const bool rested = state.sparser < 0 || step - state.sparser >= options.ramp_steps;
  const double floor = now > options.ramp_start ? options.ramp_start
                       : rested                 ? now / options.ramp_factor
                                                : now;
  const bool just_denser = state.denser >= 0 && step - state.denser < options.ramp_steps;
  return just_denser ? std::min(floor, state.before_denser) : floor;
}

std::string times(double ratio) { return fmt::format("{:.3g}x", ratio); }

class Decider {
 public:
  Decider(const Inputs& inputs, const Options& options, State& state, model::PriceBook& book)
      : inputs_(inputs), options_(options), state_(state), book_(book) {}

  Decision run() {
    const std::vector<double> marks = marks_of(inputs_.model);
    out_.epoch = ++state_.epoch;
    out_.step = inputs_.step;
    out_.inputs_digest = digest(marks, inputs_, state_);
    state_.unsettled_for = std::max(0, state_.unsettled_for - 1);
    if (inputs_.changed) {
      state_.unsettled_until = inputs_.step + options_.settling_steps;
      state_.unsettled_for = options_.settling_exchanges;
    }
    if (options_.policy == Policy::kFixed) return fixed();
    const bool over = end_trial();
    if (!must_evaluate(marks))
      return keep(over ? "the trial is over" : "no input has moved since the last evaluation");
    evaluate(marks);
    return std::move(out_);
  }

 private:
  Decision fixed() {
    const Plan plan = plan::complete(options_.candidates.pins);
    out_.changed = state_.in_force != plan;
    state_.in_force = state_.goal = plan;
    out_.choice = plan;
    out_.chosen = model::predict(plan, inputs_.model, book_);
    out_.reason = "the plan is fixed";
    return std::move(out_);
  }

  Decision keep(std::string reason) {
    out_.choice = *state_.in_force;
    out_.reason = std::move(reason);
    return std::move(out_);
  }

  // A trial lasts for one exchange, then the plan before it is in force again.
  bool end_trial() {
    if (!state_.after_trial) return false;
    state_.in_force = *std::exchange(state_.after_trial, std::nullopt);
    out_.changed = true;
    return true;
  }

  // Because an input moved, or because time alone allows the next step: a switch that stopped short
  // of the goal has rested, warm-up ends, the ramp has rested, a challenger waits to be confirmed,
  // a trial is due.
  [[nodiscard]] bool must_evaluate(const std::vector<double>& marks) const {
    if (!state_.in_force || inputs_.changed || unsettled()) return true;
    if (state_.challenger && rested()) return true;
    if (state_.goal != state_.in_force && rested() &&
        state_.evaluated < state_.switched + options_.dwell_steps)
      return true;
    if (state_.evaluated < options_.warm_up_steps && inputs_.step >= options_.warm_up_steps)
      return true;
    if (ramping() && ramp_floor(state_, options_, inputs_.step) < state_.in_force->density &&
        ramp_floor(state_, options_, state_.evaluated) >= state_.in_force->density)
      return true;
    if (trial_due()) return true;
    return moved(marks, state_.marks, inputs_.model, options_.tolerance);
  }

  [[nodiscard]] bool unsettled() const {
    return inputs_.step < state_.unsettled_until || state_.unsettled_for > 0;
  }
  [[nodiscard]] bool rested() const {
    return state_.switched < 0 || inputs_.step - state_.switched >= options_.dwell_steps;
  }
  [[nodiscard]] bool warming_up() const { return inputs_.step < options_.warm_up_steps; }
  [[nodiscard]] bool ramping() const {
    return state_.goal && state_.goal->density < state_.in_force->density;
  }
  [[nodiscard]] bool trial_due() const {
    return !warming_up() && inputs_.step >= std::max(state_.next_trial, options_.stale_steps);
  }

  void evaluate(const std::vector<double>& marks) {
    const Evaluation evaluation(inputs_, options_, state_, book_);
    out_.evaluated = true;
    out_.inputs = describe(inputs_.model);
    out_.candidates = static_cast<int>(evaluation.all().size());
    const bool try_something = trial_due();
    warm_up_ends_ = state_.evaluated < options_.warm_up_steps && !warming_up();
    const Prediction goal = evaluation.goal();
    state_.goal = goal.plan;
    state_.marks = marks;
    state_.evaluated = inputs_.step;
    const Prediction target = towards(goal, evaluation);
    if (!state_.in_force) {
      start(target, goal);
    } else {
      consider(target, evaluation.predict(*state_.in_force), goal);
      if (!out_.changed && try_something) consider_trial(evaluation);
    }
    if (out_.changed || inputs_.front) out_.front = front(evaluation.all());
    out_.choice = *state_.in_force;
    if (!out_.chosen) out_.chosen = evaluation.predict(out_.choice);
  }

  // The nearest to the goal that may be in force now.
  [[nodiscard]] Prediction towards(const Prediction& goal, const Evaluation& evaluation) const {
    if (warming_up()) return warm_up_plan(goal, evaluation);
    const double floor = ramp_floor(state_, options_, inputs_.step);
    if (goal.plan.density * kDensityRounding >= floor) return goal;
    const auto allowed = [&](const Plan& plan) {
      return plan.kind == goal.plan.kind && plan.density * kDensityRounding >= floor;
    };
    const auto found = evaluation.best(allowed);
    // The best of the rungs in reach may be the one in force although the goal beats it: then down
    // by one rung all the same.
    if (found && state_.in_force && found->plan == *state_.in_force) {
      const auto down = evaluation.best(
          [&](const Plan& plan) { return allowed(plan) && plan.density < found->plan.density; });
      if (down && down->speed() * options_.better > found->speed()) return *down;
    }
    return found ? *found : goal;  // pinned below the floor
  }

  // As dense as time allows. With Adam of averaged gradients if it allows that: second moments that
  // grow from each rank's own gradients make every step that follows worth less (docs/model.md).
  [[nodiscard]] Prediction warm_up_plan(const Prediction& goal,
                                        const Evaluation& evaluation) const {
    const auto densest_of = [&](plan::Kind kind) {
      return densest(evaluation.those([&](const Plan& plan) { return plan.kind == kind; }),
                     options_.warm_up_slowdown * goal.step);
    };
    if (inputs_.model.adam) {
      const Prediction* averaged = densest_of(plan::Kind::kGradients);
      if (averaged != nullptr && averaged->plan.density == 1) return *averaged;
    }
    const Prediction* found = densest_of(goal.plan.kind);
    return found == nullptr || found->plan.density <= goal.plan.density ? goal : *found;
  }

  void start(const Prediction& target, const Prediction& goal) {
    switch_to(target.plan);
    state_.switched = -1;  // nothing is measured yet: a guess is not defended
    out_.chosen = target;
    out_.reason = fmt::format("the first decision takes {}, {} of {} plans", stage(target, goal),
                              to_string(options_.policy) == "knee" ? "the knee" : "the best",
                              out_.candidates);
  }

  [[nodiscard]] std::string stage(const Prediction& target, const Prediction& goal) const {
    if (target.plan == goal.plan)
      return fmt::format("a step of {} at efficiency {:.3g}", pliant::to_string(target.step),
                         target.efficiency);
    return fmt::format("a step of {} at efficiency {:.3g} ({} {})", pliant::to_string(target.step),
                       target.efficiency, warming_up() ? "warm-up before" : "on the ramp to",
                       to_string(goal.plan));
  }

  void consider(const Prediction& target, const Prediction& now, const Prediction& goal) {
    if (target.plan == now.plan) {
      drop_challenger();
      out_.reason = fmt::format("the plan in force is still the best, with {}", stage(now, goal));
      return;
    }
    const double gain = gain_of(target, now, goal);
    if (gain <= (warm_up_ends_ ? 1 : options_.better)) {
      drop_challenger();
      out_.reason = fmt::format("{} would be {} better, which is not enough to switch",
                                to_string(target.plan), percent(std::max(0.0, gain - 1)));
      return;
    }
    ++state_.confirmed;
    state_.challenger = target.plan;
    const bool at_once = unsettled() || warm_up_ends_ || gain >= options_.better_at_once;
    if (!unsettled() && !warm_up_ends_ && !rested()) {
      out_.reason =
          fmt::format("{} would be {} better, but the last switch was {} steps ago",
                      to_string(target.plan), percent(gain - 1), inputs_.step - state_.switched);
      return;
    }
    if (!at_once && state_.confirmed < options_.confirmations) {
      out_.reason = fmt::format("{} would be {} better; that must last", to_string(target.plan),
                                percent(gain - 1));
      return;
    }
    out_.reason = fmt::format(
        "{}{} makes {} the progress per second of {}: {} at efficiency {:.3g} against {} at {:.3g} "
        "a step",
        inputs_.changed ? "the network has changed, and " : "", to_string(target.plan),
        times(target.speed() / now.speed()), to_string(now.plan), pliant::to_string(target.step),
        target.efficiency, pliant::to_string(now.step), now.efficiency);
    switch_to(target.plan);
    out_.chosen = target;
  }

  // In warm-up denser is better as long as the step is not too long; else the policy's measure
  // decides.
  [[nodiscard]] double gain_of(const Prediction& target, const Prediction& now,
                               const Prediction& goal) const {
    // On the ramp every rung down is a step to the goal, worth it if the goal is.
    const bool down = ramping_to(goal) && target.plan.density < now.plan.density;
    if (!warming_up())
      return std::max(advantage(target, now, options_.policy),
                      down ? advantage(goal, now, options_.policy) : 1);
    const double longest = options_.better * options_.warm_up_slowdown * goal.step.value;
    if (now.step.value > longest) return now.step.value / target.step.value;
    if (now.plan.density < target.plan.density)
      return target.step.value < longest / 1.2 ? options_.better_at_once : 1;
    return target.speed() / now.speed();
  }

  [[nodiscard]] bool ramping_to(const Prediction& goal) const {
    return options_.policy == Policy::kAuto && goal.plan.kind == state_.in_force->kind &&
           goal.plan.density < state_.in_force->density;
  }

  void drop_challenger() {
    state_.challenger.reset();
    state_.confirmed = 0;
  }

  void switch_to(const Plan& plan) {
    if (state_.in_force && plan.density < state_.in_force->density) state_.sparser = inputs_.step;
    if (state_.in_force && plan.density > state_.in_force->density) {
      const bool again = state_.denser >= 0 && inputs_.step - state_.denser < options_.ramp_steps;
      state_.before_denser = again ? std::min(state_.before_denser, state_.in_force->density)
                                   : state_.in_force->density;
      state_.denser = inputs_.step;
    }
    state_.in_force = plan;
    state_.switched = inputs_.step;
    drop_challenger();
    out_.changed = true;
  }

  // A scheme whose correction is stale, at the density in force or denser, in the same rhythm, for
  // one exchange.
  void consider_trial(const Evaluation& evaluation) {
    if (state_.challenger || unsettled()) return;
    const Plan& now = *state_.in_force;
    const double least = std::max(evaluation.predict(now).speed(), evaluation.goal().speed()) /
                         options_.trial_slowdown;
    const Prediction* oldest = nullptr;
    std::int64_t oldest_seen = inputs_.step - options_.stale_steps;
    for (const Prediction& each : evaluation.all()) {
      const bool same = each.plan.kind == now.kind && each.plan.every == now.every &&
                        each.plan.late == now.late && each.plan.fuse == now.fuse;
      if (!same || each.plan.density < now.density || each.speed() < least) continue;
      const std::int64_t seen = inputs_.last_seen.at(correction_of(each.plan));
      const bool better =
          oldest != nullptr && seen == oldest_seen && each.speed() > oldest->speed();
      if (seen >= oldest_seen && !better) continue;
      oldest = &each;
      oldest_seen = seen;
    }
    // Corrections age slowly: if none is stale now, the next look is worth its time when they have
    // all grown older.
    state_.next_trial = inputs_.step + (oldest == nullptr ? options_.stale_steps
                                                          : options_.trial_period * now.every);
    if (oldest == nullptr) return;
    state_.after_trial = now;
    state_.in_force = oldest->plan;
    out_.changed = out_.trial = true;
    out_.chosen = *oldest;
    out_.reason = fmt::format(
        "{} is tried for one exchange: nothing is known about it {}", to_string(oldest->plan),
        oldest_seen < 0 ? std::string("yet") : fmt::format("since step {}", oldest_seen));
  }

  [[nodiscard]] std::size_t correction_of(const Plan& plan) const {
    return model::weigh_step(plan, inputs_.model, book_).correction;
  }

  const Inputs& inputs_;
  const Options& options_;
  State& state_;
  model::PriceBook& book_;
  bool warm_up_ends_ = false;  // with this evaluation: its plan is not defended
  Decision out_;
};

}  // namespace

// Nothing of a failed attempt stays but its number.
Decision decide(const Inputs& inputs, const Options& options, State& state,
                model::PriceBook& book) {
  const State before = state;
  try {
    return Decider(inputs, options, state, book).run();
  } catch (const ContractError& error) {
    state = before;
    Decision out{.epoch = ++state.epoch, .step = inputs.step};
    if (!state.in_force) {
      state.in_force =
          plan::candidates(std::max(inputs.model.world.size, 1), options.candidates).front();
      out.changed = true;
    }
    out.choice = *state.in_force;
    out.reason =
        fmt::format("the plan in force stays, since nothing can be predicted: {}", error.what());
    return out;
  }
}

}  // namespace pliant::control
