// SPDX-License-Identifier: MIT
// What the codecs cost, as JSON on stdout: {"figures": [{name, value, unit, low, high}], "costs":
// [{operation, ns_per_entry}]}. Every time is also given as a ratio to a pass over the kept entries
// (a copy of their indices and values, 8 bytes each), interleaved with it: medians of 21
// repetitions, with the 10th and 90th percentile.
//
// usage: payload_bench [LENGTH]   (default 25600000)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "pliant/common/processor_time.h"
#include "pliant/compress/index_stream.h"
#include "pliant/compress/residual.h"
#include "pliant/compress/value_stream.h"
#include "tests/support/payload_samples.h"

namespace pliant::compress {
namespace {

constexpr int kRepetitions = 21;

struct Figure {
  std::string name;
  std::vector<double> samples;
  std::string unit;
};

struct Report {
  std::vector<Figure> figures;
  std::map<std::string, std::vector<double>> costs;  // ns per entry, of all densities

  void print() {
    fmt::print("{{\"figures\": [");
    for (std::size_t i = 0; i < figures.size(); ++i) {
      auto& s = figures[i].samples;
      std::sort(s.begin(), s.end());
      fmt::print(
          "{}\n {{\"name\": \"{}\", \"value\": {:.6g}, \"unit\": \"{}\", \"low\": {:.6g}, "
          "\"high\": {:.6g}}}",
          i == 0 ? "" : ",", figures[i].name, s[s.size() / 2], figures[i].unit, s[s.size() / 10],
          s[s.size() - 1 - s.size() / 10]);
    }
    fmt::print("],\n\"costs\": [");
    const char* separator = "";
    for (auto& [operation, s] : costs) {
      std::sort(s.begin(), s.end());
      fmt::print("{}\n {{\"operation\": \"{}\", \"ns_per_entry\": {:.4g}}}", separator, operation,
                 s[s.size() / 2]);
      separator = ",";
    }
    fmt::print("]}}\n");
  }
};

double now_ns() { return 1e9 * processor_time().value; }

// Of one run, over enough runs that the clock does not matter.
double nanoseconds_of(const std::function<void()>& action, std::size_t count) {
  const std::size_t runs = 1 + 200'000 / (count + 1);
  const double start = now_ns();
  for (std::size_t r = 0; r < runs; ++r) action();
  return (now_ns() - start) / static_cast<double>(runs);
}

struct Operation {
  std::string name;
  std::function<void()> run;
};

// Interleaved: in each repetition the reference, then every operation.
void measure(Report& report, const std::string& density, const Entries& entries,
             const std::vector<Operation>& operations) {
  Entries copy = entries;
  const std::size_t count = entries.indices.size();
  const auto pass = [&] {
    std::copy(entries.indices.begin(), entries.indices.end(), copy.indices.begin());
    std::copy(entries.values.begin(), entries.values.end(), copy.values.begin());
  };
  std::vector<Figure> times;
  std::vector<Figure> ratios;
  for (const Operation& operation : operations) {
    times.push_back({fmt::format("{}_ns/density={}", operation.name, density), {}, "ns/index"});
    ratios.push_back(
        {fmt::format("{}_over_pass/density={}", operation.name, density), {}, "ratio"});
    operation.run();
  }
  pass();
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const double reference = nanoseconds_of(pass, count);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const double time = nanoseconds_of(operations[i].run, count);
      times[i].samples.push_back(time / static_cast<double>(count));
      ratios[i].samples.push_back(time / reference);
      report.costs[operations[i].name].push_back(times[i].samples.back());
    }
  }
  report.figures.insert(report.figures.end(), times.begin(), times.end());
  report.figures.insert(report.figures.end(), ratios.begin(), ratios.end());
}

// log2 C(n, k).
double bits_of_information(double n, double k) {
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::log(2);
}

void measure_density(Report& report, std::uint32_t length, double density) {
  std::mt19937 random(1);
  const Entries entries = random_entries(random, length, density);
  const std::size_t count = entries.indices.size();
  const std::string label = fmt::format("{:g}%", 100 * density);
  Entries work = entries;
  std::vector<float> residual(length);
  std::vector<Operation> operations;
  std::vector<std::vector<std::byte>> streams;  // stable: reserved below
  streams.reserve(plan::kIndexCodes.size() + plan::kValueCodes.size() + 1);

  for (const plan::IndexCode code : plan::kIndexCodes) {
    auto& stream = streams.emplace_back(plan::index_stream_bound(code, length, count));
    const auto name = std::string(to_string(code));
    operations.push_back({name + "_encode", [&, code] {
                            require_sorted(entries.indices, length);
                            stream.resize(
                                write_indices(code, length, entries.indices, stream.data()));
                          }});
    operations.push_back({name + "_decode", [&, code] {
                            if (read_indices(code, length, stream, work.indices) != nullptr)
                              std::abort();
                          }});
  }
  for (const plan::ValueCode code : plan::kValueCodes) {
    auto& stream = streams.emplace_back(plan::value_stream_bytes(code, count));
    const auto name = std::string(to_string(code));
    const auto ignore = [](std::size_t, std::span<const float>) {};
    const auto give_back = [&](std::size_t begin, std::span<const float> part) {
      put_back(residual, std::span(entries.indices).subspan(begin, part.size()), part);
    };
    const auto encode_with = [&, code](const OnDifferences& on_differences) {
      require_finite(work.values);
      static_cast<void>(write_values(code, work.values, stream.data(), on_differences));
    };
    operations.push_back({name + "_encode", [=] { encode_with(ignore); }});
    if (code != plan::ValueCode::kF32)
      operations.push_back({name + "_encode_giving_back", [=] { encode_with(give_back); }});
    operations.push_back({name + "_decode", [&, code] {
                            if (read_values(code, stream, work.values) != nullptr) std::abort();
                          }});
  }
  auto& whole = streams.emplace_back();
  const Envelope envelope{.length = length, .codes = {}};
  whole = encoded(envelope, work);
  operations.push_back({"payload_check", [&] { static_cast<void>(open(whole, envelope, count)); }});

  measure(report, label, entries, operations);
  const auto rice_bits = 8 * static_cast<double>(streams[2].size());
  report.figures.push_back({"rice_over_bound/density=" + label,
                            {rice_bits / bits_of_information(length, static_cast<double>(count))},
                            "ratio"});
}

}  // namespace
}  // namespace pliant::compress

int main(int argc, char** argv) {
  const auto length =
      static_cast<std::uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 25'600'000);
  pliant::compress::Report report;
  for (const double density : {0.1, 0.01, 0.001})
    pliant::compress::measure_density(report, length, density);
  report.print();
}
