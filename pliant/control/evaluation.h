// SPDX-License-Identifier: MIT
// Evaluation: predictions of all candidate plans, and every question about them.
#pragma once

#include <optional>
#include <vector>

#include "pliant/control/front.h"
#include "pliant/control/options.h"
#include "pliant/model/predict.h"

namespace pliant::control {

class Evaluation {
 public:
  // Predicts all plans that pins and guard-rails allow. Keeps references to its arguments.
  // `overhead`: seconds by which an exchange of any plan but plain DDP takes longer than the model
  // predicts.
  Evaluation(const model::Inputs& inputs, const Options& options, model::PriceBook& book,
             double overhead = 0);

  [[nodiscard]] const std::vector<model::Prediction>& all() const { return all_; }
  [[nodiscard]] const model::Inputs& inputs() const { return inputs_; }
  [[nodiscard]] const Options& options() const { return options_; }

  // The predictions for which `may(prediction)` is true.
  template <typename May>
  [[nodiscard]] Choices those(May may) const {
    Choices some;
    for (const model::Prediction& each : all_) {
      if (may(each)) some.push_back(&each);
    }
    return some;
  }

  // The policy's choice among the plans for which `may(plan)` is true; nullopt if there is none.
  template <typename May>
  [[nodiscard]] std::optional<model::Prediction> best(May may) const {
    return best_of(those([&](const model::Prediction& each) { return may(each.plan); }));
  }

  // The policy's choice among all plans. One of another kind than the plan in force must repay the
  // change of kind.
  [[nodiscard]] model::Prediction goal(const std::optional<plan::Plan>& in_force) const;

  [[nodiscard]] model::Prediction predict(const plan::Plan& plan) const;
  // The same with other inputs.
  [[nodiscard]] model::Prediction predict(const plan::Plan& plan,
                                          const model::Inputs& inputs) const;
  // Plain DDP; null if it is not among the candidates.
  [[nodiscard]] const model::Prediction* plain() const;

  // Where the correction of this plan's time is kept (plan::Corrections).
  [[nodiscard]] std::size_t correction_of(const plan::Plan& plan) const;

 private:
  [[nodiscard]] bool has_twin(const plan::Plan& plan) const;
  [[nodiscard]] std::optional<model::Prediction> best_of(const Choices& allowed) const;
  [[nodiscard]] const model::Prediction* fastest_unless_plain_does(const Choices& allowed) const;
  [[nodiscard]] bool repays(const model::Prediction& stay, const model::Prediction& go) const;

  const model::Inputs& inputs_;
  const Options& options_;
  model::PriceBook& book_;
  double overhead_;
  std::vector<model::Prediction> all_;
};

// The backend's own all-reduce of all gradients in every step, bucket by bucket: what DDP does.
[[nodiscard]] bool is_plain(const plan::Plan& plan);

// Factor by which `a` is better than `b` by the policy's measure. `knee` has no single number: any
// clear difference counts.
[[nodiscard]] double advantage(const model::Prediction& a, const model::Prediction& b,
                               Policy policy);

}  // namespace pliant::control
