// SPDX-License-Identifier: MIT
// Updates of tensors that the engine cannot reach in host memory, or that are narrower than
// float32.
#include "pliant/engine/tensor_access.h"

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <mutex>
#include <random>

#include "pliant/engine/engine.h"
#include "tests/support/run_engines.h"

namespace pliant::engine {
namespace {

using pliant::testing::run_engines;
using namespace pliant::literals;

// More than one chunk and many pieces, with tensors that pieces reach over.
const std::vector<std::size_t> kSizes = {100'000, 3, 0, 300'000, 1, 70'001};
constexpr std::size_t kEntries = 470'005;

std::vector<Parameter> parameters() {
  std::vector<Parameter> tensors;
  for (std::size_t t = 0; t < kSizes.size(); ++t)
    tensors.push_back({.name = "p" + std::to_string(t), .size = kSizes[t]});
  return tensors;
}

Options options(const std::string& plan) {
  return {.pins = plan::parse_pins(plan),
          .updates = true,
          .costs = plan::CostTable{},
          .deadline = 60_s,
          .check_every = 1};
}

float bfloat16(float value) {  // to nearest, ties to even
  auto bits = std::bit_cast<std::uint32_t>(value);
  bits += 0x7FFFU + ((bits >> 16U) & 1U);
  return std::bit_cast<float>(bits & 0xFFFF0000U);
}

// Tensors that are reached by copies only, as those of a device; rounded if they are narrow.
class FarTensors final : public TensorAccess {
 public:
  enum class Width : std::uint8_t { kFloat32, kBfloat16 };
  explicit FarTensors(Width width = Width::kFloat32) : width_(width), entries_(kEntries, 1.0F) {}

  std::vector<std::size_t> sizes() const override { return kSizes; }
  std::span<float> host(std::size_t) override { return {}; }
  void read(std::size_t begin, std::span<float> to) override {
    check(begin, to.size());
    std::copy_n(entries_.begin() + static_cast<std::ptrdiff_t>(begin), to.size(), to.begin());
  }
  void write(std::size_t begin, std::span<const float> from, std::span<float> lost) override {
    check(begin, from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      entries_[begin + i] = rounded(from[i]);
      if (!lost.empty()) lost[i] = from[i] - entries_[begin + i];
    }
  }
  void add(std::size_t begin, std::span<const float> difference, std::span<float> lost) override {
    check(begin, difference.size());
    for (std::size_t i = 0; i < difference.size(); ++i) {
      const float old = entries_[begin + i];
      entries_[begin + i] = rounded(old + difference[i]);
      if (!lost.empty()) lost[i] = difference[i] - (entries_[begin + i] - old);
    }
  }
  bool exact() const override { return width_ == Width::kFloat32; }

  float& operator[](std::size_t i) { return entries_[i]; }
  const std::vector<float>& entries() const { return entries_; }
  float rounded(float value) const { return exact() ? value : bfloat16(value); }

 private:
  static void check(std::size_t begin, std::size_t count) {
    ASSERT_LE(count, kChunk);
    ASSERT_LE(begin + count, kEntries);
  }
  Width width_;
  std::vector<float> entries_;
};

// A step of rank `rank`, the same for every kind of memory.
template <typename Entries>
void optimize(Entries& entries, int rank, std::uint64_t step, float size) {
  std::mt19937_64 random(1000 * static_cast<std::uint64_t>(rank) + step);
  std::normal_distribution<float> normal(0, size);
  for (std::size_t i = 0; i < kEntries; ++i) entries[i] += normal(random);
}

struct Flat {  // all entries of several tensors
  std::vector<std::vector<float>> tensors;
  std::vector<std::span<float>> views;
  std::vector<float*> places;
  Flat() {
    for (const std::size_t size : kSizes) tensors.emplace_back(size, 1.0F);
    views.assign(tensors.begin(), tensors.end());
    for (auto& tensor : tensors) {
      for (float& entry : tensor) places.push_back(&entry);
    }
  }
  float& operator[](std::size_t i) { return *places[i]; }
};

TEST(TensorAccess, TensorsThatAreReachedByCopiesGetTheSameBits) {
  for (const char* plan : {"updates every=1 late=2 union density=1% values=int8",
                           "updates every=2 late=1 union density=10% values=int4 indices=block16",
                           "updates every=2 late=1 srs density=5% values=f16",
                           "updates every=1 late=0 shared/star density=5%",
                           "updates every=2 late=3 dense", "updates every=1 late=0 union"}) {
    for (const int ranks : {2, 4}) {
      std::vector<std::vector<float>> near(static_cast<std::size_t>(ranks));
      std::vector<std::vector<float>> far(near);
      const auto train = [&](auto entries, const auto& model_of, auto& after) {
        run_engines(plan, ranks, 2, [&](int rank, Communicators communicators) {
          Engine engine(std::move(communicators), parameters(), options(plan));
          auto mine = entries();
          const ModelTensors model{.parameters = model_of(*mine)};
          engine.rebase(model);
          for (std::uint64_t step = 0; step < 5; ++step) {
            optimize(*mine, rank, step, 0.01F);
            engine.step(model);
          }
          for (std::size_t i = 0; i < kEntries; ++i)
            after[static_cast<std::size_t>(rank)].push_back((*mine)[i]);
          engine.settle(model);
          for (std::size_t i = 0; i < kEntries; ++i)
            after[static_cast<std::size_t>(rank)].push_back((*mine)[i]);
        });
      };
      train([] { return std::make_unique<Flat>(); },
            [](Flat& flat) { return TensorList(flat.views); }, near);
      train([] { return std::make_unique<FarTensors>(); },
            [](FarTensors& tensors) { return TensorList(tensors); }, far);
      EXPECT_TRUE(near == far) << plan << " on " << ranks;
    }
  }
}

TEST(TensorAccess, WhatRoundingTakesFromNarrowTensorsIsNotLost) {
  std::mutex mutex;
  for (const char* plan :
       {"updates every=1 late=2 union density=5% values=int8",
        "updates every=2 late=0 srs density=10%", "updates every=1 late=1 dense"}) {
    constexpr int kRanks = 2;
    double learnt = 0;
    double there = 0;
    run_engines(plan, kRanks, 1, [&](int /*rank*/, Communicators communicators) {
      Engine engine(std::move(communicators), parameters(), options(plan));
      FarTensors far(FarTensors::Width::kBfloat16);
      const ModelTensors model{.parameters = far};
      engine.rebase(model);
      double mine = 0;
      for (std::uint64_t step = 0; step < 6; ++step) {
        const std::vector<float> before = far.entries();
        // All steps go up, by less than half of what bfloat16 can add to 1, except in a few places.
        for (std::size_t i = 0; i < kEntries; ++i)
          far[i] = far.rounded(far[i] + (i % 64 == step ? 0.0157F : 0.0F));
        for (std::size_t i = 0; i < kEntries; ++i) mine += static_cast<double>(far[i]) - before[i];
        engine.step(model);
      }
      const State state = engine.state();
      double residual = 0;
      for (const auto& tensor : state.residual) {
        for (const float value : tensor) residual += value;
      }
      double returned = 0;
      for (const auto& flight : state.in_flight) {
        for (const auto& tensor : flight.returned) {
          for (const float value : tensor) returned += value;
        }
      }
      double parameters_now = 0;
      for (const float value : far.entries()) parameters_now += value - 1.0;
      // What is in flight stands in the parameters as the own part.
      const std::lock_guard lock(mutex);
      learnt += mine;
      there += parameters_now + residual + returned;
    });
    EXPECT_GT(learnt, 100) << plan;
    EXPECT_NEAR(there, learnt, 1e-3 * learnt) << plan;
  }
}

}  // namespace
}  // namespace pliant::engine
