// SPDX-License-Identifier: MIT
#include "pliant/engine/engine.h"

#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <future>

#include "pliant/common/errors.h"
#include "pliant/common/version.h"
#include "pliant/engine/agreement.h"
#include "pliant/engine/crew.h"
#include "pliant/engine/gradients.h"
#include "pliant/engine/policy.h"

namespace pliant::engine {
namespace {

// A record is taken in this many steps after its own: by then it has crossed the network beside two steps' exchanges, and
// nobody waits for it.
constexpr std::uint64_t kRecordAge = 2;

// Exchanges use the numbers of their groups.
constexpr comm::Tag kRecordTag = comm::kLargestTag;

constexpr std::size_t kDecisionsKept = 8;

std::vector<std::size_t> sizes_of(const std::vector<Parameter>& parameters) {
  std::vector<std::size_t> sizes;
  for (const Parameter& parameter : parameters) sizes.push_back(parameter.size);
  return sizes;
}

Facts facts_of(const std::vector<Parameter>& parameters, const Options& options) {
  Facts facts = {{"the version of pliant", std::string(version())}};
  facts.insert(facts.end(), options.facts.begin(), options.facts.end());
  facts.insert(facts.end(), {{"plan", to_string(options.pins)},
                             {"whether the optimizer is attached", options.updates ? "yes" : "no"},
                             {"check_every", std::to_string(options.check_every)},
                             {"warm_up", fmt::format("{} {}", static_cast<int>(options.warm_up), options.warm_up_steps)},
                             {"clip_norm", fmt::format("{}", options.clip_norm)},
                             {"the number of parameters", std::to_string(parameters.size())}});
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const Parameter& parameter = parameters[p];
    facts.emplace_back(fmt::format("parameter {}", p), fmt::format("{} ({} entries{}{})", parameter.name, parameter.size,
                                                                   parameter.shape.empty() ? "" : ", ", parameter.shape));
  }
  return facts;
}

}  // namespace

class Engine::Impl {
 public:
  Impl(Communicators communicators, std::vector<Parameter> parameters, Options options)
      : parameters_(std::move(parameters)), options_(std::move(options)), gradients_(crew_, options_, sizes_of(parameters_)) {
    require(communicators.control != nullptr, "engine: no communicator for control");
    require(!parameters_.empty(), "engine: a model without parameters");
    agree(*communicators.control, facts_of(parameters_, options_), options_.deadline);
    if (communicators.lanes.empty()) {
      crew_.lanes.push_back(std::make_unique<Lane>(std::move(communicators.control), Threading::kCaller));
    } else {
      for (auto& communicator : communicators.lanes) {
        require(communicator->capabilities().threads, "engine: lanes over a communicator that allows no threads");
        crew_.lanes.push_back(std::make_unique<Lane>(std::move(communicator), Threading::kOwnThread));
      }
      crew_.control_lane = std::make_unique<Lane>(std::move(communicators.control), Threading::kOwnThread);
    }
    Lane& lane = crew_.control_lane != nullptr ? *crew_.control_lane : *crew_.lanes.front();
    crew_.records = std::make_unique<Records>(lane, crew_.fault, options_.deadline, kRecordTag);
    set_plan(options_.pins);
  }

  ~Impl() { close(); }

  void submit(Submission submission) {
    require(!closed_, "engine: it is closed");
    crew_.fault.check();
    if (!gradients_.step_is_open()) begin_step();
    if (gradients_.submit(std::move(submission))) ++step_;
  }

  void average(std::span<const std::span<float>> gradients) {
    require(gradients.size() == parameters_.size(), "engine: {} gradients of {} parameters", gradients.size(), parameters_.size());
    Submission submission;
    for (std::size_t p = 0; p < gradients.size(); ++p) submission.pieces.push_back({static_cast<int>(p), gradients[p]});
    const auto landed = std::make_shared<std::promise<void>>();
    submission.done = [landed](const std::exception_ptr& why) {
      if (why) {
        landed->set_exception(why);
      } else {
        landed->set_value();
      }
    };
    submit(std::move(submission));
    landed->get_future().get();
  }

  void end_step() {
    require(!gradients_.step_is_open(), "engine: step {} is not complete: some parameters were not submitted", step_);
    gradients_.wait();
    crew_.fault.check();
  }

  void set_plan(const plan::Pins& pins) {
    policy_ = std::make_unique<FixedPolicy>(pins, options_.warm_up, options_.warm_up_steps);
    if (pins == plan::Pins{})
      log(Severity::kInfo, "plan=auto: there is no measuring policy in this build, so gradients are averaged densely");
  }

  [[nodiscard]] plan::Plan plan() const { return plan_ ? *plan_ : policy_->choose(step_).plan; }

  [[nodiscard]] Summary summary() const {
    Summary summary{.plan = to_string(plan()), .epoch = epoch_, .steps = step_};
    crew_.tallies.write(summary);
    summary.control_sent = crew_.records->total().sent;
    summary.sent += summary.control_sent;
    summary.memory = {.residual = gradients_.residual().size_bytes(), .scratch = gradients_.scratch_bytes()};
    summary.decisions = {decisions_.begin(), decisions_.end()};
    return summary;
  }

  [[nodiscard]] State state() {
    end_step();
    State state{.step = step_, .epoch = epoch_, .plan = to_string(plan())};
    gradients_.write(state);
    return state;
  }

  void restore(const State& state) {
    require(!gradients_.step_is_open(), "engine: a state cannot be restored in the middle of a step");
    gradients_.read(state);
    step_ = state.step;
    epoch_ = state.epoch;
    first_step_ = step_;
    if (!state.plan.empty()) plan_ = plan::parse_plan(state.plan, "the plan in the state");
  }

  void rescale(double factor) {
    require(std::isfinite(factor) && factor > 0, "engine: rescaling by {}", factor);
    require(!gradients_.step_is_open(), "engine: rescaling in the middle of a step");
    gradients_.rescale(factor);
  }

  void close() {
    if (std::exchange(closed_, true)) return;
    gradients_.wait();
    for (const auto& lane : crew_.lanes) lane->drain();
    if (crew_.control_lane != nullptr) crew_.control_lane->drain();
  }

 private:
  // A step takes in what all ranks said two steps ago, and the plan that follows from it is in force at once: every rank does
  // this at the same step, from the same bytes.
  void begin_step() {
    if (step_ >= first_step_ + kRecordAge) {
      const auto records = crew_.records->take(step_ - kRecordAge);
      if (const auto why = disagreement(records)) {
        crew_.fault.note(std::make_exception_ptr(Disagreement(*why)));
        crew_.fault.check();
      }
      policy_->take_in(records);
    }
    Choice choice = policy_->choose(step_);
    if (plan_ != choice.plan) {
      if (plan_) ++epoch_;
      plan_ = choice.plan;
      std::string decision = fmt::format("step {}: {} ({})", step_, to_string(*plan_), choice.reason);
      log(Severity::kInfo, decision);
      decisions_.push_back(std::move(decision));
      if (decisions_.size() > kDecisionsKept) decisions_.pop_front();
    }
    gradients_.begin_step(step_, *plan_, epoch_);
  }

  void log(Severity severity, std::string_view text) const {
    if (options_.log) options_.log(severity, text);
  }

  const std::vector<Parameter> parameters_;
  const Options options_;
  Crew crew_;
  Gradients gradients_;
  std::unique_ptr<Policy> policy_;
  std::optional<plan::Plan> plan_;  // in force
  std::uint32_t epoch_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t first_step_ = 0;  // of this engine
  std::deque<std::string> decisions_;
  bool closed_ = false;
};

Engine::Engine(Communicators communicators, std::vector<Parameter> parameters, Options options)
    : impl_(std::make_unique<Impl>(std::move(communicators), std::move(parameters), std::move(options))) {}
Engine::~Engine() = default;
void Engine::submit(Submission submission) { impl_->submit(std::move(submission)); }
void Engine::average(std::span<const std::span<float>> gradients) { impl_->average(gradients); }
void Engine::end_step() { impl_->end_step(); }
void Engine::set_plan(const plan::Pins& pins) { impl_->set_plan(pins); }
plan::Plan Engine::plan() const { return impl_->plan(); }
Summary Engine::summary() const { return impl_->summary(); }
State Engine::state() const { return impl_->state(); }
void Engine::restore(const State& state) { impl_->restore(state); }
void Engine::rescale(double factor) { impl_->rescale(factor); }
void Engine::close() { impl_->close(); }

}  // namespace pliant::engine
