// SPDX-License-Identifier: MIT
#include "pliant/model/predict.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "pliant/common/errors.h"
#include "pliant/model/exchange.h"
#include "pliant/plan/density.h"
#include "pliant/plan/fusion.h"

namespace pliant::model {
namespace {

// How many of the most promising plans are played. The book is off by a quarter at worst where
// prices bend, and candidates come in families that differ in codes by little; 32 holds every plan
// within 10 % of the best in all networks of predict_test.
constexpr std::size_t kShortlist = 32;

// Prices that bend by less are taken as they are: measured links are less certain than that.
constexpr double kStraight = 0.01;

// A leader's turn comes once in N steps, so what counts is the mean over leaders. Four of them,
// evenly spread, tell ports that are slow from ports that are not without playing N schedules.
constexpr int kLeaders = 4;

// One exchange, priced.
struct Flight {
  Codec codec;
  Seconds wire;       // messages and bytes
  double path_bytes;  // on the critical path
  double sent_bytes = 0;
  Seconds ready;

  [[nodiscard]] Seconds travel() const { return wire + codec.travel; }
  [[nodiscard]] Seconds total() const { return wire + codec.total(); }
};

Seconds played_price(const plan::Plan& plan, std::size_t length, std::size_t kept,
                     const plan::World& world) {
  const int leaders = plan.scheme == plan::Scheme::kShared ? std::min(world.size, kLeaders) : 1;
  Seconds sum{};
  for (int i = 0; i < leaders; ++i)
    sum += price_exchange(plan, length, kept, world, i * world.size / leaders);
  return sum / leaders;
}

enum class Precision { kBook, kPlayed };

// Gradients, overlapped: units leave in the order of readiness, one at a time on the wire. With one
// lane a unit's codec work delays the next unit too; with two or more, the next unit is prepared
// while this one travels and lands.
Seconds play_gradients(std::span<const Flight> flights, Seconds compute, int lanes) {
  if (lanes == 0) {
    Seconds step = compute;
    for (const Flight& flight : flights) step += flight.total();
    return step;
  }
  Seconds wire_free{};
  Seconds lane_free{};  // one lane: when the whole exchange is done; more: when the processor that
                        // codes is free
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

// Updates: every H steps one exchange leaves after the optimizer, and lands d steps later. The
// training thread computes, takes leave and lands; a lane travels. Exchanges take turns on the
// wire, whatever the number of lanes (engine/updates.h says why). Played until the start has been
// forgotten, then averaged.
Seconds play_updates(const Flight& flight, const Inputs& inputs, int every, int late) {
  const Seconds compute = inputs.compute;
  if (late == 0 || inputs.lanes == 0) return compute + flight.total() / every;
  const Seconds travel = flight.travel() + inputs.drift * compute;
  if (late <= every) {  // it lands before the next one leaves, so nothing piles up
    const Seconds exposed = std::max(travel - late * compute, Seconds{});
    return compute + (flight.codec.depart + exposed + flight.codec.land) / every;
  }
  const int in_flight = (late + every - 1) / every;
  const int warm = 4 * in_flight;
  const int measured = 8 * in_flight;
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
    wire_free = std::max(now, wire_free) + travel.value;
    arrivals[static_cast<std::size_t>(e)] = wire_free;
  }
  return {(now - start) / (static_cast<double>(measured) * every)};
}

// One plan among the inputs.
class Forecast {
 public:
  Forecast(const Inputs& inputs, PriceBook& book)
      : inputs_(inputs), book_(book), link_(worst_link(inputs.world)) {
    plan::Plan each;
    for (const plan::Fusion fusion : plan::kFusions) {
      each.fuse = fusion;
      units_.at(static_cast<std::size_t>(fusion)) = units(each, inputs);
    }
  }

  [[nodiscard]] Prediction of(const plan::Plan& plan, Precision precision) const {
    const bool updates = plan.kind == plan::Kind::kUpdates;
    const auto& parts =
        units_.at(static_cast<std::size_t>(updates ? plan::Fusion::kAll : plan.fuse));
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
    }
    correct(plan, flights);
    if (updates && inputs_.buffers > 0 && !flights.empty())
      flights.front() = joined(flights.front(), buffers(plan, precision, out));
    for (const Flight& flight : flights) {
      out.exchange += flight.total();
      out.wire += flight.wire;
      out.bytes += flight.sent_bytes / (updates ? plan.every : 1);
    }
    if (flights.empty()) {
      out.step = inputs_.compute;
    } else if (updates) {
      out.step = play_updates(flights.front(), inputs_, plan.every, plan.late);
    } else {
      out.step = play_gradients(flights, inputs_.compute, inputs_.lanes);
    }
    const double period = updates ? plan.every : 1;
    const Seconds hidden = out.exchange / period - (out.step - inputs_.compute);
    out.step += inputs_.drag * std::max(hidden, Seconds{});
    out.exposed = out.step - inputs_.compute;
    const Worth& worth = worth_of(plan);
    out.updated_fraction = worth.updated_fraction;
    out.efficiency = worth.efficiency;
    out.gain = worth.gain;
    return out;
  }

 private:
  struct Worth {
    plan::Plan of;  // kind, scheme, density, every, late and int4 or not count
    double updated_fraction, efficiency, gain;
  };

  // Candidates differ in codes and schedules first, of which int4 alone changes what a step is
  // worth.
  const Worth& worth_of(const plan::Plan& plan) const {
    const plan::Plan& last = worth_.of;
    const bool same =
        known_worth_ && last.kind == plan.kind && last.scheme == plan.scheme &&
        last.density == plan.density && last.every == plan.every && last.late == plan.late &&
        (last.values == plan::ValueCode::kInt4) == (plan.values == plan::ValueCode::kInt4);
    if (same) return worth_;
    const double fraction = updated_fraction(plan, inputs_.world.size, inputs_.overlap);
    worth_ = {plan, fraction, efficiency(plan, fraction, inputs_.adam, inputs_.efficiency),
              plan.scheme == plan::Scheme::kDense ? 1 : gain_at(inputs_.gain, plan.density)};
    known_worth_ = true;
    return worth_;
  }

  void correct(const plan::Plan& plan, std::span<Flight> flights) const {
    if (flights.empty()) return;
    const double largest = std::ranges::max(flights, {}, &Flight::path_bytes).path_bytes;
    const double correction = inputs_.corrections.factors.at(correction_index(plan, largest));
    for (Flight& flight : flights) flight.wire = correction * flight.wire;
  }

  [[nodiscard]] Flight buffers(const plan::Plan& plan, Precision precision, Prediction& out) const {
    const plan::Plan dense = plan::beside(plan, inputs_.buffers);
    std::array flight = {fly(dense, {.length = inputs_.buffers}, precision, out)};
    correct(dense, flight);
    return flight.front();
  }

  // One after the other in the same lane.
  static Flight joined(const Flight& a, const Flight& b) {
    return {.codec = {a.codec.depart + b.codec.depart, a.codec.travel + b.codec.travel,
                      a.codec.land + b.codec.land},
            .wire = a.wire + b.wire,
            .path_bytes = a.path_bytes + b.path_bytes,
            .sent_bytes = a.sent_bytes + b.sent_bytes,
            .ready = a.ready};
  }

  // Plans that differ in kind or rhythm send the same: each exchange is weighed once.
  [[nodiscard]] Flight fly(const plan::Plan& plan, const Bucket& unit, Precision precision,
                           Prediction& out) const {
    if (precision == Precision::kPlayed) return weigh_up(plan, unit, precision, out);
    const auto [known, fresh] =
        flights_.try_emplace(Sent{bits_of(plan), plan.density, unit.length});
    if (fresh) {
      Prediction alone;
      known->second.flight = weigh_up(plan, unit, precision, alone);
      known->second.exact = alone.exact;
      known->second.bend = alone.bend;
    }
    out.exact = out.exact && known->second.exact;
    out.bend = std::max(out.bend, known->second.bend);
    return known->second.flight;
  }

  // What determines an exchange but density and length, side by side in one number.
  static std::uint64_t bits_of(const plan::Plan& plan) {
    std::uint64_t bits = static_cast<std::uint64_t>(plan.segments);
    for (const auto part :
         {static_cast<unsigned>(plan.scheme), static_cast<unsigned>(plan.leader),
          static_cast<unsigned>(plan.scatter), static_cast<unsigned>(plan.gather),
          static_cast<unsigned>(plan.bcast), static_cast<unsigned>(plan.reduce),
          static_cast<unsigned>(plan.values), static_cast<unsigned>(plan.indices)}) {
      bits = bits << 4U | part;
    }
    return bits;
  }

  [[nodiscard]] Flight weigh_up(const plan::Plan& plan, const Bucket& unit, Precision precision,
                                Prediction& out) const {
    const int size = inputs_.world.size;
    const std::size_t kept = plan.scheme == plan::Scheme::kDense
                                 ? unit.length
                                 : plan::entries_of(plan.density, unit.length);
    const Weight weight = book_.weigh(plan, unit.length, kept, size);
    Seconds wire = weight.over(link_);
    if (precision == Precision::kPlayed) {
      wire = played_price(plan, unit.length, kept, inputs_.world);
    } else if (weight.bend > kStraight) {
      out.exact = false;
      out.bend = std::max(out.bend, weight.bend);
    }
    return {inputs_.coding * codec(plan, unit.length, kept, size, inputs_.costs), wire,
            weight.bytes, weight.sent_bytes, unit.ready};
  }

  const Inputs& inputs_;
  PriceBook& book_;
  plan::Link link_;
  std::array<std::vector<Bucket>, plan::kFusions.size()> units_;
  struct Sent {
    std::uint64_t bits;
    double density;
    std::size_t length;
    bool operator==(const Sent&) const = default;
  };
  struct HashSent {
    std::size_t operator()(const Sent& sent) const {
      return (sent.bits ^ std::bit_cast<std::uint64_t>(sent.density) ^ sent.length) *
                 0x9E3779B97F4A7C15U >>
             20U;
    }
  };
  struct Known {
    Flight flight = {};
    bool exact = true;
    double bend = 0;
  };
  mutable std::unordered_map<Sent, Known, HashSent> flights_;
  mutable Worth worth_ = {};  // the last one asked for
  mutable bool known_worth_ = false;
};

void check(const Inputs& inputs) {
  require(inputs.world.size >= 1 &&
              inputs.world.links.size() == static_cast<std::size_t>(inputs.world.size),
          "predict: {} links for {} ranks", inputs.world.links.size(), inputs.world.size);
  require(inputs.compute.value > 0 && std::isfinite(inputs.compute.value),
          "predict: a step computes for {} s", inputs.compute.value);
  require(inputs.lanes >= 0, "predict: {} lanes", inputs.lanes);
  require(std::ranges::is_sorted(inputs.buckets, {}, &Bucket::ready),
          "predict: buckets are not in the order of readiness");
}

}  // namespace

StepWeight weigh_step(const plan::Plan& plan, const Inputs& inputs, PriceBook& book) {
  StepWeight step;
  double largest = 0;
  const auto add = [&](const plan::Plan& one, std::size_t length) {
    const std::size_t kept =
        one.scheme == plan::Scheme::kDense ? length : plan::entries_of(one.density, length);
    const Weight weight = book.weigh(one, length, kept, inputs.world.size);
    step.weight += weight;
    return weight.bytes;
  };
  for (const Bucket& unit : units(plan, inputs))
    largest = std::max(largest, add(plan, unit.length));
  if (plan.kind == plan::Kind::kUpdates && inputs.buffers > 0)
    (void)add(plan::beside(plan, inputs.buffers), inputs.buffers);
  step.correction = correction_index(plan, largest);
  return step;
}

Seconds coding_of(const plan::Plan& plan, const Inputs& inputs) {
  Seconds sum{};
  for (const Bucket& unit : units(plan, inputs)) {
    const std::size_t kept = plan.scheme == plan::Scheme::kDense
                                 ? unit.length
                                 : plan::entries_of(plan.density, unit.length);
    const Codec work = codec(plan, unit.length, kept, inputs.world.size, inputs.costs);
    sum += plan.kind == plan::Kind::kUpdates ? work.depart + work.land : work.total();
  }
  return sum;
}

plan::Link worst_link(const plan::World& world) {
  plan::Link worst = world.links.front();
  for (const plan::Link& link : world.links) {
    worst.latency = std::max(worst.latency, link.latency);
    worst.seconds_per_byte = std::max(worst.seconds_per_byte, link.seconds_per_byte);
  }
  return worst;
}

// Two groups: cut where the first holds half of the elements, or as little less as whole buckets
// allow.
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

std::vector<Prediction> predict_all(std::span<const plan::Plan> plans, const Inputs& inputs,
                                    PriceBook& book) {
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
  std::ranges::partial_sort(doubtful, doubtful.begin() + static_cast<std::ptrdiff_t>(played),
                            std::ranges::greater{}, [&](std::size_t i) {
                              return std::pair{all[i].speed(), all.size() - i};
                            });
  double best = 0;
  for (const Prediction& prediction : all) best = std::max(best, prediction.speed());
  for (std::size_t j = 0; j < played; ++j) {
    Prediction& prediction = all[doubtful[j]];
    if (prediction.speed() < 0.7 * best) break;  // even a quarter faster it would not be chosen
    if (!unequal && prediction.speed() < (1 - prediction.bend) * best) continue;
    prediction = forecast.of(prediction.plan, Precision::kPlayed);
  }
  return all;
}

}  // namespace pliant::model
