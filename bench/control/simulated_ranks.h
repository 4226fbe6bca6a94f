// SPDX-License-Identifier: MIT
// Simulated ranks that run the orders of rank 0: compute and exchange under a plan, a few rounds in
// a row, and report in a control record how long the last one took. Messages have their true sizes
// and no content; computing is sleep.
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
  int rounds = 1;          // of `every` steps and an exchange; the last is reported
};

class SimulatedRanks {
 public:
  // Two communicators over the same ranks, one for exchanges and one for records. Collective.
  SimulatedRanks(std::unique_ptr<comm::Communicator> exchanges,
                 std::unique_ptr<comm::Communicator> control);

  [[nodiscard]] int rank() const { return exchanges_->rank(); }
  [[nodiscard]] int size() const { return exchanges_->size(); }

  // On rank 0: all ranks do this work, beginning at the same moment. Returns every rank's record:
  // `wire[0]` and `exposed` are the exchange, `whole` the round.
  [[nodiscard]] std::vector<agree::Record> run(const Work& work);
  // On rank 0: ends serve() on the others.
  void dismiss();
  // On the other ranks: runs orders until dismiss().
  void serve();

  // Bytes that this rank sent for each of its records.
  [[nodiscard]] double control_bytes() const;

 private:
  struct Order;
  void send(const Order& order);
  [[nodiscard]] Order receive();
  [[nodiscard]] std::vector<agree::Record> execute(const Order& order);
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
