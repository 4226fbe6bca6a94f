// SPDX-License-Identifier: MIT
// A few rounds of every scheme on one communicator, to compare backends by: the bits must not
// depend on who carries them.
#pragma once

#include <random>
#include <vector>

#include "pliant/compress/residual.h"
#include "pliant/exchange/flight.h"

namespace pliant::testing {

// This rank's results and residuals, one after the other.
inline std::vector<float> every_scheme(comm::Communicator& c, std::size_t entries = 2000) {
  std::vector<float> all;
  const compress::Residual residual(entries);
  exchange::ResidualGroup bucket(residual.span());
  std::uint64_t step = 0;
  for (const char* text : {
           "gradients union density=10% values=int8 indices=rice",
           "gradients union gather=ring density=1% values=f32 indices=block16",
           "gradients shared/star bcast=scatter-allgather reduce=halving-doubling density=10% "
           "values=f16 indices=rice",
           "gradients shared/var bcast=double-tree reduce=ring density=10% values=int8 "
           "indices=block16",
           "gradients shared/star bcast=chain reduce=recursive-doubling density=10% values=f32 "
           "indices=rice",
           "gradients srs scatter=circulant density=10% values=int8 indices=rice",
           "gradients srs scatter=direct gather=ring density=5% values=f32",
           "gradients dense reduce=halving-doubling values=f16",
           "gradients dense reduce=ring values=int8",
           "gradients dense reduce=halving-doubling values=int4",
           "gradients dense reduce=ring",
           "gradients dense reduce=tree",
       }) {
    for (int again = 0; again < 2; ++again, ++step) {
      std::mt19937_64 random(step * 100 + static_cast<std::uint64_t>(c.rank()));
      std::normal_distribution<float> normal;
      std::vector<float> gradient(entries);
      for (float& value : gradient) value = normal(random);
      const exchange::Terms terms{
          .plan = plan::parse_plan(text), .round = step, .deadline = Seconds{60}};
      (void)exchange::exchange(c, bucket, terms, compress::Gradient{gradient}, gradient);
      all.insert(all.end(), gradient.begin(), gradient.end());
      all.insert(all.end(), residual.span().begin(), residual.span().end());
    }
  }
  return all;
}

}  // namespace pliant::testing
