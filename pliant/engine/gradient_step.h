// SPDX-License-Identifier: MIT
// State of one step of kind gradients, from its first piece until all groups have landed, and the
// parts of it that lanes and the training thread share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "pliant/agree/record.h"
#include "pliant/engine/rounds.h"
#include "pliant/engine/tensors.h"
#include "pliant/engine/units.h"

namespace pliant::engine {

// A submission until all its pieces have landed.
class PendingSubmission {
 public:
  explicit PendingSubmission(Submission submission)
      : submission_(std::move(submission)), missing_(submission_.pieces.size()) {}

  [[nodiscard]] const Submission& submission() const { return submission_; }
  // One more piece has landed. Returns whether it was the last. Call under the step's mutex.
  [[nodiscard]] bool landed() { return --missing_ == 0; }
  // Calls done, once.
  void finish(const std::exception_ptr& why);

 private:
  Submission submission_;
  std::size_t missing_;  // pieces
  std::atomic<bool> finished_ = false;
};

struct GradientStep {
  GradientStep(const Round& opened, std::size_t parameters);

  const Round round;
  bool flushes = false;  // dense, and a residual goes along
  bool together = true;  // no average is handed out before all of them are there
  bool hashed = false;   // ranks compare what they applied

  // Collected by the training thread.
  std::vector<std::span<float>> pieces;         // by parameter
  std::vector<std::span<const float>> carried;  // by parameter
  std::vector<Seconds> when;                    // by parameter: when it was submitted
  std::vector<std::size_t> missing;             // pieces that each group still waits for
  std::size_t submitted = 0;                    // pieces
  std::size_t next_group = 0;                   // to be dispatched
  Units seen;                                   // the caller's buckets
  Seconds last_submitted;
  std::optional<double> norm;  // for clip_norm, if all pieces are there before the first group goes

  // Shared with lanes, and guarded by its mutex.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::shared_ptr<PendingSubmission>> pending;  // by parameter
    std::size_t dispatched = 0;                               // groups
    std::size_t applied = 0;                                  // groups that landed or failed
    std::size_t groups_left = 0;
    std::vector<double> energies;          // of the gradient, by group, for clip_norm
    std::vector<bool> voids;               // by group
    std::vector<planner::Result> results;  // by group
    std::size_t scratch = 0;               // bytes of all groups
    std::size_t held = 0;                  // bytes of the group that held most
    Seconds landed;
    agree::Record record;
  } shared;
};

// Holds back the residual of parameters that backward did not reach, while their group is
// exchanged. Their gradient is zero, and if it is zero on all ranks, DDP drops whatever comes back
// for them: what is not sent cannot be lost.
class ResidualHold {
 public:
  ResidualHold() = default;
  ~ResidualHold();
  ResidualHold(const ResidualHold&) = delete;
  ResidualHold& operator=(const ResidualHold&) = delete;

  void hold(std::span<float> residual);
  [[nodiscard]] bool any() const { return !spans_.empty(); }

 private:
  struct Span {
    std::span<float> span;
    std::vector<float> kept;
  };
  std::vector<Span> spans_;
};

[[nodiscard]] bool all_zero(std::span<const float> values);

}  // namespace pliant::engine
