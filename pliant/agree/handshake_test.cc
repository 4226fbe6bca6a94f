// SPDX-License-Identifier: MIT
// Tests of the handshake: what it says of facts that differ, and what it sends if none do.
#include "pliant/agree/handshake.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/support/run_ranks.h"

namespace pliant::agree {
namespace {

constexpr int kRanks = 3;

// A communicator that counts what this rank sends.
class Counting final : public comm::Communicator {
 public:
  explicit Counting(comm::Communicator& inner) : inner_(inner) {}

  [[nodiscard]] int rank() const override { return inner_.rank(); }
  [[nodiscard]] int size() const override { return inner_.size(); }
  comm::Ticket send(int peer, comm::Tag tag, comm::Region message) override {
    ++messages;
    bytes += message.bytes.size();
    return inner_.send(peer, tag, std::move(message));
  }
  comm::Ticket receive(int peer, comm::Tag tag, comm::Region room) override {
    return inner_.receive(peer, tag, std::move(room));
  }
  Bytes wait(comm::Ticket ticket, const comm::Patience& patience) override {
    return inner_.wait(ticket, patience);
  }
  void all_reduce(const comm::Floats& floats, const comm::Patience& patience) override {
    inner_.all_reduce(floats, patience);
  }
  [[nodiscard]] comm::Capabilities capabilities() const override { return inner_.capabilities(); }
  [[nodiscard]] Seconds now() const override { return inner_.now(); }

  std::size_t messages = 0;
  std::size_t bytes = 0;

 private:
  comm::Communicator& inner_;
};

Facts facts_of(std::size_t parameters) {
  Facts facts;
  for (std::size_t p = 0; p < parameters; ++p)
    facts.emplace_back(fmt::format("parameter {}", p), fmt::format("layer{}.weight (100)", p));
  return facts;
}

TEST(Handshake, SendsAsMuchForManyTensorsAsForFew) {
  const auto sent_for = [](std::size_t parameters) {
    std::pair<std::size_t, std::size_t> sent;
    testing::run_ranks("facts", kRanks, [&](comm::Communicator& inner) {
      Counting communicator(inner);
      agree(communicator, facts_of(parameters), std::nullopt);
      if (inner.rank() == 0) sent = {communicator.messages, communicator.bytes};
    });
    return sent;
  };
  const auto few = sent_for(1);
  EXPECT_EQ(sent_for(10'000), few);
  EXPECT_LT(few.second, 200U);
}

TEST(Handshake, NamesTheFactThatDiffers) {
  testing::run_ranks("facts", kRanks, [](comm::Communicator& communicator) {
    Facts facts = facts_of(10'000);
    if (communicator.rank() == 2) facts[9'000].second = "another";
    EXPECT_THAT(
        [&] { agree(communicator, facts, std::nullopt); },
        ::testing::ThrowsMessage<Disagreement>(::testing::HasSubstr(
            "ranks disagree on parameter 9000: rank 0 has 'layer9000.weight (100)', rank 2 has "
            "'another'")));
  });
}

TEST(Handshake, NamesTheFactThatOneRankMisses) {
  testing::run_ranks("facts", 2, [](comm::Communicator& communicator) {
    const Facts facts = facts_of(communicator.rank() == 0 ? 2 : 3);
    EXPECT_THAT([&] { agree(communicator, facts, std::nullopt); },
                ::testing::ThrowsMessage<Disagreement>(::testing::HasSubstr(
                    "parameter 2: rank 0 has none, rank 1 has 'layer2.weight (100)'")));
  });
}

TEST(Handshake, ComparesRanksOfTheSamePart) {
  testing::run_ranks("parts", 4, [](comm::Communicator& communicator) {
    const auto part = static_cast<std::uint16_t>(communicator.rank() % 2);
    Facts facts = facts_of(part + 1U);
    agree(communicator, facts, std::nullopt, part);
    if (communicator.rank() == 3) facts[1].second = "another";
    EXPECT_THAT([&] { agree(communicator, facts, std::nullopt, part); },
                ::testing::ThrowsMessage<Disagreement>(::testing::HasSubstr(
                    "parameter 1: rank 1 has 'layer1.weight (100)', rank 3 has 'another'")));
  });
}

TEST(Handshake, FindsTheLargestNumbers) {
  testing::run_ranks("largest", 3, [](comm::Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    EXPECT_EQ(largest(communicator, {rank, 10 - rank}, std::nullopt),
              (std::vector<std::size_t>{2, 10}));
  });
}

}  // namespace
}  // namespace pliant::agree
