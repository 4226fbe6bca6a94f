// SPDX-License-Identifier: MIT
#include "pliant/plan/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "pliant/common/errors.h"
#include "pliant/common/hash.h"
#include "tests/arbitrary_plan.h"
#include "tests/support/matches.h"

namespace pliant::plan {
namespace {

constexpr std::string_view kSharedText =
    "gradients shared/star bcast=scatter-allgather reduce=halving-doubling density=1% values=f16 "
    "indices=rice fuse=all";
constexpr std::string_view kUnionText =
    "updates every=4 late=2 union density=3% values=int8 indices=rice";

TEST(Plan, PrintsAsItWasWritten) {
  for (const std::string_view text : {
           kSharedText,
           kUnionText,
           std::string_view("gradients dense reduce=backend values=f32 fuse=bucket"),
           std::string_view("gradients dense reduce=ring values=f16 fuse=2"),
           std::string_view("updates every=1 late=4 dense reduce=tree values=f16"),
           std::string_view(
               "gradients union gather=ring density=100% values=int4 indices=raw32 fuse=all"),
           std::string_view("updates every=8 late=0 shared/var bcast=double-tree segments=12 "
                            "reduce=recursive-doubling density=0.1% "
                            "values=f32 indices=block16"),
           std::string_view("updates every=2 late=1 srs scatter=halving gather=recursive-doubling "
                            "density=0.3% values=int8 indices=rice"),
           std::string_view(
               "gradients srs scatter=direct density=12.5% values=f16 indices=rice fuse=bucket"),
       }) {
    EXPECT_EQ(to_string(parse_plan(text)), text);
  }
}

TEST(Plan, ReadsEveryPart) {
  const Plan shared = parse_plan(kSharedText);
  EXPECT_EQ(shared, (Plan{.scheme = Scheme::kShared,
                          .reduce = AllReduce::kHalvingDoubling,
                          .density = 0.01,
                          .values = ValueCode::kF16,
                          .fuse = Fusion::kAll}));
  const Plan updates = parse_plan(kUnionText);
  EXPECT_EQ(updates, (Plan{.kind = Kind::kUpdates,
                           .every = 4,
                           .late = 2,
                           .scheme = Scheme::kUnion,
                           .density = 0.03,
                           .values = ValueCode::kInt8}));
}

TEST(Plan, WithoutAWordIsPlainDdp) {
  EXPECT_EQ(to_string(Plan{}), "gradients dense reduce=backend values=f32 fuse=bucket");
}

TEST(Plan, LeftOutPartsAreThePlainOnes) {
  EXPECT_EQ(to_string(parse_plan("gradients dense")),
            "gradients dense reduce=backend values=f32 fuse=bucket");
  EXPECT_EQ(to_string(parse_plan("gradients dense values=f16")),
            "gradients dense reduce=halving-doubling values=f16 fuse=bucket");
  EXPECT_EQ(to_string(parse_plan("updates union density=1%")),
            "updates every=1 late=0 union density=1% values=f32 indices=rice");
  EXPECT_EQ(to_string(parse_plan("updates shared density=1%")),
            "updates every=1 late=0 shared/star bcast=scatter-allgather reduce=halving-doubling "
            "density=1% values=f32 indices=rice");
  EXPECT_EQ(to_string(parse_plan("updates srs density=1%")),
            "updates every=1 late=0 srs scatter=circulant density=1% values=f32 indices=rice");
  EXPECT_EQ(to_string(parse_plan("gradients shared segments=4 density=1%")),
            "gradients shared/star bcast=double-tree segments=4 reduce=halving-doubling density=1% "
            "values=f32 indices=rice fuse=bucket");
}

TEST(Plan, KindSchemeAndDensityMustBeThere) {
  const auto error_of = [](std::string_view text) {
    try {
      (void)parse_plan(text);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(
      error_of("auto"),
      "plan: the kind, gradients or updates, is missing from a complete plan\n  auto\n      ^");
  EXPECT_EQ(error_of("gradients"),
            "plan: the scheme (dense, union, shared/star, shared/var or srs) is missing from a "
            "complete plan\n  gradients\n           ^");
  EXPECT_EQ(error_of("gradients union"),
            "plan: density=, as in density=1%, is missing from a complete plan\n  gradients "
            "union\n                 ^");
}

RC_GTEST_PROP(Plan, ParseUndoesPrint, (const Plan& plan)) {
  RC_ASSERT(parse_plan(to_string(plan)) == plan);
}

RC_GTEST_PROP(Plan, EveryOneThatCanBeReadPassesTheCheck, (const Plan& plan)) {
  check(plan);
  RC_ASSERT(!contradiction(pins_of(plan)));
  RC_ASSERT(complete(pins_of(plan)) == plan);
}

RC_GTEST_PROP(Plan, CompletingKeepsPinsAndWhatFitsOfTheDefaults,
              (const Pins& pins, const Plan& defaults)) {
  const Plan plan = complete(pins, defaults);
  check(plan);
  RC_ASSERT(complete(pins, plan) == plan);
  RC_ASSERT(matches(plan, pins));
  RC_ASSERT(complete({}, defaults) == defaults);
  if (matches(defaults, pins)) RC_ASSERT(plan == defaults);
}

TEST(Plan, CompletingDropsDefaultsThatContradictThePins) {
  const Plan late = parse_plan(kUnionText);
  EXPECT_EQ(to_string(complete(parse_pins("shared"), late)),
            "updates every=4 late=0 shared/star bcast=scatter-allgather reduce=halving-doubling "
            "density=3% values=int8 indices=rice");
  EXPECT_EQ(to_string(complete(parse_pins("dense"), late)),
            "updates every=4 late=2 dense reduce=backend values=f32");
  EXPECT_EQ(to_string(complete(parse_pins("fuse=2"), late)),
            "gradients union density=3% values=int8 indices=rice fuse=2");
  EXPECT_EQ(to_string(complete(parse_pins("late=1"), parse_plan(kSharedText))),
            "updates every=1 late=1 dense reduce=halving-doubling values=f16");
  EXPECT_EQ(complete(parse_pins("late=100"), late).every, 100);
  EXPECT_THROW((void)complete({.kind = Kind::kGradients, .every = 2}), ContractError);
}

TEST(Plan, CheckNamesWhatIsWrong) {
  EXPECT_THROW(check({.every = 2}), ContractError);                  // gradients have no every
  EXPECT_THROW(check({.gather = AllGather::kRing}), ContractError);  // dense has no gather
  EXPECT_THROW(check({.density = 0.5}), ContractError);              // dense sends all
  EXPECT_THROW(check({.kind = Kind::kUpdates, .late = -1}), ContractError);
  EXPECT_THROW(check({.scheme = Scheme::kUnion, .density = 0}), ContractError);
  EXPECT_THROW(check({.scheme = Scheme::kShared, .reduce = AllReduce::kBackend}), ContractError);
  EXPECT_NO_THROW(check({}));
}

TEST(Plan, HashIsThatOfTheText) {
  EXPECT_EQ(
      hash(Plan{}),
      pliant::hash(std::string_view("gradients dense reduce=backend values=f32 fuse=bucket")));
  EXPECT_NE(hash(Plan{}), hash(parse_plan(kSharedText)));
}

// Golden: ranks of different builds compare these, so a change of the text form is a change of the
// control record.
TEST(Plan, HashNeverChanges) {
  EXPECT_EQ(hash(Plan{}), 12117976960279503224U);
  EXPECT_EQ(hash(parse_plan(kSharedText)), 8235174838559377298U);
  EXPECT_EQ(hash(parse_plan(kUnionText)), 5790180062751557120U);
}

}  // namespace
}  // namespace pliant::plan
