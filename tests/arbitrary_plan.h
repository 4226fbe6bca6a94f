// SPDX-License-Identifier: MIT
// Random pins and plans for property tests: every legal one can come up, no other does.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "pliant/plan/density.h"
#include "pliant/plan/plan.h"

namespace pliant::plan {

// Wishes in random order; one that contradicts those before it is dropped.
inline rc::Gen<Pins> arbitrary_pins(int percent_pinned) {
  return rc::gen::exec([percent_pinned] {
    Pins pins;
    const auto wish = [&](auto part, auto gen) {
      return [&pins, part, gen, percent_pinned] {
        if (*rc::gen::inRange(0, 100) >= percent_pinned) return;
        const Pins before = pins;
        pins.*part = *gen;
        if (pins.leader && !pins.scheme)
          pins.scheme = Scheme::kShared;  // there is no text for a leader alone
        if (contradiction(pins)) pins = before;
      };
    };
    const auto any_density = rc::gen::oneOf(rc::gen::elementOf(kDensities),
                                            rc::gen::map(rc::gen::inRange(0, 100000), [](int i) {
                                              return std::max(kMinDensity, std::exp(-i * 1.38e-4));
                                            }));
    std::vector<std::function<void()>> wishes = {
        wish(&Pins::kind, rc::gen::elementOf(kKinds)),
        wish(&Pins::every, rc::gen::inRange(1, kMaxEvery + 1)),
        wish(&Pins::late, rc::gen::inRange(0, kMaxLate + 1)),
        wish(&Pins::scheme, rc::gen::elementOf(kSchemes)),
        wish(&Pins::leader, rc::gen::elementOf(kLeaders)),
        wish(&Pins::scatter, rc::gen::elementOf(kReduceScatters)),
        wish(&Pins::gather, rc::gen::elementOf(kAllGathers)),
        wish(&Pins::bcast, rc::gen::elementOf(kBroadcasts)),
        wish(&Pins::segments, rc::gen::inRange(1, kMaxSegments + 1)),
        wish(&Pins::reduce, rc::gen::elementOf(kAllReduces)),
        wish(&Pins::density, any_density),
        wish(&Pins::values, rc::gen::elementOf(kValueCodes)),
        wish(&Pins::indices, rc::gen::elementOf(kIndexCodes)),
        wish(&Pins::fuse, rc::gen::elementOf(kFusions))};
    while (!wishes.empty()) {
      const auto next = wishes.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(wishes));
      (*next)();
      wishes.erase(next);
    }
    return pins;
  });
}

}  // namespace pliant::plan

namespace rc {

template <>
struct Arbitrary<pliant::plan::Pins> {
  static Gen<pliant::plan::Pins> arbitrary() { return pliant::plan::arbitrary_pins(40); }
};

template <>
struct Arbitrary<pliant::plan::Plan> {
  static Gen<pliant::plan::Plan> arbitrary() {
    return gen::map(pliant::plan::arbitrary_pins(90),
                    [](const pliant::plan::Pins& pins) { return pliant::plan::complete(pins); });
  }
};

}  // namespace rc
