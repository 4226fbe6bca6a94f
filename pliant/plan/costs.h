// SPDX-License-Identifier: MIT
// Cost table of a machine: for each operation on a contribution the time per element of the bucket
// and per kept entry. compress/measure.h measures it and the model reads it. Its text form:
//
//   {"pliant_costs": 1, "costs": [{"operation": "accumulate_select", "ns_per_element": 0.5,
//   "ns_per_entry": 2.1}, ...]}
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pliant::plan {

// A new operation: one line here, one in kOperationNames, one where it is measured.
enum class Operation : std::uint8_t {
  kCopy,  // memcpy of the bucket: what the others are compared with
  kAccumulate,
  kAccumulateSelect,
  kProgressAccumulate,
  kProgressSelect,
  kSelect,
  kTrim,
  kGatherClear,
  kScatterAdd,
  kFillFromSparse,
  kAdd,
  kMultiply,
  kEnergy,
  kF16Encode,
  kF16Decode,
  kInt8Encode,
  kInt8Decode,
  kInt4Encode,
  kInt4Decode,
  kInt2Encode,
  kInt2Decode,
  kBlock16Encode,
  kBlock16Decode,
  kRiceEncode,
  kRiceDecode,
};

inline constexpr std::array<std::string_view, 25> kOperationNames = {
    "copy",
    "accumulate",
    "accumulate_select",
    "progress_accumulate",
    "progress_select",
    "select",
    "trim",
    "gather_clear",
    "scatter_add",
    "fill_from_sparse",
    "add",
    "multiply",
    "energy",
    "f16_encode",
    "f16_decode",
    "int8_encode",
    "int8_decode",
    "int4_encode",
    "int4_decode",
    "int2_encode",
    "int2_decode",
    "block16_encode",
    "block16_decode",
    "rice_encode",
    "rice_decode",
};

constexpr std::string_view to_string(Operation operation) {
  return kOperationNames.at(static_cast<std::size_t>(operation));
}

// Nanoseconds; each at least 0.
struct Cost {
  double ns_per_element = 0;
  double ns_per_entry = 0;

  [[nodiscard]] double nanoseconds(std::size_t elements, std::size_t entries) const {
    return ns_per_element * static_cast<double>(elements) +
           ns_per_entry * static_cast<double>(entries);
  }
  bool operator==(const Cost&) const = default;
};

class CostTable {
 public:
  void set(Operation operation, Cost cost) {
    costs_.at(static_cast<std::size_t>(operation)) = cost;
  }

  // Absent if it was not measured.
  [[nodiscard]] std::optional<Cost> find(Operation operation) const {
    return costs_.at(static_cast<std::size_t>(operation));
  }

  bool operator==(const CostTable&) const = default;

 private:
  std::array<std::optional<Cost>, kOperationNames.size()> costs_;
};

[[nodiscard]] std::string to_text(const CostTable& table);

// Throws InputError that names the error. Operations that this version does not know are ignored: a
// newer one wrote them.
[[nodiscard]] CostTable parse_cost_table(std::string_view text);

}  // namespace pliant::plan
