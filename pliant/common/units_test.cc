// SPDX-License-Identifier: MIT
#include "pliant/common/units.h"

#include <gtest/gtest.h>

#include <string>

#include "pliant/common/errors.h"

namespace pliant {
namespace {

template <typename Parse>
std::string complaint(Parse parse, std::string_view text) {
  try {
    (void)parse(text, "--link");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Units, ReadsWhatPeopleWrite) {
  EXPECT_DOUBLE_EQ(parse_duration("10ms", "t").value, 0.01);
  EXPECT_DOUBLE_EQ(parse_duration(" 1.5 min ", "t").value, 90);
  EXPECT_DOUBLE_EQ(bits_per_second(parse_rate("64kbit", "r")), 64e3);
  EXPECT_DOUBLE_EQ(bits_per_second(parse_rate("1.5 Gbit/s", "r")), 1.5e9);
  EXPECT_EQ(parse_size("8MiB", "s").value, 8 << 20);
  EXPECT_EQ(parse_size("512 B", "s").value, 512);
  EXPECT_DOUBLE_EQ(parse_fraction("0.5 %", "loss"), 0.005);
}

TEST(Units, RefusesBareNumbersNamingOptionAndFix) {
  EXPECT_NE(complaint(parse_rate, "100").find("--link: '100' has no unit; write it as 64kbit"),
            std::string::npos);
  EXPECT_NE(complaint(parse_duration, "10").find("has no unit"), std::string::npos);
  EXPECT_NE(complaint(parse_fraction, "0.5").find("has no unit"), std::string::npos);
}

TEST(Units, RefusesUnitsThatMeanTwoThings) {
  EXPECT_NE(complaint(parse_size, "8MB").find("'MB' means two things"), std::string::npos);
  EXPECT_NE(complaint(parse_rate, "8mbps").find("unknown unit 'mbps'"), std::string::npos);
}

TEST(Units, RefusesWhatIsNotAQuantity) {
  for (const char* text : {"", "ms", "-3ms", "nan ms", "inf s", "1e999s", "0x10ms", "1,5ms"})
    EXPECT_NE(complaint(parse_duration, text), "accepted") << text;
  EXPECT_NE(complaint(parse_size, "0.3B"), "accepted");
  EXPECT_NE(complaint(parse_size, "1e30GiB"), "accepted");
}

TEST(Units, PrintsThreeSignificantDigits) {
  EXPECT_EQ(to_string(Seconds{0.01236}), "12.4 ms");
  EXPECT_EQ(to_string(Seconds{0}), "0 s");
  EXPECT_EQ(to_string(Seconds{12345}), "12345 s");
  EXPECT_EQ(to_string(from_bits_per_second(95.2e6)), "95.2 Mbit/s");
  EXPECT_EQ(to_string(Bytes{1310720}), "1.25 MiB");
  EXPECT_EQ(percent(0.01), "1 %");
}

}  // namespace
}  // namespace pliant
