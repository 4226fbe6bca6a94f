// SPDX-License-Identifier: MIT
// Snapshots of a few entries of each average that the hook returned. They tell whether .grad still
// holds that average.
//
// Two backwards before one optimizer step: the second bucket holds the last average plus the new
// gradient. The average was agreed on already, so only the rest is exchanged; `carried` is the copy
// that is taken out before and put back after.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "pliant/common/inbox.h"

namespace pliant::native {

class GradSnapshots {
 public:
  explicit GradSnapshots(std::vector<at::Tensor> parameters);

  // The averages of one parameter, as they go back to the frame in its type. Any thread may call;
  // everything else is called by the thread that trains, and takes in what was remembered first.
  void remember(std::size_t parameter, std::span<const float> averages);

  // Before backward adds to .grad: what is in there that has been averaged already is copied, or
  // forgotten if it was cleared.
  void carry();
  void carry_nothing();
  // Nothing, or a copy as flat as the gradient.
  [[nodiscard]] const std::optional<at::Tensor>& carried(std::size_t parameter) const {
    return seats_[parameter].carried;
  }

  // The one factor between what was returned and what .grad holds, if there is one and it is not 1.
  [[nodiscard]] std::optional<double> rescaled();

 private:
  struct Glimpse {
    std::int64_t at;
    float value;  // never 0
  };
  struct Seat {  // of one parameter
    at::Tensor parameter;
    std::vector<std::int64_t> layout;
    std::vector<Glimpse> glimpses;
    bool fresh = false;  // returned, and no backward has begun since
    std::optional<at::Tensor> carried;
  };
  void take_in();
  // The factor for one parameter: 1 if untouched, 0 if cleared, nothing if entries differ by
  // different factors.
  [[nodiscard]] static std::optional<double> factor(const Seat& seat, const at::Tensor& gradient);

  Inbox<std::vector<Glimpse>> returned_;  // by parameter, from lanes
  std::vector<at::ScalarType> types_;     // by parameter; never written after construction
  std::vector<Seat> seats_;
};

}  // namespace pliant::native
