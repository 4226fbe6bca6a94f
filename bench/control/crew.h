// SPDX-License-Identifier: MIT
// Simulated ranks that do as the first one says: compute and exchange under a plan, a few rounds in
// a row, and tell by control record how long the last one took. Messages have their true sizes and
// no content; computing is sleep.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pliant/agree/records.h"
#include "pliant/comm/communicator.h"
#include "pliant/common/first_failure.h"
#include "pliant/plan/plan.h"

namespace pliant::bench {

struct Work {
  plan::Plan plan;
  std::size_t length = 0;  // elements of the model, one bucket
  Seconds compute = {};    // of a step, in whole microseconds
  int rounds = 1;          // of `every` steps and an exchange; the last is told
};

class Crew {
 public:
  // Two communicators over the same ranks, one for exchanges and one for records. Collective.
  Crew(std::unique_ptr<comm::Communicator> exchanges, std::unique_ptr<comm::Communicator> control);

  [[nodiscard]] int rank() const { return exchanges_->rank(); }
  [[nodiscard]] int size() const { return exchanges_->size(); }

  // The first rank: everybody does this, all beginning at the same moment. Everybody's record:
  // `wire[0]` and `exposed` the exchange, `whole` the round.
  [[nodiscard]] std::vector<agree::Record> run(const Work& work);
  // The first rank: lets the others go.
  void dismiss();
  // The others: until dismissed.
  void serve();

  // That this rank sent, for each record of its own.
  [[nodiscard]] double control_bytes() const;

 private:
  struct Order;
  void send(const Order& order);
  [[nodiscard]] Order receive();
  [[nodiscard]] std::vector<agree::Record> obey(const Order& order);
  void rest(double seconds);
  void rest_until(double moment);

  std::unique_ptr<comm::Communicator> exchanges_;
  std::unique_ptr<comm::Communicator> control_;
  FirstFailure failure_;
  agree::Records records_;
  comm::Region memory_ = {};
  std::uint64_t posted_ = 0;
};

}  // namespace pliant::bench
