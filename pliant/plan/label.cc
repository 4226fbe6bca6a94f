// SPDX-License-Identifier: MIT
#include "pliant/plan/label.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "pliant/plan/density.h"

namespace pliant::plan {
namespace {

std::string percent_of(const Plan& plan) {
  std::string text = density_text(plan.density);
  text.pop_back();
  return text + " %";
}

std::string amount(const Plan& plan) {
  if (plan.scheme == Scheme::kDense) return "dense";
  const std::string top = plan.density == 1 ? "all" : fmt::format("top {}", percent_of(plan));
  if (plan.scheme == Scheme::kUnion) return top;
  if (plan.scheme == Scheme::kSrs) return fmt::format("{} (srs)", top);
  return fmt::format("{} (shared/{})", top, to_string(plan.leader));
}

std::vector<std::string> words_of(const Plan& plan) {
  std::istringstream text(to_string(plan));
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

// The words of the first that the second does not have.
std::string words_without(const Plan& plan, const Plan& other) {
  std::vector<std::string> words = words_of(plan);
  const std::vector<std::string> others = words_of(other);
  std::erase_if(words, [&](const std::string& word) {
    return std::ranges::find(others, word) != others.end();
  });
  return words.empty() ? "the usual parts" : fmt::format("{}", fmt::join(words, " "));
}

bool only_density_differs(const Plan& a, const Plan& b) {
  return a.kind == b.kind && a.every == b.every && a.late == b.late && a.scheme == b.scheme &&
         a.leader == b.leader && a.scheme != Scheme::kDense && a.density != b.density &&
         a.density < 1 && b.density < 1;
}

}  // namespace

std::string label(const Plan& plan) {
  if (plan.kind == Kind::kGradients) return amount(plan);
  std::string text = "updates";
  if (plan.every > 1) text += fmt::format(" every {}", plan.every);
  if (plan.late > 0) text += fmt::format(", late {}", plan.late);
  return fmt::format("{}, {}", text, amount(plan));
}

std::string difference(const Plan& before, const Plan& after) {
  if (only_density_differs(before, after))
    return fmt::format("{} instead of {}", label(after), percent_of(before));
  if (label(before) != label(after))
    return fmt::format("{} instead of {}", label(after), label(before));
  return fmt::format("{}: {} instead of {}", label(after), words_without(after, before),
                     words_without(before, after));
}

}  // namespace pliant::plan
