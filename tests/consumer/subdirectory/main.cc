// SPDX-License-Identifier: MIT
// Prices a ring on two ranks: 2 rounds of half the bytes.
#include <cmath>
#include <cstdio>

#include "pliant/model/price.h"
#include "pliant/schedule/catalogue.h"

int main() {
  const auto& ring =
      pliant::schedule::find_builder(pliant::schedule::Collective::kAllReduce, "ring");
  const auto world = pliant::plan::uniform_world(2, pliant::plan::parse_link("8mbit,1ms"));
  const auto time = pliant::model::price(pliant::schedule::build_all(ring, {2}),
                                         pliant::model::even_blocks(1e6, 2), world.links);
  std::printf("consumer: %.3f s\n", time.value);
  return std::abs(time.value - 1.002) < 1e-9 ? 0 : 1;
}
