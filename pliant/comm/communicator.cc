// SPDX-License-Identifier: MIT
#include "pliant/comm/communicator.h"

#include "pliant/common/errors.h"

namespace pliant::comm {

void check_message(const Communicator& communicator, int peer, Tag tag) {
  require(peer >= 0 && peer < communicator.size(), "comm: peer {} is not in 0..{}", peer,
          communicator.size() - 1);
  require(peer != communicator.rank(), "comm: rank {} sends to itself", peer);
  require(tag <= kLargestTag, "comm: tag {} is above the largest, {}", tag, kLargestTag);
}

}  // namespace pliant::comm
