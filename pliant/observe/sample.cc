// SPDX-License-Identifier: MIT
#include "pliant/observe/sample.h"

#include <fmt/format.h>

#include <cmath>

namespace pliant::observe {

std::optional<std::string> reason_to_ignore(const Sample& sample) {
  const double t = sample.duration.value;
  const auto ignored = [&](std::string_view why) {
    return fmt::format("step {}: timing of {:g} s ignored: {}", sample.step, t, why);
  };
  if (std::isnan(t)) return ignored("not a number");
  if (t < 0) return ignored("negative; a clock may have been set back");
  if (t == 0) return ignored("zero; the clock may be too coarse");
  if (t < kShortest.value) return ignored("no message is that fast");
  if (t > kLongest.value) return ignored("more than an hour; the machine may have been suspended");
  const bool weighs = std::isfinite(sample.messages) && std::isfinite(sample.bytes) &&
                      sample.messages >= 0 && sample.bytes >= 0;
  if (!weighs || sample.messages + sample.bytes <= 0) {
    return fmt::format("step {}: timing of {} messages and {} bytes ignored: nothing was sent",
                       sample.step, sample.messages, sample.bytes);
  }
  return std::nullopt;
}

}  // namespace pliant::observe
