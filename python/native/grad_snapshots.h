// SPDX-License-Identifier: MIT
// Snapshots of a few entries of each average that the hook returned. They tell whether .grad still
// holds that average.
//
// Two backwards before one optimizer step: the second bucket holds the last average plus the new
// gradient. The average was agreed on already, so only the rest is exchanged; `carried` is the copy
// that is taken out before and put back after.
//
// The copy is taken by a hook on the parameter itself, at the moment when a gradient is about to be
// added to its .grad. An earlier moment may be wrong: torch.autograd.grad() and a zero_grad() may
// come between forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "pliant/common/inbox.h"

namespace pliant::native {

class GradSnapshots {
 public:
  explicit GradSnapshots(std::vector<at::Tensor> parameters);
  ~GradSnapshots() { stop(); }
  GradSnapshots(const GradSnapshots&) = delete;
  GradSnapshots& operator=(const GradSnapshots&) = delete;

  // From now until stop(), hooks on the parameters call carry() if `wanted` says so, and
  // carry_nothing() otherwise. `wanted` is called in the threads of backward.
  void watch(std::function<bool()> wanted);
  void stop();
  [[nodiscard]] bool is_watching() const { return wanted_ != nullptr; }

  // Whether carry_unreached() must look at the entries of the parameter's piece. If not,
  // carry_nothing() comes to the same.
  [[nodiscard]] bool must_look(std::size_t parameter);

  // The averages of one parameter, as they go back to the frame in its type. Any thread may call;
  // everything else is called by the thread that trains, and takes in what was remembered first.
  void remember(std::size_t parameter, std::span<const float> averages);

  // Before backward adds to the .grad of a parameter: what is in there that has been averaged
  // already is copied, or forgotten if it was cleared.
  void carry(std::size_t parameter);
  // The same when a bucket is submitted, for a parameter that backward has not reached: its piece
  // of the bucket, in flat float32, holds what .grad holds, or zeros in join().
  void carry_unreached(std::size_t parameter, const at::Tensor& piece);
  void carry_nothing(std::size_t parameter);
  // Nothing, or a copy as flat as the gradient.
  [[nodiscard]] const std::optional<at::Tensor>& carried(std::size_t parameter) const {
    return seats_[parameter].carried;
  }

  // The one factor between what was returned and what .grad holds, if there is one and it is not 1.
  // Gradients on a device are not looked at, because that would wait for it in every step.
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
    bool fresh = false;  // returned, and no backward has added to it since
    std::optional<at::Tensor> carried;
    std::optional<unsigned> hook = std::nullopt;
  };
  void take_in();
  // The factor for one parameter: 1 if untouched, 0 if cleared, nothing if entries differ by
  // different factors. `entry_at` gives the entry at a place now.
  template <typename Entry>
  [[nodiscard]] static std::optional<double> factor(const Seat& seat, const Entry& entry_at);
  // gradient: in host memory, or undefined.
  [[nodiscard]] static std::optional<double> factor_of_gradient(const Seat& seat,
                                                                const at::Tensor& gradient);

  Inbox<std::vector<Glimpse>> returned_;  // by parameter, from lanes
  std::vector<at::ScalarType> types_;     // by parameter; never written after construction
  std::vector<Seat> seats_;
  std::function<bool()> wanted_;
};

}  // namespace pliant::native
