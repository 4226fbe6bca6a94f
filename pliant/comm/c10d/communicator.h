// SPDX-License-Identifier: MIT
// Communicator over the process groups of PyTorch (Gloo).
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "pliant/comm/communicator.h"

namespace pliant::comm::c10d {

struct Options {
  // Store in which ranks that give up write whom they waited for: a PrefixStore that all ranks of
  // this communicator share and nothing else uses. Null: an error names the peer only. A store
  // answers one thread at a time: if another may block in it, give a clone.
  c10::intrusive_ptr<::c10d::Store> store;
  // Store that all communicators of these ranks share, or null: the first line of a rank in any of
  // them. A rank that is waited for here may itself wait in another communicator.
  c10::intrusive_ptr<::c10d::Store> common;
  std::vector<std::string>
      names;          // of all ranks (hosts, addresses), for the text of errors; or none
  Seconds asking{2};  // how long a rank that gives up listens to the others
};

// A Communicator over the CPU backend of a process group (Gloo), for any thread; no Python, no GIL.
// The backend is for this communicator alone: Gloo counts its collectives, and a failure ends all
// its connections, so that nobody waits for a rank that has given up. A send or receive blocks only
// while a group made with TORCH_GLOO_LAZY_INIT connects.
//
// Gloo does not tell the length of a message (Capabilities::tells_length), and a message longer
// than its room ends the receiving process: the ranks must agree on their plans before they talk.
[[nodiscard]] std::unique_ptr<Communicator> over(c10::intrusive_ptr<::c10d::Backend> backend,
                                                 Options options = {});

}  // namespace pliant::comm::c10d
