// SPDX-License-Identifier: MIT
#include "pliant/plan/label.h"

#include <gtest/gtest.h>

namespace pliant::plan {
namespace {

std::string label_of(const char* text) { return label(parse_plan(text)); }
std::string difference_of(const char* before, const char* after) {
  return difference(parse_plan(before), parse_plan(after));
}

// The same rows as in python/tests/report_figures_test.py.
TEST(Label, SaysWhatIsSentAndHowOften) {
  EXPECT_EQ(label_of("gradients dense"), "dense");
  EXPECT_EQ(label_of("gradients union density=10%"), "top 10 %");
  EXPECT_EQ(label_of("gradients srs density=0.3%"), "top 0.3 % (srs)");
  EXPECT_EQ(label_of("gradients srs density=100%"), "all (srs)");
  EXPECT_EQ(label_of("gradients shared/var density=1%"), "top 1 % (shared/var)");
  EXPECT_EQ(label_of("updates every=1 late=0 dense"), "updates, dense");
  EXPECT_EQ(label_of("updates every=4 late=0 union density=3%"), "updates every 4, top 3 %");
  EXPECT_EQ(label_of("updates every=4 late=2 union density=3%"),
            "updates every 4, late 2, top 3 %");
}

TEST(Difference, NamesTheNewPlanAndTheOldOne) {
  EXPECT_EQ(difference_of("gradients union density=20%", "gradients union density=10%"),
            "top 10 % instead of 20 %");
  EXPECT_EQ(difference_of("gradients union density=100%", "gradients union density=10%"),
            "top 10 % instead of all");
  EXPECT_EQ(difference_of("gradients dense", "updates every=4 late=0 union density=1%"),
            "updates every 4, top 1 % instead of dense");
  EXPECT_EQ(difference_of("updates every=2 late=1 union density=3%",
                          "updates every=4 late=2 union density=3%"),
            "every 4, late 2 instead of every 2, late 1");
  EXPECT_EQ(difference_of("updates every=2 late=1 dense", "updates every=4 late=1 srs density=3%"),
            "every 4, top 3 % (srs) instead of every 2, dense");
  EXPECT_EQ(difference_of("gradients union density=1%", "gradients srs density=1%"),
            "top 1 % (srs) instead of top 1 %");
}

TEST(Difference, OfPlansWithOneLabelNamesTheParts) {
  EXPECT_EQ(difference_of("gradients union density=1% values=f32",
                          "gradients union density=1% values=int8"),
            "top 1 %: values=int8 instead of values=f32");
  EXPECT_EQ(difference_of("gradients union density=1% gather=bruck",
                          "gradients union density=1% gather=ring"),
            "top 1 %: gather=ring instead of the usual parts");
}

}  // namespace
}  // namespace pliant::plan
