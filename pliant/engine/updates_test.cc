// SPDX-License-Identifier: MIT
// Ranks that train by themselves: here an "optimizer" adds noise of its own to every parameter.
#include "pliant/engine/updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "pliant/engine/units.h"
#include "tests/support/run_engines.h"

namespace pliant::engine {
namespace {

using pliant::testing::run_engines;
using pliant::testing::run_failing_engines;
using ::testing::HasSubstr;
using namespace pliant::literals;

const std::vector<std::size_t> kSizes = {700, 1, 1300, 64, 935};
const std::vector<std::size_t> kBufferSizes = {5, 3};

std::vector<Parameter> named(const std::string& prefix, const std::vector<std::size_t>& sizes) {
  std::vector<Parameter> tensors;
  for (std::size_t t = 0; t < sizes.size(); ++t)
    tensors.push_back({.name = prefix + std::to_string(t), .size = sizes[t]});
  return tensors;
}

Options options(const std::string& plan) {
  return {.pins = plan::parse_pins(plan),
          .updates = true,
          .costs = plan::CostTable{},
          .deadline = 60_s,
          .check_every = 3};
}

// One rank's model and what its optimizer does to it.
struct Worker {
  explicit Worker(int number) : rank(number) {
    for (const std::size_t size : kSizes) parameters.emplace_back(size, 1.0F);
    for (const std::size_t size : kBufferSizes) buffers.emplace_back(size, 2.0F);
    buffers[1][1] = -std::numeric_limits<float>::infinity();  // a mask
  }
  void optimize(std::uint64_t step) {
    std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 100'003 + step);
    std::normal_distribution<float> normal(0, 0.01F);
    for (auto& tensor : parameters) {
      for (float& value : tensor) {
        const float change = normal(random);
        value += change;
        learnt += change;
      }
    }
    for (auto& tensor : buffers) {
      for (float& value : tensor) value += normal(random);
    }
  }
  Model model() {
    views.assign(parameters.begin(), parameters.end());
    buffer_views.assign(buffers.begin(), buffers.end());
    return {views, buffer_views};
  }
  // The parameters as host memory, which gradients are averaged in.
  engine::Tensors spans() {
    views.assign(parameters.begin(), parameters.end());
    return views;
  }

  int rank;
  std::vector<std::vector<float>> parameters, buffers;
  std::vector<std::span<float>> views, buffer_views;
  double learnt = 0;  // by the optimizer
};

double sum(const std::vector<std::vector<float>>& tensors) {
  double total = 0;
  for (const auto& tensor : tensors) total = std::accumulate(tensor.begin(), tensor.end(), total);
  return total;
}

// Numbers that every rank leaves and rank 0 looks at.
class Table {
 public:
  explicit Table(int ranks) : met_(ranks), values_(static_cast<std::size_t>(ranks)) {}
  std::vector<double> all(int rank, double mine) {
    values_[static_cast<std::size_t>(rank)] = mine;
    met_.arrive_and_wait();
    auto copy = values_;
    met_.arrive_and_wait();
    return copy;
  }
  double total(int rank, double mine) {
    const auto values = all(rank, mine);
    return std::accumulate(values.begin(), values.end(), 0.0);
  }

 private:
  std::barrier<> met_;
  std::vector<double> values_;
};

// The base of every exchange, from every rank: the first to come leaves it, the others must have
// the same bits.
class Bases {
 public:
  void compare(std::uint64_t round, const std::vector<std::vector<float>>& base) {
    const std::lock_guard lock(mutex_);
    const auto [known, fresh] = seen_.emplace(round, base);
    EXPECT_TRUE(fresh || known->second == base) << "round " << round;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<std::vector<float>>> seen_;
};

TEST(Updates, DenseEveryStepIsTheMeanOverRanks) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_engines("dense updates", ranks, 1, [&](int rank, Communicators communicators) {
      Engine engine(std::move(communicators), named("p", kSizes),
                    options("updates every=1 late=0 dense"), named("b", kBufferSizes));
      Worker worker(rank);
      engine.rebase(worker.model());
      std::vector<Worker> twins;  // everybody, to compute the mean here
      for (int r = 0; r < ranks; ++r) twins.emplace_back(r);
      for (std::uint64_t step = 0; step < 4; ++step) {
        worker.optimize(step);
        EXPECT_TRUE(engine.step(worker.model()).landed);
        for (Worker& twin : twins) twin.optimize(step);
        std::vector<double> mean(kSizes[0], 0);
        for (const Worker& twin : twins) {
          for (std::size_t i = 0; i < mean.size(); ++i)
            mean[i] += static_cast<double>(twin.parameters[0][i]) / ranks;
        }
        for (std::size_t i = 0; i < mean.size(); ++i)
          ASSERT_NEAR(worker.parameters[0][i], mean[i], 1e-5);
        EXPECT_EQ(engine.updates().base(), worker.parameters);
        for (Worker& twin : twins) {
          for (std::size_t i = 0; i < mean.size(); ++i) twin.parameters = worker.parameters;
        }
      }
      EXPECT_TRUE(std::isinf(worker.buffers[1][1])) << "a mask stays what it was";
    });
  }
}

// The mean over ranks of (parameters + residual) changes by optimizer steps only; the base has the
// same bits everywhere.
TEST(Updates, LoseNothingThroughSwitchesOfPlanAndKind) {
  const std::vector<std::string> plans = {
      "updates every=1 late=8 union density=5% values=int8",
      "updates every=2 late=4 srs density=10% values=f16",
      "updates every=1 late=0 shared/star density=5% values=f32",
      "updates every=3 late=4 dense",
      "gradients union density=5%",
      "updates every=4 late=1 union density=20% values=int4",
      "updates every=1 late=0 shared/var density=5% values=int8",
      "updates every=1 late=2 dense reduce=ring values=f16"};
  for (const int lanes : {0, 2}) {
    for (const int ranks : {1, 2, 4}) {
      Table table(ranks);
      Bases bases;
      run_engines("switching", ranks, lanes, [&](int rank, Communicators communicators) {
        Engine engine(std::move(communicators), named("p", kSizes), options(plans.front()),
                      named("b", kBufferSizes));
        Worker worker(rank);
        engine.rebase(worker.model());
        double expected = table.total(rank, sum(worker.parameters));
        for (std::uint64_t step = 0; step < 12 * plans.size(); ++step) {
          if (step % 12 == 11)
            engine.set_plan(plan::parse_pins(plans[(step / 12 + 1) % plans.size()]));
          const double before = worker.learnt;
          const bool updating = engine.kind() == plan::Kind::kUpdates;
          if (updating) {
            worker.optimize(step);
          } else {
            Worker gradient(rank);
            gradient.optimize(step);
            engine.average(gradient.spans());
            for (std::size_t p = 0; p < kSizes.size(); ++p) {
              for (std::size_t i = 0; i < kSizes[p]; ++i)
                worker.parameters[p][i] -= 0.001F * gradient.parameters[p][i];
            }
          }
          const auto stepped = engine.step(worker.model());
          if (updating && engine.kind() == plan::Kind::kUpdates) {
            expected += table.total(rank, worker.learnt - before);
            const double now =
                table.total(rank, sum(worker.parameters) + sum(engine.state().residual));
            EXPECT_NEAR(now, expected, 0.05) << "step " << step;
            if (stepped.landed) bases.compare(engine.summary().rounds, engine.updates().base());
          } else {
            expected = table.total(rank, sum(worker.parameters));
            const auto all = table.all(rank, sum(worker.parameters));
            EXPECT_EQ(std::ranges::max(all), std::ranges::min(all))
                << "a change of kind leaves everybody alike";
          }
        }
        engine.settle(worker.model());
        EXPECT_EQ(engine.updates().base(), worker.parameters);
        bases.compare(1'000'000, worker.parameters);
      });
    }
  }
}

TEST(Updates, RightAfterSendingParametersAreTheBaseOutsideOwnParts) {
  run_engines("own parts", 3, 2, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), named("p", kSizes),
                  options("updates every=2 late=2 union density=5%"));
    Worker worker(rank);
    worker.buffers.clear();
    engine.rebase(worker.model());
    int sent = 0;
    for (std::uint64_t step = 0; step < 20; ++step) {
      worker.optimize(step);
      if (!engine.step(worker.model()).sent) continue;
      const auto base = engine.updates().base();
      std::size_t differ = 0;
      for (std::size_t p = 0; p < kSizes.size(); ++p) {
        for (std::size_t i = 0; i < kSizes[p]; ++i)
          differ += static_cast<std::size_t>(worker.parameters[p][i] != base[p][i]);
      }
      EXPECT_LE(differ, 2 * 150U) << "5 % of 3,000, of at most two exchanges";
      EXPECT_GT(differ, 0U);
      ++sent;
    }
    EXPECT_EQ(sent, 10);
    engine.settle(worker.model());
  });
}

// Ranks meet by their own count of steps, and whoever settles serves the others.
TEST(Updates, RanksThatSkipStepsAreWaitedForAndServed) {
  for (const int lanes : {1, 3}) {
    Bases bases;
    run_engines("skipping", 4, lanes, [&](int rank, Communicators communicators) {
      Engine engine(std::move(communicators), named("p", kSizes),
                    options("updates every=2 late=1 union density=10%"));
      Worker worker(rank);
      worker.buffers.clear();
      engine.rebase(worker.model());
      const auto steps = static_cast<std::uint64_t>(20 + 7 * rank);
      for (std::uint64_t step = 0; step < steps; ++step) {
        worker.optimize(step);
        engine.step(worker.model());
      }
      engine.settle(worker.model());
      bases.compare(0, worker.parameters);
      EXPECT_EQ(engine.updates().base(), worker.parameters);
      for (std::uint64_t step = 0; step < 9; ++step) {
        worker.optimize(1000 + step);
        engine.step(worker.model());
      }
      engine.settle(worker.model());
      bases.compare(1, worker.parameters);
    });
  }
}

// Meeting is settling without giving one's progress away: it comes back on top of the base.
TEST(Updates, MeetingKeepsProgressUnlessTheKindIsLeft) {
  for (const std::string plan :
       {"updates every=3 late=2 union density=10%", "updates every=3 late=0 srs density=10%",
        "updates every=3 late=4 dense"}) {
    for (const bool leaving : {false, true}) {
      Table table(3);
      Bases bases;
      run_engines("meeting", 3, 2, [&](int rank, Communicators communicators) {
        Engine engine(std::move(communicators), named("p", kSizes), options(plan),
                      named("b", kBufferSizes));
        Worker worker(rank);
        engine.rebase(worker.model());
        for (int step = 0; step < 8; ++step) {  // two steps after the last exchange
          worker.optimize(static_cast<std::uint64_t>(step));
          engine.step(worker.model());
        }
        const auto mean = table.total(rank, sum(worker.parameters) + sum(engine.state().residual));
        if (leaving) engine.set_plan(plan::parse_pins("gradients dense"));
        engine.updates().settle_keeping_progress(worker.model());
        EXPECT_TRUE(std::isinf(worker.buffers[1][1]));
        if (leaving) {
          EXPECT_NEAR(table.total(rank, sum(worker.parameters)), mean, 0.05) << plan;
          bases.compare(0, worker.parameters);
          return;
        }
        EXPECT_NEAR(table.total(rank, sum(worker.parameters) + sum(engine.state().residual)), mean,
                    0.05)
            << plan;
        EXPECT_TRUE(engine.state().in_flight.empty());
        bases.compare(0, engine.updates().base());
        EXPECT_NE(engine.updates().base(), worker.parameters) << "two steps of progress";
      });
    }
  }
}

// Those who settle have landed what the others still have in the air: neither hashes nor choices
// may depend on that.
TEST(Updates, RanksSettleFarApartUnderPlansThatLandLate) {
  for (const std::string plan :
       {"updates every=1 late=3 union density=10%", "updates every=1 late=2", "updates"}) {
    Bases bases;
    run_engines("settling far apart", 3, 2, [&](int rank, Communicators communicators) {
      auto mine = options(plan);
      mine.check_every = 1;
      mine.control.warm_up_steps = 5;
      mine.control.ramp_steps = 3;
      Engine engine(std::move(communicators), named("p", kSizes), mine);
      Worker worker(rank);
      worker.buffers.clear();
      engine.rebase(worker.model());
      for (int era = 0; era < 3; ++era) {
        for (int step = 0; step < 4 + 7 * rank; ++step) {
          worker.optimize(static_cast<std::uint64_t>(100 * era + step));
          engine.step(worker.model());
        }
        engine.settle(worker.model());
        bases.compare(static_cast<std::uint64_t>(era), worker.parameters);
      }
    });
  }
}

// The same on all ranks, counted in either kind, and kept in a state.
TEST(Updates, EffectiveStepsAreTheSumOfTheirWorth) {
  run_engines("effective steps", 2, 1, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), named("p", kSizes),
                  options("updates every=4 late=0 dense"));
    Worker worker(rank);
    worker.buffers.clear();
    engine.rebase(worker.model());
    for (std::uint64_t step = 0; step < 8; ++step) {
      worker.optimize(step);
      engine.step(worker.model());
    }
    const double worth = 1 / (1 + 1.5 / 14);  // a mean age of 1.5 steps
    EXPECT_DOUBLE_EQ(engine.worth(), worth);
    EXPECT_NEAR(engine.effective_steps(), 8 * worth, 1e-9);
    const State state = engine.state();
    EXPECT_EQ(state.effective_steps, engine.effective_steps());
    engine.restore(state);
    EXPECT_EQ(engine.effective_steps(), state.effective_steps);
    EXPECT_DOUBLE_EQ(engine.worth(), worth);
  });
}

TEST(Updates, AKindThatIsLeftBeforeItsFirstExchangeIsLeftWhole) {
  run_engines("back and forth", 2, 1, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), named("p", kSizes),
                  options("updates every=4 late=1 union density=10%"));
    Worker worker(rank);
    worker.buffers.clear();
    engine.rebase(worker.model());
    engine.set_plan(plan::parse_pins("gradients dense"));  // before anything was exchanged
    const auto train = [&](int steps) {
      for (int step = 0; step < steps; ++step) {
        if (engine.kind() == plan::Kind::kGradients) {
          Worker gradient(rank);
          engine.average(gradient.spans());
        } else {
          worker.optimize(static_cast<std::uint64_t>(step));
        }
        engine.step(worker.model());
      }
    };
    train(6);
    EXPECT_EQ(engine.kind(), plan::Kind::kGradients);
    engine.rebase(worker.model());  // means nothing now, and must not mean anything later
    engine.set_plan(plan::parse_pins("updates every=3 late=0 dense"));
    train(1);
    EXPECT_EQ(engine.kind(), plan::Kind::kUpdates);
    engine.set_plan(plan::parse_pins("gradients dense"));
    train(5);
    EXPECT_EQ(engine.kind(), plan::Kind::kGradients);
  });
}

// A frame such as DDP cuts its buckets anew after its first step of gradients, whenever that comes.
TEST(Updates, GradientsAfterUpdatesAdoptTheBucketsThatStay) {
  const Units first = {{4, 3}, {2, 1, 0}};
  const Units stays = {{4}, {0, 2}, {3, 1}};
  for (const bool resumed : {false, true}) {
    run_engines("buckets after updates", 2, 1, [&](int rank, Communicators communicators) {
      Engine engine(std::move(communicators), named("p", kSizes),
                    options("updates every=1 late=0 dense"));
      Worker worker(rank);
      worker.buffers.clear();
      engine.rebase(worker.model());
      for (std::uint64_t step = 0; step < 5; ++step) {
        worker.optimize(step);
        engine.step(worker.model());
      }
      if (resumed) engine.restore(engine.state());
      engine.set_plan(plan::parse_pins("gradients dense"));
      engine.step(worker.model());
      ASSERT_EQ(engine.kind(), plan::Kind::kGradients);
      for (int step = 0; step < 4; ++step) {
        for (const auto& bucket : step == 0 ? first : stays) {
          Submission submission;
          for (const int p : bucket)
            submission.pieces.push_back({p, worker.parameters[static_cast<std::size_t>(p)]});
          engine.gradients().submit(std::move(submission));
        }
        engine.gradients().end_step();
      }
      EXPECT_EQ(engine.state().units, stays);
    });
  }
}

TEST(Updates, AStateFromBeforeTheBaseKeepsItsKind) {
  run_engines("an early state", 2, 1, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), named("p", kSizes),
                  options("updates every=1 late=0 union density=10%"));
    const State early = engine.state();
    engine.restore(early);
    EXPECT_EQ(engine.kind(), plan::Kind::kUpdates);
    Worker worker(rank);
    worker.buffers.clear();
    for (std::uint64_t step = 0; step < 4; ++step) {
      if (step > 0) worker.optimize(step);
      engine.step(worker.model());
    }
    EXPECT_EQ(engine.summary().exchanges, 3U) << "the first call took the base";
  });
}

TEST(Updates, ResumeBitForBitWithExchangesInFlight) {
  for (const std::string plan :
       {"updates every=1 late=3 union density=5% values=int8",
        "updates every=2 late=4 srs density=5% values=int4", "updates every=3 late=2 dense",
        "updates every=1 late=2 dense reduce=ring values=f16",
        "updates every=1 late=0 shared/var density=5%"}) {
    constexpr int kRanks = 3;
    struct Saved {
      State state;
      Worker worker{0};
    };
    std::vector<Saved> saved(kRanks);
    std::vector<Worker> expected(kRanks, Worker(0));
    // `save`: does looking at the state change anything?
    for (const bool save : {false, true}) {
      run_engines("never stopped", kRanks, 2, [&](int rank, Communicators communicators) {
        const auto r = static_cast<std::size_t>(rank);
        Engine engine(std::move(communicators), named("p", kSizes), options(plan),
                      named("b", kBufferSizes));
        Worker worker(rank);
        engine.rebase(worker.model());
        for (std::uint64_t step = 0; step < 30; ++step) {
          if (save && step == 15) {
            saved[r] = {engine.state(), worker};
            if (plan.find("late=0") == std::string::npos)
              EXPECT_FALSE(saved[r].state.in_flight.empty());
          }
          worker.optimize(step);
          engine.step(worker.model());
        }
        if (save) {
          EXPECT_EQ(worker.parameters, expected[r].parameters) << plan;
        }
        expected[r] = worker;
      });
    }
    run_engines("resumed", kRanks, 1, [&](int rank, Communicators communicators) {
      const auto r = static_cast<std::size_t>(rank);
      Engine engine(std::move(communicators), named("p", kSizes), options(plan),
                    named("b", kBufferSizes));
      Worker worker = saved[r].worker;
      engine.restore(saved[r].state);
      for (std::uint64_t step = 15; step < 30; ++step) {
        worker.optimize(step);
        engine.step(worker.model());
      }
      EXPECT_EQ(worker.parameters, expected[r].parameters) << plan;
      EXPECT_EQ(worker.buffers, expected[r].buffers) << plan;
    });
  }
}

TEST(Updates, ProgressThatIsNotFiniteVoidsTheExchangeAndSendsItsRankBack) {
  for (const std::string plan :
       {"updates every=1 late=0 union density=10%", "updates every=1 late=2 srs density=10%",
        "updates every=1 late=1 dense"}) {
    Table table(3);
    run_engines("a NaN", 3, 2, [&](int rank, Communicators communicators) {
      Engine engine(std::move(communicators), named("p", kSizes), options(plan),
                    named("b", kBufferSizes));
      Worker worker(rank);
      engine.rebase(worker.model());
      double expected = table.total(rank, sum(worker.parameters));
      for (std::uint64_t step = 0; step < 12; ++step) {
        const double before = worker.learnt;
        worker.optimize(step);
        const bool bad = rank == 1 && (step == 5 || step == 6);
        if (bad) worker.parameters[2][7] = std::numeric_limits<float>::quiet_NaN();
        const auto agreed = engine.updates().buffers();
        const auto buffers = worker.buffers;
        EXPECT_EQ(engine.step(worker.model()).finite, !bad);
        const bool at_once = plan.find("late=0") != std::string::npos;
        const bool is_void = at_once && (step == 5 || step == 6);
        EXPECT_TRUE(!is_void || engine.updates().buffers() == agreed) << "a void moves no buffers";
        EXPECT_TRUE(!is_void || bad || worker.buffers == buffers);
        // What the bad rank learnt in that step is lost, as it should be: only its NaN could be
        // told from the rest.
        double own = worker.learnt - before;
        if (bad) own = 0;
        expected += table.total(rank, own);
        const double now = table.total(rank, sum(worker.parameters) + sum(engine.state().residual));
        if (step >= 7) {
          EXPECT_TRUE(std::isfinite(now));
        } else if (step < 5) {
          EXPECT_NEAR(now, expected, 0.02) << plan << " step " << step;
        }
      }
      engine.settle(worker.model());
      EXPECT_EQ(engine.summary().voids, 2U);
      for (const auto& tensor : worker.parameters) {
        EXPECT_TRUE(std::ranges::all_of(tensor, [](float v) { return std::isfinite(v); }));
      }
    });
  }
}

TEST(Updates, ARankThatIsNeverFiniteIsNamed) {
  const auto failures =
      run_failing_engines("NaN after NaN", 3, 1, [&](int rank, Communicators communicators) {
        Engine engine(std::move(communicators), named("p", kSizes),
                      options("updates every=1 late=0 union density=10%"));
        Worker worker(rank);
        worker.buffers.clear();
        engine.rebase(worker.model());
        for (std::uint64_t step = 0; step < 12; ++step) {
          worker.optimize(step);
          if (rank == 2) worker.parameters[0][0] = std::numeric_limits<float>::infinity();
          engine.step(worker.model());
        }
      });
  for (const auto& failure : failures) {
    ASSERT_NE(failure, nullptr);
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      EXPECT_THAT(
          error.what(),
          ::testing::AnyOf(HasSubstr("the progress of rank 2 was not finite in 3 exchanges"),
                           HasSubstr("left")));
    }
  }
}

TEST(Updates, TrainingThatDivergesOnAllRanksIsCalledThat) {
  const auto failures =
      run_failing_engines("NaN everywhere", 3, 1, [&](int rank, Communicators communicators) {
        Engine engine(std::move(communicators), named("p", kSizes),
                      options("updates every=1 late=0 union density=10%"));
        Worker worker(rank);
        worker.buffers.clear();
        engine.rebase(worker.model());
        for (std::uint64_t step = 0; step < 12; ++step) {
          worker.optimize(step);
          // One rank after the other.
          if (step >= static_cast<std::uint64_t>(rank))
            worker.parameters[0][0] = std::numeric_limits<float>::quiet_NaN();
          engine.step(worker.model());
        }
      });
  int diverged = 0;
  for (const auto& failure : failures) {
    ASSERT_NE(failure, nullptr);
    try {
      std::rethrow_exception(failure);
    } catch (const Diverged& error) {
      ++diverged;
      EXPECT_THAT(error.what(), HasSubstr("training diverged"));
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("left"));
    }
  }
  EXPECT_GT(diverged, 0);
}

// The exchange that flushes what is unsent is void: the next one flushes, and only then the kind is
// left.
TEST(Updates, AVoidFlushLosesNothing) {
  for (const std::string how : {"stepping", "meeting", "settling"}) {
    Table table(3);
    Bases bases;
    run_engines("a void flush, " + how, 3, 1, [&](int rank, Communicators communicators) {
      Engine engine(std::move(communicators), named("p", kSizes),
                    options("updates every=1 late=1 union density=10%"), named("b", kBufferSizes));
      Worker worker(rank);
      engine.rebase(worker.model());
      for (std::uint64_t step = 0; step < 5; ++step) {
        worker.optimize(step);
        engine.step(worker.model());
      }
      const double mean = table.total(rank, sum(worker.parameters) + sum(engine.state().residual));
      engine.set_plan(plan::parse_pins("gradients dense"));
      if (rank == 1) worker.parameters[2][7] = std::numeric_limits<float>::quiet_NaN();
      if (how == "stepping") {
        EXPECT_EQ(engine.step(worker.model()).finite, rank != 1);
        EXPECT_EQ(engine.kind(), plan::Kind::kUpdates) << "nothing was flushed";
        engine.step(worker.model());
      } else if (how == "meeting") {
        engine.updates().settle_keeping_progress(worker.model());
      } else {
        engine.settle(worker.model());
      }
      EXPECT_EQ(engine.kind(), plan::Kind::kGradients);
      EXPECT_EQ(engine.summary().voids, 1U);
      EXPECT_NEAR(table.total(rank, sum(worker.parameters)), mean, 0.05) << how;
      bases.compare(0, worker.parameters);
    });
  }
}

// The same on the way from gradients: a residual of gradients must not wait for their return.
TEST(Updates, AVoidStepOfGradientsDoesNotChangeTheKind) {
  Table table(2);
  for (const int lanes : {0, 2}) {
    run_engines("a void flush of gradients", 2, lanes, [&](int rank, Communicators communicators) {
      Engine engine(std::move(communicators), named("p", kSizes),
                    options("gradients union density=5% fuse=bucket"));
      Worker worker(rank);
      worker.buffers.clear();
      const auto average = [&](float special) {
        Worker gradient(rank);
        gradient.optimize(static_cast<std::uint64_t>(rank));
        gradient.parameters[2][5] += special;
        engine.average(gradient.spans());
        return sum(gradient.parameters);
      };
      for (int step = 0; step < 4; ++step) average(0);
      EXPECT_NE(table.total(rank, sum(engine.state().residual)), 0);
      engine.set_plan(plan::parse_pins("updates every=1 late=0 dense"));
      average(rank == 1 ? std::numeric_limits<float>::quiet_NaN() : 0);
      EXPECT_EQ(engine.kind(), plan::Kind::kGradients) << "nothing was flushed";
      EXPECT_FALSE(engine.step(worker.model()).sent);
      const double unsent = table.total(rank, sum(engine.state().residual));
      Worker contributes(rank);
      contributes.optimize(static_cast<std::uint64_t>(rank));
      const double contributed = table.total(rank, sum(contributes.parameters));
      EXPECT_NEAR(2 * average(0), unsent + contributed, 0.05);
      EXPECT_EQ(sum(engine.state().residual), 0);
      EXPECT_EQ(engine.kind(), plan::Kind::kUpdates);
      engine.rebase(worker.model());
      EXPECT_TRUE(engine.step(worker.model()).sent);
    });
  }
}

// What a void gave back to the residuals is sent again before all are done.
TEST(Updates, SettlingGoesOnAfterAVoid) {
  Table table(2);
  run_engines("a void while settling", 2, 1, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), named("p", kSizes),
                  options("updates every=1 late=0 dense"), named("b", kBufferSizes));
    Worker worker(rank);
    engine.rebase(worker.model());
    worker.optimize(0);
    if (rank == 1) worker.parameters[0][0] = 1;  // it goes back to the base
    const double expected = table.total(rank, sum(worker.parameters));
    if (rank == 1) worker.parameters[0][0] = std::numeric_limits<float>::quiet_NaN();
    engine.settle(worker.model());
    EXPECT_NEAR(table.total(rank, sum(worker.parameters)), expected, 0.01);
  });
}

// Time is what it says: a second for every message that arrives, and whatever the rank's own work
// is said to take.
class Clocked final : public comm::Communicator {
 public:
  Clocked(std::unique_ptr<comm::Communicator> inner, std::shared_ptr<Seconds> clock)
      : inner_(std::move(inner)), clock_(std::move(clock)) {}
  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  [[nodiscard]] comm::Ticket send(int peer, comm::Tag tag, comm::Region message) override {
    return inner_->send(peer, tag, message);
  }
  [[nodiscard]] comm::Ticket receive(int peer, comm::Tag tag, comm::Region room) override {
    return inner_->receive(peer, tag, room);
  }
  Bytes wait(comm::Ticket ticket, const comm::Patience& patience) override {
    const Bytes size = inner_->wait(ticket, patience);
    *clock_ += 1_s;
    return size;
  }
  void all_reduce(const comm::Floats& floats, const comm::Patience& patience) override {
    inner_->all_reduce(floats, patience);
  }
  [[nodiscard]] comm::Capabilities capabilities() const override { return inner_->capabilities(); }
  [[nodiscard]] Seconds now() const override { return *clock_; }

 private:
  std::unique_ptr<comm::Communicator> inner_;
  std::shared_ptr<Seconds> clock_;
};

// What exchanges take is not compute, also where they travel in the caller's own thread.
TEST(Updates, WithoutLanesComputeIsTheRanksOwnWork) {
  run_engines("compute without lanes", 2, 0, [&](int rank, Communicators communicators) {
    const auto clock = std::make_shared<Seconds>();
    communicators.control = std::make_unique<Clocked>(std::move(communicators.control), clock);
    Worker worker(rank);
    Engine engine(std::move(communicators), named("p", kSizes), options("updates every=1 late=0"),
                  named("b", kBufferSizes));
    engine.rebase(worker.model());
    for (std::uint64_t step = 0; step < 12; ++step) {
      worker.optimize(step);
      *clock += 40_s;
      (void)engine.step(worker.model());
    }
    EXPECT_THAT(engine.state().policy, HasSubstr("\ncompute 40\n"));
  });
}

std::size_t cleared_by(const Engine& engine) {
  Worker momentum(0);  // all ones
  engine.updates().clear_at_sent(momentum.model().parameters);
  std::size_t cleared = 0;
  for (const auto& tensor : momentum.parameters)
    cleared += static_cast<std::size_t>(std::ranges::count(tensor, 0.0F));
  return cleared;
}

TEST(Updates, ClearsWhereEntriesWereSent) {
  run_engines("momentum", 2, 1, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), named("p", kSizes),
                  options("updates every=1 late=0 union density=1%"));
    Worker worker(rank);
    worker.buffers.clear();
    engine.rebase(worker.model());
    worker.optimize(0);
    engine.step(worker.model());
    EXPECT_EQ(cleared_by(engine), 30U) << "1 % of 3,000";
  });
}

// The plan in force may be another by the time an exchange lands.
TEST(Updates, WhatIsClearedGoesByThePlansThatLanded) {
  run_engines("momentum, late", 2, 1, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), named("p", kSizes),
                  options("updates every=1 late=2 union density=1%"));
    Worker worker(rank);
    worker.buffers.clear();
    engine.rebase(worker.model());
    const auto step = [&](std::uint64_t number) {
      worker.optimize(number);
      engine.step(worker.model());
      return cleared_by(engine);
    };
    EXPECT_EQ(step(0), 0U);
    EXPECT_EQ(step(1), 0U);
    EXPECT_EQ(step(2), 30U);
    engine.set_plan(plan::parse_pins("updates every=1 late=0 union density=10%"));
    const std::size_t both =
        step(3);  // the two in flight, at 1 %, and one of 10 % that does not count
    EXPECT_GT(both, 30U);
    EXPECT_LE(both, 60U);
    EXPECT_EQ(step(4), 0U);
  });
}

TEST(Updates, ARunOfUpdatesHasOneResidual) {
  run_engines("memory", 2, 1, [&](int rank, Communicators communicators) {
    Engine engine(std::move(communicators), named("p", kSizes),
                  options("updates every=1 late=0 union density=1%"));
    Worker worker(rank);
    worker.buffers.clear();
    engine.rebase(worker.model());
    engine.step(worker.model());
    EXPECT_EQ(engine.summary().memory.residual, 3000 * sizeof(float));
    engine.restore(engine.state());
    EXPECT_EQ(engine.summary().memory.residual, 3000 * sizeof(float));
  });
}

TEST(Updates, ARankThatIsGoneIsAnErrorWithExchangesInFlight) {
  const auto failures =
      run_failing_engines("a rank leaves", 3, 2, [&](int rank, Communicators communicators) {
        Engine engine(std::move(communicators), named("p", kSizes),
                      options("updates every=1 late=4 union density=5%"));
        Worker worker(rank);
        worker.buffers.clear();
        engine.rebase(worker.model());
        for (std::uint64_t step = 0; step < 40; ++step) {
          if (rank == 1 && step == 9) return;
          worker.optimize(step);
          engine.step(worker.model());
        }
      });
  EXPECT_EQ(failures[1], nullptr);
  for (const std::size_t survivor : {0U, 2U})
    EXPECT_THROW(std::rethrow_exception(failures[survivor]), comm::CommError);
}

}  // namespace
}  // namespace pliant::engine
