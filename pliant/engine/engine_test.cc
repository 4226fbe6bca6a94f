// SPDX-License-Identifier: MIT
#include "pliant/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "pliant/common/errors.h"
#include "tests/support/run_engines.h"

namespace pliant::engine {
namespace {

using pliant::testing::run_engines;
using pliant::testing::run_failing_engines;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace pliant::literals;

using Tensors = std::vector<std::vector<float>>;

const std::vector<std::size_t> kSizes = {700, 1, 1300, 64, 2048, 333};

std::vector<Parameter> parameters() {
  std::vector<Parameter> parameters;
  for (std::size_t p = 0; p < kSizes.size(); ++p)
    parameters.push_back({.name = "p" + std::to_string(p), .size = kSizes[p]});
  return parameters;
}

Options options(const std::string& plan) {
  return {.pins = plan::parse_pins(plan),
          .costs = plan::CostTable{},
          .deadline = 60_s,
          .check_every = 3};
}

Tensors random_gradient(int rank, std::uint64_t step) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 1000 + step);
  std::normal_distribution<float> normal;
  Tensors tensors;
  for (const std::size_t size : kSizes) {
    tensors.emplace_back(size);
    std::ranges::generate(tensors.back(), [&] { return normal(random); });
  }
  return tensors;
}

// As a frame would: buckets of parameters in an order and a cut that all ranks share, and that
// changes from step to step.
void submit_in_buckets(Engine& engine, Tensors& tensors, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  for (auto next = order.begin(); next != order.end();) {
    Submission submission;
    const auto count =
        std::min<std::ptrdiff_t>(order.end() - next, 1 + static_cast<std::ptrdiff_t>(random() % 3));
    for (std::ptrdiff_t i = 0; i < count; ++i, ++next)
      submission.pieces.push_back({*next, tensors[static_cast<std::size_t>(*next)]});
    engine.gradients().submit(std::move(submission));
  }
  engine.gradients().end_step();
}

double sum(const Tensors& tensors) {
  double total = 0;
  for (const auto& tensor : tensors) total = std::accumulate(tensor.begin(), tensor.end(), total);
  return total;
}

TEST(Engine, DenseIsTheMeanOverRanks) {
  for (const int lanes : {0, 1, 3}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_engines("dense", ranks, lanes, [&](int rank, Communicators communicators) {
        Engine engine(std::move(communicators), parameters(), options("gradients dense"));
        for (std::uint64_t step = 0; step < 5; ++step) {
          Tensors mine = random_gradient(rank, step);
          submit_in_buckets(engine, mine, step);
          for (std::size_t p = 0; p < kSizes.size(); ++p) {
            for (std::size_t i = 0; i < kSizes[p]; i += 97) {
              double mean = 0;
              for (int r = 0; r < ranks; ++r)
                mean += static_cast<double>(random_gradient(r, step)[p][i]) / ranks;
              EXPECT_NEAR(mine[p][i], mean, 1e-5);
            }
          }
        }
      });
    }
  }
}

// N x result + new residuals = gradients + old residuals, and the same bits everywhere, while
// plans, buckets and fusion change.
TEST(Engine, LosesNothingThroughPlanSwitches) {
  const std::vector<std::string> plans = {
      "gradients union density=10% values=int8 fuse=all",
      "gradients shared/star density=5% values=f16 indices=raw32 fuse=2",
      "gradients dense",
      "gradients srs density=20% values=f32 fuse=bucket",
      "gradients shared/var density=10% values=int4 fuse=all",
      "gradients dense reduce=ring values=f16",
      "gradients union density=1% values=f32 fuse=bucket"};
  for (const int lanes : {0, 2}) {
    for (const int ranks : {1, 2, 3, 4}) {
      struct Shared {
        std::vector<Tensors> results;
        std::vector<double> before, contributed, after;
      };
      const auto n = static_cast<std::size_t>(ranks);
      Shared shared{std::vector<Tensors>(n), std::vector<double>(n), std::vector<double>(n),
                    std::vector<double>(n)};
      std::barrier met(ranks);
      run_engines("switching plans", ranks, lanes, [&](int rank, Communicators communicators) {
        const auto r = static_cast<std::size_t>(rank);
        Engine engine(std::move(communicators), parameters(), options(plans.front()));
        for (std::uint64_t step = 0; step < 3 * plans.size(); ++step) {
          if (step % 2 == 1) engine.set_plan(plan::parse_pins(plans[(step / 2) % plans.size()]));
          Tensors mine = random_gradient(rank, step);
          shared.before[r] = sum(engine.state().residual);
          shared.contributed[r] = sum(mine);
          submit_in_buckets(engine, mine, step / 4);
          shared.after[r] = sum(engine.state().residual);
          shared.results[r] = mine;
          met.arrive_and_wait();
          if (rank == 0) {
            const auto total = [](const std::vector<double>& v) {
              return std::accumulate(v.begin(), v.end(), 0.0);
            };
            EXPECT_NEAR(ranks * sum(mine) + total(shared.after),
                        total(shared.contributed) + total(shared.before), 2e-2)
                << "step " << step;
            for (const Tensors& other : shared.results) EXPECT_EQ(other, mine) << "step " << step;
          }
          met.arrive_and_wait();
        }
        EXPECT_GT(engine.summary().exchanges, 20U);
        EXPECT_GT(engine.summary().epoch, 5U);
      });
    }
  }
}

TEST(Engine, ResumesBitForBitAlthoughBucketsAreCutAnew) {
  for (const std::string plan :
       {"gradients srs density=5% values=int8", "gradients shared/var density=5% values=f16 fuse=2",
        "gradients union density=2% values=int4", "gradients dense"}) {
    constexpr int kRanks = 3;
    std::vector<State> states(kRanks);
    std::vector<Tensors> expected(kRanks);
    run_engines("never stopped", kRanks, 2, [&](int rank, Communicators communicators) {
      Engine engine(std::move(communicators), parameters(), options(plan));
      for (std::uint64_t step = 0; step < 12; ++step) {
        if (step == 6) states[static_cast<std::size_t>(rank)] = engine.state();
        Tensors mine = random_gradient(rank, step);
        submit_in_buckets(engine, mine, step == 0 ? 1 : 2);
        expected[static_cast<std::size_t>(rank)] = mine;
      }
    });
    run_engines("resumed", kRanks, 1, [&](int rank, Communicators communicators) {
      Engine engine(std::move(communicators), parameters(), options(plan));
      engine.restore(states[static_cast<std::size_t>(rank)]);
      Tensors mine;
      for (std::uint64_t step = 6; step < 12; ++step) {
        mine = random_gradient(rank, step);
        submit_in_buckets(engine, mine, step == 6 ? 1 : 2);
      }
      EXPECT_EQ(mine, expected[static_cast<std::size_t>(rank)]) << plan;
    });
  }
}

TEST(Engine, SaysWhatRanksDisagreeOn) {
  const auto complaint =
      [](const std::function<void(int, std::vector<Parameter>&, Options&)>& change) {
        std::string text;
        const auto failures =
            run_failing_engines("disagreeing", 3, 1, [&](int rank, Communicators communicators) {
              auto layout = parameters();
              auto mine = options("gradients dense");
              change(rank, layout, mine);
              const Engine engine(std::move(communicators), layout, mine);
            });
        for (const auto& failure : failures) {
          try {
            if (failure) std::rethrow_exception(failure);
            ADD_FAILURE() << "a rank did not notice";
          } catch (const Disagreement& error) {
            text = error.what();
          }
        }
        return text;
      };
  EXPECT_THAT(
      complaint([](int rank, auto& layout, auto&) {
        layout[4].size += static_cast<std::size_t>(rank == 2);
      }),
      HasSubstr("parameter 4: rank 0 has 'p4 (2048 entries)', rank 2 has 'p4 (2049 entries)'"));
  EXPECT_THAT(
      complaint([](int rank, auto&, auto& options) {
        if (rank == 1) options.pins = plan::parse_pins("gradients srs density=1%");
      }),
      HasSubstr("plan: rank 0 has 'gradients dense', rank 1 has 'gradients srs density=1%'"));
  EXPECT_THAT(complaint([](int rank, auto&, auto& options) {
                options.facts.emplace_back("torch", rank == 0 ? "2.13.0" : "2.12.0");
              }),
              HasSubstr("torch: rank 0 has '2.13.0', rank 1 has '2.12.0'"));
  EXPECT_THAT(complaint([](int rank, auto&, auto& options) {
                if (rank == 2) options.control.better = 1.5;
              }),
              HasSubstr("dial better: rank 0 has '1.05', rank 2 has '1.5'"));
}

TEST(Engine, ARankThatIsGoneIsAnErrorForAllAndStaysOne) {
  const auto failures =
      run_failing_engines("a rank leaves", 3, 2, [&](int rank, Communicators communicators) {
        Engine engine(std::move(communicators), parameters(),
                      options("gradients union density=5%"));
        for (std::uint64_t step = 0; step < 20; ++step) {
          if (rank == 1 && step == 7) return;
          Tensors mine = random_gradient(rank, step);
          try {
            submit_in_buckets(engine, mine, step);
          } catch (const comm::CommError&) {
            EXPECT_THROW(submit_in_buckets(engine, mine, step), comm::CommError);
            throw;
          }
        }
      });
  EXPECT_EQ(failures[1], nullptr);
  for (const std::size_t survivor : {0U, 2U})
    EXPECT_THROW(std::rethrow_exception(failures[survivor]), comm::CommError);
}

// Flips a bit of everything that arrives from some message on, or of everything with one tag.
class Corrupting final : public comm::Communicator {
 public:
  Corrupting(std::unique_ptr<comm::Communicator> inner, int after,
             std::optional<comm::Tag> only = {})
      : inner_(std::move(inner)), after_(after), only_(only) {}
  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  [[nodiscard]] comm::Ticket send(int peer, comm::Tag tag, comm::Region message) override {
    return inner_->send(peer, tag, message);
  }
  [[nodiscard]] comm::Ticket receive(int peer, comm::Tag tag, comm::Region room) override {
    const auto ticket = inner_->receive(peer, tag, room);
    if (!only_ || tag == *only_) rooms_[ticket] = room;
    return ticket;
  }
  Bytes wait(comm::Ticket ticket, const comm::Patience& patience) override {
    const Bytes size = inner_->wait(ticket, patience);
    const auto room = rooms_.find(ticket);
    if (room != rooms_.end() && --after_ < 0) room->second.bytes.front() ^= std::byte{1};
    return size;
  }
  void all_reduce(const comm::Floats& floats, const comm::Patience& patience) override {
    inner_->all_reduce(floats, patience);
  }
  [[nodiscard]] comm::Capabilities capabilities() const override { return inner_->capabilities(); }
  [[nodiscard]] Seconds now() const override { return inner_->now(); }

 private:
  std::unique_ptr<comm::Communicator> inner_;
  std::map<comm::Ticket, comm::Region> rooms_;
  int after_;
  std::optional<comm::Tag> only_;
};

TEST(Engine, ReplicasThatDriftApartAreNoticedAndNamed) {
  const auto failures =
      run_failing_engines("drifting", 3, 1, [&](int rank, Communicators communicators) {
        if (rank == 1)
          communicators.lanes.front() =
              std::make_unique<Corrupting>(std::move(communicators.lanes.front()), 40);
        Engine engine(std::move(communicators), parameters(),
                      options("gradients dense reduce=tree"));
        for (std::uint64_t step = 0; step < 60; ++step) {
          Tensors mine = random_gradient(rank, step);
          submit_in_buckets(engine, mine, 0);
        }
      });
  int named = 0;
  for (const auto& failure : failures) {
    ASSERT_NE(failure, nullptr);
    try {
      std::rethrow_exception(failure);
    } catch (const Disagreement& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("hash of what was applied"), HasSubstr("rank 1")));
      ++named;
    } catch (const comm::CommError&) {  // somebody else noticed first and left
    }
  }
  EXPECT_GT(named, 0);
}

// Also if there are as many exchanges in a step as between two checks.
TEST(Engine, EveryGroupIsChecked) {
  std::size_t groups = 0;
  run_engines("counting", 2, 1, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), parameters(), options("gradients dense fuse=bucket"));
    Tensors mine = random_gradient(rank, 0);
    submit_in_buckets(engine, mine, 0);
    if (rank == 0) groups = engine.state().exchanges;
  });
  ASSERT_GT(groups, 1U);
  for (std::size_t group = 0; group < groups; ++group) {
    const auto failures =
        run_failing_engines("one group", 3, 1, [&](int rank, Communicators communicators) {
          if (rank == 1) {
            communicators.lanes.front() = std::make_unique<Corrupting>(
                std::move(communicators.lanes.front()), 0, static_cast<comm::Tag>(group));
          }
          auto mine = options("gradients dense reduce=tree fuse=bucket");
          mine.check_every = static_cast<int>(groups);
          Engine engine(std::move(communicators), parameters(), mine);
          for (std::uint64_t step = 0; step < 10; ++step) {
            Tensors gradient = random_gradient(rank, step);
            submit_in_buckets(engine, gradient, 0);
          }
        });
    EXPECT_TRUE(
        std::ranges::any_of(failures, [](const auto& failure) { return failure != nullptr; }))
        << "group " << group;
  }
}

// What backward did not reach on this rank is not sent from here, and nothing of it is lost.
TEST(Engine, AResidualRestsWhileItsGradientIsAllZero) {
  run_engines("unused parameters", 2, 1, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), parameters(),
                  options("gradients union density=1% fuse=all"));
    for (std::uint64_t step = 0; step < 3; ++step) {
      Tensors mine = random_gradient(rank, step);
      submit_in_buckets(engine, mine, 0);
    }
    const auto before = engine.state().residual[4];
    for (std::uint64_t step = 3; step < 6; ++step) {
      Tensors mine = random_gradient(rank, step);
      std::ranges::fill(mine[4], 0.0F);
      submit_in_buckets(engine, mine, 0);
      EXPECT_TRUE(std::ranges::all_of(mine[4], [](float v) { return v == 0; }));
    }
    EXPECT_EQ(engine.state().residual[4], before);
    Tensors mine = random_gradient(rank, 6);
    submit_in_buckets(engine, mine, 0);
    EXPECT_NE(engine.state().residual[4], before);
  });
}

TEST(Engine, ClipsEachRanksOwnGradient) {
  run_engines("clipping", 2, 1, [&](int rank, Communicators communicators) {
    auto mine = options("gradients dense fuse=all");
    mine.clip_norm = 1;
    Engine engine(std::move(communicators), parameters(), mine);
    Tensors gradient;
    for (const std::size_t size : kSizes) gradient.emplace_back(size, rank == 0 ? 100.0F : 0.0F);
    submit_in_buckets(engine, gradient, 0);
    double energy = 0;
    for (const auto& tensor : gradient)
      energy = std::inner_product(tensor.begin(), tensor.end(), tensor.begin(), energy);
    EXPECT_NEAR(std::sqrt(energy), 0.5, 1e-4) << "a norm of 1, averaged with nothing";
  });
}

// Under a plan of several groups: by this step's norm while all of it is waited for, then by the
// last one that was finite.
TEST(Engine, ClipsByTheLastNormThatWasFinite) {
  run_engines("clipping by the last norm", 2, 2, [&](int, Communicators communicators) {
    auto mine = options("gradients union density=100% fuse=bucket");
    mine.clip_norm = 1;
    Engine engine(std::move(communicators), parameters(), mine);
    const auto norm_after = [&](float value) {
      Tensors gradient;
      for (const std::size_t size : kSizes) gradient.emplace_back(size, value);
      submit_in_buckets(engine, gradient, 0);
      double energy = 0;
      for (const auto& tensor : gradient)
        energy = std::inner_product(tensor.begin(), tensor.end(), tensor.begin(), energy);
      return std::sqrt(energy);
    };
    EXPECT_NEAR(norm_after(100.0F), 1, 1e-3) << "the first step knows its norm";
    EXPECT_NEAR(norm_after(200.0F), 1, 1e-3) << "so does the second";
    EXPECT_NEAR(norm_after(100.0F), 0.5, 1e-3) << "by the norm before, which was twice as large";
    EXPECT_TRUE(std::isnan(norm_after(std::numeric_limits<float>::quiet_NaN())));
    engine.gradients().rescale(
        1 / 1024.0);  // as a scaler does that has seen it; what the void left in the residual is 0
    engine.gradients().set_clip_norm(1 / 1024.0);
    EXPECT_NEAR(norm_after(100.0F / 1024) * 1024, 1, 1e-3) << "in other units";
  });
}

// Two backwards before one step, of which the second is void: who skips the step skips the first
// one's average too.
TEST(Engine, AnEarlierAverageThatAVoidSpoilsGoesBackToTheResidual) {
  run_engines("carried", 2, 2, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), parameters(),
                  options("gradients union density=5% fuse=bucket"));
    for (std::uint64_t step = 0; step < 4; ++step) {
      Tensors mine = random_gradient(rank, step);
      submit_in_buckets(engine, mine, 0);
    }
    const auto before = engine.state().residual;
    Tensors mine;
    for (const std::size_t size : kSizes) mine.emplace_back(size, 0.0F);
    if (rank == 1) mine[2][5] = std::numeric_limits<float>::quiet_NaN();
    const Tensors average = random_gradient(7, 0);
    Submission submission;
    for (std::size_t p = 0; p < kSizes.size(); ++p)
      submission.pieces.push_back({static_cast<int>(p), mine[p], average[p]});
    engine.gradients().submit(std::move(submission));
    engine.gradients().end_step();
    const auto after = engine.state().residual;
    for (std::size_t p = 0; p < kSizes.size(); ++p) {
      for (std::size_t i = 0; i < kSizes[p]; ++i)
        ASSERT_NEAR(after[p][i], before[p][i] + average[p][i], 1e-5) << p << " " << i;
    }
  });
}

TEST(Engine, NonFiniteGradientsVoidTheExchangeAndLeaveTheResidualAlone) {
  run_engines("a NaN", 3, 2, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), parameters(),
                  options("gradients srs density=5% fuse=all"));
    for (std::uint64_t step = 0; step < 3; ++step) {
      Tensors mine = random_gradient(rank, step);
      submit_in_buckets(engine, mine, 0);
    }
    Tensors mine = random_gradient(rank, 3);
    if (rank == 1) mine[2][5] = std::numeric_limits<float>::infinity();
    submit_in_buckets(engine, mine, 0);
    EXPECT_TRUE(std::isnan(mine[0][0]));
    for (const auto& residual : engine.state().residual) {
      EXPECT_TRUE(std::ranges::all_of(residual, [](float v) { return std::isfinite(v); }));
    }
    EXPECT_EQ(engine.summary().voids, 1U);
  });
}

// What other buckets of that step had sent is not lost with it.
TEST(Engine, AVoidBucketVoidsItsWholeStep) {
  std::vector<double> before(2), after(2);
  run_engines("a void among others", 2, 2, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), parameters(),
                  options("gradients union density=5% fuse=bucket"));
    for (std::uint64_t step = 0; step < 4; ++step) {
      Tensors mine = random_gradient(rank, step);
      submit_in_buckets(engine, mine, 0);
    }
    before[static_cast<std::size_t>(rank)] = sum(engine.state().residual);
    Tensors mine = random_gradient(rank, 4);
    for (auto& tensor : mine)
      std::ranges::fill(tensor, 1e-30F);  // so that the residual is all there is to send
    if (rank == 1) mine[2][5] = std::numeric_limits<float>::quiet_NaN();
    submit_in_buckets(engine, mine, 0);
    for (const auto& tensor : mine)
      EXPECT_TRUE(std::ranges::all_of(tensor, [](float v) { return std::isnan(v); }));
    after[static_cast<std::size_t>(rank)] = sum(engine.state().residual);
  });
  EXPECT_NEAR(before[0] + before[1], after[0] + after[1], 1e-2);
}

// A dense step after sparse ones carries all that was unsent: with one bucket not finite, whoever
// skips the step would lose it.
TEST(Engine, ADenseStepThatFlushesIsVoidAsAWholeAndTriedAgain) {
  std::vector<double> before(2), between(2), result(2), contributed(2);
  run_engines("a void flush", 2, 2, [&](int rank, Communicators communicators) {
    const auto r = static_cast<std::size_t>(rank);
    Engine engine(std::move(communicators), parameters(),
                  options("gradients union density=5% fuse=bucket"));
    for (std::uint64_t step = 0; step < 4; ++step) {
      Tensors mine = random_gradient(rank, step);
      submit_in_buckets(engine, mine, 0);
    }
    before[r] = sum(engine.state().residual);
    engine.set_plan(plan::parse_pins("gradients dense"));
    Tensors mine(kSizes.size());
    for (std::size_t p = 0; p < kSizes.size(); ++p) mine[p].assign(kSizes[p], 1e-30F);
    if (rank == 1) mine[2][5] = std::numeric_limits<float>::quiet_NaN();
    submit_in_buckets(engine, mine, 0);
    for (const auto& tensor : mine)
      EXPECT_TRUE(std::ranges::all_of(tensor, [](float v) { return std::isnan(v); }));
    between[r] = sum(engine.state().residual);
    mine = random_gradient(rank, 5);
    contributed[r] = sum(mine);
    submit_in_buckets(engine, mine, 0);
    result[r] = sum(mine);
    EXPECT_EQ(sum(engine.state().residual), 0);
  });
  EXPECT_NEAR(before[0] + before[1], between[0] + between[1], 1e-2);
  EXPECT_NEAR(2 * result[0], between[0] + between[1] + contributed[0] + contributed[1], 1e-2);
  EXPECT_EQ(result[0], result[1]);
}

// As DDP does: there is no residual to be lost.
TEST(Engine, ADensePlanHandsOnWhatIsNotFinite) {
  run_engines("a dense NaN", 2, 2, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), parameters(), options("gradients dense"));
    for (std::uint64_t step = 0; step < 4; ++step) {
      Tensors mine = random_gradient(rank, step);
      if (rank == 1) mine[2][5] = std::numeric_limits<float>::quiet_NaN();
      submit_in_buckets(engine, mine, 0);
      EXPECT_TRUE(std::isnan(std::exchange(mine[2][5], 0.0F)));
      EXPECT_TRUE(std::isfinite(sum(mine)));
    }
    EXPECT_EQ(engine.summary().voids, 0U);
  });
}

TEST(Engine, RefusesWhatIsNotAStep) {
  run_engines("misuse", 1, 0, [&](int, Communicators communicators) {
    Engine engine(std::move(communicators), parameters(), options("gradients dense"));
    Tensors mine = random_gradient(0, 0);
    EXPECT_THROW(engine.gradients().submit({.pieces = {{7, mine[0]}}}), ContractError);
    EXPECT_THROW(engine.gradients().submit({.pieces = {{0, mine[1]}}}), ContractError);
    engine.gradients().submit({.pieces = {{0, mine[0]}}});
    EXPECT_THROW(engine.gradients().submit({.pieces = {{0, mine[0]}}}), ContractError);
    EXPECT_THROW(engine.gradients().end_step(), ContractError);
  });
}

}  // namespace
}  // namespace pliant::engine
