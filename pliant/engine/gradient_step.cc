// SPDX-License-Identifier: MIT
#include "pliant/engine/gradient_step.h"

#include <algorithm>
#include <limits>

namespace pliant::engine {

void PendingSubmission::finish(const std::exception_ptr& why) {
  if (finished_.exchange(true)) return;
  if (submission_.done) submission_.done(why);
  submission_.done = nullptr;
  submission_.owner.reset();
}

GradientStep::GradientStep(const Round& opened, std::size_t parameters)
    : round(opened), pieces(parameters), carried(parameters), when(parameters) {
  shared.pending.resize(parameters);
  shared.record = {.epoch = opened.plan_version, .step = opened.number};
}

void ResidualHold::hold(std::span<float> residual) {
  spans_.push_back({residual, {residual.begin(), residual.end()}});
  std::ranges::fill(residual, 0.0F);
}

ResidualHold::~ResidualHold() {
  static constexpr float kLargest = std::numeric_limits<float>::max();
  for (const auto& [span, kept] : spans_) {
    std::ranges::transform(span, kept, span.begin(),
                           [](float a, float b) { return std::clamp(a + b, -kLargest, kLargest); });
  }
}

bool all_zero(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

}  // namespace pliant::engine
