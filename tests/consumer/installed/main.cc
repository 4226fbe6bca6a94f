// SPDX-License-Identifier: MIT
// Two ranks as threads average their gradients with the library as installed.
#include <cstdio>
#include <thread>
#include <vector>

#include "pliant/comm/local/group.h"
#include "pliant/compress/residual.h"
#include "pliant/exchange/flight.h"

int main() {
  const pliant::comm::local::Group group(2);
  std::vector<float> result(1000);
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        const auto communicator = group.join(rank);
        const pliant::compress::Residual residual(1000);
        pliant::exchange::Bucket bucket(residual.span());
        std::vector<float> gradient(1000, static_cast<float>(rank + 1));
        const pliant::exchange::Terms terms{
            .plan = pliant::plan::parse_plan("gradients union density=100% values=f32")};
        (void)pliant::exchange::exchange(*communicator, bucket, terms,
                                         pliant::compress::Gradient{gradient}, gradient);
        if (rank == 0) result = gradient;
      });
    }
  }
  for (const float value : result) {
    if (value != 1.5F) return 1;
  }
  std::puts("consumer: fine");
  return 0;
}
