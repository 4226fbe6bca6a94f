// SPDX-License-Identifier: MIT
// How long predicting every candidate takes, as JSON on stdout: {"ranks": N, "candidates": n,
// "first_ms": ms, "then_ms": ms, "per_5000_ms": ms}. first: with an empty book; then: the median of
// 21 repetitions with that book, each for another link; this thread's processor time.
//
// usage: predict_bench [RANKS]   (default 64)
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "pliant/common/processor_time.h"
#include "pliant/model/predict.h"
#include "pliant/plan/candidates.h"

namespace {

constexpr int kRepetitions = 21;

double now_ms() { return 1e3 * pliant::processor_time().value; }

}  // namespace

int main(int argc, char** argv) {
  using namespace pliant;
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 64;
  const auto plans = plan::candidates(ranks);
  model::Inputs inputs{.compute = {0.12}, .lanes = 2};
  for (int b = 1; b <= 5; ++b)
    inputs.buckets.push_back({5'120'000U + static_cast<unsigned>(b), {0.024 * b}});
  model::PriceBook book;
  double first = 0;
  double sum = 0;
  std::vector<double> times;
  for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
    inputs.world = plan::uniform_world(
        ranks, {.latency = {1e-4 * (repetition + 1)}, .seconds_per_byte = 8e-9});
    const double start = now_ms();
    sum += model::predict_all(plans, inputs, book).back().step.value;
    const double took = now_ms() - start;
    if (repetition == 0) first = took;
    if (repetition > 0) times.push_back(took);
  }
  std::ranges::sort(times);
  const double median = times[kRepetitions / 2];
  fmt::print(
      "{{\"ranks\": {}, \"candidates\": {}, \"first_ms\": {:.3g}, \"then_ms\": {:.3g}, "
      "\"per_5000_ms\": {:.3g}}}\n",
      ranks, plans.size(), first, median, 5000 * median / static_cast<double>(plans.size()));
  return sum > 0 ? 0 : 1;
}
