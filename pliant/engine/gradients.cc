// SPDX-License-Identifier: MIT
#include "pliant/engine/gradients.h"

#include <cmath>
#include <future>

#include "pliant/common/errors.h"
#include "pliant/engine/parts.h"

namespace pliant::engine {

void Gradients::begin_step() {
  require(!parts_.closed, "engine: it is closed");
  const bool is_open = parts_.gradients.step_is_open();
  require(is_open || parts_.next_kind() == plan::Kind::kGradients,
          "engine: gradients were submitted under a plan of kind updates");
  parts_.services.failure.check();
  if (!is_open) open_step();
}

void Gradients::open_step() {
  GradientExchange& exchange = parts_.gradients;
  Rounds& rounds = parts_.rounds;
  exchange.wait();
  rounds.planner().set_units(exchange.groups().unit_lengths());
  const auto& result = exchange.last_result();
  if (rounds.number() > 0 && result && result->updated_fraction > 0)
    rounds.set_result(rounds.number() - 1, *result);
  const Round round = rounds.open(plan::Kind::kGradients);
  rounds.count_step();
  Services& services = parts_.services;
  services.observer.begin_step(services.now(), round.plan, round.plan_version, rounds.worth());
  services.observer.send_round(round.number, round.plan, round.plan_version,
                               [&] { return rounds.planner().outlook(round.plan); });
  exchange.begin_step(round);
  parts_.leaves_gradients = round.changes_kind;
}

void Gradients::submit(Submission submission) {
  begin_step();
  if (parts_.gradients.submit(std::move(submission))) parts_.rounds.sent();
}

bool Gradients::caller_may_average() const { return parts_.gradients.caller_may_average(); }

void Gradients::average(Tensors gradients) {
  require(gradients.size() == parts_.parameters.size(), "engine: {} gradients of {} parameters",
          gradients.size(), parts_.parameters.size());
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

void Gradients::end_step() {
  require(!parts_.gradients.step_is_open(),
          "engine: step {} is not complete: some parameters were not submitted",
          parts_.rounds.number());
  parts_.gradients.wait();
  parts_.services.failure.check();
}

void Gradients::rescale(double factor) {
  require(std::isfinite(factor) && factor > 0, "engine: rescaling by {}", factor);
  require(!parts_.gradients.step_is_open(), "engine: rescaling in the middle of a step");
  parts_.gradients.rescale(factor);
}

void Gradients::set_clip_norm(double norm) {
  require(!parts_.gradients.step_is_open(), "engine: another clip_norm in the middle of a step");
  parts_.gradients.set_clip_norm(norm);
}

void Gradients::note_other_wait(Seconds waited) {
  parts_.gradients.note_other_wait(waited);
  parts_.services.observer.waited(waited);
}

}  // namespace pliant::engine
