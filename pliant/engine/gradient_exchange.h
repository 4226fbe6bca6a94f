// SPDX-License-Identifier: MIT
// Kind gradients: exchanges the gradients of a step in groups of units, each group as soon as its
// last piece is there, in the same order on all ranks.
//
// A group's exchange is one job of a lane (gradient_flights.h).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "pliant/engine/gradient_flights.h"
#include "pliant/engine/gradient_groups.h"
#include "pliant/engine/gradient_step.h"
#include "pliant/engine/options.h"
#include "pliant/engine/services.h"
#include "pliant/engine/state.h"

namespace pliant::engine {

class GradientExchange {
 public:
  GradientExchange(Services& services, const Options& options,
                   std::vector<std::size_t> parameter_sizes);
  ~GradientExchange();

  [[nodiscard]] bool step_is_open() const { return step_ != nullptr; }
  // Waits for the step before, whose residual this one reads.
  void begin_step(const Round& round);
  // Returns whether that was the step's last piece.
  bool submit(Submission submission);
  [[nodiscard]] bool caller_may_average() const;
  // Until everything that was submitted is done.
  void wait();

  [[nodiscard]] const GradientGroups& groups() const { return groups_; }
  // Result of the last step; nullopt if there was none.
  [[nodiscard]] const std::optional<planner::Result>& last_result() const { return last_result_; }
  [[nodiscard]] std::uint64_t exchanges() const { return exchanges_; }  // ever
  // Whether some rank's residual may not be zero; all ranks think alike. Nothing may be under way.
  [[nodiscard]] bool has_residual() const { return unsent_; }
  void count_memory(Memory& memory) const;

  void rescale(double factor);
  void set_clip_norm(double norm);
  void note_other_wait(Seconds waited) { other_wait_ += waited; }
  void forget_timing();  // of the steps before now: another kind comes between

  void write(State& state) const;
  void read(const State& state);

 private:
  // In the training thread.
  void prepare(GradientStep& step);
  void time_previous(GradientStep& step);
  std::vector<int> collect(GradientStep& step, Submission submission);
  void adopt_units(GradientStep& step);
  void dispatch(const std::shared_ptr<GradientStep>& step, std::size_t group);
  // In a lane.
  void hand_out(GradientStep& step, const GroupJob& job);
  void void_together(GradientStep& step);
  void finish(GradientStep& step);

  Services& services_;
  const Options& options_;
  GradientGroups groups_;
  GradientFlights flights_;
  std::shared_ptr<GradientStep> step_;      // pieces of it are still to come
  std::shared_ptr<GradientStep> previous_;  // all submitted, perhaps still under way
  std::uint64_t exchanges_ = 0;             // dispatched, ever
  std::uint64_t turns_ = 0;                 // dispatched by this engine
  bool unsent_ = false;                     // has_residual()
  int to_adopt_;  // coming steps whose units are taken from the caller's buckets
  std::optional<planner::Result> last_result_;
  Seconds begin_;       // of the last step
  Seconds other_wait_;  // since then, for communication that is not the engine's
  // Bytes, of the last step that is done. Any thread may ask while lanes work.
  std::atomic<std::size_t> scratch_ = 0;
  std::atomic<std::size_t> held_ = 0;
};

}  // namespace pliant::engine
