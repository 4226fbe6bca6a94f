// SPDX-License-Identifier: MIT
#include "pliant/control/decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "pliant/control/evaluation.h"
#include "pliant/control/warm_up.h"
#include "pliant/model/efficiency.h"

namespace pliant::control {
namespace {

using model::Prediction;
using plan::Plan;

std::uint64_t digest(const Inputs& inputs, const State& state) {
  std::vector<double> all = numbers_of(inputs.model);
  for (const model::Bucket& bucket : inputs.model.buckets)
    all.push_back(static_cast<double>(bucket.length));
  for (const std::int64_t step : inputs.last_seen) all.push_back(static_cast<double>(step));
  all.push_back(static_cast<double>(inputs.step));
  all.push_back(static_cast<double>(state.epoch));
  all.push_back(inputs.changed ? 1 : 0);
  if (inputs.seen) all.insert(all.end(), {inputs.seen->step.value, 1.0 * inputs.seen->rounds});
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

// A plan is looked at many times, so that noise of two standard deviations would reach it sooner or
// later.
constexpr double kDoubts = 3;

// The inputs with all of them off by so much, each either way.
std::vector<model::Inputs> within_uncertainty(const model::Inputs& inputs) {
  std::vector<model::Inputs> all = {inputs};
  const auto vary = [&](double uncertainty, auto scale) {
    if (uncertainty <= 0) return;
    const double most = 1 + kDoubts * uncertainty;
    std::vector<model::Inputs> less = all;
    for (model::Inputs& each : all) scale(each, most);
    for (model::Inputs& each : less) scale(each, 1 / most);
    std::ranges::move(less, std::back_inserter(all));
  };
  const plan::Link& link = inputs.world.links.front();
  vary(link.latency_uncertainty.value / std::max(link.latency.value, 1e-12),
       [](model::Inputs& other, double factor) {
         for (plan::Link& each : other.world.links) each.latency = factor * each.latency;
       });
  vary(link.seconds_per_byte_uncertainty / std::max(link.seconds_per_byte, 1e-18),
       [](model::Inputs& other, double factor) {
         for (plan::Link& each : other.world.links) each.seconds_per_byte *= factor;
       });
  vary(inputs.compute_uncertainty, [](model::Inputs& other, double factor) {
    other.compute = factor * other.compute;
    for (model::Bucket& bucket : other.buckets) bucket.ready = factor * bucket.ready;
  });
  vary(inputs.coding_uncertainty,
       [](model::Inputs& other, double factor) { other.coding *= factor; });
  return all;
}

// One call of decide().
class Decider {
 public:
  Decider(const Inputs& inputs, const Options& options, State& state, model::PriceBook& book)
      : inputs_(inputs),
        options_(options),
        state_(state),
        book_(book),
        network_changed_(inputs.changed && !checks_look_like_it()) {}

  Decision run() {
    begin();
    const bool trial_ended = end_trial();
    if (!must_evaluate()) return keep(trial_ended);
    const Evaluation evaluation(inputs_.model, options_, book_, state_.plain_check.overhead);
    if (state_.plain_check.running()) {
      end_check(evaluation);
      return finish(evaluation);
    }
    const Prediction goal = evaluation.goal(state_.in_force);
    const bool warm_up_ends = warm_up_ended(options_, state_.last.step, inputs_.step);
    note_evaluation(evaluation, goal);
    const Prediction target = towards(goal, evaluation);
    if (!state_.in_force) {
      start(target, goal);
    } else {
      consider(target, goal, evaluation, warm_up_ends);
      if (!out_.changed) consider_check(evaluation);
      if (!out_.changed) consider_trial(goal, evaluation);
    }
    return finish(evaluation);
  }

 private:
  void begin() {
    out_.epoch = ++state_.epoch;
    out_.step = inputs_.step;
    out_.inputs_digest = digest(inputs_, state_);
    state_.hysteresis.begin(network_changed_, options_, inputs_.step);
    if (!state_.in_force || !is_plain(*state_.in_force)) return;
    state_.plain_check.note_plain(inputs_);
    state_.plain_check.forget_slowly(inputs_);
  }

  // A trial lasts for one exchange, then the plan before it is in force again.
  bool end_trial() {
    if (!state_.trials.after_trial) return false;
    state_.in_force = *std::exchange(state_.trials.after_trial, std::nullopt);
    out_.changed = true;
    return true;
  }

  // Because an input moved, or because the passing of steps allows something new.
  [[nodiscard]] bool must_evaluate() const {
    if (state_.in_force && state_.plain_check.running()) return check_is_ready();
    if (!state_.in_force || network_changed_ || state_.hysteresis.unsettled(inputs_.step))
      return true;
    if (check_is_ready()) return true;
    return switch_is_possible_again() || warm_up_ended(options_, state_.last.step, inputs_.step) ||
           ramp_is_open_again() || state_.trials.due(options_, inputs_) ||
           state_.last.moved(inputs_.model, options_.tolerance);
  }

  // A challenger waits, or the last switch stopped short of the goal.
  [[nodiscard]] bool switch_is_possible_again() const {
    const Hysteresis& hysteresis = state_.hysteresis;
    if (!hysteresis.rested(options_, inputs_.step)) return false;
    if (hysteresis.doubtful()) return inputs_.step - state_.last.step >= options_.dwell_steps;
    return hysteresis.challenger || (state_.goal != state_.in_force &&
                                     state_.last.step < hysteresis.switched + options_.dwell_steps);
  }

  [[nodiscard]] bool ramp_is_open_again() const {
    return state_.goal && state_.goal->density < state_.in_force->density &&
           state_.ramp.opened(*state_.in_force, options_, state_.last.step, inputs_.step);
  }

  [[nodiscard]] bool check_is_ready() const {
    return options_.policy == Policy::kAuto && state_.plain_check.ready(*state_.in_force, inputs_);
  }

  [[nodiscard]] bool checks_look_like_it() const {
    return state_.in_force && state_.plain_check.looks_like_a_change(*state_.in_force, inputs_);
  }

  [[nodiscard]] bool warming_up() const { return control::warming_up(options_, inputs_.step); }

  Decision keep(bool trial_ended) {
    out_.choice = *state_.in_force;
    out_.reason = trial_ended                    ? "the trial is over"
                  : state_.plain_check.running() ? "plain DDP is being timed"
                                                 : "no input has moved since the last evaluation";
    if (trial_ended) out_.origin.cause = Cause::kTrialOver;
    return std::move(out_);
  }

  void note_evaluation(const Evaluation& evaluation, const Prediction& goal) {
    out_.evaluated = true;
    out_.origin.link = model::worst_link(inputs_.model.world);
    out_.inputs = describe(inputs_.model);
    out_.candidates = static_cast<int>(evaluation.all().size());
    state_.goal = goal.plan;
    state_.last = {.numbers = numbers_of(inputs_.model), .step = inputs_.step};
  }

  // The plan nearest to the goal that may be in force now.
  [[nodiscard]] Prediction towards(const Prediction& goal, const Evaluation& evaluation) const {
    return warming_up()
               ? warm_up_before(goal, evaluation, options_)
               : state_.ramp.towards(goal, state_.in_force, evaluation, options_, inputs_.step);
  }

  void start(const Prediction& target, const Prediction& goal) {
    switch_to(target, goal, Cause::kFirst);
    state_.hysteresis.switched = -1;  // the first plan is a guess: hysteresis does not protect it
    out_.reason = fmt::format("first decision: {} of {} plans, with {}",
                              options_.policy == Policy::kKnee ? "the knee" : "the best",
                              out_.candidates, stage(target, goal));
  }

  // With where it comes from: of what worth depends on, only the updated share of a union is learnt
  // from the run.
  [[nodiscard]] std::string worth_of(const Prediction& prediction) const {
    const plan::Plan& plan = prediction.plan;
    const bool sparse = plan.scheme == plan::Scheme::kUnion && plan.density < 1;
    const bool learnt = sparse && inputs_.model.overlap.has_value();
    const std::string_view from = prediction.efficiency == 1           ? ""
                                  : learnt && model::age_of(plan) == 0 ? " (learnt)"
                                  : learnt ? " (assumed, updated share learnt)"
                                           : " (assumed)";
    return fmt::format("{:.3g}{}", prediction.efficiency, from);
  }

  [[nodiscard]] std::string stage(const Prediction& target, const Prediction& goal) const {
    std::string step = fmt::format("a step of {} that is worth {}", pliant::to_string(target.step),
                                   worth_of(target));
    if (target.plan == goal.plan) return step;
    return fmt::format("{} ({} {})", step, warming_up() ? "warm-up before" : "on the ramp to",
                       to_string(goal.plan));
  }

  void consider(const Prediction& target, const Prediction& goal, const Evaluation& evaluation,
                bool warm_up_ends) {
    const Prediction now = evaluation.predict(*state_.in_force);
    if (target.plan == now.plan) {
      state_.hysteresis.drop_challenger();
      out_.reason = fmt::format("the plan in force is still the best, with {}", stage(now, goal));
      return;
    }
    const auto [ratio, word] = advantage_of(target, now, goal);
    const Hysteresis::Challenge challenge{
        .plan = target.plan,
        .advantage = ratio,
        .better = word,
        .warm_up_ended = warm_up_ends,
        .at_least = least_advantage(target, now, goal, evaluation),
        .doubt = doubt()};
    if (const auto why = state_.hysteresis.objection(challenge, options_, inputs_.step)) {
      out_.reason = *why;
      return;
    }
    out_.reason =
        fmt::format("{}{} {} {}: a step takes {} and is worth {} instead of {} and {}",
                    network_changed_ ? "the network changed, and " : "", to_string(target.plan),
                    comparison(target, now), to_string(now.plan), pliant::to_string(target.step),
                    worth_of(target), pliant::to_string(now.step), worth_of(now));
    out_.origin.speed_up = target.speed() / now.speed();
    switch_to(target, goal, cause_of_switch(warm_up_ends));
  }

  // Under goal steps a plan may also lose its place because its steps are worth too little.
  [[nodiscard]] std::string comparison(const Prediction& target, const Prediction& now) const {
    const double least = inputs_.model.least_worth;
    if (least <= 0)
      return fmt::format("makes {:.3g}x the progress per second of", target.speed() / now.speed());
    if (now.efficiency < least && target.efficiency >= least) return "keeps the worth of";
    return fmt::format("takes {:.3g} of the time of", target.step / now.step);
  }

  [[nodiscard]] Cause cause_of_switch(bool warm_up_ends) const {
    if (warm_up_ends) return Cause::kWarmUpOver;
    return network_changed_ ? Cause::kNetwork : Cause::kFaster;
  }

  struct Advantage {
    double ratio;
    std::string_view word;
  };
  [[nodiscard]] Advantage advantage_of(const Prediction& target, const Prediction& now,
                                       const Prediction& goal) const {
    if (warming_up()) return {warm_up_advantage(target, now, goal, options_), "better"};
    const double own = advantage(target, now, options_.policy);
    if (options_.policy == Policy::kKnee) return {own, "better"};
    // Every rung down the ramp leads to the goal. It is worth a switch if the goal is.
    const bool down = target.plan.density < now.plan.density &&
                      goal.plan.kind == state_.in_force->kind &&
                      goal.plan.density < state_.in_force->density;
    const double whole = down ? advantage(goal, now, options_.policy) : 1;
    return whole > own ? Advantage{whole, "better"} : Advantage{own, "faster"};
  }

  // If the inputs are off by three times their uncertainty, in the way that speaks most against the
  // target.
  [[nodiscard]] double least_advantage(const Prediction& target, const Prediction& now,
                                       const Prediction& goal, const Evaluation& evaluation) const {
    double least = advantage_of(target, now, goal).ratio;
    for (const model::Inputs& other : within_uncertainty(inputs_.model)) {
      const auto predict = [&](const Prediction& each) {
        return evaluation.predict(each.plan, other);
      };
      least = std::min(least, advantage_of(predict(target), predict(now), predict(goal)).ratio);
    }
    return least;
  }

  [[nodiscard]] std::string_view doubt() const {
    return plan::too_fast_to_tell(inputs_.model.world.links.front())
               ? "the network is too fast to tell"
               : "timings vary too much to tell";
  }

  void switch_to(const Prediction& target, const Prediction& goal, Cause cause) {
    out_.origin.cause = cause;
    if (target.plan != goal.plan) out_.origin.goal = goal.plan;
    if (state_.in_force)
      state_.ramp.note_switch(state_.in_force->density, target.plan.density, options_,
                              inputs_.step);
    state_.hysteresis.note_switch(inputs_.step);
    // What replaces plain DDP is checked soon, unless a check has just ended.
    if (state_.in_force && is_plain(*state_.in_force) && cause != Cause::kCheckOver)
      state_.plain_check.next = inputs_.step;
    state_.in_force = target.plan;
    out_.changed = true;
    out_.chosen = target;
  }

  // Plans are chosen by prediction. One that plain DDP might beat must be seen to be faster.
  void consider_check(const Evaluation& evaluation) {
    PlainCheck& check = state_.plain_check;
    if (!check_is_ready()) return;
    if (!check.worthwhile(*state_.in_force, evaluation, inputs_)) return check.put_off(inputs_);
    if (check.remembers_plain(inputs_)) return check_by_memory(evaluation);
    check.begin(*state_.in_force, inputs_);
    out_.reason = fmt::format(
        "timing plain DDP for {} rounds: it may be faster than {}, whose steps take {}",
        PlainCheck::kRounds, to_string(*state_.in_force), pliant::to_string(inputs_.seen->step));
    switch_to(*evaluation.plain(), *evaluation.plain(), Cause::kCheck);
  }

  void check_by_memory(const Evaluation& evaluation) {
    if (state_.plain_check.check_by_memory(evaluation, inputs_)) return;
    out_.reason = fmt::format("a step of plain DDP took {}, one of {} takes {}",
                              pliant::to_string(Seconds{state_.plain_check.plain_step}),
                              to_string(*state_.in_force), pliant::to_string(inputs_.seen->step));
    switch_to(*evaluation.plain(), *evaluation.plain(), Cause::kPlainFaster);
  }

  void end_check(const Evaluation& evaluation) {
    const Plan before = *state_.plain_check.compared;
    const Seconds step{state_.plain_check.compared_step};
    note_evaluation(evaluation, evaluation.goal(state_.in_force));
    const bool was_faster = state_.plain_check.end(evaluation, inputs_);
    out_.reason = fmt::format("a step of plain DDP takes {}, one of {} took {}: {} is in force",
                              pliant::to_string(inputs_.seen->step), to_string(before),
                              pliant::to_string(step), was_faster ? "that one" : "plain DDP");
    if (!was_faster) return;
    const Prediction back = evaluation.predict(before);
    switch_to(back, back, Cause::kCheckOver);
  }

  void consider_trial(const Prediction& goal, const Evaluation& evaluation) {
    if (!state_.trials.due(options_, inputs_) || state_.hysteresis.challenger ||
        state_.hysteresis.unsettled(inputs_.step))
      return;
    const auto trial = state_.trials.pick(*state_.in_force, goal, evaluation, inputs_, options_);
    if (!trial) return;
    const Plan& plan = trial->prediction.plan;
    state_.trials.after_trial = std::exchange(*state_.in_force, plan);
    out_.changed = out_.trial = true;
    out_.origin.cause = Cause::kTrial;
    out_.chosen = trial->prediction;
    out_.reason =
        fmt::format("trying {} for one exchange: its time was not measured {}", to_string(plan),
                    trial->last_seen < 0 ? "yet" : fmt::format("since step {}", trial->last_seen));
  }

  Decision finish(const Evaluation& evaluation) {
    if (out_.changed || inputs_.front) out_.front = front(evaluation.all());
    out_.choice = *state_.in_force;
    if (!out_.chosen) out_.chosen = evaluation.predict(out_.choice);
    return std::move(out_);
  }

  const Inputs& inputs_;
  const Options& options_;
  State& state_;
  model::PriceBook& book_;
  const bool network_changed_;
  Decision out_;
};

// Predictions failed: the state stays as it was, except for the number of the decision.
Decision give_up(const Inputs& inputs, const Options& options, State& state, const char* why) {
  Decision out{.epoch = ++state.epoch, .step = inputs.step};
  if (!state.in_force) {
    state.in_force =
        plan::candidates(std::max(inputs.model.world.size, 1), options.candidates).front();
    out.changed = true;
  }
  out.choice = *state.in_force;
  out.reason = fmt::format("the plan in force stays, because predictions failed: {}", why);
  return out;
}

}  // namespace

Decision decide(const Inputs& inputs, const Options& options, State& state,
                model::PriceBook& book) {
  require(options.policy != Policy::kFixed, "control: a fixed plan is not decided");
  const State before = state;
  try {
    return Decider(inputs, options, state, book).run();
  } catch (const ContractError& error) {
    state = before;
    return give_up(inputs, options, state, error.what());
  }
}

}  // namespace pliant::control
