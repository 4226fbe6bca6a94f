// SPDX-License-Identifier: MIT
// The network as our own traffic shows it. Each exchange brings one timing of itself and one of its
// control records' all-gather; the second is nearly all latency, so together they give latency and
// bandwidth. What the two numbers cannot say becomes a correction per scheme and size class. No
// clock, no I/O: ranks that take the same samples hold the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pliant/observe/detector.h"
#include "pliant/observe/fit.h"
#include "pliant/observe/sample.h"
#include "pliant/plan/corrections.h"
#include "pliant/plan/link.h"

namespace pliant::observe {

// Where an estimate starts that nobody has told better: a common office network. One exchange
// replaces it.
inline const plan::Link kFirstGuess = plan::link_of(from_bits_per_second(1e9), {200e-6});

// What one exchange tells.
struct Batch {
  Sample exchange = {};                // all exchanges of a step, added up
  std::optional<Sample> control = {};  // the all-gather of their control records
  std::vector<Sample> of_ranks = {};   // optional: `of_ranks[r]` is a stretch that rank r's port
                                       // alone paced; no messages: not known
};

class Network {
 public:
  explicit Network(int size, const plan::Link& start = kFirstGuess);

  struct Taken {
    std::optional<std::string> complaint =
        {};                // what was ignored, and why; nothing has changed then
    bool changed = false;  // the network is another one: what was learnt before it is forgotten
  };
  Taken take(const Batch& batch);

  // With uncertainty. Ranks whose own timings say otherwise have their own.
  [[nodiscard]] const plan::Link& link() const { return link_; }
  [[nodiscard]] plan::World world() const;

  [[nodiscard]] const plan::Corrections& corrections() const { return corrections_; }
  // The step of the last timing of this scheme and size class; nothing if there was none.
  [[nodiscard]] std::optional<std::int64_t> last_seen(std::size_t correction) const;

  [[nodiscard]] std::int64_t batches() const { return batches_; }
  [[nodiscard]] double spread() const { return spread_; }  // of log(seen / predicted), usually

  // Numbers separated by spaces, exact. parse_network throws InputError that says what is wrong.
  [[nodiscard]] std::string to_text() const;
  bool operator==(const Network&) const = default;

 private:
  friend Network parse_network(std::string_view text);
  void learn_correction(std::size_t index, double log_ratio);
  void take_ranks(const std::vector<Sample>& samples);
  template <typename Visit>
  void visit(Visit& visit);  // every number of the state, in one order

  int size_;
  plan::Link link_;
  Window exchanges_;
  Window controls_;
  Detector of_exchanges_;
  Detector of_controls_;
  double spread_ = 0.2;
  plan::Corrections corrections_;
  std::array<std::int64_t, plan::kCorrections> last_seen_;
  std::array<std::int64_t, plan::kCorrections> times_seen_ = {};
  std::int64_t batches_ = 0;
  std::int64_t since_change_ = 0;
  std::int64_t last_step_ = -1;
  std::vector<Window> of_ranks_;  // as many as there are ranks, or none
};

[[nodiscard]] Network parse_network(std::string_view text);

}  // namespace pliant::observe
