// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/ranks.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "pliant/comm/local/group.h"
#include "pliant/common/errors.h"
#include "pliant/common/exit_code.h"

namespace pliant::bench {
namespace {

Yardstick memory_copy() {
  auto copy = std::make_shared<std::vector<float>>();
  return {"memcpy", false, [copy](const Problem&, int, std::span<float> data) {
            copy->resize(data.size());
            std::memcpy(copy->data(), data.data(), data.size_bytes());
          }};
}

// A rank that fails leaves at once, so that the others need not wait for it; theirs are echoes of
// the first failure.
struct Outcome {
  int code = kExitFine;
  std::exception_ptr failure;
};

Outcome live(std::unique_ptr<comm::Communicator> communicator, const Backend& backend,
             const Body& body) {
  try {
    return {body(*communicator, backend), nullptr};
  } catch (...) {
    return {kExitFailed, std::current_exception()};
  }
}

int tell(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return bench::tell(error);
  }
}

}  // namespace

int tell(const std::exception& error) {
  std::fprintf(stderr, "pliant-bench: %s\n", error.what());
  if (dynamic_cast<const InputError*>(&error) != nullptr) return kExitBadInput;
  if (dynamic_cast<const comm::CommError*>(&error) != nullptr) return kExitPeerLost;
  return kExitFailed;
}

int run_on_threads(int ranks, const Body& body) {
  const Backend backend{"threads", memory_copy};
  const comm::local::Group group(ranks);
  std::vector<std::unique_ptr<comm::Communicator>> communicators;
  communicators.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) communicators.push_back(group.join(rank));
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      threads.emplace_back(
          [&, rank] { outcomes[rank] = live(std::move(communicators[rank]), backend, body); });
    }
  }
  for (const Outcome& outcome : outcomes) {
    if (outcome.failure) return tell(outcome.failure);
  }
  return outcomes.front().code;
}

}  // namespace pliant::bench
