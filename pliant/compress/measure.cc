// SPDX-License-Identifier: MIT
#include "pliant/compress/measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "pliant/common/errors.h"
#include "pliant/compress/index_stream.h"
#include "pliant/compress/selection.h"
#include "pliant/compress/trim.h"
#include "pliant/compress/value_stream.h"
#include "pliant/kernels/dense.h"
#include "pliant/kernels/select.h"
#include "pliant/kernels/sparse.h"
#include "pliant/plan/code_sizes.h"

namespace pliant::compress {
namespace {

using plan::Cost;
using plan::IndexCode;
using plan::Operation;
using plan::ValueCode;

// Densities at which an operation runs: their difference is the cost per entry, the rest that per
// element.
constexpr double kFew = 0.001, kMany = 0.02;

// Buckets and a selection, as every operation finds them when it starts.
struct Stage {
  std::vector<float> gradient, reference, parameters, residual, sample;
  std::vector<std::uint32_t> indices;  // evenly spread
  std::vector<float> values;
  std::vector<std::uint32_t> out_indices;
  std::vector<float> out_values;
  Selection selection;  // the same entries
  std::array<std::vector<std::byte>, plan::kValueCodes.size()>
      value_streams;  // and the same in every code
  std::array<std::vector<std::byte>, plan::kIndexCodes.size()> index_streams;
  float threshold = 0;  // that as many entries of gradient reach
  double sum = 0;

  explicit Stage(std::size_t elements)
      : gradient(elements),
        reference(elements),
        parameters(elements),
        residual(elements),
        sample(elements),
        out_indices(elements),
        out_values(elements) {
    std::uint32_t random = 1;
    for (float& x : gradient) {
      random = random * 1664525U + 1013904223U;
      x = static_cast<float>(random >> 8U) * 0x1p-24F;  // evenly in [0, 1)
    }
  }

  void set(double density) {
    const auto entries = static_cast<std::size_t>(density * static_cast<double>(gradient.size()));
    threshold = static_cast<float>(1 - density);
    indices.resize(entries);
    for (std::size_t j = 0; j < entries; ++j)
      indices[j] = static_cast<std::uint32_t>(j * (gradient.size() / entries));
    values.assign(gradient.begin(), gradient.begin() + static_cast<std::ptrdiff_t>(entries));
    std::ranges::copy(gradient, parameters.begin());
    std::ranges::fill(residual, 0.0F);
    selection.clear();
    const kernels::Room room = selection.room(entries);
    std::ranges::copy(indices, room.indices.begin());
    std::ranges::copy(values, room.values.begin());
    selection.resize(entries);
    for (const ValueCode code : plan::kValueCodes) {
      value_stream(code).resize(plan::value_stream_bytes(code, entries));
      write(code);
    }
    for (const IndexCode code : plan::kIndexCodes) {
      index_stream(code).resize(plan::index_stream_bound(code, gradient.size(), entries));
      index_stream(code).resize(write(code));
    }
    std::ranges::copy(selection.values(), values.begin());  // encoding has rounded them
  }

  std::vector<std::byte>& value_stream(ValueCode code) {
    return value_streams[static_cast<std::size_t>(code)];
  }
  std::vector<std::byte>& index_stream(IndexCode code) {
    return index_streams[static_cast<std::size_t>(code)];
  }
  void write(ValueCode code) {
    sum += static_cast<double>(write_values(code, values, value_stream(code).data(),
                                            [](std::size_t, std::span<const float>) {}));
  }
  void read(ValueCode code) {
    sum += read_values(code, value_stream(code), values) == nullptr ? 0 : 1;
  }
  std::size_t write(IndexCode code) {
    return write_indices(code, static_cast<std::uint32_t>(gradient.size()), indices,
                         index_stream(code).data());
  }
  void read(IndexCode code) {
    const auto length = static_cast<std::uint32_t>(gradient.size());
    sum += read_indices(code, length, index_stream(code),
                        std::span(out_indices).first(indices.size())) == nullptr
               ? 0
               : 1;
  }

  [[nodiscard]] kernels::Criterion criterion() const {
    return {.threshold = threshold, .expected_density = 0.01F, .first_index = 0};
  }
  [[nodiscard]] kernels::Room room() { return {.indices = out_indices, .values = out_values}; }
  [[nodiscard]] kernels::Sampling sampling() {
    return {.magnitudes = sample, .period = 256, .first_group = 0};
  }
};

enum class Per : std::uint8_t { kElement, kEntry, kBoth };

struct Row {
  Operation operation;
  Per per;
  void (*run)(Stage&);
};

// One line for each operation.
constexpr Row kRows[] = {
    {Operation::kCopy, Per::kElement,
     [](Stage& s) { std::memcpy(s.parameters.data(), s.gradient.data(), 4 * s.gradient.size()); }},
    {Operation::kAccumulate, Per::kElement,
     [](Stage& s) { kernels::accumulate(s.gradient, s.residual, s.sampling()); }},
    {Operation::kAccumulateSelect, Per::kBoth,
     [](Stage& s) {
       kernels::accumulate_select(s.gradient, s.residual, s.criterion(), s.room(), s.sampling());
     }},
    {Operation::kProgressAccumulate, Per::kElement,
     [](Stage& s) {
       kernels::progress_accumulate(s.parameters, s.reference, s.residual, s.sampling());
     }},
    {Operation::kProgressSelect, Per::kBoth,
     [](Stage& s) {
       kernels::progress_select(s.parameters, s.reference, s.residual, s.criterion(), s.room(),
                                s.sampling());
     }},
    {Operation::kSelect, Per::kBoth,
     [](Stage& s) { kernels::select(s.parameters, s.criterion(), s.room(), s.sampling()); }},
    {Operation::kTrim, Per::kEntry,
     [](Stage& s) { trim(s.selection, s.selection.size() * 15 / 16, s.residual); }},
    {Operation::kGatherClear, Per::kEntry,
     [](Stage& s) { kernels::gather_clear(s.parameters, s.indices, s.values); }},
    {Operation::kScatterAdd, Per::kEntry,
     [](Stage& s) { kernels::scatter_add(s.residual, s.indices, s.values); }},
    {Operation::kFillFromSparse, Per::kBoth,
     [](Stage& s) { kernels::fill_from_sparse(s.residual, s.indices, s.values); }},
    {Operation::kAdd, Per::kElement, [](Stage& s) { kernels::add(s.residual, s.gradient); }},
    {Operation::kMultiply, Per::kElement,
     [](Stage& s) { kernels::multiply(s.residual, s.gradient, 0.25F); }},
    {Operation::kEnergy, Per::kElement, [](Stage& s) { s.sum += kernels::energy(s.gradient); }},
    {Operation::kF16Encode, Per::kEntry, [](Stage& s) { s.write(ValueCode::kF16); }},
    {Operation::kF16Decode, Per::kEntry, [](Stage& s) { s.read(ValueCode::kF16); }},
    {Operation::kInt8Encode, Per::kEntry, [](Stage& s) { s.write(ValueCode::kInt8); }},
    {Operation::kInt8Decode, Per::kEntry, [](Stage& s) { s.read(ValueCode::kInt8); }},
    {Operation::kInt4Encode, Per::kEntry, [](Stage& s) { s.write(ValueCode::kInt4); }},
    {Operation::kInt4Decode, Per::kEntry, [](Stage& s) { s.read(ValueCode::kInt4); }},
    {Operation::kInt2Encode, Per::kEntry, [](Stage& s) { s.write(ValueCode::kInt2); }},
    {Operation::kInt2Decode, Per::kEntry, [](Stage& s) { s.read(ValueCode::kInt2); }},
    {Operation::kBlock16Encode, Per::kEntry,
     [](Stage& s) { s.sum += static_cast<double>(s.write(IndexCode::kBlock16)); }},
    {Operation::kBlock16Decode, Per::kEntry, [](Stage& s) { s.read(IndexCode::kBlock16); }},
    {Operation::kRiceEncode, Per::kEntry,
     [](Stage& s) { s.sum += static_cast<double>(s.write(IndexCode::kRice)); }},
    {Operation::kRiceDecode, Per::kEntry, [](Stage& s) { s.read(IndexCode::kRice); }},
};

double fastest_nanoseconds(const Row& row, Stage& stage, double density, int repetitions) {
  using Clock = std::chrono::steady_clock;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) {
    stage.set(density);
    const auto start = Clock::now();
    row.run(stage);
    fastest =
        std::min(fastest, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return fastest;
}

Cost measure(const Row& row, Stage& stage, int repetitions) {
  const auto elements = static_cast<double>(stage.gradient.size());
  const double many = fastest_nanoseconds(row, stage, kMany, repetitions);
  if (row.per == Per::kElement) return {.ns_per_element = many / elements, .ns_per_entry = 0};
  if (row.per == Per::kEntry)
    return {.ns_per_element = 0, .ns_per_entry = many / (kMany * elements)};
  const double few = fastest_nanoseconds(row, stage, kFew, repetitions);
  const double per_entry = std::max((many - few) / ((kMany - kFew) * elements), 0.0);
  return {.ns_per_element = std::max(few / elements - kFew * per_entry, 0.0),
          .ns_per_entry = per_entry};
}

}  // namespace

plan::CostTable measure_costs(const MeasureOptions& options) {
  require(options.elements >= 10'000 && options.repetitions >= 1,
          "costs measured on {} elements, {} times", options.elements, options.repetitions);
  Stage stage(options.elements);
  plan::CostTable table;
  for (const Row& row : kRows) table.set(row.operation, measure(row, stage, options.repetitions));
  return table;
}

}  // namespace pliant::compress
