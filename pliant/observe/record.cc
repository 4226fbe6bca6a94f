// SPDX-License-Identifier: MIT
#include "pliant/observe/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pliant::observe {
namespace {

std::string complaint(const std::optional<Record>& record, std::size_t rank, std::uint64_t step, std::uint32_t epoch,
                      std::uint64_t plan_hash) {
  if (!record) return fmt::format("step {}: rank {}'s record is missing", step, rank);
  if (record->rank != rank) return fmt::format("step {}: rank {}'s record says rank {}", step, rank, record->rank);
  if (record->step < step) return fmt::format("step {}: rank {}'s record is late: it is of step {}", step, rank, record->step);
  if (record->step > step) return fmt::format("step {}: rank {}'s record is of a later step, {}", step, rank, record->step);
  if (record->epoch != epoch) return fmt::format("step {}: rank {} is in plan epoch {}, not {}", step, rank, record->epoch, epoch);
  if (record->plan_hash != plan_hash) return fmt::format("step {}: rank {} runs another plan", step, rank);
  const std::pair<const char*, float> numbers[] = {{"wire", record->wire},
                                                   {"control", record->control},
                                                   {"compute", record->compute},
                                                   {"codec", record->codec},
                                                   {"energy", record->energy},
                                                   {"energy sent", record->energy_sent},
                                                   {"residual", record->energy_residual},
                                                   {"updated fraction", record->updated_fraction}};
  for (const auto& [name, value] : numbers) {
    if (std::isnan(value) || value < 0) return fmt::format("step {}: rank {}'s {} of {} was ignored", step, rank, name, value);
  }
  return {};
}

}  // namespace

Read read(std::span<const std::optional<Record>> records, std::uint64_t step, std::uint32_t epoch, std::uint64_t plan_hash) {
  for (std::size_t r = 0; r < records.size(); ++r) {
    if (auto why = complaint(records[r], r, step, epoch, plan_hash); !why.empty()) return {.complaint = std::move(why)};
  }
  Summary all;
  double energy = 0;
  double sent = 0;
  double residual = 0;
  for (const auto& record : records) {
    const bool first = &record == records.data();
    const auto least = [first](Seconds so_far, float mine) { return first ? Seconds{mine} : std::min(so_far, Seconds{mine}); };
    all.wire = least(all.wire, record->wire);
    all.control = least(all.control, record->control);
    all.compute = std::max(all.compute, Seconds{record->compute});
    all.codec = std::max(all.codec, Seconds{record->codec});
    all.updated_fraction = std::max(all.updated_fraction, static_cast<double>(record->updated_fraction));
    all.flags = static_cast<std::uint16_t>(all.flags | record->flags);
    energy += record->energy;
    sent += record->energy_sent;
    residual += record->energy_residual;
  }
  if (energy > 0) {
    all.gain = sent / energy;
    all.residual_norm = std::sqrt(residual / energy);
  }
  return {.summary = all};
}

}  // namespace pliant::observe
