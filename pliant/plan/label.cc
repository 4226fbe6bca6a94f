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

// Of plans of one kind: the parts in which they differ, first those of `after`, then of `before`.
struct Parts {
  std::vector<std::string> after, before;
  void add(std::string new_part, std::string old_part) {
    if (new_part == old_part) return;
    after.push_back(std::move(new_part));
    before.push_back(std::move(old_part));
  }
};

Parts parts_that_differ(const Plan& before, const Plan& after) {
  Parts parts;
  parts.add(fmt::format("every {}", after.every), fmt::format("every {}", before.every));
  parts.add(fmt::format("late {}", after.late), fmt::format("late {}", before.late));
  const bool both_top = before.scheme == after.scheme && before.leader == after.leader &&
                        after.scheme != Scheme::kDense && before.density < 1 && after.density < 1;
  const bool only_density = both_top && parts.after.empty() && before.density != after.density;
  parts.add(amount(after), only_density ? percent_of(before) : amount(before));
  return parts;
}

}  // namespace

std::string amount(const Plan& plan) {
  if (plan.scheme == Scheme::kDense) return "dense";
  std::string top = plan.density == 1 ? "all" : fmt::format("top {}", percent_of(plan));
  if (plan.scheme == Scheme::kUnion) return top;
  if (plan.scheme == Scheme::kSrs) return fmt::format("{} (srs)", top);
  return fmt::format("{} (shared/{})", top, to_string(plan.leader));
}

std::string label(const Plan& plan) {
  if (plan.kind == Kind::kGradients) return amount(plan);
  std::string text = "updates";
  if (plan.every > 1) text += fmt::format(" every {}", plan.every);
  if (plan.late > 0) text += fmt::format(", late {}", plan.late);
  return fmt::format("{}, {}", text, amount(plan));
}

std::string difference(const Plan& before, const Plan& after) {
  if (before.kind != after.kind)
    return fmt::format("{} instead of {}", label(after), label(before));
  const Parts parts = parts_that_differ(before, after);
  if (!parts.after.empty())
    return fmt::format("{} instead of {}", fmt::join(parts.after, ", "),
                       fmt::join(parts.before, ", "));
  return fmt::format("{}: {} instead of {}", label(after), words_without(after, before),
                     words_without(before, after));
}

}  // namespace pliant::plan
