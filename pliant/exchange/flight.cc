// SPDX-License-Identifier: MIT
#include "pliant/exchange/flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "pliant/common/errors.h"
#include "pliant/exchange/schemes.h"

namespace pliant::exchange {

Flight::Flight(const comm::Communicator& communicator, ResidualGroup& group, const Terms& terms)
    : group_(group),
      terms_(terms),
      rank_(communicator.rank()),
      ranks_(communicator.size()),
      departed_(communicator.now()),
      workspace_(group.borrow_workspace()) {}

Flight::~Flight() { group_.give_back(std::move(workspace_)); }

Report Flight::land(std::span<float> out) {
  require(out.size() == group_.size(), "exchange: a result of {} for a group of {}", out.size(),
          group_.size());
  if (!status_.non_finite) {
    write_average(out);
  } else {
    const bool gradients = terms_.plan.kind == plan::Kind::kGradients;
    std::ranges::fill(out, gradients ? std::numeric_limits<float>::quiet_NaN() : 0.0F);
  }
  return end();
}

Report Flight::conclude() {
  if (!status_.non_finite) count_average();
  return end();
}

Report Flight::end() {
  report_.held = held();
  report_.is_void = status_.non_finite;
  if (report_.is_void) {
    give_back();
    report_.updated_fraction = 0;
    return report_;
  }
  return_losses();
  if (terms_.plan.scheme != plan::Scheme::kDense && group_.size() > 0) {
    report_.updated_fraction = static_cast<double>(updated_) / static_cast<double>(group_.size());
    const double unsent =
        static_cast<double>(status_.unsent) / (static_cast<double>(ranks_) * ranks_);
    report_.aggregate_gain =
        applied_energy_ + unsent > 0 ? applied_energy_ / (applied_energy_ + unsent) : 1;
  }
  return report_;
}

compress::Envelope Flight::envelope() const {
  return {.round = terms_.round,
          .plan_version = terms_.plan_version,
          .bucket = terms_.bucket,
          .sender = static_cast<std::uint32_t>(rank_),
          .length = static_cast<std::uint32_t>(group_.size()),
          .codes = {terms_.plan.indices, terms_.plan.values}};
}

// Groups far apart may share a tag: a communicator carries one exchange at a time. The largest tag
// is left to control records.
RunOptions Flight::run_options() const {
  return {.tag = terms_.bucket % comm::kLargestTag,
          .deadline = terms_.deadline,
          .plan_version = terms_.plan_version};
}

void Flight::note_tally(const kernels::Tally& tally) {
  status_.non_finite = tally.non_finite > 0;
  status_.unsent = compress::header_energy(tally.energy - tally.kept_energy);
  report_.kept = tally.kept;
  report_.energy = tally.energy;
  report_.gain = tally.energy > 0 ? tally.kept_energy / tally.energy : 1;
}

void Flight::note_wire() {
  const Traffic& traffic = report_.traffic;
  report_.encode += traffic.encode;
  report_.decode += traffic.decode;
  report_.wire = traffic.finished - traffic.entered - traffic.encode - traffic.decode;
}

compress::Opened Flight::open(const comm::Region& payload, const compress::Envelope& expected,
                              std::size_t most) {
  const compress::Opened opened = compress::open(payload.bytes, expected, most);
  compress::merge(status_, opened.status);
  if (opened.status.refused)
    throw RefusedByPeer(fmt::format("rank {} refused what it was sent", expected.sender));
  return opened;
}

void Flight::add_scaled(std::span<float> out, std::span<const std::uint32_t> indices,
                        std::span<const float> values, std::size_t begin) {
  const float factor = scale();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    float& place = out[begin + indices[i]];
    const float before = place;
    place += values[i] * factor;
    updated_ += static_cast<std::size_t>(before == 0 && place != 0);
    updated_ -= static_cast<std::size_t>(before != 0 && place == 0);
    applied_energy_ += static_cast<double>(place) * place - static_cast<double>(before) * before;
  }
}

void Flight::count_scaled(std::span<const float> values) {
  const float factor = scale();
  for (const float value : values) {
    const float average = value * factor;
    updated_ += static_cast<std::size_t>(average != 0);
    applied_energy_ += static_cast<double>(average) * average;
  }
}

std::unique_ptr<Flight> depart(const comm::Communicator& communicator, ResidualGroup& group,
                               const Terms& terms, const compress::Contribution& contribution,
                               const comm::Floats& in_place) {
  plan::check(terms.plan);
  const auto* gradient = std::get_if<compress::Gradient>(&contribution);
  const auto* progress = std::get_if<compress::Progress>(&contribution);
  const std::size_t size =
      progress != nullptr ? progress->parameters.size() : compress::size_of(contribution);
  require(size == group.size(), "exchange: a contribution of {} to a group of {}", size,
          group.size());
  require(progress == nullptr || progress->reference.size() == size, "exchange: {} parameters",
          size);
  require((gradient != nullptr) == (terms.plan.kind == plan::Kind::kGradients),
          "exchange: the plan is of kind {}, the contribution is not", to_string(terms.plan.kind));
  require(in_place.data.empty() || in_place.data.size() == size,
          "exchange: {} entries of memory for a group of {}", in_place.data.size(), size);
  switch (terms.plan.scheme) {
    case plan::Scheme::kUnion:
      return depart_union(communicator, group, terms, contribution);
    case plan::Scheme::kShared:
      return depart_shared(communicator, group, terms, contribution);
    case plan::Scheme::kSrs:
      return depart_srs(communicator, group, terms, contribution);
    case plan::Scheme::kDense:
      break;
  }
  return depart_dense(communicator, group, terms, contribution, in_place);
}

Report exchange(comm::Communicator& communicator, ResidualGroup& group, const Terms& terms,
                const compress::Contribution& contribution, std::span<float> out) {
  require(out.size() == group.size(), "exchange: a result of {} for a group of {}", out.size(),
          group.size());
  const auto flight = depart(communicator, group, terms, contribution, out);
  try {
    flight->travel(communicator);
  } catch (...) {
    flight->give_back();
    throw;
  }
  return flight->land(out);
}

}  // namespace pliant::exchange
