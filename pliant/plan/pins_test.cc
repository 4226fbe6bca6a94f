// SPDX-License-Identifier: MIT
#include "pliant/plan/pins.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "pliant/common/errors.h"
#include "tests/arbitrary_plan.h"

namespace pliant::plan {
namespace {

std::string error_of(std::string_view text) {
  try {
    const Pins pins = parse_pins(text);
    return "accepted as " + to_string(pins);
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Pins, AnyPartMayBeLeftOut) {
  EXPECT_EQ(parse_pins("auto"), Pins{});
  EXPECT_EQ(parse_pins(" auto\n"), Pins{});
  EXPECT_EQ(parse_pins("gradients"), Pins{.kind = Kind::kGradients});
  EXPECT_EQ(parse_pins("shared"), Pins{.scheme = Scheme::kShared});
  EXPECT_EQ(parse_pins("shared/var"), (Pins{.scheme = Scheme::kShared, .leader = Leader::kVar}));
  EXPECT_EQ(parse_pins("union density=1%"), (Pins{.scheme = Scheme::kUnion, .density = 0.01}));
  EXPECT_EQ(parse_pins("late=2"), Pins{.late = 2});
}

TEST(Pins, PrintAsTheyWereWritten) {
  const char* complete =
      "gradients shared/star bcast=scatter-allgather reduce=halving-doubling density=1% "
      "values=f16 indices=rice fuse=all";
  for (const char* text : {
           complete,
           "auto",
           "gradients",
           "updates",
           "updates every=4 late=2 union density=3% values=int8 indices=rice",
           "updates every=4 late=1 union density=3% values=int8 indices=rice",
           "gradients union density=1% values=int8 indices=rice",
           "gradients dense reduce=backend values=f32 fuse=bucket",
           "dense density=100%",
           "shared bcast=chain segments=16",
           "srs scatter=direct gather=bruck density=0.3%",
           "union gather=bruck",
           "every=3 density=0.0125%",
           "fuse=2",
       }) {
    EXPECT_EQ(to_string(parse_pins(text)), text);
  }
}

TEST(Pins, TheFormerNameOfAValueIsReadAndNotWritten) {
  EXPECT_EQ(to_string(parse_pins("dense reduce=engine")), "dense reduce=backend");
  EXPECT_EQ(parse_pins("dense reduce=engine"), parse_pins("dense reduce=backend"));
  EXPECT_THROW((void)parse_pins("gather=engine"), InputError);
}

TEST(Pins, OrderAndSpacesDoNotMatter) {
  EXPECT_EQ(to_string(parse_pins("\tdensity=1%   fuse=all union  gradients ")),
            "gradients union density=1% fuse=all");
}

RC_GTEST_PROP(Pins, ParseUndoesPrint, (const Pins& pins)) {
  RC_ASSERT(parse_pins(to_string(pins)) == pins);
}

TEST(Pins, AnErrorPointsAtTheWord) {
  EXPECT_EQ(error_of("gradients unoin density=1%"),
            "plan: unknown word 'unoin' (did you mean 'union'?); a plan is 'auto' or some of: "
            "gradients or updates; dense, union, shared or srs; density=1%, every=4, late=1, "
            "values=int8. docs/plans.md has all of them\n"
            "  gradients unoin density=1%\n"
            "            ^~~~~");
  EXPECT_EQ(error_of("dense reduce=rings"),
            "plan: reduce= does not know 'rings' (did you mean 'ring'?); allowed: backend, ring, "
            "halving-doubling, recursive-doubling, tree\n"
            "  dense reduce=rings\n"
            "        ^~~~~~~~~~~~");
  EXPECT_EQ(error_of("union densty=1%"),
            "plan: unknown key 'densty=' (did you mean 'density='?); the usual words: "
            "gradients or updates; dense, union, shared or srs; density=1%, every=4, late=1, "
            "values=int8. docs/plans.md has all of them\n"
            "  union densty=1%\n"
            "        ^~~~~~~~~");
  EXPECT_EQ(error_of("union\tdensity=0.01"),
            "plan: density=0.01: '0.01' has no unit; write it as a percentage, as in 1% or 0.3%\n"
            "  union density=0.01\n"
            "        ^~~~~~~~~~~~");
  EXPECT_EQ(
      error_of("grädients union"),  // counted in characters, not bytes
      "plan: unknown word 'grädients' (did you mean 'gradients'?); a plan is 'auto' or some of: "
      "gradients or updates; dense, union, shared or srs; density=1%, every=4, late=1, "
      "values=int8. docs/plans.md has all of them\n"
      "  grädients union\n"
      "  ^~~~~~~~~");
  EXPECT_EQ(error_of(""), "plan: empty; write 'auto' to leave everything open\n  \n  ^");
  try {
    (void)parse_pins("x", "--plan");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(std::string_view(error.what()).substr(0, 8), "--plan: ");
  }
}

std::string first_line(std::string_view text) {
  const std::string all = error_of(text);
  return all.substr(0, all.find('\n'));
}

TEST(Pins, AnErrorSaysWhatWasMeant) {
  EXPECT_EQ(first_line("dense ring"), "plan: 'ring' needs its key: gather=ring or reduce=ring");
  EXPECT_EQ(first_line("union 1%"), "plan: '1%' needs its key: density=1%");
  EXPECT_EQ(first_line("union density=1 %"),
            "plan: density=1: '1' has no unit; write it as a percentage, as in 1% or 0.3%");
  EXPECT_EQ(first_line("union %"), "plan: a percentage has no space in a plan, as in density=1%");
  EXPECT_EQ(first_line("star"), "plan: 'star' needs its key: shared/star");
  EXPECT_EQ(first_line("union int8"), "plan: 'int8' needs its key: values=int8");
  EXPECT_EQ(first_line("union values"),
            "plan: 'values' needs a value: values=f32|f16|int8|int4|int2");
  EXPECT_EQ(
      first_line("shared/starr"),
      "plan: shared does not know the leader 'starr' (did you mean 'star'?); allowed: star, var");
  EXPECT_EQ(first_line("union/star"),
            "plan: union has no leader; only shared/star and shared/var do");
  EXPECT_EQ(first_line("gradients auto"), "plan: 'auto' leaves everything open and stands alone");
  EXPECT_EQ(first_line("every=0"), "plan: every= takes a whole number from 1 to 1024, not '0'");
  EXPECT_EQ(first_line("every=four"),
            "plan: every= takes a whole number from 1 to 1024, not 'four'");
  EXPECT_EQ(first_line("late=-1"), "plan: late= takes a whole number from 0 to 512, not '-1'");
  EXPECT_EQ(first_line("late=99999999999"),
            "plan: late= takes a whole number from 0 to 512, not '99999999999'");
  EXPECT_EQ(first_line("density=0%"), "plan: density=0%: '0%' is too low; the least is 0.0001%");
  EXPECT_EQ(first_line("density=200%"), "plan: density=200%: '200%' is more than 100%");
  EXPECT_EQ(first_line("fuse=pairs"), "plan: fuse= does not know 'pairs'; allowed: bucket, 2, all");
}

TEST(Pins, AContradictionSaysWhy) {
  EXPECT_EQ(first_line("updates every=64 late=65"),
            "plan: late= above 64 needs every= at least as large: late=65 needs every=65");
  EXPECT_EQ(parse_pins("updates late=512 every=512"),
            (Pins{.kind = Kind::kUpdates, .every = 512, .late = 512}));
  EXPECT_EQ(first_line("updates shared late=1"),
            "plan: late= above 0 is for dense, union and srs: in shared a follower learns its "
            "indices one broadcast later; it cannot go "
            "with shared");
  EXPECT_EQ(first_line("gradients every=4"),
            "plan: every= is for updates: gradients are exchanged every step; it cannot go with "
            "gradients");
  EXPECT_EQ(first_line("gradients late=0"),
            "plan: late= is for updates: the optimizer waits for averaged gradients; it cannot go "
            "with gradients");
  EXPECT_EQ(first_line("updates fuse=all"),
            "plan: fuse= is for gradients: updates are one exchange of the whole model; it cannot "
            "go with updates");
  EXPECT_EQ(first_line("every=2 fuse=all"),
            "plan: no kind is left: every= is for updates: gradients are exchanged every step; "
            "fuse= is for gradients: updates are one "
            "exchange of the whole model");
  EXPECT_EQ(first_line("union union"), "plan: a second scheme; it is union already");
  EXPECT_EQ(first_line("gradients updates"), "plan: a second kind; it is gradients already");
  EXPECT_EQ(first_line("density=1% density=3%"),
            "plan: a second density=; it is density=1% already");
  EXPECT_EQ(first_line("dense density=10%"),
            "plan: density= below 100% is for union, shared and srs: dense sends every entry; it "
            "cannot go with dense");
  EXPECT_EQ(
      first_line("dense indices=rice"),
      "plan: indices= is for union, shared and srs: dense sends none; it cannot go with dense");
  EXPECT_EQ(first_line("dense gather=ring"),
            "plan: gather= is for union and srs; it cannot go with dense");
  EXPECT_EQ(first_line("union scatter=direct"),
            "plan: scatter= is for srs; it cannot go with union");
  EXPECT_EQ(first_line("srs bcast=chain"), "plan: bcast= is for shared; it cannot go with srs");
  EXPECT_EQ(first_line("union reduce=ring"),
            "plan: reduce= is for dense and shared; it cannot go with union");
  EXPECT_EQ(
      first_line("shared reduce=backend"),
      "plan: reduce=backend is for dense: the backend's own all-reduce takes whole buckets; it "
      "cannot go with shared");
  EXPECT_EQ(first_line("shared reduce=recursive-doubling values=int8"),
            "plan: reduce=recursive-doubling takes values=f32 only, not int8: both partners would "
            "keep the same rounding error");
  EXPECT_EQ(
      first_line("dense reduce=backend values=f16"),
      "plan: reduce=backend takes values=f32 only, not f16: the backend's own all-reduce knows "
      "no codes");
  EXPECT_EQ(first_line("shared bcast=binomial segments=4"),
            "plan: segments= is for bcast=chain and bcast=double-tree; binomial is not cut");
  EXPECT_EQ(first_line("scatter=direct reduce=ring"),
            "plan: no scheme is left: scatter= is for srs; reduce= is for dense and shared");
}

TEST(Pins, AContradictionPointsAtTheWordThatMadeIt) {
  EXPECT_EQ(error_of("late=1 density=1% updates shared/var fuse=all")
                .substr(error_of("late=1 density=1% updates shared/var fuse=all").find('\n')),
            "\n  late=1 density=1% updates shared/var fuse=all"
            "\n                            ^~~~~~~~~~");
}

// Claims found without looking at how `contradiction` is made: complete sets of parts, legal or not
// by the rules as a person would list them.
RC_GTEST_PROP(Pins, ContradictionAgreesWithTheListOfRules, ()) {
  using enum Scheme;
  const auto maybe = [](auto gen) {
    return *rc::gen::inRange(0, 2) == 0 ? std::nullopt : std::optional(*gen);
  };
  const Pins p{.kind = *rc::gen::elementOf(kKinds),
               .every = maybe(rc::gen::inRange(1, 3)),
               .late = maybe(rc::gen::inRange(0, 3)),
               .scheme = *rc::gen::elementOf(kSchemes),
               .scatter = maybe(rc::gen::elementOf(kReduceScatters)),
               .gather = maybe(rc::gen::elementOf(kAllGathers)),
               .reduce = maybe(rc::gen::elementOf(kAllReduces)),
               .density = maybe(rc::gen::elementOf(kDensities)),
               .values = maybe(rc::gen::elementOf(kValueCodes)),
               .indices = maybe(rc::gen::elementOf(kIndexCodes)),
               .fuse = maybe(rc::gen::elementOf(kFusions))};
  bool legal = true;
  if (p.kind == Kind::kGradients && (p.every || p.late)) legal = false;
  if (p.kind == Kind::kUpdates && p.fuse) legal = false;
  if (p.scheme == kShared && p.late.value_or(0) > 0) legal = false;
  if (p.scheme != kSrs && p.scatter) legal = false;
  if (p.scheme != kSrs && p.scheme != kUnion && p.gather) legal = false;
  if (p.scheme != kDense && p.scheme != kShared && p.reduce) legal = false;
  if (p.scheme == kShared && p.reduce == AllReduce::kBackend) legal = false;
  if (p.scheme == kDense && (p.indices || p.density.value_or(1) != 1)) legal = false;
  if ((p.reduce == AllReduce::kBackend || p.reduce == AllReduce::kRecursiveDoubling) &&
      p.values.value_or(ValueCode::kF32) != ValueCode::kF32)
    legal = false;
  RC_ASSERT(!contradiction(p).has_value() == legal);
}

RC_GTEST_PROP(Pins, NoTextCrashesTheParser, ()) {
  const auto words = rc::gen::elementOf(std::vector<std::string>{"gradients",
                                                                 "updates",
                                                                 "dense",
                                                                 "union",
                                                                 "shared/star",
                                                                 "shared/",
                                                                 "/",
                                                                 "=",
                                                                 "srs",
                                                                 "every=2",
                                                                 "late=1",
                                                                 "late=",
                                                                 "=4",
                                                                 "density=1%",
                                                                 "density=%",
                                                                 "values=int8",
                                                                 "indices=rice",
                                                                 "fuse=2",
                                                                 "reduce=ring",
                                                                 "auto",
                                                                 "gather=ring",
                                                                 "scatter=halving",
                                                                 "bcast=chain",
                                                                 "segments=3",
                                                                 "\x01",
                                                                 "\xff\x80",
                                                                 "é"});
  std::string text;
  for (const std::string& word : *rc::gen::container<std::vector<std::string>>(words))
    text += word + " ";
  try {
    const Pins pins = parse_pins(text);
    RC_ASSERT(!contradiction(pins));
    RC_ASSERT(parse_pins(to_string(pins)) == pins);
  } catch (const InputError&) {
  }
}

RC_GTEST_PROP(Pins, NoBytesCrashTheParser, (const std::string& text)) {
  try {
    (void)parse_pins(text);
  } catch (const InputError&) {
  }
}

}  // namespace
}  // namespace pliant::plan
