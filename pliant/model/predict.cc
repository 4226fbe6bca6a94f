// SPDX-License-Identifier: MIT
#include "pliant/model/predict.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "pliant/common/errors.h"
#include "pliant/model/exchange.h"
#include "pliant/model/playback.h"
#include "pliant/model/weigh.h"

namespace pliant::model {
namespace {

// How many of the most promising plans are played. The book is off by a quarter at worst where
// prices bend, and candidates come in families that differ in codes by little; 32 holds every plan
// within 10 % of the best in all networks of predict_test.
constexpr std::size_t kShortlist = 32;

// Prices that bend by less are taken as they are: measured links are less certain than that.
constexpr double kStraight = 0.01;

// A leader's turn comes once in N rounds, so the mean over leaders counts. Four of them,
// evenly spread, tell ports that are slow from ports that are not without playing N schedules.
constexpr int kLeaders = 4;

Seconds played_price(const plan::Plan& plan, std::size_t length, std::size_t kept,
                     const plan::World& world) {
  const int leaders = plan.scheme == plan::Scheme::kShared ? std::min(world.size, kLeaders) : 1;
  Seconds sum{};
  for (int i = 0; i < leaders; ++i)
    sum += price_exchange(plan, length, kept, world, i * world.size / leaders);
  return sum / leaders;
}

enum class Precision { kBook, kPlayed };

// Predicts plans, one after the other, for the same inputs. Remembers what plans have in common.
class Forecast {
 public:
  Forecast(const Inputs& inputs, PriceBook& book)
      : inputs_(inputs), book_(book), link_(worst_link(inputs.world)) {
    plan::Plan each;
    for (const plan::Fusion fusion : plan::kFusions) {
      each.fuse = fusion;
      groups_.at(static_cast<std::size_t>(fusion)) = groups(each, inputs);
    }
  }

  [[nodiscard]] Prediction of(const plan::Plan& plan, Precision precision) const {
    const bool updates = plan.kind == plan::Kind::kUpdates;
    Prediction out{.plan = plan};
    const std::vector<PricedExchange> exchanges = exchanges_of(plan, precision, out);
    for (const PricedExchange& exchange : exchanges) {
      out.exchange += exchange.total();
      out.wire += exchange.wire;
      out.bytes += exchange.sent_bytes / (updates ? plan.every : 1);
    }
    if (exchanges.empty()) {
      out.step = inputs_.compute;
    } else if (updates) {
      out.step = play_updates(exchanges.front(), inputs_.compute, inputs_.lanes,
                              {plan.every, plan.late, inputs_.drift});
    } else {
      out.step = play_gradients(exchanges, inputs_.compute, inputs_.lanes);
    }
    const double period = updates ? plan.every : 1;
    const Seconds hidden = out.exchange / period - (out.step - inputs_.compute);
    out.step += inputs_.drag * std::max(hidden, Seconds{});
    out.exposed = out.step - inputs_.compute;
    const Worth& worth = worth_of(plan);
    out.updated_fraction = worth.updated_fraction;
    out.efficiency = worth.efficiency;
    out.counted = counted(worth.efficiency, inputs_.least_worth);
    out.gain = worth.gain;
    return out;
  }

 private:
  [[nodiscard]] std::vector<PricedExchange> exchanges_of(const plan::Plan& plan,
                                                         Precision precision,
                                                         Prediction& out) const {
    const bool updates = plan.kind == plan::Kind::kUpdates;
    const auto& parts =
        groups_.at(static_cast<std::size_t>(updates ? plan::Fusion::kAll : plan.fuse));
    std::vector<PricedExchange> exchanges;
    exchanges.reserve(parts.size());
    std::size_t last_length = 0;
    for (const Bucket& group : parts) {
      if (exchanges.empty() || group.length != last_length) {
        exchanges.push_back(priced(plan, group, precision, out));
      } else {
        exchanges.push_back(exchanges.back());  // groups are often alike
      }
      last_length = group.length;
      exchanges.back().ready = group.ready;
    }
    correct(plan, exchanges);
    if (updates && inputs_.buffers > 0 && !exchanges.empty())
      exchanges.front() = joined(exchanges.front(), buffers(plan, precision, out));
    return exchanges;
  }

  struct Worth {
    plan::Plan of;  // kind, scheme, density, every, late and coarse values or not count
    double updated_fraction, efficiency, gain;
  };

  // Candidates differ in codes and schedules first, of which coarse values alone change what a
  // step is worth.
  const Worth& worth_of(const plan::Plan& plan) const {
    const plan::Plan& last = worth_.of;
    const bool same = known_worth_ && last.kind == plan.kind && last.scheme == plan.scheme &&
                      last.density == plan.density && last.every == plan.every &&
                      last.late == plan.late &&
                      plan::is_coarse(last.values) == plan::is_coarse(plan.values);
    if (same) return worth_;
    const double fraction = updated_fraction(plan, inputs_.world.size, inputs_.overlap);
    worth_ = {plan, fraction, efficiency(plan, fraction, inputs_.adam, inputs_.efficiency),
              plan.scheme == plan::Scheme::kDense ? 1 : gain_at(inputs_.gain, plan.density)};
    known_worth_ = true;
    return worth_;
  }

  void correct(const plan::Plan& plan, std::span<PricedExchange> exchanges) const {
    if (exchanges.empty()) return;
    const double largest = std::ranges::max(exchanges, {}, &PricedExchange::path_bytes).path_bytes;
    const double correction = inputs_.corrections.factors.at(correction_index(plan, largest));
    for (PricedExchange& exchange : exchanges) exchange.wire = correction * exchange.wire;
  }

  [[nodiscard]] PricedExchange buffers(const plan::Plan& plan, Precision precision,
                                       Prediction& out) const {
    const plan::Plan dense = plan::beside(plan, inputs_.buffers);
    std::array exchange = {priced(dense, {.length = inputs_.buffers}, precision, out)};
    correct(dense, exchange);
    return exchange.front();
  }

  // One after the other in the same lane.
  static PricedExchange joined(const PricedExchange& a, const PricedExchange& b) {
    return {.codec = {a.codec.depart + b.codec.depart, a.codec.travel + b.codec.travel,
                      a.codec.land + b.codec.land},
            .wire = a.wire + b.wire,
            .path_bytes = a.path_bytes + b.path_bytes,
            .sent_bytes = a.sent_bytes + b.sent_bytes,
            .ready = a.ready};
  }

  // Plans that differ in kind or rhythm send the same: each exchange is priced once.
  [[nodiscard]] PricedExchange priced(const plan::Plan& plan, const Bucket& group,
                                      Precision precision, Prediction& out) const {
    if (precision == Precision::kPlayed) return price_of(plan, group, precision, out);
    const auto [known, fresh] =
        known_exchanges_.try_emplace(Sent{bits_of(plan), plan.density, group.length});
    if (fresh) {
      Prediction alone;
      known->second.exchange = price_of(plan, group, precision, alone);
      known->second.exact = alone.exact;
      known->second.bend = alone.bend;
    }
    out.exact = out.exact && known->second.exact;
    out.bend = std::max(out.bend, known->second.bend);
    return known->second.exchange;
  }

  // The parts of a plan that determine an exchange, but for density, side by side in one number.
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

  [[nodiscard]] PricedExchange price_of(const plan::Plan& plan, const Bucket& group,
                                        Precision precision, Prediction& out) const {
    const int size = inputs_.world.size;
    const std::size_t kept = kept_of(plan, group.length);
    const Weight weight = book_.weigh(plan, group.length, kept, size);
    Seconds wire = weight.over(link_);
    if (precision == Precision::kPlayed) {
      wire = played_price(plan, group.length, kept, inputs_.world);
    } else if (weight.bend > kStraight) {
      out.exact = false;
      out.bend = std::max(out.bend, weight.bend);
    }
    return {inputs_.coding * codec(plan, group.length, kept, size, inputs_.costs), wire,
            weight.bytes, weight.sent_bytes, group.ready};
  }

  const Inputs& inputs_;
  PriceBook& book_;
  plan::Link link_;
  std::array<std::vector<Bucket>, plan::kFusions.size()> groups_;
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
    PricedExchange exchange = {};
    bool exact = true;
    double bend = 0;
  };
  mutable std::unordered_map<Sent, Known, HashSent> known_exchanges_;
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
