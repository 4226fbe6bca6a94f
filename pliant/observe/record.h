// SPDX-License-Identifier: MIT
// The control record: what a rank tells all others beside each exchange, and how the records of all ranks become numbers that
// they hold alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "pliant/common/units.h"

namespace pliant::observe {

// 64 bytes, little-endian, as they travel. Times in seconds; 0: not measured.
struct Record {
  std::uint64_t plan_hash = 0;
  std::uint64_t step = 0;   // updates: the exchange's
  std::uint32_t epoch = 0;  // plan epoch
  std::uint16_t rank = 0;
  std::uint16_t flags = 0;     // the engine's: void, overflow, leaving
  float wire = 0;              // all exchanges of the step, coding taken off
  float control = 0;           // the last all-gather of records: known one record later
  float compute = 0;           // of the step
  float codec = 0;             // select, encode and decode of the step
  float energy = 0;            // accumulated
  float energy_sent = 0;       // of that
  float energy_residual = 0;   // left behind
  float updated_fraction = 0;  // of the result
  float spare[2] = {};
  bool operator==(const Record&) const = default;
};
static_assert(sizeof(Record) == 64);

// What all ranks hold alike once the records are in.
struct Summary {
  Seconds wire = {};         // the least over ranks: by the one that entered last
  Seconds control = {};      // likewise
  Seconds compute = {};      // the most: everybody waits for the slowest
  Seconds codec = {};        // the most
  double gain = 1;           // energy sent / energy accumulated, over all ranks
  double residual_norm = 0;  // of the residual over that of accumulated
  double updated_fraction = 0;
  std::uint16_t flags = 0;  // of any rank
};

// `records[r]` is rank r's; nothing if it has not come. A complaint names the rank and what is wrong with its record: missing, late,
// of another plan epoch or plan, not a number.
struct Read {
  std::optional<Summary> summary = {};
  std::string complaint = {};
};
[[nodiscard]] Read read(std::span<const std::optional<Record>> records, std::uint64_t step, std::uint32_t epoch, std::uint64_t plan_hash);

}  // namespace pliant::observe
