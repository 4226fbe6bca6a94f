// SPDX-License-Identifier: MIT
// Trial of one plan: exchanges of a random gradient, with the residual carried along. A hollow
// trial sends the same messages without content and needs no memory for a model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pliant/exchange/flight.h"

namespace pliant::bench {

class Trial {
 public:
  virtual ~Trial() = default;
  virtual exchange::Report run() = 0;  // one exchange; collective

  // One exchange, checked on every element: all ranks hold the same bits, and N x result + sum of
  // new residuals is sum of gradients + sum of old residuals, summed in double. How many elements
  // are wrong, on the first rank. Collective.
  virtual std::int64_t check() = 0;
};

struct TrialOptions {
  plan::Plan plan;
  std::size_t count = 0;
  std::optional<Seconds> deadline = {};
};

[[nodiscard]] std::unique_ptr<Trial> real_trial(comm::Communicator& communicator,
                                                const TrialOptions& options,
                                                std::span<const float> gradient);

// `memory`: at least hollow_bytes(); content of no interest.
[[nodiscard]] std::unique_ptr<Trial> hollow_trial(comm::Communicator& communicator,
                                                  const TrialOptions& options, comm::Region memory);
[[nodiscard]] std::size_t hollow_bytes(const TrialOptions& options, int rank,
                                       int ranks);  // the largest message

// Independent of the machine, different on every rank, bell-shaped.
void draw_gradient(int rank, std::span<float> gradient);

// Number of elements that break the law of conservation or differ in bits between ranks; on the
// first rank, 0 elsewhere. Collective. `before` and `after` are this rank's residuals.
struct Books {
  std::span<const float> gradient, before, after, result;
};
[[nodiscard]] std::int64_t audit(comm::Communicator& communicator, const Books& books,
                                 const std::optional<Seconds>& deadline);

}  // namespace pliant::bench
