// SPDX-License-Identifier: MIT
// The saved text of a Network: every number in one order, listed once for writing and reading.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/observe/network.h"

namespace pliant::observe {
namespace {

// Version 1 has a count of per-rank timings after the number of ranks. It is always 0.
constexpr double kVersion = 1;
constexpr double kNoRankTimings = 0;

struct Writer {
  std::vector<double> out;
  template <typename Number>
  void operator()(const Number& number) {
    out.push_back(static_cast<double>(number));
  }
  void operator()(const Window& window) {
    (*this)(window.rows().size());
    for (const Row& row : window.rows()) {
      for (const double x : {row.messages, row.bytes, row.seconds}) out.push_back(x);
    }
  }
};

struct Reader {
  std::vector<double> in;
  std::size_t at = 0;
  double next() {
    if (at == in.size()) throw InputError("network: the text ends too early");
    return in[at++];
  }
  template <typename Number>
  void operator()(Number& number) {
    number = static_cast<Number>(next());
  }
  void operator()(Window& window) {
    const double rows = next();
    if (rows < 0 || rows > static_cast<double>(Window::kRows))
      throw InputError(fmt::format("network: {} timings in a window", rows));
    for (int i = 0; i < static_cast<int>(rows); ++i) {
      const double messages = next();
      const double bytes = next();
      window.add({messages, bytes, next()});
    }
  }
};

template <typename Visit>
void visit_link(plan::Link& link, Visit& visit) {
  visit(link.latency.value);
  visit(link.seconds_per_byte);
  visit(link.latency_uncertainty.value);
  visit(link.seconds_per_byte_uncertainty);
}

template <typename Visit>
void visit_detector(Detector& detector, Visit& visit) {
  Detector::State state = detector.state();
  visit(state.slower);
  visit(state.faster);
  visit(state.slower_for);
  visit(state.faster_for);
  visit(state.last);
  detector = Detector(state);
}

}  // namespace

template <typename Visit>
void Network::visit(Visit& visit) {
  visit_link(link_, visit);
  visit(exchanges_);
  visit(controls_);
  visit_detector(of_exchanges_, visit);
  visit_detector(of_controls_, visit);
  visit(spread_);
  for (double& factor : corrections_.factors) visit(factor);
  for (auto& step : last_seen_) visit(step);
  for (auto& times : times_seen_) visit(times);
  visit(batches_);
  visit(since_change_);
  visit(last_step_);
}

// Integers are exact in a double up to 2^53.
std::string Network::to_text() const {
  Network self = *this;
  Writer writer;
  for (const double number : {kVersion, static_cast<double>(size_), kNoRankTimings}) writer(number);
  self.visit(writer);
  return fmt::format("{}", fmt::join(writer.out, " "));
}

Network parse_network(std::string_view text) {
  Reader reader;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    double number = 0;
    const auto [rest, status] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (status != std::errc{} || rest != word.data() + word.size() || !std::isfinite(number)) {
      throw InputError(fmt::format("network: '{}' is not a number", word));
    }
    reader.in.push_back(number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (const double version = reader.next(); version != kVersion)
    throw InputError(fmt::format(
        "network: the text has version {}, but only version {} can be read", version, kVersion));
  const double size = reader.next();
  if (size < 1 || size > 1e6) throw InputError(fmt::format("network: {} ranks", size));
  if (reader.next() != kNoRankTimings)
    throw InputError("network: the text has timings of single ranks, which are not supported");
  Network network(static_cast<int>(size));
  network.visit(reader);
  if (reader.at != reader.in.size())
    throw InputError(fmt::format("network: {} numbers too many", reader.in.size() - reader.at));
  return network;
}

}  // namespace pliant::observe
