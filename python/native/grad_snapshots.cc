// SPDX-License-Identifier: MIT
#include "python/native/grad_snapshots.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "python/native/layout.h"

namespace pliant::native {
namespace {

// One entry in each quarter of a parameter: a rescale that leaves all four in step is one of the
// whole gradient.
constexpr std::size_t kGlimpses = 4;

// Two factors are one if they agree to this: a product rounded to bfloat16 is off by at most 2^-9.
constexpr double kAlike = 1.0 / 128;

bool alike(double a, double b) {
  return std::abs(a - b) <= kAlike * std::max(std::abs(a), std::abs(b));
}

float rounded(float value, at::ScalarType type) {
  if (type == at::kBFloat16) return static_cast<float>(c10::BFloat16(value));
  if (type == at::kHalf) return static_cast<float>(c10::Half(value));
  return value;
}

}  // namespace

GradSnapshots::GradSnapshots(std::vector<at::Tensor> parameters) : returned_(parameters.size()) {
  for (at::Tensor& parameter : parameters) {
    auto strides = layout(parameter);
    types_.push_back(parameter.scalar_type());
    seats_.push_back({.parameter = std::move(parameter), .layout = std::move(strides)});
  }
}

void GradSnapshots::remember(std::size_t parameter, std::span<const float> averages) {
  std::vector<Glimpse> glimpses;
  for (std::size_t quarter = 0; quarter < kGlimpses; ++quarter) {
    const std::size_t end = averages.size() * (quarter + 1) / kGlimpses;
    for (std::size_t i = averages.size() * quarter / kGlimpses; i < end; ++i) {
      if (averages[i] == 0) continue;
      const float value = rounded(averages[i], types_[parameter]);
      if (value != 0 && std::isfinite(value))
        glimpses.push_back({static_cast<std::int64_t>(i), value});
      break;
    }
  }
  returned_.put(parameter, std::move(glimpses));
}

void GradSnapshots::take_in() {
  for (auto& [parameter, glimpses] : returned_.take()) {
    seats_[parameter].fresh = true;
    seats_[parameter].glimpses = std::move(glimpses);
  }
}

template <typename Entry>
std::optional<double> GradSnapshots::factor(const Seat& seat, const Entry& entry_at) {
  std::optional<double> found;
  bool exactly_one = true;
  for (const Glimpse& glimpse : seat.glimpses) {
    const float now = entry_at(glimpse.at);
    exactly_one &= now == glimpse.value;
    const double here = static_cast<double>(now) / glimpse.value;
    if (!std::isfinite(here) || (found && !alike(*found, here))) return std::nullopt;
    if (!found) found = here;
  }
  return found && exactly_one ? 1.0 : found;
}

std::optional<double> GradSnapshots::factor_of_gradient(const Seat& seat,
                                                        const at::Tensor& gradient) {
  const bool held = gradient.defined() && !seat.glimpses.empty() &&
                    gradient.sizes() == seat.parameter.sizes() && !gradient.is_sparse();
  if (!held) return 0;
  return factor(seat, [&](std::int64_t at) { return entry(gradient, seat.layout, at); });
}

void GradSnapshots::carry(std::size_t parameter) {
  take_in();
  const c10::NoGradGuard no_grad;
  Seat& seat = seats_[parameter];
  at::Tensor gradient = seat.parameter.grad();
  // This waits for the device, but only if .grad was not set to None since the last exchange.
  const bool is_kept = gradient.defined() && (seat.fresh || seat.carried);
  if (is_kept && !gradient.is_sparse()) gradient = gradient.to(at::kCPU);
  const auto now = is_kept ? factor_of_gradient(seat, gradient) : 0;
  if (seat.fresh && now && *now != 0) {
    at::Tensor copy = at::empty_strided(seat.parameter.sizes(), seat.layout, at::kFloat);
    copy.copy_(gradient);
    seat.carried = std::move(copy);
  } else if (seat.fresh || (now && *now == 0)) {
    seat.carried.reset();
  }
  seat.fresh = false;
}

void GradSnapshots::carry_unreached(std::size_t parameter, const at::Tensor& piece) {
  take_in();
  const c10::NoGradGuard no_grad;
  Seat& seat = seats_[parameter];
  const float* entries = piece.const_data_ptr<float>();
  const auto now =
      seat.glimpses.empty() ? 0 : factor(seat, [&](std::int64_t at) { return entries[at]; });
  if (seat.fresh && now && *now != 0) {
    seat.carried = piece.clone();
  } else if (seat.fresh || (now && *now == 0)) {
    seat.carried.reset();
  }
  seat.fresh = false;
}

bool GradSnapshots::must_look(std::size_t parameter) {
  take_in();
  const Seat& seat = seats_[parameter];
  return seat.carried || (seat.fresh && seat.parameter.grad().defined());
}

void GradSnapshots::carry_nothing(std::size_t parameter) {
  take_in();
  seats_[parameter].carried.reset();
  seats_[parameter].fresh = false;
}

void GradSnapshots::watch(std::function<bool()> wanted) {
  stop();
  wanted_ = std::move(wanted);
  for (std::size_t p = 0; p < seats_.size(); ++p) {
    // torch refuses hooks on frozen parameters. They are looked at when they are submitted.
    if (!seats_[p].parameter.requires_grad()) continue;
    seats_[p].hook = seats_[p].parameter.register_hook([this, p](const at::Tensor& /*gradient*/) {
      if (wanted_()) {
        carry(p);
      } else {
        carry_nothing(p);
      }
    });
  }
}

void GradSnapshots::stop() {
  for (Seat& seat : seats_) {
    if (seat.hook) seat.parameter.remove_hook(*seat.hook);
    seat.hook.reset();
  }
  wanted_ = nullptr;
}

std::optional<double> GradSnapshots::rescaled() {
  take_in();
  std::optional<double> found;
  for (const Seat& seat : seats_) {
    const at::Tensor& gradient = seat.parameter.grad();
    if (!seat.fresh || seat.glimpses.empty() || !gradient.defined()) continue;
    if (!gradient.device().is_cpu()) return std::nullopt;
    const auto here = factor_of_gradient(seat, gradient);
    if (!here || *here == 0 || *here == 1 || (found && !alike(*found, *here))) return std::nullopt;
    found = here;
  }
  return found;
}

}  // namespace pliant::native
