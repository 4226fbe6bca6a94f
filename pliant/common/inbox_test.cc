// SPDX-License-Identifier: MIT
#include "pliant/common/inbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace pliant {
namespace {

TEST(Inbox, HasTheLatestValueOfEveryPlace) {
  Inbox<int> inbox(3);
  inbox.put(2, 7);
  inbox.put(0, 1);
  inbox.put(2, 8);
  using Taken = std::vector<std::pair<std::size_t, int>>;
  EXPECT_EQ(inbox.take(), (Taken{{0, 1}, {2, 8}}));
  EXPECT_EQ(inbox.take(), Taken{});
}

TEST(Inbox, MayBeFilledByManyThreadsWhileItIsTaken) {
  constexpr std::size_t kThreads = 4;
  constexpr int kValues = 1000;
  Inbox<std::vector<int>> inbox(kThreads);
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&inbox, t] {
      for (int i = 1; i <= kValues; ++i) inbox.put(t, {i});
    });
  }
  std::vector<int> latest(kThreads, 0);
  const auto take = [&] {
    for (const auto& [place, value] : inbox.take()) {
      EXPECT_GT(value.front(), latest[place]);
      latest[place] = value.front();
    }
  };
  for (int looks = 0; looks < 1000; ++looks) take();
  threads.clear();
  take();
  EXPECT_EQ(latest, std::vector<int>(kThreads, kValues));
}

}  // namespace
}  // namespace pliant
