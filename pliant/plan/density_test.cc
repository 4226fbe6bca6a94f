// SPDX-License-Identifier: MIT
#include "pliant/plan/density.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <vector>

#include "pliant/common/errors.h"

namespace pliant::plan {
namespace {

TEST(Density, TheStandardOnesPrintAsPeopleWriteThem) {
  std::vector<std::string> texts;
  for (const double density : kDensities) texts.push_back(density_text(density));
  EXPECT_EQ(texts, (std::vector<std::string>{"100%", "50%", "20%", "10%", "5%", "3%", "1%", "0.3%",
                                             "0.1%"}));
  for (const double density : kDensities) EXPECT_EQ(parse_density(density_text(density)), density);
}

TEST(Density, NoGapIsWiderThanTheCommentSays) {
  for (std::size_t i = 0; i + 1 < kDensities.size(); ++i)
    EXPECT_LT(kDensities[i] / kDensities[i + 1], 3.4);
}

TEST(Density, IsTheDoubleNearestToTheDecimal) {
  EXPECT_EQ(parse_density("0.3%"), 0.003);  // 0.3 / 100 and 0.3 * 0.01 are both other doubles
  EXPECT_EQ(parse_density("7%"), 0.07);
  EXPECT_EQ(parse_density("1 %"), 0.01);
  EXPECT_EQ(parse_density("1.00%"), 0.01);
  EXPECT_EQ(parse_density(".5%"), 0.005);
}

RC_GTEST_PROP(Density, EveryDoubleComesBack, ()) {
  const auto bits = *rc::gen::resize(1000, rc::gen::arbitrary<std::uint64_t>());
  const double density =
      kMinDensity + (1 - kMinDensity) * static_cast<double>(bits >> 11U) * 0x1p-53;
  RC_ASSERT(parse_density(density_text(density)) == density);
}

RC_GTEST_PROP(Density, EveryScaleComesBack, ()) {
  const int mantissa = *rc::gen::inRange(1, 1 << 30);
  const int power = *rc::gen::inRange(0, 20);
  const double density = std::max(kMinDensity, mantissa * std::pow(0.5, 30 + power));
  RC_ASSERT(parse_density(density_text(density)) == density);
}

TEST(Density, RefusesWhatIsNoDensityAndSaysWhy) {
  const auto why = [](const char* text) {
    try {
      (void)parse_density(text);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(why("0%"), "'0%' is too low; the least is 0.0001%");
  EXPECT_EQ(why("101%"), "'101%' is more than 100%");
  EXPECT_EQ(why("0.01"), "'0.01' has no unit; write it as a percentage, as in 1% or 0.3%");
  for (const char* text :
       {"", "%", "x", "-1%", "1e-1%", "nan%", "inf%", "1.2.3%", "1%%", "+1%", "0x1%"}) {
    EXPECT_EQ(why(text), std::string("'") + text + "' is not a percentage; write it as 1% or 0.3%");
  }
  EXPECT_THROW((void)density_text(0), ContractError);
  EXPECT_THROW((void)density_text(NAN), ContractError);
  EXPECT_THROW((void)density_text(1.5), ContractError);
}

}  // namespace
}  // namespace pliant::plan
