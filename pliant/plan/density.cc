// SPDX-License-Identifier: MIT
#include "pliant/plan/density.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "pliant/common/errors.h"

namespace pliant::plan {
namespace {

bool is_plain_number(std::string_view text) {
  const auto dots = std::ranges::count(text, '.');
  const auto digits = std::ranges::count_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return dots <= 1 && digits >= 1 && static_cast<std::size_t>(dots + digits) == text.size();
}

}  // namespace

// 0.3 / 100 is not the double nearest to 0.003. Moving the decimal point in the text is exact, so
// "0.3%" is read as "0.3e-2".
double parse_density(std::string_view text) {
  std::string_view number = text;
  const bool has_unit = number.ends_with('%');
  if (has_unit) number.remove_suffix(1);
  while (number.ends_with(' ')) number.remove_suffix(1);
  if (!is_plain_number(number))
    throw InputError(fmt::format("'{}' is not a percentage; write it as 1% or 0.3%", text));
  if (!has_unit)
    throw InputError(
        fmt::format("'{}' has no unit; write it as a percentage, as in 1% or 0.3%", text));
  const std::string shifted = std::string(number) + "e-2";
  double density = 0;
  const auto [end, status] =
      std::from_chars(shifted.data(), shifted.data() + shifted.size(), density);
  if (status == std::errc{} && density > 1)
    throw InputError(fmt::format("'{}' is more than 100%", text));
  if (status != std::errc{} || density < kMinDensity) {
    throw InputError(
        fmt::format("'{}' is too low; the least is {}", text, density_text(kMinDensity)));
  }
  return density;
}

// The shortest digits that give the same double back, with the decimal point moved two places to
// the right.
std::string density_text(double density) {
  require(std::isfinite(density) && density >= kMinDensity && density <= 1,
          "a density of {} is not in {} ... 1", density, kMinDensity);
  std::array<char, 40> buffer{};
  const auto [end, status] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), density,
                                           std::chars_format::scientific);
  const std::string_view scientific(buffer.data(), end);  // d.ddde-05
  const std::size_t e = scientific.find('e');
  std::string digits(scientific.substr(0, e));
  std::erase(digits, '.');
  int exponent = 0;
  const std::string_view power = scientific.substr(e + (scientific[e + 1] == '+' ? 2 : 1));
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  const int before_point = exponent + 3;  // digits before the decimal point of the percentage
  if (before_point <= 0)
    return "0." + std::string(static_cast<std::size_t>(-before_point), '0') + digits + "%";
  const auto whole = static_cast<std::size_t>(before_point);
  if (digits.size() <= whole) return digits + std::string(whole - digits.size(), '0') + "%";
  return digits.substr(0, whole) + "." + digits.substr(whole) + "%";
}

std::size_t entries_of(double density, std::size_t length) {
  const auto wanted = static_cast<std::size_t>(std::llround(density * static_cast<double>(length)));
  return std::min(std::max<std::size_t>(wanted, 1), length);
}

}  // namespace pliant::plan
