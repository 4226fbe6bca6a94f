// SPDX-License-Identifier: MIT
#include "pliant/engine/in_flight.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "pliant/common/errors.h"
#include "pliant/compress/residual.h"

namespace pliant::engine {

void TensorsInFlight::add_own_part(std::size_t begin, std::span<float> to) const {
  if (arrived_) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += arrived_->own_part[begin + i];
  } else if (flight != nullptr) {
    flight->add_own_part(begin, to);
  }
}

void TensorsInFlight::add_result(std::size_t begin, std::span<float> to) const {
  if (arrived_) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += arrived_->result[begin + i];
  } else {
    flight->add_average(begin, to);
  }
}

bool TensorsInFlight::touched(std::size_t begin, std::size_t count,
                              std::vector<std::uint32_t>& offsets) const {
  if (!arrived_) return flight->touched(begin, count, offsets);
  offsets.clear();
  for (std::size_t i = 0; i < count; ++i) {
    if (arrived_->result[begin + i] != 0 || arrived_->own_part[begin + i] != 0)
      offsets.push_back(static_cast<std::uint32_t>(i));
  }
  return true;
}

void TensorsInFlight::add_own_part(FlatTensors& flat, TensorAccess& tensors) const {
  std::vector<float> own(std::min(TensorAccess::kChunk, flat.size()), 0.0F);
  std::vector<std::uint32_t> offsets;
  std::vector<float> differences;
  for_each_chunk(flat.size(), [&](std::size_t begin, std::size_t count) {
    const auto part = std::span(own).first(count);
    if (!touched(begin, count, offsets)) {
      std::ranges::fill(part, 0.0F);
      add_own_part(begin, part);
      return flat.add(tensors, begin, part);
    }
    add_own_part(begin, part);
    differences.clear();
    for (const std::uint32_t at : offsets) differences.push_back(std::exchange(part[at], 0.0F));
    flat.add_at(tensors, begin, offsets, differences);
  });
}

exchange::Report TensorsInFlight::conclude(FlatTensors& flat) {
  if (flat.size() == 0) return {};
  if (!arrived_) return report = flight->conclude();
  for (std::size_t i = 0; i < flat.size(); ++i) {
    if (arrived_->returned[i] == 0) continue;
    const auto index = static_cast<std::uint32_t>(i);
    compress::put_back(flat.residual.span(), {&index, 1}, {&arrived_->returned[i], 1});
  }
  flat.group->residual_used = true;
  return report;
}

void TensorsInFlight::land(FlatTensors& flat, const Landing& landing) {
  const std::size_t longest = std::min(TensorAccess::kChunk, flat.size());
  std::vector<float> results(longest, 0.0F);
  std::vector<float> own_parts(longest, 0.0F);
  std::vector<std::uint32_t> offsets;
  std::vector<float> differences;
  for_each_chunk(flat.size(), [&](std::size_t begin, std::size_t count) {
    const auto base = flat.base.span().subspan(begin, count);
    const auto result = std::span(results).first(count);
    const auto own = std::span(own_parts).first(count);
    add_result(begin, result);
    add_own_part(begin, own);
    if (landing.on_chunk) landing.on_chunk(begin, result, own);
    differences.clear();
    if (touched(begin, count, offsets)) {
      for (const std::uint32_t at : offsets) {
        base[at] += result[at];
        differences.push_back(result[at] - own[at]);
        result[at] = own[at] = 0;
      }
      if (landing.late) flat.add_at(landing.tensors, begin, offsets, differences);
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        base[i] += result[i];
        differences.push_back(result[i] - own[i]);
      }
      std::ranges::fill(result, 0.0F);
      std::ranges::fill(own, 0.0F);
      if (landing.late) flat.add(landing.tensors, begin, differences);
    }
    if (landing.late) return;
    if (!landing.skips_non_finite) return flat.store(landing.tensors, begin, base);
    differences.resize(count);
    landing.tensors.read(begin, differences);
    for (std::size_t i = 0; i < count; ++i) {
      if (std::isfinite(base[i])) differences[i] = base[i];
    }
    flat.store(landing.tensors, begin, differences);
  });
  flight.reset();  // here: the lane may hold the exchange a moment longer
}

void TensorsInFlight::give_back() {
  if (flight == nullptr) return;
  flight->give_back();
  flight.reset();
}

// To learn what goes back to the residual without touching it yet, the flight lands on an empty
// one.
void TensorsInFlight::arrive(FlatTensors& tensors) {
  if (arrived_) return;
  Arrived now{zeros(tensors.size()), zeros(tensors.size()), zeros(tensors.size())};
  if (flight != nullptr) {  // else the buffers were not sent
    const std::vector<float> kept(tensors.residual.span().begin(), tensors.residual.span().end());
    std::ranges::fill(tensors.residual.span(), 0.0F);
    flight->add_own_part(0, now.own_part.span());
    report = flight->land(now.result.span());
    flight.reset();
    std::ranges::copy(tensors.residual.span(), now.returned.span().begin());
    std::ranges::copy(kept, tensors.residual.span().begin());
    tensors.group->residual_used = true;
  }
  arrived_ = std::move(now);
}

void TensorsInFlight::save(FlatTensors& tensors, State::InFlight& to) {
  if (tensors.size() == 0) return;
  arrive(tensors);
  to.is_void = to.is_void || report.is_void;
  const auto append = [&tensors](auto& list, std::span<const float> flat) {
    std::ranges::move(tensors.split(flat), std::back_inserter(list));
  };
  append(to.result, arrived_->result.span());
  append(to.own_part, arrived_->own_part.span());
  append(to.returned, arrived_->returned.span());
}

void TensorsInFlight::restore(const FlatTensors& tensors, const State::InFlight& from,
                              std::size_t first) {
  if (tensors.size() == 0) return;
  const auto part = [&](const std::vector<std::vector<float>>& saved) {
    require(saved.size() >= first + tensors.tensors(),
            "engine: a flight of {} tensors in the state, not {}", saved.size(),
            first + tensors.tensors());
    Buffer<float> flat(tensors.size());
    tensors.join(std::span(saved).subspan(first, tensors.tensors()), flat.span());
    return flat;
  };
  arrived_ = Arrived{part(from.result), part(from.own_part), part(from.returned)};
  report.is_void = from.is_void;
  report.updated_fraction = 0;  // not known any more
}

void InFlight::arrive() {
  {
    const std::lock_guard lock(mutex_);
    arrived_ = true;
  }
  changed_.notify_all();
}

void InFlight::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return arrived_; });
}

}  // namespace pliant::engine
