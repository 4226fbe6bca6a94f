// SPDX-License-Identifier: MIT
// Gloo groups over the loopback device, one per rank, for ranks that are threads.
#pragma once

#include <memory>
#include <vector>

#include "pliant/comm/communicator.h"

namespace pliant::testing {

enum class Words {
  kStore,  // ranks that give up can ask each other
  kNone,   // no store was given
  kGone,   // there was one; its server has ended
};

class C10dGroup {
 public:
  explicit C10dGroup(int size, Words words = Words::kStore, Seconds group_timeout = {60},
                     Seconds asking = {2});
  ~C10dGroup();
  C10dGroup(const C10dGroup&) = delete;
  C10dGroup& operator=(const C10dGroup&) = delete;

  // First words are then left in one place for both, as by the lanes of one engine.
  void share_first_words(const C10dGroup& other);

  // Returns once all ranks have joined: each calls it from its own thread. Destroying the
  // communicator ends its connections.
  [[nodiscard]] std::unique_ptr<comm::Communicator> join(int rank) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pliant::testing
