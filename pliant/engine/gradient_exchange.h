// SPDX-License-Identifier: MIT
// Kind gradients: exchanges the gradients of a step in groups of units, each group as soon as its
// last piece is there, in the same order on all ranks.
//
// A group's exchange is one job of a lane: put the pieces side by side (or take them where they
// lie), accumulate, select, encode; wait for the wire, which one group at a time may use; land the
// average and write it where the pieces came from.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "pliant/engine/gradient_groups.h"
#include "pliant/engine/gradient_step.h"
#include "pliant/engine/options.h"
#include "pliant/engine/services.h"
#include "pliant/engine/state.h"
#include "pliant/engine/turnstile.h"
#include "pliant/exchange/flight.h"

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
  struct Job {
    std::size_t group;
    std::uint64_t number;  // its turn on the wire
  };

  // In the training thread.
  void prepare(GradientStep& step);
  void time_previous(GradientStep& step);
  std::vector<int> collect(GradientStep& step, Submission submission);
  void adopt_units(GradientStep& step);
  void dispatch(const std::shared_ptr<GradientStep>& step, std::size_t group);
  // In a lane.
  void run(comm::Communicator& communicator, GradientStep& step, const Job& job);
  void exchange_group(comm::Communicator& communicator, GradientStep& step, const Job& job,
                      Turnstile::Turn& turn);
  exchange::Report fly(comm::Communicator& communicator, GradientStep& step, const Job& job,
                       const comm::Floats& gradient, Turnstile::Turn& turn);
  [[nodiscard]] comm::Floats assemble(GradientGroup& group, GradientStep& step) const;
  void clip(std::span<float> gradient, GradientStep& step, std::size_t group);
  void record(GradientStep& step, const Job& job, const exchange::Report& report,
              std::span<const float> applied);
  void hand_out(GradientStep& step, const Job& job);
  void void_together(GradientStep& step);
  void finish(GradientStep& step);

  Services& services_;
  const Options& options_;
  GradientGroups groups_;
  std::shared_ptr<GradientStep> step_;      // pieces of it are still to come
  std::shared_ptr<GradientStep> previous_;  // all submitted, perhaps still under way
  std::uint64_t exchanges_ = 0;             // dispatched, ever
  std::uint64_t turns_ = 0;                 // dispatched by this engine
  Turnstile wire_;
  bool unsent_ = false;  // has_residual()
  int to_adopt_;         // coming steps whose units are taken from the caller's buckets
  double clip_norm_;
  double last_norm_ = 0;  // of the last step that was finite
  std::optional<planner::Result> last_result_;
  Seconds begin_;       // of the last step
  Seconds other_wait_;  // since then, for communication that is not the engine's
  // Bytes, of the last step that is done. Any thread may ask while lanes work.
  std::atomic<std::size_t> scratch_ = 0;
  std::atomic<std::size_t> held_ = 0;
};

}  // namespace pliant::engine
