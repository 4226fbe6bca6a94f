// SPDX-License-Identifier: MIT
// Keeps the total of an approximate selection near its target while the step is still under way.
// The threshold comes from the last step, and where magnitudes have grown or shrunk since (they do
// so fast while a residual builds up), the counts of the first segments show it: the rest of the
// step then gets a threshold that makes up for them.
//
// Segments differ, some layers have much larger gradients than others; so counts are compared with
// what the same segment had in the steps before. As long as the total promises to come out right,
// the threshold does not move.
#pragma once

#include <cstddef>
#include <vector>

namespace pliant::compress {

// The segments of one model, numbered, and how many entries each kept lately.
class Steering {
 public:
  // `power`: by which power of the threshold counts fall.
  void begin_step(double target, float threshold, double power, std::size_t segments);

  [[nodiscard]] float threshold() const { return threshold_; }
  [[nodiscard]] float highest_threshold() const { return highest_; }
  [[nodiscard]] bool moved() const { return moved_; }

  // A segment kept so many entries.
  void count(std::size_t segment, std::size_t kept);

  // Counts that are not representative (a jump in scale) leave no trace in the averages.
  enum class Counts { kTypical, kNot };
  void end_step(Counts counts);
  bool operator==(const Steering&) const = default;

 private:
  [[nodiscard]] double expected(std::size_t segment) const;

  std::vector<double> profile_;  // entries kept by each segment, averaged over steps
  double profile_total_ = 0;

  // The step under way.
  std::vector<double> kept_;
  double target_ = 0;
  double power_ = 1;
  float start_ = 0;
  float threshold_ = 0;
  float highest_ = 0;
  bool moved_ = false;
  bool profiled_ = false;      // nothing is steered before a typical step was counted
  double done_ = 0;            // kept so far
  double left_ = 0;            // expected of the segments still to come
  double since_kept_ = 0;      // at this threshold
  double since_expected_ = 0;  // of the same segments
};

}  // namespace pliant::compress
