// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <latch>
#include <thread>

#include "tests/conformance/c10d_groups.h"
#include "tests/conformance/suite.h"
#include "tests/support/every_scheme.h"
#include "tests/support/run_ranks.h"

namespace pliant {
namespace {

using comm::CommError;
using comm::Communicator;
using testing::C10dGroup;
using testing::Words;

// Gloo writes to connections that the peer has closed. Python ignores the signal; so do programs
// that use Gloo without Python.
[[maybe_unused]] const auto kNoSignal = std::signal(SIGPIPE, SIG_IGN);

// Nobody leaves before all have joined.
void run_leaving(const std::string& what, int size, const C10dGroup& group,
                 const testing::RankBody& body) {
  std::latch joined(size);
  const auto join = [&](int rank) {
    auto mine = group.join(rank);
    joined.arrive_and_wait();
    return mine;
  };
  testing::run_joining_ranks(what, size, join, body);
}
void run(const std::string& what, int size, const C10dGroup& group,
         const std::function<void(Communicator&)>& body) {
  run_leaving(what, size, group, [&body](std::unique_ptr<Communicator>& mine) { body(*mine); });
}

// Receives one message of 64 bytes; the failure, or nothing if it came.
std::optional<comm::Failure> failure_of_a_receive(Communicator& c, int peer,
                                                  std::optional<Seconds> deadline) {
  try {
    const comm::Ticket in = c.receive(peer, 1, comm::region_of(Buffer<std::byte>(64)));
    c.wait(in, {.deadline = deadline, .place = {.round = 1, .rounds = 3, .plan_version = 5}});
  } catch (const CommError& e) {
    EXPECT_NE(std::string(e.what()).find("host-" + std::to_string(peer)), std::string::npos)
        << e.what();
    return e.failure();
  }
  return std::nullopt;
}

class Cases : public ::testing::TestWithParam<std::tuple<int, std::size_t>> {};

TEST_P(Cases, Conforms) {
  const auto [size, number] = GetParam();
  const conformance::Case& c = conformance::cases()[number];
  if (c.needs_lengths) GTEST_SKIP() << c.name << ": Gloo does not tell the length of a message";
  EXPECT_NO_THROW(run(std::string(c.name), size, C10dGroup(size), c.run)) << c.name;
}
INSTANTIATE_TEST_SUITE_P(C10d, Cases,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::Range(std::size_t{0},
                                                             conformance::cases().size())),
                         [](const auto& test) {
                           return std::string(conformance::cases()[std::get<1>(test.param)].name) +
                                  "_n" + std::to_string(std::get<0>(test.param));
                         });

class C10d : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, C10d, ::testing::Values(2, 3, 4));

TEST_P(C10d, APeerThatIsGoneIsAnError) {
  const int size = GetParam();
  run_leaving("peer gone", size, C10dGroup(size), [size](std::unique_ptr<Communicator>& c) {
    if (c->rank() == size - 1) return c.reset();
    conformance::a_peer_that_is_gone_is_an_error(*c, size - 1);
  });
}

TEST_P(C10d, AnAllReduceWithoutAPeerIsAnErrorWhetherItLeftOrHangs) {
  const int size = GetParam();
  for (const bool leaves : {true, false}) {
    std::latch over(size - 1);
    run_leaving("all-reduce", size, C10dGroup(size), [&](std::unique_ptr<Communicator>& c) {
      if (c->rank() < size - 1) {
        conformance::an_all_reduce_without_a_peer_is_an_error(*c);
        return over.count_down();
      }
      if (leaves) return c.reset();
      over.wait();
    });
  }
}

TEST_P(C10d, EverySchemeGivesTheBitsThatThreadsGive) {
  const int size = GetParam();
  std::vector<std::vector<float>> expected(static_cast<std::size_t>(size));
  testing::run_ranks("schemes", size, [&](Communicator& c) {
    expected[static_cast<std::size_t>(c.rank())] = testing::every_scheme(c);
  });
  run("schemes", size, C10dGroup(size), [&](Communicator& c) {
    const std::vector<float> got = testing::every_scheme(c);
    const std::vector<float>& wanted = expected[static_cast<std::size_t>(c.rank())];
    ASSERT_EQ(got.size(), wanted.size());
    EXPECT_EQ(std::memcmp(got.data(), wanted.data(), got.size() * sizeof(float)), 0)
        << "rank " << c.rank();
  });
}

// The peer has closed its connections: known at once, although there is no deadline.
TEST(C10dFailure, AClosedConnectionIsToldApartFromADeadline) {
  run_leaving("closed", 2, C10dGroup(2), [](std::unique_ptr<Communicator>& c) {
    if (c->rank() == 1) return c.reset();
    const auto failure = failure_of_a_receive(*c, 1, std::nullopt);
    ASSERT_TRUE(failure);
    EXPECT_NE(failure->reason.find("closed by the peer"), std::string::npos) << failure->reason;
    EXPECT_EQ(failure->culprit, 1);
  });
  std::latch over(1);
  run("late", 2, C10dGroup(2), [&](Communicator& c) {
    if (c.rank() == 1) return over.wait();
    const auto failure = failure_of_a_receive(c, 1, Seconds{0.1});
    over.count_down();
    ASSERT_TRUE(failure);
    EXPECT_NE(failure->reason.find("deadline 100 ms"), std::string::npos) << failure->reason;
    EXPECT_EQ(failure->culprit, 1);
  });
}

// Rank 0 hangs, each other rank waits for its left neighbour: all of them name rank 0, not only the
// one that sees it.
TEST(C10dFailure, NamesTheCulpritAtTheEndOfTheChain) {
  std::latch over(3);
  run("chain", 4, C10dGroup(4), [&](Communicator& c) {
    if (c.rank() == 0) return over.wait();
    const auto failure = failure_of_a_receive(c, c.rank() - 1, Seconds{0.5});
    over.count_down();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->peer, c.rank() - 1);
    EXPECT_EQ(failure->culprit, 0) << CommError(*failure).what();
  });
}

// Rank 1 waits for rank 2 in one lane, rank 0 for rank 1 in another, where rank 1 has nothing under
// way.
TEST(C10dFailure, NamesTheCulpritAcrossLanes) {
  const C10dGroup first(3);
  C10dGroup second(3);
  second.share_first_words(first);
  std::latch over(2);
  run("first lane", 3, first, [&](Communicator& in_first) {
    const auto in_second = second.join(in_first.rank());
    if (in_first.rank() == 2) return over.wait();
    const auto failure = failure_of_a_receive(in_first.rank() == 1 ? in_first : *in_second,
                                              in_first.rank() + 1, Seconds{0.5});
    over.count_down();
    over.wait();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->culprit, 2) << CommError(*failure).what();
  });
}

// Only rank 1 has a deadline. Its giving up reaches the others, which wait for ever, as closed
// connections.
TEST(C10dFailure, WhoeverGivesUpIsNotWaitedFor) {
  std::latch over(3);
  run("hang up", 4, C10dGroup(4), [&](Communicator& c) {
    if (c.rank() == 0) return over.wait();
    const auto failure = failure_of_a_receive(
        c, c.rank() - 1, c.rank() == 1 ? std::optional(Seconds{0.3}) : std::nullopt);
    over.count_down();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->culprit, 0) << CommError(*failure).what();
  });
}

TEST(C10dFailure, AnAllReduceNamesWhoIsMissing) {
  std::latch over(3);
  run("all-reduce culprit", 4, C10dGroup(4), [&](Communicator& c) {
    if (c.rank() == 2) return over.wait();
    std::vector<float> data(1000, 1.0F);
    try {
      c.all_reduce(std::span(data), {.deadline = Seconds{0.5}, .place = {}});
      ADD_FAILURE() << "it ended";
    } catch (const CommError& e) {
      EXPECT_EQ(e.failure().peer, -1);
      EXPECT_EQ(e.failure().culprit, 2) << e.what();
    }
    over.count_down();
  });
}

TEST(C10dFailure, WithoutAStoreThePeerIsNamedAndTheTextSaysWhy) {
  for (const Words words : {Words::kNone, Words::kGone}) {
    std::latch over(1);
    run("no words", 2, C10dGroup(2, words), [&](Communicator& c) {
      if (c.rank() == 1) return over.wait();
      const auto failure = failure_of_a_receive(c, 1, Seconds{0.1});
      over.count_down();
      ASSERT_TRUE(failure);
      EXPECT_EQ(failure->peer, 1);
      EXPECT_FALSE(failure->culprit);
      EXPECT_NE(failure->advice.find("could not be asked"), std::string::npos) << failure->advice;
    });
  }
}

TEST(C10dPatience, WithoutADeadlineOutlastsTheGroupsOwnTimeout) {
  run("for ever", 2, C10dGroup(2, Words::kStore, Seconds{0.5}), [](Communicator& c) {
    std::vector<float> data(100, 1.0F);
    if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    c.all_reduce(std::span(data), {});
    EXPECT_EQ(data[7], 2.0F);
    if (c.rank() == 0) {
      EXPECT_FALSE(failure_of_a_receive(c, 1, std::nullopt));
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    c.wait(c.send(0, 1, comm::region_of(Buffer<std::byte>(64))), {});
  });
}

// The caller's memory is gone with the exception, while the peer still sends into it.
TEST(C10dFailure, MemoryOutlivesTheErrorAndItsCommunicator) {
  std::latch posted(2);
  run_leaving("memory", 2, C10dGroup(2, Words::kNone), [&](std::unique_ptr<Communicator>& c) {
    const int peer = 1 - c->rank();
    std::vector<comm::Ticket> tickets;
    std::weak_ptr<const void> memory;
    {
      const Buffer<std::byte> room(std::size_t{16} << 20);
      memory = room.owner();
      tickets.push_back(c->receive(peer, 2, comm::region_of(room)));
    }
    posted.arrive_and_wait();
    if (c->rank() == 0)
      tickets.push_back(
          c->send(peer, 2, comm::region_of(Buffer<std::byte>(std::size_t{16} << 20))));
    EXPECT_TRUE(failure_of_a_receive(*c, peer, Seconds{0.5}));
    EXPECT_FALSE(memory.expired());
    c.reset();
    EXPECT_TRUE(memory.expired());
  });
}

TEST(C10dThreads, SeveralCommunicatorsRunAtOnce) {
  std::vector<std::jthread> lanes;
  lanes.reserve(3);
  for (int lane = 0; lane < 3; ++lane) {
    lanes.emplace_back([lane] {
      run("lane", 3, C10dGroup(3), [lane](Communicator& c) {
        EXPECT_FALSE(testing::every_scheme(c, 500).empty());
        std::vector<float> data(1000, static_cast<float>(lane));
        c.all_reduce(std::span(data), {.deadline = Seconds{60}, .place = {}});
        EXPECT_EQ(data[0], static_cast<float>(3 * lane));
      });
    });
  }
}

TEST(C10dExchange, OfAPeerThatHangsFailsOnEveryRank) {
  std::latch over(2);
  run("exchange", 3, C10dGroup(3), [&](Communicator& c) {
    if (c.rank() == 1) return over.wait();
    compress::Residual residual(1000);
    exchange::ResidualGroup bucket(residual.span());
    std::vector<float> gradient(1000, 1.0F);
    const exchange::Terms terms{
        .plan = plan::parse_plan("gradients union gather=ring density=10% values=f32"),
        .deadline = Seconds{0.5}};
    try {
      (void)exchange::exchange(c, bucket, terms, compress::Gradient{gradient}, gradient);
      ADD_FAILURE() << "it ended";
    } catch (const CommError& e) {
      EXPECT_EQ(e.failure().culprit, 1) << e.what();
    }
    over.count_down();
  });
}

}  // namespace
}  // namespace pliant
