// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/measure.h"

#include <algorithm>

#include "pliant/common/errors.h"
#include "tools/pliant-bench/agree.h"

namespace pliant::bench {

Timing summary(std::vector<double> seconds) {
  require(!seconds.empty(), "pliant-bench: a summary of no samples");
  std::ranges::sort(seconds);
  const std::size_t n = seconds.size();
  const double median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
  return {{median}, {seconds[n / 10]}, {seconds[n - 1 - n / 10]}};
}

std::vector<Timing> measure(comm::Communicator& communicator, std::span<const Contender> contenders,
                            const Options& options) {
  std::vector<std::optional<std::int64_t>> wrong(contenders.size());
  for (int i = 0; i < options.checks; ++i) {
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      if (!contenders[c].check) continue;
      const auto here = static_cast<double>(contenders[c].check());
      const auto most =
          static_cast<std::int64_t>(max_over_ranks(communicator, here, options.deadline));
      wrong[c] = std::max(wrong[c].value_or(0), most);
    }
  }

  std::vector<std::vector<double>> samples(contenders.size());
  (void)max_over_ranks(communicator, 0, options.deadline);  // start together
  for (int i = -options.warmups; i < options.iterations; ++i) {
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      const Seconds start = communicator.now();
      contenders[c].run();
      const double here = (communicator.now() - start).value;
      const double slowest = max_over_ranks(communicator, here, options.deadline);
      if (i >= 0) samples[c].push_back(slowest);
    }
  }

  std::vector<Timing> timings;
  for (std::size_t c = 0; c < contenders.size(); ++c) {
    timings.push_back(summary(std::move(samples[c])));
    timings.back().wrong = wrong[c];
  }
  return timings;
}

}  // namespace pliant::bench
