// SPDX-License-Identifier: MIT
#include "pliant/model/predict.h"

#include <algorithm>
#include <cmath>

#include "pliant/common/errors.h"
#include "pliant/model/exchange.h"
#include "pliant/plan/density.h"
#include "pliant/plan/fusion.h"

namespace pliant::model {
namespace {

// How many of the most promising plans are played. The book is off by a quarter at worst where prices bend, and candidates come in
// families that differ in codes by little; 32 holds every plan within 10 % of the best in all networks of predict_test.
constexpr std::size_t kShortlist = 32;

// Prices that bend by less are taken as they are: measured links are less certain than that.
constexpr double kStraight = 0.01;

// A leader's turn comes once in N steps, so what counts is the mean over leaders. Four of them, evenly spread, tell ports
// that are slow from ports that are not without playing N schedules.
constexpr int kLeaders = 4;

// One exchange, priced.
struct Flight {
  Codec codec;
  Seconds wire;       // messages and bytes
  Seconds occupancy;  // of the wire alone by its bytes: what two exchanges in flight cannot share
  double sent_bytes = 0;
  Seconds ready;

  [[nodiscard]] Seconds travel() const { return wire + codec.travel; }
  [[nodiscard]] Seconds total() const { return wire + codec.total(); }
};

Seconds played_price(const plan::Plan& plan, std::size_t length, std::size_t kept, const plan::World& world) {
  const int leaders = plan.scheme == plan::Scheme::kShared ? std::min(world.size, kLeaders) : 1;
  Seconds sum{};
  for (int i = 0; i < leaders; ++i) sum += price_exchange(plan, length, kept, world, i * world.size / leaders);
  return sum / leaders;
}

enum class Precision { kBook, kPlayed };

// Gradients, overlapped: units leave in the order of readiness, one at a time on the wire. With one lane a unit's codec work
// delays the next unit too; with two or more, the next unit is prepared while this one travels and lands.
Seconds play_gradients(std::span<const Flight> flights, Seconds compute, int lanes) {
  if (lanes == 0) {
    Seconds step = compute;
    for (const Flight& flight : flights) step += flight.total();
    return step;
  }
  Seconds wire_free{};
  Seconds lane_free{};  // one lane: when the whole exchange is done; more: when the processor that codes is free
  Seconds end = compute;
  for (const Flight& flight : flights) {
    const Seconds departed = std::max(flight.ready, lane_free) + flight.codec.depart;
    const Seconds arrived = std::max(departed, wire_free) + flight.travel();
    const Seconds landed = arrived + flight.codec.land;
    wire_free = arrived;
    lane_free = lanes == 1 ? landed : departed;
    end = std::max(end, landed);
  }
  return end;
}

// Updates: every H steps one exchange leaves after the optimizer, and lands d steps later. The training thread computes,
// takes leave and lands; lanes travel. An exchange waits for its lane, and its bytes wait for those of the one before; latency
// is shared. Played until the start has been forgotten, then averaged.
Seconds play_updates(const Flight& flight, Seconds compute, int every, int late, int lanes) {
  if (late == 0 || lanes == 0) return compute + flight.total() / every;
  const int in_flight = (late + every - 1) / every;
  const int warm = 2 * (in_flight + lanes);
  const int measured = 8 * std::max(in_flight, 1) * std::min(lanes, 8);
  std::vector<double> arrivals(static_cast<std::size_t>(warm + measured));  // of exchange e
  double now = 0;
  double wire_free = 0;
  double start = 0;
  std::int64_t landed = 0;
  for (int e = 0; e < warm + measured; ++e) {
    if (e == warm) start = now;
    // The steps up to the one that sends exchange e, landing on the way what is due.
    for (int s = 1; s <= every; ++s) {
      now += compute.value;
      const std::int64_t step = static_cast<std::int64_t>(e) * every + s;
      while (landed < e && (landed + 1) * every + late <= step) {
        now = std::max(now, arrivals[static_cast<std::size_t>(landed)]) + flight.codec.land.value;
        ++landed;
      }
    }
    now += flight.codec.depart.value;
    const double lane_free = e >= lanes ? arrivals[static_cast<std::size_t>(e - lanes)] : 0;
    const double begins = std::max(now, lane_free);
    const double arrives = std::max(begins + flight.travel().value, wire_free + flight.occupancy.value);
    wire_free = arrives;
    arrivals[static_cast<std::size_t>(e)] = arrives;
  }
  return {(now - start) / (static_cast<double>(measured) * every)};
}

// One plan among the inputs.
class Forecast {
 public:
  Forecast(const Inputs& inputs, PriceBook& book) : inputs_(inputs), book_(book), link_(worst_link(inputs.world)) {
    plan::Plan each;
    for (const plan::Fusion fusion : plan::kFusions) {
      each.fuse = fusion;
      units_.at(static_cast<std::size_t>(fusion)) = units(each, inputs);
    }
  }

  [[nodiscard]] Prediction of(const plan::Plan& plan, Precision precision) const {
    const bool updates = plan.kind == plan::Kind::kUpdates;
    const auto& parts = units_.at(static_cast<std::size_t>(updates ? plan::Fusion::kAll : plan.fuse));
    std::vector<Flight> flights;
    flights.reserve(parts.size());
    Prediction out{.plan = plan};
    std::size_t last_length = 0;
    for (const Bucket& unit : parts) {
      if (flights.empty() || unit.length != last_length) {
        flights.push_back(fly(plan, unit, precision, out));
      } else {
        flights.push_back(flights.back());  // buckets are often alike
      }
      last_length = unit.length;
      flights.back().ready = unit.ready;
      out.exchange += flights.back().total();
      out.bytes += flights.back().sent_bytes / (updates ? plan.every : 1);
    }
    if (flights.empty()) {
      out.step = inputs_.compute;
    } else if (updates) {
      out.step = play_updates(flights.front(), inputs_.compute, plan.every, plan.late, inputs_.lanes);
    } else {
      out.step = play_gradients(flights, inputs_.compute, inputs_.lanes);
    }
    out.exposed = out.step - inputs_.compute;
    out.updated_fraction = updated_fraction(plan, inputs_.world.size, inputs_.overlap);
    out.efficiency = efficiency(plan, out.updated_fraction, inputs_.adam, inputs_.efficiency);
    out.gain = plan.scheme == plan::Scheme::kDense ? 1 : gain_at(inputs_.gain, plan.density);
    return out;
  }

 private:
  [[nodiscard]] Flight fly(const plan::Plan& plan, const Bucket& unit, Precision precision, Prediction& out) const {
    const int size = inputs_.world.size;
    const std::size_t kept = plan.scheme == plan::Scheme::kDense ? unit.length : plan::entries_of(plan.density, unit.length);
    const Weight weight = book_.weigh(plan, unit.length, kept, size);
    const double correction = inputs_.corrections.factors.at(correction_index(plan, weight.bytes));
    Seconds wire = weight.over(link_);
    if (precision == Precision::kPlayed) {
      wire = played_price(plan, unit.length, kept, inputs_.world);
    } else if (weight.bend > kStraight) {
      out.exact = false;
    }
    const Seconds bytes_alone = std::min(wire, Seconds{weight.bytes * link_.seconds_per_byte});
    return {codec(plan, unit.length, kept, size, inputs_.costs), correction * wire, correction * bytes_alone, weight.sent_bytes,
            unit.ready};
  }

  const Inputs& inputs_;
  PriceBook& book_;
  plan::Link link_;
  std::array<std::vector<Bucket>, plan::kFusions.size()> units_;
};

void check(const Inputs& inputs) {
  require(inputs.world.size >= 1 && inputs.world.links.size() == static_cast<std::size_t>(inputs.world.size),
          "predict: {} links for {} ranks", inputs.world.links.size(), inputs.world.size);
  require(inputs.compute.value > 0 && std::isfinite(inputs.compute.value), "predict: a step computes for {} s", inputs.compute.value);
  require(inputs.lanes >= 0, "predict: {} lanes", inputs.lanes);
  require(std::ranges::is_sorted(inputs.buckets, {}, &Bucket::ready), "predict: buckets are not in the order of readiness");
}

}  // namespace

plan::Link worst_link(const plan::World& world) {
  plan::Link worst = world.links.front();
  for (const plan::Link& link : world.links) {
    worst.latency = std::max(worst.latency, link.latency);
    worst.seconds_per_byte = std::max(worst.seconds_per_byte, link.seconds_per_byte);
  }
  return worst;
}

// Two groups: cut where the first holds half of the elements, or as little less as whole buckets allow.
std::vector<Bucket> units(const plan::Plan& plan, const Inputs& inputs) {
  std::vector<std::size_t> lengths;
  for (const Bucket& bucket : inputs.buckets) lengths.push_back(bucket.length);
  const auto fusion = plan.kind == plan::Kind::kUpdates ? plan::Fusion::kAll : plan.fuse;
  std::vector<Bucket> groups;
  std::size_t next = 0;
  for (const std::size_t count : plan::group_counts(fusion, lengths)) {
    Bucket group{.ready = inputs.buckets[next + count - 1].ready};
    for (const std::size_t last = next + count; next < last; ++next) group.length += lengths[next];
    groups.push_back(group);
  }
  return groups;
}

Prediction predict(const plan::Plan& plan, const Inputs& inputs, PriceBook& book) {
  check(inputs);
  return Forecast(inputs, book).of(plan, Precision::kBook);
}

Prediction predict_exactly(const plan::Plan& plan, const Inputs& inputs, PriceBook& book) {
  check(inputs);
  return Forecast(inputs, book).of(plan, Precision::kPlayed);
}

std::vector<Prediction> predict_all(std::span<const plan::Plan> plans, const Inputs& inputs, PriceBook& book) {
  check(inputs);
  const Forecast forecast(inputs, book);
  const bool unequal = !all_equal(inputs.world.links);
  std::vector<Prediction> all;
  all.reserve(plans.size());
  for (const plan::Plan& plan : plans) {
    all.push_back(forecast.of(plan, Precision::kBook));
    if (unequal) all.back().exact = false;
  }
  if (inputs.world.size > kPlayedRanks) return all;
  std::vector<std::size_t> doubtful;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].exact) doubtful.push_back(i);
  }
  const std::size_t played = std::min(kShortlist, doubtful.size());
  std::ranges::partial_sort(doubtful, doubtful.begin() + static_cast<std::ptrdiff_t>(played), std::ranges::greater{}, [&](std::size_t i) {
    return std::pair{all[i].speed(), all.size() - i};
  });
  double best = 0;
  for (const Prediction& prediction : all) best = std::max(best, prediction.speed());
  for (std::size_t j = 0; j < played; ++j) {
    Prediction& prediction = all[doubtful[j]];
    if (prediction.speed() < 0.7 * best) break;  // even a quarter faster it would not be chosen
    prediction = forecast.of(prediction.plan, Precision::kPlayed);
  }
  return all;
}

}  // namespace pliant::model
