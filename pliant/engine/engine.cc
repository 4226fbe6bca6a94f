// SPDX-License-Identifier: MIT
#include "pliant/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <future>
#include <map>
#include <numeric>

#include "pliant/agree/handshake.h"
#include "pliant/common/errors.h"
#include "pliant/compress/measure.h"
#include "pliant/engine/crew.h"
#include "pliant/engine/facts.h"
#include "pliant/engine/gradients.h"
#include "pliant/engine/opening.h"
#include "pliant/engine/updates.h"
#include "pliant/planner/costs.h"
#include "pliant/planner/planner.h"
#include "pliant/runlog/journal.h"

namespace pliant::engine {
using namespace agree;
using namespace runlog;
using namespace planner;
namespace {

// Exchanges use the numbers of their groups.
constexpr comm::Tag kRecordTag = comm::kLargestTag;

constexpr std::size_t kDecisionsKept = 8;

// A rank whose optimizer runs away again and again will not recover by itself.
constexpr int kVoidsInARow = 3;

// So many exchanges in a row find no rank's buffers changed, then they stay at home.
constexpr int kStillAfter = 8;

// The way from one kind to the other: everything unsent is sent, so that nothing of the old kind is
// left.
plan::Plan flush_of(plan::Kind kind, const std::optional<plan::Plan>& in_force) {
  if (kind == plan::Kind::kGradients) return {};
  const int every = in_force && in_force->kind == plan::Kind::kUpdates ? in_force->every : 1;
  return {.kind = plan::Kind::kUpdates, .every = every, .late = 0, .scheme = plan::Scheme::kDense};
}

// How many exchanges are sent before one has landed for certain, on a rank that trains as on one
// that settles.
std::uint64_t lag_of(const std::optional<plan::Plan>& plan) {
  if (!plan || plan->kind == plan::Kind::kGradients) return 1;
  return static_cast<std::uint64_t>(std::max(1, (plan->late + plan->every - 1) / plan->every));
}

std::vector<std::size_t> sizes_of(const std::vector<Parameter>& parameters) {
  std::vector<std::size_t> sizes;
  for (const Parameter& parameter : parameters) sizes.push_back(parameter.size);
  return sizes;
}

std::size_t total_of(const std::vector<Parameter>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::size_t{0},
                         [](std::size_t sum, const Parameter& one) { return sum + one.size; });
}

std::optional<std::string> text_of(const std::exception_ptr& failure) {
  if (!failure) return std::nullopt;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is none of the standard library's";
  }
}

}  // namespace

class Engine::Impl {
 public:
  Impl(Communicators communicators, std::vector<Parameter> parameters, Options options,
       std::vector<Parameter> buffers)
      : parameters_(std::move(parameters)),
        buffers_(std::move(buffers)),
        options_(overheard(std::move(options))),
        gradients_(crew_, options_, sizes_of(parameters_)) {
    require(communicators.control != nullptr, "engine: no communicator for control");
    require(!parameters_.empty(), "engine: a model without parameters");
    agree::agree(*communicators.control, facts_of(parameters_, buffers_, options_),
                 options_.deadline);
    std::unique_ptr<RunLog> log = open_log(options_, *communicators.control);
    ranks_ = communicators.control->size();
    threads_ = !communicators.lanes.empty();
    own_all_reduce_ = (threads_ ? communicators.lanes.front() : communicators.control)
                          ->capabilities()
                          .own_all_reduce;
    costs_ = agreed_costs(*communicators.control,
                          options_.costs ? *options_.costs : compress::measure_costs(),
                          options_.deadline);
    voids_.assign(static_cast<std::size_t>(communicators.control->size()), 0);
    if (communicators.lanes.empty()) {
      crew_.lanes.push_back(
          std::make_unique<Lane>(std::move(communicators.control), Threading::kCaller));
    } else {
      for (auto& communicator : communicators.lanes) {
        require(communicator->capabilities().threads,
                "engine: lanes over a communicator that allows no threads");
        crew_.lanes.push_back(
            std::make_unique<Lane>(std::move(communicator), Threading::kOwnThread));
      }
      crew_.control_lane =
          std::make_unique<Lane>(std::move(communicators.control), Threading::kOwnThread);
    }
    crew_.records = std::make_unique<Records>(crew_.failure, options_.deadline, kRecordTag);
    if (log != nullptr || options_.run_log.watched) start_journal(std::move(log));
    set_plan(options_.pins);
    kind_ = planner_->choose(0).plan.kind;
  }

  ~Impl() { close(); }

  // -- kind gradients --

  void begin_step() {
    require(!closed_, "engine: it is closed");
    require(kind_ == plan::Kind::kGradients || gradients_.step_is_open(),
            "engine: gradients were submitted under a plan of kind updates");
    crew_.failure.check();
    if (!gradients_.step_is_open()) open_step();
  }

  void submit(Submission submission) {
    begin_step();
    if (gradients_.submit(std::move(submission))) ++round_;
  }

  void average(Tensors gradients) {
    require(gradients.size() == parameters_.size(), "engine: {} gradients of {} parameters",
            gradients.size(), parameters_.size());
    Submission submission;
    for (std::size_t p = 0; p < gradients.size(); ++p)
      submission.pieces.push_back({static_cast<int>(p), gradients[p]});
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
    require(!gradients_.step_is_open(),
            "engine: step {} is not complete: some parameters were not submitted", round_);
    gradients_.wait();
    crew_.failure.check();
  }

  // -- kind updates --

  Stepped step(const Model& model) {
    require(!closed_, "engine: it is closed");
    crew_.failure.check();
    if (kind_ != plan::Kind::kUpdates) return {};
    if (updates_ == nullptr || !updates_->based()) {
      rebase(model);
      return {};
    }
    Stepped stepped;
    const Working working(crew_);
    if (crew_.journal != nullptr)
      crew_.journal->begin_step(working.began(), coming_ ? *coming_ : plan(),
                                epoch_of(coming_ ? *coming_ : plan()));
    ++own_steps_;
    updates_->forget_sent();
    while (updates_->next() && updates_->next()->due <= own_steps_) {
      land(model);
      stepped.landed = true;
    }
    if (own_steps_ >= next_exchange_) {
      stepped.sent = true;
      stepped.finite = exchange(model, Settling::kNo).finite;
      stepped.landed = stepped.landed || !plan_->late;
    }
    return stepped;
  }

  void settle(const Model& model) {
    if (exchange_until_all_are_here(model)) updates_->return_to_base(model);
  }

  void meet(const Model& model) {
    crew_.failure.check();
    if (kind_ == plan::Kind::kUpdates && updates_ != nullptr && updates_->based())
      updates_->set_aside(model);
    try {
      if (!exchange_until_all_are_here(model)) return;
      updates_->return_to_base(model);
    } catch (...) {
      if (updates_ != nullptr) updates_->take_back(model);
      throw;
    }
    updates_->take_back(model);
  }

  void rebase(const Model& model) {
    if (kind_ != plan::Kind::kUpdates) return;  // gradients have no base
    if (updates_ == nullptr)
      updates_ =
          std::make_unique<Updates>(crew_, options_, sizes_of(parameters_), sizes_of(buffers_));
    updates_->rebase(model);
    if (crew_.journal != nullptr) crew_.journal->give_up_landings();
    own_steps_ = 0;
    const Choice choice = choose();
    next_exchange_ = static_cast<std::uint64_t>(choice.plan.every);
    if (crew_.journal != nullptr) {
      announce(choice.plan, choice, crew_.journal->steps());
      coming_ = choice.plan;
    }
  }

  [[nodiscard]] std::vector<std::vector<float>> base() const {
    return agreed(&Updates::parameters, parameters_);
  }
  [[nodiscard]] std::vector<std::vector<float>> agreed_buffers() const {
    return agreed(&Updates::buffers, buffers_);
  }

  void clear_at_sent(Tensors tensors) const {
    if (updates_ != nullptr) updates_->clear_at_sent(tensors);
  }
  [[nodiscard]] double lengthening() const {
    if (kind_ != plan::Kind::kUpdates || !options_.adam || ranks_ == 1) return 1;
    return std::pow(crew_.common_share.lengthening(ranks_), options_.lengthen);
  }
  void note_rates(std::uint32_t rates) { rates_ = rates; }

  // -- both --

  [[nodiscard]] plan::Kind kind() const { return kind_; }

  void set_plan(const plan::Pins& pins) {
    pins_ = pins;
    planner::Setup setup{.pins = pins,
                         .warm_up = options_.warm_up,
                         .warm_up_steps = options_.warm_up_steps,
                         .ranks = ranks_,
                         .lanes = threads_ ? static_cast<int>(crew_.lanes.size()) : 0,
                         .buffers = total_of(buffers_),
                         .adam = options_.adam,
                         .costs = costs_,
                         .control = options_.control,
                         .efficiency = options_.efficiency,
                         .drift = options_.drift,
                         .drag = options_.drag,
                         .log = options_.log,
                         .front = crew_.journal != nullptr && crew_.journal->log() != nullptr};
    setup.control.candidates = {.updates = options_.updates,
                                .backend_all_reduce = own_all_reduce_,
                                .shared = options_.shared};
    planner_ = std::make_unique<Planner>(std::move(setup), gradients_.unit_lengths());
    if (told_) planner_->set_network(told_);
  }

  void tell_network(const std::optional<plan::Link>& link) {
    told_ = link;
    planner_->set_network(link);
  }

  [[nodiscard]] plan::Plan plan() const { return plan_ ? *plan_ : planner_->choose(round_).plan; }

  [[nodiscard]] Summary summary() const {
    Summary summary{.plan = to_string(plan()),
                    .epoch = epoch_,
                    .steps = round_,
                    .own_steps = own_steps_,
                    .lengthening = lengthening()};
    crew_.tallies.write(summary);
    summary.control_sent = crew_.records->total().sent;
    summary.control_time = crew_.records->total().took;
    summary.sent += summary.control_sent;
    summary.memory = {.residual = gradients_.residual().size_bytes(),
                      .scratch = gradients_.scratch_bytes()};
    if (updates_ != nullptr) {
      summary.memory.residual += updates_->parameters().residual.span().size_bytes();
      summary.memory.base = updates_->parameters().base.span().size_bytes();
      summary.memory.in_flight = updates_->in_flight_bytes();
      summary.memory.scratch += updates_->scratch_bytes();
    }
    summary.decisions = {decisions_.begin(), decisions_.end()};
    return summary;
  }

  [[nodiscard]] State state() {
    end_step();
    State state{
        .step = round_, .epoch = epoch_, .plan = to_string(plan()), .policy = planner_->to_text()};
    if (kind_ == plan::Kind::kUpdates && updates_ != nullptr && updates_->based()) {
      state.updates = true;
      state.units = gradients_.arrangement().units();
      state.own_steps = own_steps_;
      state.next_exchange = next_exchange_;
      updates_->write(state);
    } else {
      gradients_.write(state);
    }
    state.common_share = crew_.common_share.energies();
    state.kind = kind_;
    return state;
  }

  void restore(const State& state) {
    require(!gradients_.step_is_open(),
            "engine: a state cannot be restored in the middle of a step");
    gradients_.wait();
    for (const auto& lane : crew_.lanes) lane->drain();
    tell_the_rest();
    (crew_.control_lane != nullptr ? *crew_.control_lane : *crew_.lanes.front()).drain();
    crew_.records->clear();
    crew_.failure.check();
    std::ranges::fill(voids_, 0);
    still_for_ = 0;
    planner_->set_buffers_idle(false);
    plans_.clear();
    results_.clear();
    gradients_.forget();
    if (state.updates) {
      if (updates_ == nullptr)
        updates_ =
            std::make_unique<Updates>(crew_, options_, sizes_of(parameters_), sizes_of(buffers_));
      updates_->read(state);
      own_steps_ = state.own_steps;
      next_exchange_ = state.next_exchange;
      State nothing{.step = state.step, .units = state.units};
      nothing.residual.resize(parameters_.size());
      gradients_.read(nothing);
    } else {
      gradients_.read(state);
      if (updates_ != nullptr) updates_->forget_base();
    }
    crew_.common_share.restore(state.common_share);
    kind_ = state.kind;
    round_ = state.step;
    taken_ = round_;
    epoch_ = state.epoch;
    if (!state.policy.empty()) planner_->restore(state.policy);
    if (!state.plan.empty()) plan_ = plan::parse_plan(state.plan, "the plan in the state");
  }

  void rescale(double factor) {
    require(std::isfinite(factor) && factor > 0, "engine: rescaling by {}", factor);
    require(!gradients_.step_is_open(), "engine: rescaling in the middle of a step");
    gradients_.rescale(factor);
  }

  void set_clip_norm(double norm) {
    require(!gradients_.step_is_open(), "engine: another clip_norm in the middle of a step");
    gradients_.set_clip_norm(norm);
  }

  void close() {
    if (std::exchange(closed_, true)) return;
    gradients_.wait();
    for (const auto& lane : crew_.lanes) lane->drain();
    if (crew_.control_lane != nullptr) crew_.control_lane->drain();
    end_log();
  }

  void note(std::span<const std::pair<std::string, double>> values) {
    if (RunLog* log = run_log()) log->note(last_begun(), values);
    mention_failure();
  }
  void phase(std::string_view name) {
    if (RunLog* log = run_log()) log->phase(crew_.journal->steps(), name);
  }
  void message(Severity severity, std::string_view text) {
    if (RunLog* log = run_log()) log->message(severity, text);
  }
  [[nodiscard]] std::string latest() const {
    return crew_.journal != nullptr ? crew_.journal->latest() : std::string();
  }

 private:
  enum class Settling : std::uint8_t { kNo, kYes };

  // The training thread is busy with exchanges for as long as this lives.
  class Working {
   public:
    explicit Working(Crew& crew) : crew_(crew), began_(crew.now()) {}
    ~Working() {
      if (crew_.journal != nullptr) crew_.journal->work(crew_.now() - began_);
    }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;
    [[nodiscard]] Seconds began() const { return began_; }

   private:
    Crew& crew_;
    Seconds began_;
  };

  // Warnings go to the run log too.
  [[nodiscard]] Options overheard(Options options) {
    options.log = [this, said = std::move(options.log)](Severity severity, std::string_view text) {
      if (severity == Severity::kWarning) message(severity, text);
      if (said) said(severity, text);
    };
    return options;
  }

  [[nodiscard]] std::vector<std::vector<float>> agreed(const Side& (Updates::*side)() const,
                                                       const std::vector<Parameter>& list) const {
    require(updates_ != nullptr && updates_->based(),
            "engine: there is no base: the plan is of kind gradients");
    std::vector<std::vector<float>> tensors;
    std::size_t begin = 0;
    for (const Parameter& tensor : list) {
      const auto part = ((*updates_).*side)().base.span().subspan(begin, tensor.size);
      tensors.emplace_back(part.begin(), part.end());
      begin += tensor.size;
    }
    return tensors;
  }

  // A rank that has come here goes on exchanging with those that have not, until one exchange finds
  // everybody here and is not void. Returns whether there is still a base: the last exchange may
  // have been one that changes the kind, on all ranks.
  bool exchange_until_all_are_here(const Model& model) {
    crew_.failure.check();
    if (kind_ != plan::Kind::kUpdates) {
      end_step();
      return false;
    }
    require(updates_ != nullptr && updates_->based(), "engine: settling without a base");
    const Working working(crew_);
    bool is_void = false;
    do {
      is_void = exchange(model, Settling::kYes).is_void;
      if (kind_ != plan::Kind::kUpdates) return false;
    } while (is_void || !all_settled());
    return true;
  }

  void open_step() {
    gradients_.wait();
    planner_->set_units(gradients_.unit_lengths());
    if (round_ > 0 && gradients_.last_result().updated_fraction > 0)
      results_[round_ - 1] = gradients_.last_result();
    const Choice choice = choose();
    const bool leaving = choice.plan.kind != plan::Kind::kGradients;
    adopt(leaving ? flush_of(plan::Kind::kGradients, plan_) : choice.plan, choice);
    if (crew_.journal != nullptr) {
      crew_.journal->begin_step(crew_.now(), *plan_, epoch_);
      crew_.journal->send(round_, *plan_, epoch_, planner_->outlook(*plan_));
    }
    gradients_.begin_step(round_, *plan_, epoch_, patience(choice));
    if (!leaving) return;
    if (updates_ != nullptr) updates_->forget_base();
    kind_ = plan::Kind::kUpdates;  // from the next backward on
  }

  struct Exchanged {
    bool finite = true;    // this rank's progress
    bool is_void = false;  // it landed at once and moved nothing, on all ranks
  };

  Exchanged exchange(const Model& model, Settling settling) {
    const Choice choice = choose();
    const bool leaving = choice.plan.kind != plan::Kind::kUpdates;
    const plan::Plan next = leaving ? flush_of(plan::Kind::kUpdates, plan_) : choice.plan;
    const bool at_once = settling == Settling::kYes || next.late == 0;
    if (at_once || (plan_ && next.late < plan_->late)) land_all(model);
    if (leaving) updates_->take_back(model);  // what was laid aside is flushed with the rest
    const std::uint64_t lag = lag_of(plan_);
    adopt(next, choice);
    if (crew_.journal != nullptr)
      crew_.journal->send(round_, next, epoch_, planner_->outlook(next));
    Updates::Sending sending{
        .number = round_,
        .sent = own_steps_,
        .due = own_steps_ + (at_once ? 0 : static_cast<std::uint64_t>(next.late)),
        .plan = next,
        .epoch = epoch_,
        .flags = static_cast<std::uint16_t>(settling == Settling::kYes ? kSettling : 0),
        .with_buffers = settling == Settling::kYes || leaving || !buffers_are_still(),
        .rates = rates_,
        .deadline = patience(choice)};
    if (round_ > lag) sending.hashed = round_ - 1 - lag;
    ++round_;
    next_exchange_ = own_steps_ + static_cast<std::uint64_t>(next.every);
    Exchanged exchanged{.finite = updates_->send(model, sending)};
    if (at_once) exchanged.is_void = land(model);
    if (leaving && !exchanged.is_void) {  // a void sent everything back to the residual: the next
                                          // exchange flushes it
      updates_->forget_base();
      gradients_.forget();
      kind_ = plan::Kind::kGradients;
    }
    return exchanged;
  }

  // Returns whether it was void.
  bool land(const Model& model) {
    const Updates::Sending landing = *updates_->next();
    const auto report = updates_->land(model);
    if (!report.is_void && report.updated_fraction > 0)
      results_[landing.number] = {report.updated_fraction, report.aggregate_gain};
    return report.is_void;
  }

  void land_all(const Model& model) {
    while (updates_->next()) land(model);
  }

  // The plan of this round, from the records of all rounds but the last `lag`: the same ones on
  // every rank, wherever it is with its landings. By then they have crossed the network beside
  // other exchanges, and nobody waits for them.
  [[nodiscard]] Choice choose() {
    const std::uint64_t lag = lag_of(plan_);
    if (round_ > lag) take_in(round_ - lag);
    return planner_->choose(round_);
  }

  // How long a message may take: what the user allows, and four times what it should.
  [[nodiscard]] std::optional<Seconds> patience(const Choice& choice) const {
    if (!options_.deadline) return std::nullopt;
    return *options_.deadline + 4 * choice.predicted;
  }

  // The records of all rounds before `until`.
  void take_in(std::uint64_t until) {
    for (; taken_ < until; ++taken_) {
      const auto [records, sent] = crew_.records->take(taken_);
      if (crew_.journal != nullptr) crew_.journal->recorded(taken_, records, sent);
      if (const auto why = disagreement(records)) fail(*why);
      if (const auto ran = plans_.find(taken_); ran != plans_.end()) {
        if (const auto result = results_.find(taken_); result != results_.end())
          planner_->note_result(ran->second, result->second);
      }
      plans_.erase(plans_.begin(), plans_.upper_bound(taken_));
      results_.erase(results_.begin(), results_.upper_bound(taken_));
      for (std::size_t r = 0; r < records.size(); ++r) {
        voids_[r] = (records[r].flags & kNotFinite) != 0 ? voids_[r] + 1 : 0;
        if (voids_[r] >= kVoidsInARow)
          fail(fmt::format("the progress of rank {} was not finite in {} exchanges in a row", r,
                           kVoidsInARow));
      }
      warn_of_rates(records);
      watch_buffers(records);
      planner_->take_in(records);
      mention_failure();
    }
  }

  // Masks and tables that never change need not travel: once no rank's buffers have changed for a
  // while they stay at home, and set out again when one has told that its own did. What they became
  // meanwhile is their progress, as ever.
  void watch_buffers(std::span<const Record> records) {
    if (buffers_.empty() || kind_ != plan::Kind::kUpdates) return;
    const bool stirred = std::ranges::any_of(
        records, [](const Record& record) { return (record.flags & kStirred) != 0; });
    still_for_ = stirred ? 0 : std::min(still_for_ + 1, kStillAfter);
    planner_->set_buffers_idle(buffers_are_still());
  }
  [[nodiscard]] bool buffers_are_still() const { return still_for_ == kStillAfter; }

  // In the last exchange.
  [[nodiscard]] bool all_settled() {
    return std::ranges::all_of(crew_.records->look(round_ - 1), [](const Record& record) {
      return (record.flags & kSettling) != 0;
    });
  }

  [[noreturn]] void fail(const std::string& why) {
    crew_.failure.note(std::make_exception_ptr(Disagreement(why)));
    crew_.failure.check();
    throw Disagreement(why);
  }

  void warn_of_rates(std::span<const Record> records) {
    const auto odd = std::ranges::find_if(
        records, [&](const Record& record) { return record.rates != records.front().rates; });
    if (odd == records.end() || std::exchange(warned_of_rates_, true)) return;
    log(Severity::kWarning, fmt::format("rank {} has other learning rates than rank 0: a scheduler "
                                        "or early stopping that looks at the loss must "
                                        "look at the same value on all ranks (all-reduce it first)",
                                        odd - records.begin()));
  }

  void adopt(const plan::Plan& plan, const Choice& choice) {
    planner_->note_ran(round_, plan);
    plans_[round_] = plan;
    if (crew_.journal != nullptr)
      announce(plan, choice,
               kind_ == plan::Kind::kGradients ? crew_.journal->steps() : last_begun());
    coming_.reset();
    if (plan_ == plan) return;
    if (plan_) ++epoch_;
    plan_ = plan;
    std::string decision = fmt::format("step {}: {} ({})", round_, to_string(plan), choice.reason);
    log(Severity::kInfo, decision);
    decisions_.push_back(std::move(decision));
    if (decisions_.size() > kDecisionsKept) decisions_.pop_front();
  }

  void log(Severity severity, std::string_view text) const {
    if (options_.log) options_.log(severity, text);
  }

  // -- the run log --

  [[nodiscard]] RunLog* run_log() {
    return crew_.journal != nullptr ? crew_.journal->log() : nullptr;
  }
  [[nodiscard]] std::uint64_t last_begun() const {
    return std::max<std::uint64_t>(crew_.journal->steps(), 1) - 1;
  }

  void start_journal(std::unique_ptr<RunLog> log) {
    LogHeader header = header_of(options_, parameters_, costs_);
    header.rank = crew_.lanes.front()->communicator().rank();
    header.world = ranks_;
    header.lanes = threads_ ? static_cast<int>(crew_.lanes.size()) : 0;
    header.buckets = gradients_.unit_lengths();
    if (log != nullptr) log->write(header);
    crew_.journal = std::make_unique<Journal>(std::move(log));
  }

  // Once for each round, and only if there is something to tell.
  void announce(const plan::Plan& plan, const Choice& choice, std::uint64_t first_step) {
    const bool told = std::exchange(announced_round_, round_) == round_;
    const bool has_front = choice.decision != nullptr && !choice.decision->front.empty();
    if (announced_ == plan && (told || !has_front)) return;
    const auto from = std::exchange(announced_, plan);
    if (RunLog* log = run_log()) {
      log->write(LogDecision{.step = first_step,
                             .round = round_,
                             .epoch = epoch_of(plan),
                             .plan = plan,
                             .from = from,
                             .reason = choice.reason,
                             .details = choice.decision.get()});
    }
  }

  [[nodiscard]] std::uint32_t epoch_of(const plan::Plan& next) const {
    return plan_ && plan_ != next ? epoch_ + 1 : epoch_;
  }

  // A log that cannot be written any more is no reason to stop.
  void mention_failure() {
    const auto failure = crew_.journal != nullptr ? crew_.journal->new_failure() : std::nullopt;
    if (failure) log(Severity::kWarning, *failure + "; nothing more is written there");
  }

  // What is known of rounds that nobody will ask about any more.
  void tell_the_rest() {
    if (crew_.control_lane != nullptr) crew_.control_lane->drain();
    if (crew_.journal == nullptr) return;
    for (std::uint64_t round = taken_; round < round_; ++round) {
      if (const auto found = crew_.records->take_if_here(round))
        crew_.journal->recorded(round, found->records, found->sent);
    }
    crew_.journal->flush(crew_.failure.get() == nullptr);
  }

  void end_log() {
    tell_the_rest();
    if (run_log() == nullptr) return;
    const Summary all = summary();
    run_log()->end(crew_.journal->written(), text_of(crew_.failure.get()),
                   {.plan = all.plan,
                    .steps = crew_.journal->written(),
                    .exchanges = all.exchanges,
                    .bytes = all.sent - all.control_sent,
                    .control_bytes = all.control_sent,
                    .voids = all.voids});
    mention_failure();
  }

  const std::vector<Parameter> parameters_;
  const std::vector<Parameter> buffers_;
  const Options options_;
  Crew crew_;
  Gradients gradients_;
  std::unique_ptr<Updates> updates_;  // once a plan asks for it: it needs memory
  int ranks_ = 1;
  bool threads_ = false;
  bool own_all_reduce_ = false;
  plan::CostTable costs_;
  plan::Pins pins_;
  std::optional<plan::Link> told_;  // the network, by the user
  std::unique_ptr<Planner> planner_;
  plan::Kind kind_ = plan::Kind::kGradients;  // of the next step
  std::optional<plan::Plan> plan_;            // in force
  std::uint32_t epoch_ = 0;
  std::uint64_t round_ =
      0;  // steps (gradients) and exchanges (updates) so far, the same on all ranks
  std::uint64_t taken_ = 0;  // records of earlier rounds have been taken in
  std::uint64_t own_steps_ = 0;
  std::uint64_t next_exchange_ = 0;            // by own_steps_
  std::map<std::uint64_t, plan::Plan> plans_;  // of rounds whose records are still to come
  std::map<std::uint64_t, Result> results_;    // of the same
  std::vector<int> voids_;                     // in a row, by rank
  int still_for_ = 0;  // exchanges in a row that found no rank's buffers changed
  std::uint32_t rates_ = 0;
  bool warned_of_rates_ = false;
  std::deque<std::string> decisions_;
  std::optional<plan::Plan>
      coming_;  // updates: chosen, and in force from the next exchange on; for the log
  std::optional<plan::Plan> announced_;
  std::optional<std::uint64_t> announced_round_;
  bool closed_ = false;
};

Engine::Engine(Communicators communicators, std::vector<Parameter> parameters, Options options,
               std::vector<Parameter> buffers)
    : impl_(std::make_unique<Impl>(std::move(communicators), std::move(parameters),
                                   std::move(options), std::move(buffers))) {}
Engine::~Engine() = default;
void Engine::begin_step() { impl_->begin_step(); }
void Engine::submit(Submission submission) { impl_->submit(std::move(submission)); }
void Engine::average(Tensors gradients) { impl_->average(gradients); }
void Engine::end_step() { impl_->end_step(); }
plan::Kind Engine::kind() const { return impl_->kind(); }
Stepped Engine::step(const Model& model) { return impl_->step(model); }
void Engine::settle(const Model& model) { impl_->settle(model); }
void Engine::meet(const Model& model) { impl_->meet(model); }
void Engine::rebase(const Model& model) { impl_->rebase(model); }
std::vector<std::vector<float>> Engine::base() const { return impl_->base(); }
std::vector<std::vector<float>> Engine::agreed_buffers() const { return impl_->agreed_buffers(); }
void Engine::clear_at_sent(Tensors tensors) const { impl_->clear_at_sent(tensors); }
void Engine::note_rates(std::uint32_t rates) { impl_->note_rates(rates); }
void Engine::set_plan(const plan::Pins& pins) { impl_->set_plan(pins); }
void Engine::tell_network(const std::optional<plan::Link>& link) { impl_->tell_network(link); }
plan::Plan Engine::plan() const { return impl_->plan(); }
Summary Engine::summary() const { return impl_->summary(); }
State Engine::state() const { return impl_->state(); }
void Engine::restore(const State& state) { impl_->restore(state); }
void Engine::rescale(double factor) { impl_->rescale(factor); }
void Engine::set_clip_norm(double norm) { impl_->set_clip_norm(norm); }
double Engine::lengthening() const { return impl_->lengthening(); }
void Engine::note(std::span<const std::pair<std::string, double>> values) { impl_->note(values); }
void Engine::phase(std::string_view name) { impl_->phase(name); }
void Engine::message(Severity severity, std::string_view text) { impl_->message(severity, text); }
std::string Engine::latest() const { return impl_->latest(); }
void Engine::close() { impl_->close(); }

}  // namespace pliant::engine
