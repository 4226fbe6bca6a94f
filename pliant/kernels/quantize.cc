// SPDX-License-Identifier: MIT
#include "pliant/kernels/quantize.h"

#include <algorithm>
#include <array>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pliant/kernels/quantize.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace pliant::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;
using Octets = hn::Rebind<std::int8_t, Floats>;

// How many of `count` values fill whole vectors; the twin does the rest.
HWY_INLINE std::size_t whole_vectors(std::size_t count) {
  return count - count % hn::Lanes(Floats());
}

HWY_INLINE std::uint16_t* as_halves(std::byte* p) { return reinterpret_cast<std::uint16_t*>(p); }
HWY_INLINE const std::uint16_t* as_halves(const std::byte* p) {
  return reinterpret_cast<const std::uint16_t*>(p);
}

std::uint32_t max_magnitude(std::span<const float> values) {
  const Ints di;
  const std::size_t whole = whole_vectors(values.size());
  auto most = hn::Zero(di);
  const auto magnitude_bits = hn::Set(di, 0x7FFFFFFF);
  for (std::size_t i = 0; i < whole; i += hn::Lanes(di)) {
    most = hn::Max(
        most, hn::And(hn::BitCast(di, hn::LoadU(Floats(), values.data() + i)), magnitude_bits));
  }
  const auto in_lanes = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, most)));
  return std::max(in_lanes, scalar::max_magnitude(values.subspan(whole)));
}

// Of a magnitude below 2^-14 and of any other, as in the twin; both are computed and one is chosen.
template <class V>
HWY_INLINE auto to_f16(V x) {
  const Floats df;
  const Ints di;
  const auto sign = hn::And(hn::BitCast(di, x), hn::Set(di, static_cast<std::int32_t>(0x80000000)));
  const auto magnitude = hn::Abs(x);
  const auto bits = hn::BitCast(di, magnitude);
  const auto small = hn::Sub(hn::BitCast(di, hn::Add(magnitude, hn::Set(df, 0.5F))),
                             hn::Set(di, std::bit_cast<std::int32_t>(0.5F)));
  const auto odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(di, 1));
  const auto large =
      hn::ShiftRight<13>(hn::Add(hn::Add(bits, odd), hn::Set(di, 0xFFF - (112 << 23))));
  const auto is_small = hn::Lt(bits, hn::Set(di, std::bit_cast<std::int32_t>(0x1p-14F)));
  const auto half = hn::Min(hn::IfThenElse(is_small, small, large), hn::Set(di, 0x77FF));
  return hn::Or(half, hn::BitCast(di, hn::ShiftRight<16>(hn::BitCast(Words(), sign))));
}

template <class V>
HWY_INLINE auto from_f16(V half) {
  const Floats df;
  const Ints di;
  const auto magnitude = hn::And(half, hn::Set(di, 0x7FFF));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(half, magnitude));
  const auto small = hn::Mul(hn::ConvertTo(df, magnitude), hn::Set(df, 0x1p-24F));
  const auto large = hn::BitCast(df, hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(di, 112 << 23)));
  const auto is_small = hn::RebindMask(df, hn::Lt(magnitude, hn::Set(di, 0x400)));
  return hn::Or(hn::IfThenElse(is_small, small, large), hn::BitCast(df, sign));
}

void f16_encode(std::span<float> values, float scale, std::byte* out,
                float* HWY_RESTRICT differences) {
  const Floats df;
  const std::size_t whole = whole_vectors(values.size());
  const auto factor = hn::Set(df, scale);
  const auto inverse = hn::Set(df, 1 / scale);
  for (std::size_t i = 0; i < whole; i += hn::Lanes(df)) {
    const auto value = hn::LoadU(df, values.data() + i);
    const auto half = to_f16(hn::Mul(value, inverse));
    const auto decoded = hn::Mul(from_f16(half), factor);
    hn::StoreU(hn::DemoteTo(Halves(), half), Halves(), as_halves(out + 2 * i));
    hn::StoreU(hn::Sub(value, decoded), df, differences + i);
    hn::StoreU(decoded, df, values.data() + i);
  }
  scalar::f16_encode(values.subspan(whole), scale, out + 2 * whole, differences + whole);
}

bool f16_decode(const std::byte* from, float scale, std::span<float> values) {
  const Floats df;
  const Ints di;
  const std::size_t whole = whole_vectors(values.size());
  const auto factor = hn::Set(df, scale);
  auto most = hn::Zero(di);
  for (std::size_t i = 0; i < whole; i += hn::Lanes(df)) {
    const auto half = hn::PromoteTo(di, hn::LoadU(Halves(), as_halves(from + 2 * i)));
    most = hn::Max(most, hn::And(half, hn::Set(di, 0x7FFF)));
    hn::StoreU(hn::Mul(from_f16(half), factor), df, values.data() + i);
  }
  const bool valid = hn::GetLane(hn::MaxOfLanes(di, most)) <= 0x77FF;
  return scalar::f16_decode(from + 2 * whole, scale, values.subspan(whole)) && valid;
}

void int8_encode(std::span<float> values, float scale, std::byte* out,
                 float* HWY_RESTRICT differences) {
  const Floats df;
  const std::size_t whole = scale == 0 ? 0 : whole_vectors(values.size());
  const auto factor = hn::Set(df, scale);
  for (std::size_t i = 0; i < whole; i += hn::Lanes(df)) {
    const auto value = hn::LoadU(df, values.data() + i);
    const auto q = hn::NearestInt(hn::Div(value, factor));
    const auto decoded = hn::Mul(hn::ConvertTo(df, q), factor);
    hn::StoreU(hn::DemoteTo(Octets(), q), Octets(), reinterpret_cast<std::int8_t*>(out + i));
    hn::StoreU(hn::Sub(value, decoded), df, differences + i);
    hn::StoreU(decoded, df, values.data() + i);
  }
  scalar::int8_encode(values.subspan(whole), scale, out + whole, differences + whole);
}

// Of int8 values from `least_allowed` up. Values beyond the last whole vector go to the twin, which
// allows -127.
bool integer_decode(const std::byte* from, float scale, std::span<float> values,
                    std::int32_t least_allowed) {
  const Floats df;
  const Ints di;
  const std::size_t whole = whole_vectors(values.size());
  const auto factor = hn::Set(df, scale);
  auto least = hn::Zero(di);
  for (std::size_t i = 0; i < whole; i += hn::Lanes(df)) {
    const auto q =
        hn::PromoteTo(di, hn::LoadU(Octets(), reinterpret_cast<const std::int8_t*>(from + i)));
    least = hn::Min(least, q);
    hn::StoreU(hn::Mul(hn::ConvertTo(df, q), factor), df, values.data() + i);
  }
  const bool valid = hn::GetLane(hn::MinOfLanes(di, least)) >= least_allowed;
  return scalar::int8_decode(from + whole, scale, values.subspan(whole)) && valid;
}

bool int8_decode(const std::byte* from, float scale, std::span<float> values) {
  return integer_decode(from, scale, values, -127);
}

// int4 goes through int8 in pieces that stay in the first-level cache.
constexpr std::size_t kPiece = 1024;

using Pairs = hn::ScalableTag<std::uint16_t>;         // two int8, or two half bytes, in one lane
using PackedPairs = hn::Rebind<std::uint8_t, Pairs>;  // the same two half bytes in one byte

// Half bytes of `count` int8 values; whole vectors only, returns how many values were done.
HWY_INLINE std::size_t pack_halves(const std::byte* octets, std::size_t count, std::byte* out) {
  const Pairs d;
  std::size_t i = 0;
  for (; i + 2 * hn::Lanes(d) <= count; i += 2 * hn::Lanes(d)) {
    const auto pair = hn::LoadU(d, as_halves(octets + i));
    const auto packed =
        hn::Or(hn::And(pair, hn::Set(d, 0x0F)), hn::And(hn::ShiftRight<4>(pair), hn::Set(d, 0xF0)));
    hn::StoreU(hn::DemoteTo(PackedPairs(), hn::BitCast(hn::RebindToSigned<Pairs>(), packed)),
               PackedPairs(), reinterpret_cast<std::uint8_t*>(out + i / 2));
  }
  return i;
}

HWY_INLINE std::size_t unpack_halves(const std::byte* from, std::size_t count, std::byte* octets) {
  const Pairs d;
  const auto tops = hn::Set(d, 0x8080);
  std::size_t i = 0;
  for (; i + 2 * hn::Lanes(d) <= count; i += 2 * hn::Lanes(d)) {
    const auto packed = hn::PromoteTo(
        d, hn::LoadU(PackedPairs(), reinterpret_cast<const std::uint8_t*>(from + i / 2)));
    const auto pair = hn::Or(hn::And(packed, hn::Set(d, 0x0F)),
                             hn::ShiftLeft<4>(hn::And(packed, hn::Set(d, 0xF0))));
    // (x ^ 8) - 8 extends the sign of a half byte; a set top bit keeps the two bytes of a lane from
    // borrowing.
    const auto extended =
        hn::Xor(hn::Sub(hn::Or(hn::Xor(pair, hn::Set(d, 0x0808)), tops), hn::Set(d, 0x0808)), tops);
    hn::StoreU(extended, d, as_halves(octets + i));
  }
  return i;
}

void int4_encode(std::span<float> values, float scale, std::byte* out,
                 float* HWY_RESTRICT differences) {
  alignas(64) std::array<std::byte, kPiece> octets;
  while (!values.empty()) {
    const auto piece = values.first(std::min(values.size(), kPiece));
    int8_encode(piece, scale, octets.data(), differences);
    for (std::size_t i = pack_halves(octets.data(), piece.size(), out); i < piece.size(); ++i) {
      const std::byte half = octets[i] & std::byte{15};
      out[i / 2] = i % 2 == 0 ? half : out[i / 2] | half << 4;
    }
    values = values.subspan(piece.size());
    out += piece.size() / 2;
    differences += piece.size();
  }
}

bool int4_decode(const std::byte* from, float scale, std::span<float> values) {
  alignas(64) std::array<std::byte, kPiece> octets;
  bool valid = true;
  while (values.size() >= kPiece) {
    unpack_halves(from, kPiece, octets.data());
    valid = integer_decode(octets.data(), scale, values.first(kPiece), -7) && valid;
    values = values.subspan(kPiece);
    from += kPiece / 2;
  }
  const std::size_t done = unpack_halves(from, values.size(), octets.data());
  valid = integer_decode(octets.data(), scale, values.first(done), -7) && valid;
  return scalar::int4_decode(from + done / 2, scale, values.subspan(done)) && valid;
}

}  // namespace
}  // namespace pliant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pliant::kernels {

HWY_EXPORT(max_magnitude);
HWY_EXPORT(f16_encode);
HWY_EXPORT(int8_encode);
HWY_EXPORT(int4_encode);
HWY_EXPORT(f16_decode);
HWY_EXPORT(int8_decode);
HWY_EXPORT(int4_decode);

std::uint32_t max_magnitude(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(max_magnitude)(values);
}

void f16_encode(std::span<float> values, float scale, std::byte* out, float* differences) {
  HWY_DYNAMIC_DISPATCH(f16_encode)(values, scale, out, differences);
}
void int8_encode(std::span<float> values, float scale, std::byte* out, float* differences) {
  HWY_DYNAMIC_DISPATCH(int8_encode)(values, scale, out, differences);
}
void int4_encode(std::span<float> values, float scale, std::byte* out, float* differences) {
  HWY_DYNAMIC_DISPATCH(int4_encode)(values, scale, out, differences);
}

bool f16_decode(const std::byte* from, float scale, std::span<float> values) {
  return HWY_DYNAMIC_DISPATCH(f16_decode)(from, scale, values);
}
bool int8_decode(const std::byte* from, float scale, std::span<float> values) {
  return HWY_DYNAMIC_DISPATCH(int8_decode)(from, scale, values);
}
bool int4_decode(const std::byte* from, float scale, std::span<float> values) {
  return HWY_DYNAMIC_DISPATCH(int4_decode)(from, scale, values);
}

}  // namespace pliant::kernels
#endif
