// SPDX-License-Identifier: MIT
#include "pliant/engine/records.h"

#include <cstring>

#include "pliant/exchange/run_dense.h"
#include "pliant/schedule/catalogue.h"

namespace pliant::engine {

Records::Records(Lane& lane, Fault& fault, std::optional<Seconds> deadline, comm::Tag tag)
    : lane_(lane), fault_(fault), deadline_(deadline), tag_(tag) {}

void Records::post(Record mine) {
  lane_.run([this, mine](comm::Communicator& communicator) {
    try {
      fault_.check();
      gather(communicator, mine);
    } catch (...) {
      fault_.note(std::current_exception());
      wake();
    }
  });
}

// Records travel as the floats of a dense all-gather: nobody adds, so nobody looks at them as
// numbers.
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

Records::Gathered Records::take(std::uint64_t step) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return here_.contains(step) || fault_.first() != nullptr; });
  const auto found = here_.extract(step);
  if (found.empty()) {
    lock.unlock();
    fault_.check();
  }
  return std::move(found.mapped());
}

std::optional<Records::Gathered> Records::take_if_here(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  const auto found = here_.extract(step);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

void Records::wake() {
  {
    const std::lock_guard lock(mutex_);
  }  // whoever looks now sees the fault; whoever has looked sleeps already
  arrived_.notify_all();
}

std::vector<Record> Records::look(std::uint64_t step) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return here_.contains(step) || fault_.first() != nullptr; });
  if (const auto found = here_.find(step); found != here_.end()) return found->second.records;
  lock.unlock();
  fault_.check();
  return {};
}

void Records::forget() {
  lane_.drain();
  const std::lock_guard lock(mutex_);
  here_.clear();
}

Records::Total Records::total() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

}  // namespace pliant::engine
