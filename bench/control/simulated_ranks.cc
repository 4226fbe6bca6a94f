// SPDX-License-Identifier: MIT
#include "bench/control/simulated_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "pliant/comm/mpi/session.h"
#include "pliant/common/errors.h"
#include "tools/pliant-bench/trial.h"

namespace pliant::bench {
namespace {

constexpr comm::Tag kOrderTag = 7;
constexpr comm::Tag kRecordTag = 9;
const comm::Patience kForEver{.deadline = std::nullopt, .place = {}};

// By when every order has arrived: simulated seconds cost nothing, and the slowest network takes
// 0.1 s a message.
constexpr double kAssembly = 30;

}  // namespace

struct SimulatedRanks::Order {
  std::array<char, 256> plan = {};  // empty: dismissed
  std::uint64_t length = 0;
  double compute = 0;
  double begin = 0;  // by the simulation's clock, which all ranks share
  int rounds = 0;
};

SimulatedRanks::SimulatedRanks(std::unique_ptr<comm::Communicator> exchanges,
                               std::unique_ptr<comm::Communicator> control)
    : exchanges_(std::move(exchanges)),
      control_(std::move(control)),
      records_(failure_, {}, kRecordTag) {}

void SimulatedRanks::send(const Order& order) {
  const Buffer<Order> message(1);
  message[0] = order;
  for (int peer = 1; peer < size(); ++peer)
    exchanges_->wait(exchanges_->send(peer, kOrderTag, comm::region_of(message)), kForEver);
}

SimulatedRanks::Order SimulatedRanks::receive() {
  const Buffer<Order> message(1);
  exchanges_->wait(exchanges_->receive(0, kOrderTag, comm::region_of(message)), kForEver);
  return message[0];
}

std::vector<agree::Record> SimulatedRanks::run(const Work& work) {
  Order order{.length = work.length, .compute = work.compute.value, .rounds = work.rounds};
  const std::string text = to_string(work.plan);
  require(!text.empty() && text.size() < order.plan.size(), "a plan of {} characters", text.size());
  std::memcpy(order.plan.data(), text.data(), text.size());
  order.begin = exchanges_->now().value + kAssembly;
  send(order);
  return execute(order);
}

void SimulatedRanks::dismiss() { send({}); }

void SimulatedRanks::serve() {
  for (Order order = receive(); order.plan.front() != 0; order = receive()) (void)execute(order);
}

// Ranks leave an exchange at different times and enter the next one so: after a few rounds they are
// as far apart as in training.
std::vector<agree::Record> SimulatedRanks::execute(const Order& order) {
  const plan::Plan plan = plan::parse_plan(order.plan.data());
  const TrialOptions options{.plan = plan, .count = order.length};
  if (const std::size_t bytes = hollow_bytes(options, rank(), size()); memory_.bytes.size() < bytes)
    memory_ = comm::mpi::unread_memory(2 * bytes);
  const auto trial = hollow_trial(*exchanges_, options, memory_);
  rest_until(order.begin);
  agree::Record record{.step = posted_++};
  for (int r = 0; r < order.rounds; ++r) {
    const double begin = exchanges_->now().value;
    for (int s = 0; s < plan.every; ++s) rest(order.compute);
    const double entered = exchanges_->now().value;
    (void)trial->run();
    const double left = exchanges_->now().value;
    record.wire[0] = record.exposed = static_cast<float>(left - entered);
    record.whole = static_cast<float>(left - begin);
  }
  records_.gather(*control_, record);
  return records_.take(record.step).records;
}

// The header of SMPI's compiler makes this a sleep in simulated time.
void SimulatedRanks::rest(double seconds) { usleep(static_cast<useconds_t>(seconds * 1e6 + 0.5)); }

void SimulatedRanks::rest_until(double moment) {
  const double left = moment - exchanges_->now().value;
  require(left >= 0, "an order came {} s late", -left);
  rest(left);
}

double SimulatedRanks::control_bytes() const {
  return static_cast<double>(records_.total().sent.value) /
         static_cast<double>(std::max<std::uint64_t>(1, posted_));
}

}  // namespace pliant::bench
