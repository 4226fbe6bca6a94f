// SPDX-License-Identifier: MIT
#include "tools/pliant-bench/contenders.h"

#include <algorithm>
#include <memory>

#include "pliant/exchange/run_dense.h"
#include "tools/pliant-bench/agree.h"
#include "tools/pliant-bench/hollow.h"
#include "tools/pliant-bench/predict.h"

namespace pliant::bench {
namespace {

// The vector of one rank, and what its contenders need besides.
struct Bench {
  comm::Communicator& communicator;
  const Options& options;
  Problem problem;
  bool hollow;  // simulated and unchecked: no memory worth speaking of
  comm::Region memory;
  exchange::Workspace workspace = {};

  [[nodiscard]] std::span<float> floats() const {
    return {reinterpret_cast<float*>(memory.bytes.data()), problem.count};
  }
  [[nodiscard]] int rank() const { return communicator.rank(); }
};
using BenchPtr = std::shared_ptr<Bench>;

BenchPtr set_up(comm::Communicator& communicator, const Options& options, const Problem& problem) {
  const bool hollow = communicator.capabilities().simulated && options.checks == 0;
  const comm::Region memory = hollow ? hollow_memory(problem.count * sizeof(float))
                                     : comm::region_of(Buffer<float>(problem.count));
  auto bench = std::make_shared<Bench>(Bench{communicator, options, problem, hollow, memory});
  if (!hollow) fill(problem, communicator.rank(), bench->floats());
  return bench;
}

void run_schedule(Bench& bench, const schedule::Schedule& schedule, int blocks) {
  const exchange::RunOptions options{.tag = 0, .deadline = bench.options.deadline};
  if (bench.hollow) {
    HollowBlocks hollow(bench.memory, bench.problem.count, blocks);
    exchange::run(bench.communicator, schedule, hollow, options);
    return;
  }
  bench.workspace.reset();
  exchange::Complaint complaint;
  exchange::DenseBlocks dense({bench.floats(), bench.memory.owner}, blocks, bench.workspace,
                              complaint);
  exchange::run(bench.communicator, schedule, dense, options);
  complaint.raise();
}

std::function<std::int64_t()> checked(const BenchPtr& bench, const std::function<void()>& run) {
  return [bench, run] {
    fill(bench->problem, bench->rank(), bench->floats());
    run();
    return count_wrong(bench->problem, bench->rank(), bench->floats());
  };
}

int choose_segments(const Bench& bench, const schedule::Builder& builder) {
  if (!builder.segmented || bench.options.segments > 0) return std::max(1, bench.options.segments);
  const plan::Link link = bench.options.link.value_or(kAssumedLink);
  const int chosen = bench.rank() == 0 ? best_segments(builder, bench.problem, link) : 0;
  return static_cast<int>(max_over_ranks(bench.communicator, chosen, bench.options.deadline));
}

Contender contender_of(const BenchPtr& bench, const schedule::Builder& builder) {
  const int segments = choose_segments(*bench, builder);
  const schedule::Shape shape{bench->problem.ranks, bench->problem.root, segments};
  Contender contender{.name = std::string(builder.name),
                      .segments = builder.segmented ? segments : 0};
  contender.run = [bench, schedule = builder.build(bench->rank(), shape),
                   blocks = builder.blocks(shape)] { run_schedule(*bench, schedule, blocks); };
  contender.check = checked(bench, contender.run);
  const auto& link = bench->options.link;
  if (link && bench->rank() == 0)
    contender.price = predict(builder, bench->problem, segments, *link);
  return contender;
}

Contender contender_of(const BenchPtr& bench, const Yardstick& yardstick) {
  Contender contender{.name = yardstick.name, .reference = true};
  contender.run = [bench, yardstick] {
    yardstick.run(bench->problem, bench->rank(), bench->floats());
  };
  if (yardstick.solves) contender.check = checked(bench, contender.run);
  return contender;
}

}  // namespace

std::vector<Contender> line_up(comm::Communicator& communicator, const Backend& backend,
                               const Options& options, const Problem& problem) {
  const BenchPtr bench = set_up(communicator, options, problem);
  std::vector<Contender> contenders;
  for (const auto& builder : schedule::builders()) {
    if (builder.collective == problem.collective && wanted(options, builder))
      contenders.push_back(contender_of(bench, builder));
  }
  if (options.reference) contenders.push_back(contender_of(bench, backend.yardstick()));
  return contenders;
}

}  // namespace pliant::bench
