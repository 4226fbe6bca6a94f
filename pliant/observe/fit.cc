// SPDX-License-Identifier: MIT
#include "pliant/observe/fit.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace pliant::observe {
namespace {

// No network is faster: 100 ns and 80 Tbit/s. Keeps logarithms finite.
constexpr double kLeastLatency = 1e-7;
constexpr double kLeastPerByte = 1e-13;

// Timings farther off than 1.5 times the usual spread count as if they were that far (Huber): 95 %
// as precise as least squares if there are no outliers, and 1 % of timings five times too long move
// the estimate by less than 1 %.
constexpr double kHuber = 1.5;

// Reweighting settles within two or three rounds from the last estimate, and within twelve from one
// that is off by 100.
constexpr int kIterations = 12;
constexpr double kSettled = 1e-4;

// What the start counts for, against a row's 1: nothing, unless the rows leave a direction open.
constexpr double kPrior = 1e-6;

// What adds less than this share to every timing cannot be told from nothing. It is held there, so
// that it is not lost by orders of magnitude and can be found again when it starts to matter.
constexpr double kResolved = 0.005;

struct Normal {  // A x = v for x = (latency, inverse bandwidth), each in units of the current
                 // estimate
  double aa = 0, ab = 0, bb = 0, av = 0, bv = 0;

  void add(double a, double b, double v, double weight) {
    aa += weight * a * a;
    ab += weight * a * b;
    bb += weight * b * b;
    av += weight * a * v;
    bv += weight * b * v;
  }
  [[nodiscard]] double determinant() const { return aa * bb - ab * ab; }
};

// Most timings are within: only for the others a logarithm is worth its time.
struct Huber {
  explicit Huber(double spread)
      : size(kHuber * spread), least(std::exp(-size)), most(std::exp(size)) {}
  [[nodiscard]] double weight_of(double ratio) const {
    return ratio >= least && ratio <= most ? 1 : size / std::abs(std::log(ratio));
  }
  double size, least, most;
};

void add_rows(Normal& normal, const Window& window, double latency, double per_byte,
              const Huber& huber) {
  double age_weight = 1;
  const auto rows = window.rows();
  for (std::size_t i = rows.size(); i-- > 0; age_weight *= Window::kForgetting) {
    const Row& row = rows[i];
    const double by_latency = row.messages * latency;
    const double by_bytes = row.bytes * per_byte;
    const double scale = 1 / (by_latency + by_bytes);
    const double ratio = row.seconds * scale;
    normal.add(by_latency * scale, by_bytes * scale, ratio, age_weight * huber.weight_of(ratio));
  }
}

// In units of the current estimate, neither factor below a hundredth in one go: a negative one
// means "much less".
struct Factors {
  double latency, per_byte;
};
Factors solve(const Normal& n) {
  constexpr double kLeast = 0.01;
  Factors x{(n.av * n.bb - n.bv * n.ab) / n.determinant(),
            (n.bv * n.aa - n.av * n.ab) / n.determinant()};
  if (x.latency < kLeast) x = {kLeast, (n.bv - n.ab * kLeast) / n.bb};
  if (x.per_byte < kLeast) x = {(n.av - n.ab * kLeast) / n.aa, kLeast};
  return {std::clamp(x.latency, kLeast, 1 / kLeast), std::clamp(x.per_byte, kLeast, 1 / kLeast)};
}

// The least latency and inverse bandwidth that the rows resolve: where each would show first.
struct Least {
  double latency, per_byte;
};
Least least(const Window& exchanges, const Window& controls) {
  Least found{1, 1};
  for (const Window* window : {&exchanges, &controls}) {
    for (const Row& row : window->rows()) {
      if (row.messages > 0)
        found.latency = std::min(found.latency, kResolved * row.seconds / row.messages);
      if (row.bytes > 0)
        found.per_byte = std::min(found.per_byte, kResolved * row.seconds / row.bytes);
    }
  }
  return {std::max(found.latency, kLeastLatency), std::max(found.per_byte, kLeastPerByte)};
}

}  // namespace

void Window::add(const Row& row) {
  if (rows_.size() == kRows) rows_.erase(rows_.begin());
  rows_.push_back(row);
}

void Window::forget(std::size_t keep) {
  if (rows_.size() > keep)
    rows_.erase(rows_.begin(), rows_.end() - static_cast<std::ptrdiff_t>(keep));
}

plan::Link fit(const Window& exchanges, const Window& controls, const plan::Link& start,
               double spread) {
  const auto [least_latency, least_per_byte] = least(exchanges, controls);
  double latency = std::max(start.latency.value, least_latency);
  double per_byte = std::max(start.seconds_per_byte, least_per_byte);
  const Huber huber(spread);
  Normal normal;
  for (int i = 0; i < kIterations; ++i) {
    normal = {};
    add_rows(normal, exchanges, latency, per_byte, huber);
    add_rows(normal, controls, latency, per_byte, huber);
    normal.add(1, 0, 1, kPrior);
    normal.add(0, 1, 1, kPrior);
    const Factors x = solve(normal);
    const double next_latency = std::max(latency * x.latency, least_latency);
    const double next_per_byte = std::max(per_byte * x.per_byte, least_per_byte);
    const bool settled = std::abs(next_latency / latency - 1) < kSettled &&
                         std::abs(next_per_byte / per_byte - 1) < kSettled;
    latency = next_latency;
    per_byte = next_per_byte;
    if (settled) break;
  }
  const double scale = spread * spread / normal.determinant();
  return {.latency = {latency},
          .seconds_per_byte = per_byte,
          .latency_uncertainty = {latency * std::sqrt(scale * normal.bb)},
          .seconds_per_byte_uncertainty = per_byte * std::sqrt(scale * normal.aa)};
}

}  // namespace pliant::observe
