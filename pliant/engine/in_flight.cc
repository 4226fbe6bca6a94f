// SPDX-License-Identifier: MIT
#include "pliant/engine/in_flight.h"

#include <algorithm>

#include "pliant/common/errors.h"
#include "pliant/compress/residual.h"

namespace pliant::engine {

void TensorsInFlight::add_own_part(std::span<float> to) const {
  if (arrived_) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += arrived_->own_part[i];
  } else if (flight != nullptr) {
    flight->add_own_part(to);
  }
}

exchange::Report TensorsInFlight::land(FlatTensors& tensors) {
  if (tensors.size() == 0) return {};
  const auto own_part = tensors.reference.span();
  std::ranges::fill(own_part, 0.0F);
  add_own_part(own_part);
  if (!arrived_) {
    report = flight->land(tensors.result.span());
    flight.reset();  // here: the lane may hold the exchange a moment longer
    return report;
  }
  std::ranges::copy(arrived_->result.span(), tensors.result.span().begin());
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (arrived_->returned[i] == 0) continue;
    indices.push_back(static_cast<std::uint32_t>(i));
    values.push_back(arrived_->returned[i]);
  }
  compress::put_back(tensors.residual.span(), indices, values);
  tensors.group->residual_used = true;
  return report;
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
    flight->add_own_part(now.own_part.span());
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
