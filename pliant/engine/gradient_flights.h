// SPDX-License-Identifier: MIT
// Flights of gradients: the exchange of one group of a step, as a job of a lane.
//
// Put the group's pieces side by side (or take them where they lie), accumulate, select, encode;
// wait for the wire, which one group at a time may use; land the average and write it where the
// pieces came from.
#pragma once

#include <cstdint>
#include <span>

#include "pliant/engine/gradient_groups.h"
#include "pliant/engine/gradient_step.h"
#include "pliant/engine/services.h"
#include "pliant/engine/turnstile.h"

namespace pliant::engine {

// Limit on the norm of each rank's gradient, before it is exchanged (Options::clip_norm).
class GradientClip {
 public:
  explicit GradientClip(double limit) : limit_(limit) {}

  // All pieces of the step are there: its own norm is known before its first group goes.
  void take_norm(GradientStep& step) const;
  // Scales the gradient of one group. The norm is this step's if it is known, else the last
  // step's: the other groups are not there yet.
  void apply(std::span<float> gradient, GradientStep& step, std::size_t group) const;
  // The step is over; by group.
  void note_energies(std::span<const double> energies);

  [[nodiscard]] bool is_on() const { return limit_ > 0; }
  void set_limit(double norm) { limit_ = norm; }
  void rescale(double factor) { last_norm_ *= factor; }
  [[nodiscard]] double last_norm() const { return last_norm_; }
  void set_last_norm(double norm) { last_norm_ = norm; }

 private:
  double limit_;          // 0: none
  double last_norm_ = 0;  // of the last step that was finite
};

struct GroupJob {
  std::size_t group;
  std::uint64_t number;  // its turn on the wire
};

class GradientFlights {
 public:
  GradientFlights(Services& services, GradientGroups& groups, double clip_norm)
      : services_(services), groups_(groups), clip_(clip_norm) {}

  // In a lane. Never throws: a failure is noted.
  void run(comm::Communicator& communicator, GradientStep& step, const GroupJob& job);
  // Waits for the gradients of all groups of the step (Submission::ready).
  void wait_until_ready(GradientStep& step) const;
  [[nodiscard]] GradientClip& clip() { return clip_; }
  [[nodiscard]] const GradientClip& clip() const { return clip_; }

 private:
  void exchange_group(comm::Communicator& communicator, GradientStep& step, const GroupJob& job,
                      Turnstile::Turn& turn);
  void wait_until_ready(const GradientGroup& group, GradientStep& step) const;
  [[nodiscard]] bool is_averaged(const GradientGroup& group, GradientStep& step) const;
  void follow(GradientStep& step, const GroupJob& job, Turnstile::Turn& turn);
  exchange::Report fly(comm::Communicator& communicator, GradientStep& step, const GroupJob& job,
                       const comm::Floats& gradient, Turnstile::Turn& turn);
  [[nodiscard]] comm::Floats assemble(GradientGroup& group, GradientStep& step) const;
  void record(GradientStep& step, const GroupJob& job, const exchange::Report& report,
              std::span<const float> applied);

  Services& services_;
  GradientGroups& groups_;
  GradientClip clip_;
  Turnstile wire_;
  Seconds followed_;  // when the caller's last all-reduce was through; guarded by the wire
};

}  // namespace pliant::engine
