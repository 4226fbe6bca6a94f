// SPDX-License-Identifier: MIT
// Physical quantities as types, and the way people write them. Rates are in bits per second where
// people read them
// ("100mbit", "100 Mbit/s") and in bytes per second inside; sizes are binary ("8MiB"); times carry
// their unit ("10ms"). A bare number, or a unit that two people read differently ("MB", "mbps"), is
// refused with the fix in the message.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace pliant {

struct Seconds {
  double value = 0;
  auto operator<=>(const Seconds&) const = default;
  Seconds& operator+=(Seconds other) { return value += other.value, *this; }
  Seconds& operator-=(Seconds other) { return value -= other.value, *this; }
};
constexpr Seconds operator+(Seconds a, Seconds b) { return {a.value + b.value}; }
constexpr Seconds operator-(Seconds a, Seconds b) { return {a.value - b.value}; }
constexpr Seconds operator*(Seconds a, double factor) { return {a.value * factor}; }
constexpr Seconds operator*(double factor, Seconds a) { return a * factor; }
constexpr Seconds operator/(Seconds a, double divisor) { return {a.value / divisor}; }
constexpr double operator/(Seconds a, Seconds b) { return a.value / b.value; }

struct Bytes {
  std::int64_t value = 0;
  auto operator<=>(const Bytes&) const = default;
  Bytes& operator+=(Bytes other) { return value += other.value, *this; }
};
constexpr Bytes operator+(Bytes a, Bytes b) { return {a.value + b.value}; }
constexpr Bytes operator-(Bytes a, Bytes b) { return {a.value - b.value}; }
constexpr Bytes operator*(Bytes a, std::int64_t factor) { return {a.value * factor}; }
constexpr Bytes operator*(std::int64_t factor, Bytes a) { return a * factor; }

struct BytesPerSecond {
  double value = 0;
  auto operator<=>(const BytesPerSecond&) const = default;
};
constexpr Seconds operator/(Bytes bytes, BytesPerSecond rate) {
  return {static_cast<double>(bytes.value) / rate.value};
}
constexpr BytesPerSecond operator/(Bytes bytes, Seconds time) {
  return {static_cast<double>(bytes.value) / time.value};
}
constexpr BytesPerSecond operator*(BytesPerSecond rate, double factor) {
  return {rate.value * factor};
}
constexpr double bits_per_second(BytesPerSecond rate) { return rate.value * 8; }
constexpr BytesPerSecond from_bits_per_second(double bits) { return {bits / 8}; }

namespace literals {
constexpr Seconds operator""_s(long double v) { return {static_cast<double>(v)}; }
constexpr Seconds operator""_s(unsigned long long v) { return {static_cast<double>(v)}; }
constexpr Seconds operator""_ms(long double v) { return {static_cast<double>(v) * 1e-3}; }
constexpr Seconds operator""_ms(unsigned long long v) { return {static_cast<double>(v) * 1e-3}; }
constexpr Seconds operator""_us(unsigned long long v) { return {static_cast<double>(v) * 1e-6}; }
constexpr Bytes operator""_B(unsigned long long v) { return {static_cast<std::int64_t>(v)}; }
constexpr Bytes operator""_KiB(unsigned long long v) {
  return {static_cast<std::int64_t>(v) << 10};
}
constexpr Bytes operator""_MiB(unsigned long long v) {
  return {static_cast<std::int64_t>(v) << 20};
}
constexpr BytesPerSecond operator""_mbit(unsigned long long v) {
  return from_bits_per_second(static_cast<double>(v) * 1e6);
}
constexpr BytesPerSecond operator""_gbit(unsigned long long v) {
  return from_bits_per_second(static_cast<double>(v) * 1e9);
}
}  // namespace literals

// Parsing. Each throws InputError that names `what` (the option or key) and the text. White space
// between number and unit is allowed; units are not case-sensitive, except that a size says which
// prefix it means ("KiB").
[[nodiscard]] Seconds parse_duration(std::string_view text,
                                     std::string_view what);  // "10ms" "2 s" "50us" "1.5min"
[[nodiscard]] BytesPerSecond parse_rate(std::string_view text,
                                        std::string_view what);  // "64kbit" "100 Mbit/s" "1.5gbit"
[[nodiscard]] Bytes parse_size(std::string_view text,
                               std::string_view what);  // "8MiB" "64 KiB" "512B"
[[nodiscard]] double parse_fraction(std::string_view text,
                                    std::string_view what);  // "1%" "0.5 %" -> 0.01, 0.005

// Printing, three significant digits: "12.4 ms", "95.2 Mbit/s", "1.25 MiB", "1 %".
[[nodiscard]] std::string to_string(Seconds time);
[[nodiscard]] std::string to_string(BytesPerSecond rate);
[[nodiscard]] std::string to_string(Bytes size);
[[nodiscard]] std::string percent(double fraction);

}  // namespace pliant
