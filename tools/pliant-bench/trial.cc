// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/trial.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "pliant/exchange/run.h"
#include "pliant/model/exchange.h"
#include "pliant/plan/density.h"
#include "tools/pliant-bench/hollow.h"

namespace pliant::bench {
namespace {

class RealTrial final : public Trial {
 public:
  RealTrial(comm::Communicator& communicator, const TrialOptions& options,
            std::span<const float> gradient)
      : communicator_(communicator),
        options_(options),
        gradient_(gradient),
        residual_(gradient.size(), 0.0F),
        result_(gradient.size()),
        bucket_(residual_) {}

  exchange::Report run() override {
    const exchange::Terms terms{
        .plan = options_.plan, .round = step_++, .deadline = options_.deadline};
    return exchange::exchange(communicator_, bucket_, terms, compress::Gradient{gradient_},
                              result_);
  }

  // The second exchange, so that there is a residual to carry.
  std::int64_t check() override {
    (void)run();
    const std::vector<float> before = residual_;
    (void)run();
    return audit(communicator_, {gradient_, before, residual_, result_}, options_.deadline);
  }

 private:
  comm::Communicator& communicator_;
  TrialOptions options_;
  std::span<const float> gradient_;
  std::vector<float> residual_;
  std::vector<float> result_;
  exchange::ResidualGroup bucket_;
  std::uint64_t step_ = 0;
};

std::vector<model::Stage> stages_of(const TrialOptions& options, int ranks) {
  return model::stages(options.plan, options.count,
                       plan::entries_of(options.plan.density, options.count), ranks);
}

class HollowTrial final : public Trial {
 public:
  HollowTrial(comm::Communicator& communicator, const TrialOptions& options, comm::Region memory)
      : communicator_(communicator), options_(options), memory_(std::move(memory)) {
    for (const auto& stage : stages_of(options, communicator.size())) {
      legs_.push_back(
          {model::schedule_of(stage, communicator.rank()), model::all_block_bytes(stage)});
    }
  }

  exchange::Report run() override {
    exchange::Report report{.kept = plan::entries_of(options_.plan.density, options_.count)};
    report.traffic.entered = communicator_.now();
    for (const Leg& leg : legs_) {
      HollowBlocks blocks(memory_, leg.block_bytes);
      report.traffic += exchange::run(communicator_, leg.schedule, blocks,
                                      {.tag = 0, .deadline = options_.deadline});
    }
    report.wire = communicator_.now() - report.traffic.entered;
    return report;
  }

  std::int64_t check() override { return 0; }

 private:
  struct Leg {
    schedule::Schedule schedule;
    std::vector<double> block_bytes;
  };
  comm::Communicator& communicator_;
  TrialOptions options_;
  comm::Region memory_;
  std::vector<Leg> legs_;
};

constexpr comm::Tag kAuditTag = comm::kLargestTag - 1;
constexpr std::size_t kChunk = 1 << 16;  // elements audited at a time

// What a rank tells of a chunk: what it gave, how large the numbers were, and what it got.
struct Page {
  double gave;       // gradient + old residual - new residual
  double magnitude;  // the sum of their sizes
  float got;
};

Buffer<Page> page_of(const Books& books, std::size_t begin, std::size_t count) {
  Buffer<Page> page(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double gradient = books.gradient[begin + i];
    const double before = books.before[begin + i];
    const double after = books.after[begin + i];
    page[i] = {gradient + before - after, std::abs(gradient) + std::abs(before) + std::abs(after),
               books.result[begin + i]};
  }
  return page;
}

}  // namespace

// Rounding: forming accumulated rounds once on each rank, adding N of them N-1 times, 1/N and its
// product twice, giving back to the residual at most once for each hop and twice at the end. No
// partial sum is larger than the sum of the magnitudes and each rounding is at most 2^-24 of one:
// 2N + 8 of them is more than there are.
std::int64_t audit(comm::Communicator& communicator, const Books& books,
                   const std::optional<Seconds>& deadline) {
  const int ranks = communicator.size();
  const double tolerance = (2.0 * ranks + 8) * std::ldexp(1.0, -24);
  const comm::Patience patience{.deadline = deadline, .place = {}};
  std::int64_t wrong = 0;
  for (std::size_t begin = 0; begin < books.result.size(); begin += kChunk) {
    const std::size_t count = std::min(kChunk, books.result.size() - begin);
    const Buffer<Page> total = page_of(books, begin, count);
    if (communicator.rank() != 0) {
      communicator.wait(communicator.send(0, kAuditTag, comm::region_of(total)), patience);
      continue;
    }
    std::vector<bool> bad(count, false);
    for (int peer = 1; peer < ranks; ++peer) {
      const Buffer<Page> theirs(count);
      communicator.wait(communicator.receive(peer, kAuditTag, comm::region_of(theirs)), patience);
      for (std::size_t i = 0; i < count; ++i) {
        total[i].gave += theirs[i].gave;
        total[i].magnitude += theirs[i].magnitude;
        if (std::bit_cast<std::uint32_t>(total[i].got) !=
            std::bit_cast<std::uint32_t>(theirs[i].got))
          bad[i] = true;
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      const double error = std::abs(total[i].gave - ranks * static_cast<double>(total[i].got));
      if (!(error <= tolerance * total[i].magnitude)) bad[i] = true;
    }
    wrong += std::ranges::count(bad, true);
  }
  return wrong;
}

std::unique_ptr<Trial> real_trial(comm::Communicator& communicator, const TrialOptions& options,
                                  std::span<const float> gradient) {
  return std::make_unique<RealTrial>(communicator, options, gradient);
}

std::unique_ptr<Trial> hollow_trial(comm::Communicator& communicator, const TrialOptions& options,
                                    comm::Region memory) {
  return std::make_unique<HollowTrial>(communicator, options, std::move(memory));
}

std::size_t hollow_bytes(const TrialOptions& options, int rank, int ranks) {
  std::size_t largest = 0;
  for (const auto& stage : stages_of(options, ranks)) {
    HollowBlocks blocks({}, model::all_block_bytes(stage));
    for (const auto& round : model::schedule_of(stage, rank)) {
      for (const auto& move : round.sends) largest = std::max(largest, blocks.bytes_of(move));
      for (const auto& move : round.receives) largest = std::max(largest, blocks.bytes_of(move));
    }
  }
  return largest;
}

// Sums of four uniform numbers: near enough to a bell, and quick.
void draw_gradient(int rank, std::span<float> gradient) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  for (float& value : gradient) {
    const std::uint64_t bits = random();
    float sum = 0;
    for (int part = 0; part < 4; ++part)
      sum += static_cast<float>((bits >> (16 * part)) & 0xFFFFU) / 65536.0F - 0.5F;
    value = sum;
  }
}

}  // namespace pliant::bench
