// SPDX-License-Identifier: MIT
// pliant-bench: for every collective and size, line up the contenders, time them in turns, print.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "pliant/common/errors.h"
#include "pliant/common/exit_code.h"
#include "pliant/schedule/draw.h"
#include "tools/command_line/command_line.h"
#include "tools/pliant-bench/contenders.h"
#include "tools/pliant-bench/exchanges.h"
#include "tools/pliant-bench/ranks.h"
#include "tools/pliant-bench/report.h"

namespace pliant::bench {
namespace {

constexpr int kDrawnSegments = 4;  // enough to see the pipeline fill

std::string drawings(const Options& options) {
  std::string text;
  for (const auto& builder : schedule::builders()) {
    if (builder.name != options.show) continue;
    const schedule::Shape shape{options.ranks, options.root,
                                options.segments > 0 ? options.segments : kDrawnSegments};
    text +=
        fmt::format("{}{}, {}, {} ranks, {} blocks\n", text.empty() ? "" : "\n",
                    to_string(builder.collective), builder.name, shape.size, builder.blocks(shape));
    text += schedule::draw(schedule::build_all(builder, shape));
  }
  return text +
         "\n>3 [0-1] sends blocks 0 and 1 to rank 3; <2 [5] receives block 5 from rank 2; <2 +[5] "
         "adds it\n";
}

std::vector<std::size_t> sizes(const Options& options) {
  std::vector<std::size_t> all;
  auto bytes = static_cast<double>(options.min_bytes);
  while (bytes <= static_cast<double>(options.max_bytes)) {
    all.push_back(static_cast<std::size_t>(bytes));
    bytes *= options.factor;
  }
  return all;
}

// Adds one size to the blocks of a collective; the first size makes the blocks.
void add_rows(std::vector<Block>& blocks, const Problem& problem, const Options& options,
              const std::vector<Contender>& contenders, const std::vector<Timing>& timings) {
  std::optional<Seconds> reference;
  if (!contenders.empty() && contenders.back().reference) reference = timings.back().median;
  for (std::size_t c = 0; c < contenders.size(); ++c) {
    if (blocks.size() <= c) blocks.push_back({problem.collective, contenders[c].name, {}});
    Row row{problem, contenders[c].segments, timings[c], reference, contenders[c].price};
    if (options.link) row.bound = bandwidth_bound(problem, *options.link);
    blocks[c].rows.push_back(row);
  }
}

std::vector<std::size_t> counts(const Options& options) {
  if (!options.counts.empty()) return options.counts;
  std::vector<std::size_t> all;
  for (const std::size_t bytes : sizes(options))
    all.push_back(std::max<std::size_t>(1, bytes / sizeof(float)));
  return all;
}

int run_plans(comm::Communicator& communicator, const Backend& backend, const Options& options) {
  const ExchangeReport report = run_exchanges(communicator, backend, options, counts(options));
  if (communicator.rank() == 0)
    command_line::print(options.json ? as_json(report) : as_table(report));
  return report.wrong() ? kExitWrongResult : kExitFine;
}

int run(comm::Communicator& communicator, const Backend& backend, const Options& options) {
  if (exchanges(options)) return run_plans(communicator, backend, options);
  const int ranks = communicator.size();
  if (options.root >= ranks)
    throw InputError(fmt::format("--root: there is no rank {} among {}", options.root, ranks));
  Report report{
      ranks, backend.name, options.reference ? backend.yardstick().name : "", options, {}};
  for (const auto collective : options.collectives) {
    std::vector<Block> blocks;
    for (const std::size_t bytes : sizes(options)) {
      const Problem problem = make_problem(collective, ranks, options.root, bytes);
      const auto contenders = line_up(communicator, backend, options, problem);
      if (contenders.empty()) continue;
      add_rows(blocks, problem, options, contenders, measure(communicator, contenders, options));
    }
    report.blocks.insert(report.blocks.end(), blocks.begin(), blocks.end());
  }
  if (communicator.rank() == 0)
    command_line::print(options.json ? as_json(report) : as_table(report));
  return report.wrong() ? kExitWrongResult : kExitFine;
}

// Text that needs no ranks, told once however many there are.
int say(int argc, char** argv, const std::string& text) {
  const auto print = [&text] { return command_line::print(text), kExitFine; };
  if (!started_by_mpi()) return print();
  return run_on_mpi(&argc, &argv, [&](comm::Communicator& mine, const Backend&) {
    return mine.rank() == 0 ? print() : kExitFine;
  });
}

int refuse(int argc, char** argv, const std::string& why) {
  if (!started_by_mpi()) return tell(InputError(why));
  return run_on_mpi(&argc, &argv,
                    [&](comm::Communicator&, const Backend&) -> int { throw InputError(why); });
}

int run_tool(int argc, char** argv) {
  Options options;
  std::string refusal;  // told after the handler: simulated ranks share a thread, and none may
                        // leave it with an exception in hand
  try {
    options = parse_options(argc, argv);
    if (options.local_ranks > 0 && !threads_allowed())
      throw InputError("--local: simulated ranks have no threads; leave it out");
  } catch (const InputError& error) {
    refusal = error.what();
  }
  if (!refusal.empty()) return refuse(argc, argv, refusal);
  if (!options.say.empty()) return say(argc, argv, options.say);
  if (!options.show.empty()) return say(argc, argv, drawings(options));
  const Body body = [&options](comm::Communicator& communicator, const Backend& backend) {
    return run(communicator, backend, options);
  };
  return options.local_ranks > 0 ? run_on_threads(options.local_ranks, body)
                                 : run_on_mpi(&argc, &argv, body);
}

}  // namespace
}  // namespace pliant::bench

int main(int argc, char** argv) {
  try {
    return pliant::bench::run_tool(argc, argv);
  } catch (const std::exception& error) {
    return pliant::bench::tell(error);
  }
}
