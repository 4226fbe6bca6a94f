// SPDX-License-Identifier: MIT
// Scheme dense: all of accumulated, by the backend's own all-reduce or by a schedule, in any code.
#include "pliant/kernels/dense.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "pliant/compress/residual.h"
#include "pliant/exchange/coded_sum.h"
#include "pliant/exchange/run_dense.h"
#include "pliant/exchange/schemes.h"

namespace pliant::exchange {
namespace {

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value - value == 0; });
}

// What a rank sends in the backend's own all-reduce, which does not say: the least that any
// all-reduce of that many bytes can send, and what a ring does.
Bytes sent_by_all_reduce(std::size_t bytes, int ranks) {
  return {static_cast<std::int64_t>(2 * bytes * static_cast<std::size_t>(ranks - 1) /
                                    static_cast<std::size_t>(ranks))};
}

// f32 is multiplied by 1/N before it is summed: so does DDP, and so the two agree bit for bit at
// every N. A lossy code is summed first, since a rounding error banked in units of 1/N would have
// to be multiplied by N.
class DenseFlight final : public Flight {
 public:
  DenseFlight(const comm::Communicator& communicator, ResidualGroup& group, const Terms& terms,
              const compress::Contribution& contribution, const comm::Floats& in_place)
      : Flight(communicator, group, terms),
        floats_(in_place.data.empty() ? Buffer<float>(group.size()) : in_place),
        work_(floats_.data) {
    if (const auto* gradient = std::get_if<compress::Gradient>(&contribution)) {
      take_gradient(gradient->values);
    } else {
      take_progress(contribution);
    }
    report_.kept = work_.size();
    if (coded()) {
      clean();
      banked_.assign(work_.size(), 0.0F);
    } else {
      kernels::multiply(work_, work_, 1.0F / static_cast<float>(ranks_));
    }
    report_.select = communicator.now() - departed_;
  }

  void travel(comm::Communicator& communicator) override {
    const plan::AllReduce reduce = terms_.plan.reduce;
    if (reduce == plan::AllReduce::kBackend && communicator.capabilities().own_all_reduce) {
      report_.traffic = {.entered = communicator.now(),
                         .sent = sent_by_all_reduce(work_.size_bytes(), ranks_),
                         .messages = 1};
      communicator.all_reduce(
          floats_, {.deadline = terms_.deadline, .place = {.plan_version = terms_.plan_version}});
      report_.traffic.finished = communicator.now();
    } else {
      const auto name =
          reduce == plan::AllReduce::kBackend ? "halving-doubling" : to_string(reduce);
      const auto& builder = schedule::find_builder(schedule::Collective::kAllReduce, name);
      const schedule::Shape shape{.size = ranks_};
      if (coded()) {
        CodedSum sum(work_, banked_, work_.size(), builder.blocks(shape), envelope(), status_,
                     *workspace_, complaint_);
        report_.traffic = run(communicator, builder.build(rank_, shape), sum, run_options());
      } else {
        DenseBlocks blocks(floats_, builder.blocks(shape), *workspace_, complaint_);
        report_.traffic = run(communicator, builder.build(rank_, shape), blocks, run_options());
      }
    }
    note_wire();
    complaint_.raise();
    // All ranks hold the same bits, so all find the same. Gradients are handed on as they are, as
    // DDP would, unless a rank's residual is in them.
    if (!coded() && (updates() || terms_.flushes)) status_.non_finite = !all_finite(work_);
  }

  void add_own_part(std::size_t begin, std::span<float> to) const override {
    for (std::size_t i = 0; i < to.size() && begin + i < own_.size(); ++i) to[i] += own_[begin + i];
  }

  void add_average(std::size_t begin, std::span<float> to) const override {
    if (status_.non_finite) return;
    const float factor = coded() ? scale() : 1.0F;
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += work_[begin + i] * factor;
  }

  bool touched(std::size_t, std::size_t, std::vector<std::uint32_t>&) const override {
    return false;
  }

  // Gradients: the residual was only read. Updates: it was emptied into own_.
  void give_back() override {
    if (!own_.empty()) compress::put_back(group_.residual(), own_);
  }

 protected:
  void write_average(std::span<float> out) override {
    if (coded()) {
      kernels::multiply(out, work_, 1.0F / static_cast<float>(ranks_));
    } else if (out.data() != work_.data()) {
      std::ranges::copy(work_, out.begin());
    }
  }

  void count_average() override {}
  void return_losses() override {
    if (!updates() && group_.residual_used && (coded() || all_finite(work_))) {
      std::ranges::fill(group_.residual(), 0.0F);  // it has been sent
      group_.residual_used = false;
    }
    if (kernels::all_zero(banked_)) return;
    compress::put_back(group_.residual(), banked_);
    group_.residual_used = true;
  }

  [[nodiscard]] std::size_t held() const override {
    const std::size_t own_work = updates() ? work_.size() : 0;  // gradients are summed in place
    return (own_work + own_.capacity() + banked_.capacity()) * sizeof(float);
  }

 private:
  [[nodiscard]] bool updates() const { return terms_.plan.kind == plan::Kind::kUpdates; }
  [[nodiscard]] bool coded() const { return terms_.plan.values != plan::ValueCode::kF32; }

  void take_gradient(std::span<const float> gradient) {
    if (!group_.residual_used) {
      if (gradient.data() != work_.data()) std::ranges::copy(gradient, work_.begin());
      return;
    }
    std::ranges::transform(gradient, group_.residual(), work_.begin(), std::plus<>());
  }

  // One NaN in the sum shows every rank that this rank's progress was not finite.
  void take_progress(const compress::Contribution& contribution) {
    const auto outcome = group_.accumulate(contribution);
    own_.assign(group_.residual().begin(), group_.residual().end());
    std::ranges::fill(group_.residual(), 0.0F);
    std::ranges::copy(own_, work_.begin());
    if (outcome.tally.non_finite == 0) return;
    status_.non_finite = true;
    if (!work_.empty()) work_.front() = std::numeric_limits<float>::quiet_NaN();
  }

  // A code takes finite values only; the status tells the others.
  void clean() {
    for (float& value : work_) {
      if (std::isfinite(value)) continue;
      value = 0;
      status_.non_finite = true;
    }
  }

  const comm::Floats floats_;  // what is summed, in place
  const std::span<float> work_;
  std::vector<float> own_;     // updates: this rank's part
  std::vector<float> banked_;  // lossy codes: what this rank's rounding took away
};

}  // namespace

std::unique_ptr<Flight> depart_dense(const comm::Communicator& communicator, ResidualGroup& group,
                                     const Terms& terms, const compress::Contribution& contribution,
                                     const comm::Floats& in_place) {
  return std::make_unique<DenseFlight>(communicator, group, terms, contribution, in_place);
}

}  // namespace pliant::exchange
