// SPDX-License-Identifier: MIT
#include "pliant/common/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <span>

#include "pliant/common/errors.h"

namespace pliant {
namespace {

struct Unit {
  std::string_view name;  // lower case
  double factor;
};

constexpr std::array kDurations = {Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},
                                   Unit{"s", 1},     Unit{"min", 60},  Unit{"h", 3600}};
constexpr std::array kRates = {Unit{"bit", 1},      Unit{"kbit", 1e3},  Unit{"mbit", 1e6},
                               Unit{"gbit", 1e9},   Unit{"bit/s", 1},   Unit{"kbit/s", 1e3},
                               Unit{"mbit/s", 1e6}, Unit{"gbit/s", 1e9}};
constexpr std::array kSizes = {Unit{"b", 1}, Unit{"kib", 1024}, Unit{"mib", 1048576.},
                               Unit{"gib", 1073741824.}};
constexpr std::array kFractions = {Unit{"%", 0.01}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.remove_suffix(1);
  return text;
}

// A number, then one of the units. `example` shows a right one, and `hint` what people usually
// meant instead.
double parse_quantity(std::string_view text, std::string_view what, std::span<const Unit> units,
                      std::string_view example, std::string_view hint) {
  const std::string_view all = trim(text);
  double number = 0;
  const auto [end, status] = std::from_chars(all.data(), all.data() + all.size(), number);
  if (status != std::errc{})
    throw InputError(
        fmt::format("{}: '{}' does not start with a number; write it as {}", what, text, example));
  if (!std::isfinite(number) || number < 0)
    throw InputError(fmt::format("{}: '{}' must be a finite number, not below zero", what, text));
  const std::string_view written = trim(all.substr(static_cast<std::size_t>(end - all.data())));
  const std::string name = lower(written);
  for (const Unit& unit : units) {
    if (unit.name == name) return number * unit.factor;
  }
  if (name.empty())
    throw InputError(fmt::format("{}: '{}' has no unit; write it as {}", what, text, example));
  throw InputError(fmt::format("{}: '{}' has the unknown unit '{}'; write it as {}{}", what, text,
                               written, example, hint));
}

std::string three_digits(double value, std::string_view unit) {
  // "%.3g" would turn 1234 into 1.23e+03: large values are printed as integers instead.
  const std::string number =
      std::abs(value) >= 999.5 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
  return number + " " + std::string(unit);
}

}  // namespace

Seconds parse_duration(std::string_view text, std::string_view what) {
  return {parse_quantity(text, what, kDurations, "10ms, 2s or 50us", "")};
}

BytesPerSecond parse_rate(std::string_view text, std::string_view what) {
  return from_bits_per_second(
      parse_quantity(text, what, kRates, "64kbit, 100mbit or 1.5gbit",
                     " (bits per second; 'mbps' and 'MB' mean two things)"));
}

Bytes parse_size(std::string_view text, std::string_view what) {
  const double bytes = parse_quantity(text, what, kSizes, "512B, 64KiB or 8MiB",
                                      " (binary prefixes; 'MB' means two things)");
  if (bytes > 0x1p62) throw InputError(fmt::format("{}: '{}' is too large", what, text));
  if (bytes != std::floor(bytes))
    throw InputError(fmt::format("{}: '{}' is not a whole number of bytes", what, text));
  return {static_cast<std::int64_t>(bytes)};
}

double parse_fraction(std::string_view text, std::string_view what) {
  return parse_quantity(text, what, kFractions, "1% or 0.5%", "");
}

std::string to_string(Seconds time) {
  const double t = std::abs(time.value);
  if (t >= 1 || t == 0) return three_digits(time.value, "s");
  if (t >= 1e-3) return three_digits(time.value * 1e3, "ms");
  if (t >= 1e-6) return three_digits(time.value * 1e6, "us");
  return three_digits(time.value * 1e9, "ns");
}

std::string to_string(BytesPerSecond rate) {
  const double bits = bits_per_second(rate);
  if (bits >= 1e9) return three_digits(bits * 1e-9, "Gbit/s");
  if (bits >= 1e6) return three_digits(bits * 1e-6, "Mbit/s");
  return three_digits(bits * 1e-3, "kbit/s");
}

std::string to_string(Bytes size) {
  const auto bytes = static_cast<double>(size.value);
  if (bytes >= 0x1p30) return three_digits(bytes * 0x1p-30, "GiB");
  if (bytes >= 0x1p20) return three_digits(bytes * 0x1p-20, "MiB");
  if (bytes >= 0x1p10) return three_digits(bytes * 0x1p-10, "KiB");
  return three_digits(bytes, "B");
}

std::string percent(double fraction) { return three_digits(fraction * 100, "%"); }

}  // namespace pliant
