// SPDX-License-Identifier: MIT
#include "pliant/agree/records.h"

#include <cstring>

#include "pliant/exchange/run_dense.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::agree {

Records::Records(const FirstFailure& failure, std::optional<Seconds> deadline, comm::Tag tag)
    : failure_(failure), deadline_(deadline), tag_(tag) {}

// Records travel as the floats of a dense all-gather: nothing is added, so their bits arrive as
// they are.
void Records::gather(comm::Communicator& communicator, Record mine) {
  constexpr std::size_t kFloats = sizeof(Record) / sizeof(float);
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  mine.control = last_duration_;
  const Buffer<float> all(kFloats * ranks);
  std::memcpy(&all[kFloats * rank], &mine, sizeof mine);
  const auto& bruck = schedule::find_builder(schedule::Collective::kAllGather, "bruck");
  const auto traffic =
      exchange::run_dense(communicator, bruck, {communicator.size()}, all, workspace_,
                          {.tag = tag_, .deadline = deadline_, .plan_version = mine.epoch});
  std::vector<Record> records(ranks);
  std::memcpy(static_cast<void*>(records.data()), all.data(), ranks * sizeof(Record));
  {
    const std::lock_guard lock(mutex_);
    here_[mine.step] = {std::move(records), traffic.sent};
    const Seconds took = traffic.finished - traffic.entered;
    last_duration_ = static_cast<float>(took.value);
    total_.sent += traffic.sent;
    total_.took += took;
  }
  arrived_.notify_all();
}

void Records::wait_for(std::uint64_t round, std::unique_lock<std::mutex>& lock) {
  arrived_.wait(lock, [&] { return here_.contains(round) || failure_.get() != nullptr; });
  if (here_.contains(round)) return;
  lock.unlock();
  failure_.check();
}

Records::Gathered Records::take(std::uint64_t round) {
  std::unique_lock lock(mutex_);
  wait_for(round, lock);
  return std::move(here_.extract(round).mapped());
}

std::optional<Records::Gathered> Records::take_if_here(std::uint64_t round) {
  const std::lock_guard lock(mutex_);
  auto found = here_.extract(round);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

std::vector<Record> Records::look(std::uint64_t round) {
  std::unique_lock lock(mutex_);
  wait_for(round, lock);
  return here_.at(round).records;
}

void Records::clear() {
  const std::lock_guard lock(mutex_);
  here_.clear();
}

void Records::wake() {
  { const std::lock_guard lock(mutex_); }  // a caller that saw no failure is waiting by now
  arrived_.notify_all();
}

Records::Total Records::total() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

}  // namespace pliant::agree
