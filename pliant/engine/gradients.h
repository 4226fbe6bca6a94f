// SPDX-License-Identifier: MIT
// Kind gradients: every step, groups of units, each as soon as its last piece is there, in the same
// order on all ranks.
//
// A group's exchange is one job of a lane: put the pieces side by side (or take them where they
// lie), accumulate, select, encode; wait for the wire, which one group at a time may use; land the
// average and put it where the pieces came from.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "pliant/engine/arrangement.h"
#include "pliant/engine/crew.h"
#include "pliant/exchange/flight.h"
#include "pliant/exchange/residual_group.h"

namespace pliant::engine {

class Gradients {
 public:
  Gradients(Crew& crew, const Options& options, std::vector<std::size_t> parameter_sizes);
  ~Gradients();

  [[nodiscard]] bool step_is_open() const { return step_ != nullptr; }
  // Waits for the step before, whose residual this one reads.
  void begin_step(std::uint64_t number, const plan::Plan& plan, std::uint32_t epoch,
                  std::optional<Seconds> deadline);
  // Returns whether that was the step's last piece.
  bool submit(Submission submission);
  // Until everything that was submitted is done.
  void wait();

  [[nodiscard]] std::vector<std::size_t> unit_lengths() const;
  [[nodiscard]] const Result& last_result() const {
    return last_result_;
  }  // of the last step; an updated fraction of 0: none yet

  [[nodiscard]] const Arrangement& arrangement() const { return arrangement_; }
  [[nodiscard]] std::span<float> residual() const { return residual_.span(); }
  [[nodiscard]] std::size_t scratch_bytes() const;
  void rescale(double factor);
  void set_clip_norm(double norm);
  void forget();  // the timing of steps before now: another kind came between

  void write(State& state) const;
  void read(const State& state);

 private:
  class Waiting;  // a submission until all its pieces have landed
  struct Step;
  struct Group {
    Range entries;
    std::vector<int> parameters;
    std::unique_ptr<exchange::ResidualGroup> bucket;
    Buffer<float> assembled;  // where pieces that do not lie side by side are put
  };
  class Resting;

  void make_residual();
  void arrange(Arrangement next);
  void prepare(Step& step);
  void void_together(Step& step);
  void form_groups(plan::Fusion fusion);
  void dispatch(const std::shared_ptr<Step>& step, std::size_t group);
  struct Job {
    std::size_t group;
    std::uint64_t number;  // its turn on the wire
  };
  void exchange(comm::Communicator& communicator, Step& step, const Job& job);
  void apply(comm::Communicator& communicator, Step& step, const Job& job, bool& passed);
  [[nodiscard]] comm::Floats assemble(Group& group, Step& step) const;
  void clip(std::span<float> gradient, Step& step, std::size_t group);
  void finish(Step& step);

  Crew& crew_;
  const Options& options_;
  const std::vector<std::size_t> sizes_;
  Arrangement arrangement_;
  Buffer<float> residual_;  // from the first step on: a run of updates needs none
  std::vector<Group> groups_;
  std::vector<std::size_t> group_of_;  // by parameter
  std::optional<plan::Fusion> fusion_;
  std::shared_ptr<Step> step_;      // pieces of it are still to come
  std::shared_ptr<Step> previous_;  // all submitted, perhaps still under way
  std::uint64_t exchanges_ = 0;     // dispatched, ever
  std::uint64_t passed_ = 0;        // dispatched by this engine
  Turnstile wire_;
  bool unsent_ = false;     // some rank's residual may not be zero; all ranks think alike
  bool adopting_ = true;    // units are taken from the frame's buckets, once
  std::vector<int> voted_;  // restored, for groups that are yet to be formed
  double clip_norm_;
  double last_norm_ = 0;  // of the last step that was finite
  Result last_result_ = {.updated_fraction = 0};
  Seconds last_begin_;
  Seconds begin_;
};

}  // namespace pliant::engine
