// SPDX-License-Identifier: MIT
#include "pliant/model/codec.h"

#include <cmath>
#include <optional>

namespace pliant::model {
namespace {

using plan::Operation;

struct Coding {
  std::optional<Operation> encode, decode;
};

Coding coding_of(plan::ValueCode code) {
  switch (code) {
    case plan::ValueCode::kF16:
      return {Operation::kF16Encode, Operation::kF16Decode};
    case plan::ValueCode::kInt8:
      return {Operation::kInt8Encode, Operation::kInt8Decode};
    case plan::ValueCode::kInt4:
      return {Operation::kInt4Encode, Operation::kInt4Decode};
    case plan::ValueCode::kInt2:
      return {Operation::kInt2Encode, Operation::kInt2Decode};
    case plan::ValueCode::kF32:
      break;
  }
  return {};
}

Coding coding_of(plan::IndexCode code) {
  if (code == plan::IndexCode::kRice) return {Operation::kRiceEncode, Operation::kRiceDecode};
  if (code == plan::IndexCode::kBlock16)
    return {Operation::kBlock16Encode, Operation::kBlock16Decode};
  return {};
}

// The work of one rank, told in entries. Costs are linear, so shares of a bucket may be added up.
class Work {
 public:
  Work(const plan::Plan& plan, std::size_t length, std::size_t kept, int size,
       const plan::CostTable& costs)
      : plan_(plan),
        n_(static_cast<double>(length)),
        k_(static_cast<double>(kept)),
        ranks_(size),
        others_((ranks_ - 1) / ranks_),
        values_(coding_of(plan.values)),
        indices_(coding_of(plan.indices)),
        costs_(costs) {}

  // Everything accumulated, multiplied by 1/N and summed.
  [[nodiscard]] Codec dense() const {
    const bool coded = plan_.values != plan::ValueCode::kF32;
    const double take =
        updates() ? time(Operation::kProgressAccumulate, n_, n_) + time(Operation::kCopy, n_, n_)
                  : 0;
    return codec(take + time(Operation::kMultiply, n_, n_), summing(n_),
                 coded ? time(Operation::kMultiply, n_, n_) : 0);
  }

  // Own entries out; those of all ranks decoded, own included, and added one by one.
  [[nodiscard]] Codec gathered() const {
    const double all = ranks_ * k_;
    return codec(selecting() + encoding(k_), decoding(all), writing(all));
  }

  // The leader selects, the others only accumulate; the step waits for the leader. Then all decode
  // its indices, take their values there and sum them.
  [[nodiscard]] Codec shared() const {
    const double taking = time(indices_.encode, k_) + time(indices_.decode, k_) +
                          time(Operation::kGatherClear, k_, k_);
    return codec(selecting(), taking + summing(k_), writing(k_));
  }

  // Of k entries all but the own slice are encoded, and as many arrive, are decoded, merged and
  // trimmed; then the own slice's sum goes out and all sums come in.
  [[nodiscard]] Codec srs() const {
    const double hop = encoding(k_ * others_) + decoding(k_ * others_) +
                       time(Operation::kTrim, 2 * k_ * others_, 2 * k_ * others_) +
                       time(Operation::kScatterAdd, k_ * others_, k_ * others_);
    return codec(selecting(), hop + encoding(k_ / ranks_) + decoding(k_), writing(k_));
  }

 private:
  [[nodiscard]] bool updates() const { return plan_.kind == plan::Kind::kUpdates; }

  static Codec codec(double depart, double travel, double land) {
    return {{depart * 1e-9}, {travel * 1e-9}, {land * 1e-9}};
  }

  [[nodiscard]] double time(std::optional<Operation> operation, double elements,
                            double entries) const {
    const auto cost = operation ? costs_.find(*operation) : std::nullopt;
    return cost ? cost->ns_per_element * elements + cost->ns_per_entry * entries : 0;
  }
  // Coders touch entries only.
  [[nodiscard]] double time(std::optional<Operation> operation, double entries) const {
    return time(operation, entries, entries);
  }

  // A pass that keeps a few too many, and the trim to exactly k.
  [[nodiscard]] double selecting() const {
    return time(updates() ? Operation::kProgressSelect : Operation::kAccumulateSelect, n_, k_) +
           time(Operation::kTrim, k_);
  }
  [[nodiscard]] double encoding(double entries) const {
    return time(indices_.encode, entries) + time(values_.encode, entries);
  }
  [[nodiscard]] double decoding(double entries) const {
    return time(indices_.decode, entries) + time(values_.decode, entries);
  }
  [[nodiscard]] double writing(double entries) const {
    return time(Operation::kFillFromSparse, n_, 0) + time(Operation::kScatterAdd, 0, entries);
  }

  // An all-reduce of `count` values between two messages. Halves and rings: each value is encoded,
  // decoded and added on one hop, then its sum is encoded by its owner and decoded by the others.
  // Whole vectors: once per level.
  [[nodiscard]] double summing(double count) const {
    const bool whole = plan_.reduce == plan::AllReduce::kRecursiveDoubling ||
                       plan_.reduce == plan::AllReduce::kTree;
    if (whole) {
      const double levels = std::ceil(std::log2(ranks_));
      return levels * (time(values_.encode, count) + time(values_.decode, count) +
                       time(Operation::kAdd, count, count));
    }
    return time(values_.encode, count) + 2 * time(values_.decode, count * others_) +
           time(Operation::kAdd, count * others_, count * others_);
  }

  const plan::Plan& plan_;
  double n_, k_, ranks_;
  double others_;  // the share of the other ranks
  Coding values_, indices_;
  const plan::CostTable& costs_;
};

}  // namespace

Codec codec(const plan::Plan& plan, std::size_t length, std::size_t kept, int size,
            const plan::CostTable& costs) {
  if (size == 1) return {};
  const Work work(plan, length, kept, size, costs);
  switch (plan.scheme) {
    case plan::Scheme::kUnion:
      return work.gathered();
    case plan::Scheme::kShared:
      return work.shared();
    case plan::Scheme::kSrs:
      return work.srs();
    case plan::Scheme::kDense:
      break;
  }
  return work.dense();
}

}  // namespace pliant::model
