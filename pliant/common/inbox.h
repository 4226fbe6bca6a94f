// SPDX-License-Identifier: MIT
// Inbox with a number of places: any thread may put a value into a place, where it replaces one
// that was not taken. One thread takes all that have come.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace pliant {

template <typename T>
class Inbox {
 public:
  explicit Inbox(std::size_t places) : values_(places) {}

  void put(std::size_t place, T value) {
    const std::lock_guard lock(mutex_);
    values_[place] = std::move(value);
  }
  // Place and value, in the order of places.
  [[nodiscard]] std::vector<std::pair<std::size_t, T>> take() {
    std::vector<std::pair<std::size_t, T>> taken;
    const std::lock_guard lock(mutex_);
    for (std::size_t place = 0; place < values_.size(); ++place) {
      if (auto& value = values_[place]) taken.emplace_back(place, *std::move(value));
      values_[place].reset();
    }
    return taken;
  }

 private:
  std::mutex mutex_;
  std::vector<std::optional<T>> values_;
};

}  // namespace pliant
