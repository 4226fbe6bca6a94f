// SPDX-License-Identifier: MIT
// CommError: a message to or from a peer failed.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "pliant/common/units.h"

namespace pliant::comm {

// Where in an exchange a message belongs; for the text of errors only.
struct Place {
  int round = 0;  // from 1; 0 if it is not part of a schedule
  int rounds = 0;
  std::uint64_t plan_version = 0;
};

// Failure of one message. The communicator cannot be used afterwards.
struct Failure {
  int rank = -1;
  int peer = -1;  // -1 in the backend's own all-reduce, where it is not known
  Bytes bytes;
  Place place;
  bool receiving = false;
  std::string reason;  // "no data for 12.4 s (deadline 12 s)"
  std::string advice;  // a second line, or nothing
  std::string name;    // the peer's, or nothing: a host, an address
  // The rank that all others wait for, where the others could be asked (comm/culprit.h). The peer
  // may itself only wait for another rank.
  std::optional<int> culprit;
};

class CommError : public std::runtime_error {
 public:
  explicit CommError(Failure failure);
  [[nodiscard]] const Failure& failure() const { return failure_; }

 protected:
  CommError(Failure failure, const std::string& text)
      : std::runtime_error(text), failure_(std::move(failure)) {}

 private:
  Failure failure_;
};

// Some ranks did not come to a collective call before the deadline. No message failed: this rank
// and the others can go on.
class AbsentError : public CommError {
 public:
  AbsentError(int rank, int absent, const std::string& text)
      : CommError(Failure{.rank = rank, .peer = absent, .culprit = absent}, text) {}
};

}  // namespace pliant::comm
