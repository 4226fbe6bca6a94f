// SPDX-License-Identifier: MIT
// Estimate of the network from the timings of our own exchanges. Each exchange brings one timing of
// itself and one of the all-gather of its control records. The second is nearly all latency, so
// together they give latency and bandwidth. A correction per scheme and size class holds the rest.
// No clock, no I/O: ranks that take the same samples hold the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pliant/observe/detector.h"
#include "pliant/observe/fit.h"
#include "pliant/observe/sample.h"
#include "pliant/plan/corrections.h"
#include "pliant/plan/link.h"

namespace pliant::observe {

// The estimate before the first timing: a common office network. One exchange replaces it.
inline const plan::Link kFirstGuess = plan::link_of(from_bits_per_second(1e9), {200e-6});

// The timings of one round.
struct Batch {
  Sample exchange = {};                // all exchanges of the round, added up
  std::optional<Sample> control = {};  // the all-gather of their control records
};

class Network {
 public:
  explicit Network(int size, const plan::Link& start = kFirstGuess);

  struct Taken {
    std::optional<std::string> ignored = {};  // why the batch was ignored; nothing changed then
    bool changed = false;                     // the network changed: older timings are forgotten
  };
  Taken take(const Batch& batch);

  // With uncertainty; one link for all ranks.
  [[nodiscard]] const plan::Link& link() const { return link_; }
  [[nodiscard]] plan::World world() const { return plan::uniform_world(size_, link_); }

  [[nodiscard]] const plan::Corrections& corrections() const { return corrections_; }
  // The step of the last timing of this scheme and size class; nullopt if there was none.
  [[nodiscard]] std::optional<std::int64_t> last_seen(std::size_t correction) const;

  // Usual size of log(seen / predicted): the noise of one timing.
  [[nodiscard]] double spread() const { return spread_; }

  [[nodiscard]] std::int64_t batches() const { return batches_; }  // taken so far

  // Numbers separated by spaces, exact. parse_network throws InputError that says what is wrong.
  [[nodiscard]] std::string to_text() const;
  bool operator==(const Network&) const = default;

 private:
  friend Network parse_network(std::string_view text);
  [[nodiscard]] std::optional<std::string> reason_to_ignore(const Batch& batch) const;
  bool take_control(const Sample& control, bool first, bool changed);
  void learn_spread(double log_ratio, double least_rate);
  void learn_correction(std::size_t index, double log_ratio);
  template <typename Visit>
  void visit(Visit& visit);  // every number of the state, in one order

  int size_;
  plan::Link link_;
  Window exchanges_;
  Window controls_;
  Detector of_exchanges_;
  Detector of_controls_;
  double spread_ = 0.2;  // usual size of log(seen / predicted)
  plan::Corrections corrections_;
  std::array<std::int64_t, plan::kCorrections> last_seen_;
  std::array<std::int64_t, plan::kCorrections> times_seen_ = {};
  std::int64_t batches_ = 0;
  std::int64_t since_change_ = 0;
  std::int64_t last_step_ = -1;
};

[[nodiscard]] Network parse_network(std::string_view text);

}  // namespace pliant::observe
