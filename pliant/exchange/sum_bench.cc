// SPDX-License-Identifier: MIT
// What adding selections costs, as JSON on stdout: {"10%": {"scatter_add": ns, "merge": ns, "trim":
// ns}, ...}, nanoseconds per entry of a bucket of LENGTH at densities 10 %, 1 % and 0.1 %; medians
// of 21 repetitions of this thread's processor time. merge: as the owner of one slice of eight adds
// what eight ranks have of it, one after the other, per entry read.
//
// usage: sum_bench [LENGTH]   (default 25600000)
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "pliant/common/processor_time.h"
#include "pliant/compress/residual.h"
#include "pliant/compress/trim.h"
#include "pliant/exchange/sparse_sum.h"
#include "tests/support/payload_samples.h"

namespace pliant::exchange {
namespace {

constexpr int kRepetitions = 21;
constexpr int kRanks = 8;

double now_ns() { return 1e9 * processor_time().value; }

double median_ns(const std::function<void()>& prepare, const std::function<void()>& action) {
  std::vector<double> samples;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    prepare();
    const double start = now_ns();
    action();
    samples.push_back(now_ns() - start);
  }
  std::ranges::sort(samples);
  return samples[kRepetitions / 2];
}

void measure(std::uint32_t length, double density, const char* separator) {
  std::mt19937 random(1);
  const auto mine = compress::random_entries(random, length, density);
  std::vector<Entries> arrivals;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto theirs = compress::random_entries(random, length / kRanks, density);
    arrivals.push_back({theirs.indices, theirs.values});
  }
  const Entries a{mine.indices, mine.values};
  std::vector<float> dense(length);
  compress::Selection selection;
  const auto fill = [&] {
    selection.clear();
    const auto room = selection.room(a.size());
    std::ranges::copy(a.indices, room.indices.begin());
    std::ranges::copy(a.values, room.values.begin());
    selection.resize(a.size());
  };
  const auto entries = static_cast<double>(a.size());
  const double scatter = median_ns([] {}, [&] { compress::put_back(dense, a.indices, a.values); });
  double visited = 0;
  const double merge = median_ns([&] { visited = 0; },
                                 [&] {
                                   Entries slice = arrivals.front();
                                   for (int rank = 1; rank < kRanks; ++rank) {
                                     const Entries& arrival =
                                         arrivals[static_cast<std::size_t>(rank)];
                                     visited += static_cast<double>(slice.size() + arrival.size());
                                     slice = merged(slice, arrival);
                                   }
                                 });
  const double trim = median_ns(fill, [&] { compress::trim(selection, a.size() / 2, dense); });
  fmt::print("{}\n \"{:g}%\": {{\"scatter_add\": {:.4g}, \"merge\": {:.4g}, \"trim\": {:.4g}}}",
             separator, 100 * density, scatter / entries, merge / visited, trim / entries);
}

}  // namespace
}  // namespace pliant::exchange

int main(int argc, char** argv) {
  const auto length =
      static_cast<std::uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 25'600'000);
  const char* separator = "{";
  for (const double density : {0.1, 0.01, 0.001}) {
    pliant::exchange::measure(length, density, separator);
    separator = ",";
  }
  fmt::print("}}\n");
}
