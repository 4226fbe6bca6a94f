// SPDX-License-Identifier: MIT
#include "pliant/observe/sample.h"

#include <fmt/format.h>

#include <cmath>

namespace pliant::observe {

std::optional<std::string> complaint(const Sample& sample) {
  const double t = sample.duration.value;
  const auto refuse = [&](std::string_view why) {
    return fmt::format("step {}: a duration of {:g} s was ignored: {}", sample.step, t, why);
  };
  if (std::isnan(t)) return refuse("it is not a number");
  if (t < 0) return refuse("it is negative, as if a clock had gone back");
  if (t == 0) return refuse("it is zero; the clock may be too coarse");
  if (t < kShortest.value) return refuse("nothing travels that fast");
  if (t > kLongest.value) return refuse("it is more than an hour; the machine may have slept");
  const bool weighs = std::isfinite(sample.messages) && std::isfinite(sample.bytes) &&
                      sample.messages >= 0 && sample.bytes >= 0;
  if (!weighs || sample.messages + sample.bytes <= 0) {
    return fmt::format(
        "step {}: a timing of {} messages and {} bytes was ignored: nothing travelled", sample.step,
        sample.messages, sample.bytes);
  }
  return std::nullopt;
}

}  // namespace pliant::observe
