// SPDX-License-Identifier: MIT
// The run log, as docs/formats/run-log.md has it: JSON lines. Each is handed to the system whole,
// by one write(2), so a process that is killed leaves a log that is good up to its last line.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pliant/common/log.h"
#include "pliant/common/units.h"
#include "pliant/control/decide.h"
#include "pliant/plan/link.h"
#include "pliant/runlog/json.h"
#include "pliant/runlog/options.h"

namespace pliant::runlog {

// The path with {rank} filled in; nothing if this rank writes none.
[[nodiscard]] std::optional<std::string> log_path(const Options& options, int rank);

// What the header tells of a run.
struct LogHeader {
  std::string name;
  std::vector<std::pair<std::string, std::string>> versions;
  std::vector<std::string> command;
  int rank = 0;
  int world = 1;
  int lanes = 0;
  std::size_t parameters = 0;  // entries in all
  std::uint64_t layout = 0;
  std::vector<std::pair<std::string, std::string>> options;
  std::optional<std::string> optimizer;
  std::string costs;
  std::vector<std::size_t> buckets;
};

// One exchange of a step, as this rank saw it. Times by the communicator's clock.
struct LogExchange {
  std::size_t group = 0;
  std::size_t lane = 0;
  Seconds begin, enter, leave, end;
  Bytes bytes;
  std::size_t entries = 0;  // of the group
};

struct LogStep {
  std::uint64_t step = 0;
  std::string plan;
  std::uint32_t epoch = 0;
  std::optional<std::uint64_t> round;
  std::optional<double> whole, compute;  // seconds, as all below
  double exposed = 0;
  double coding = 0;
  std::optional<double> predicted, seen;
  Bytes bytes, control_bytes;
  std::optional<plan::Link> link;
  std::optional<double> dense_step;
  std::optional<double> updated, gain, residual_ratio;
  bool is_void = false;
  std::vector<LogExchange> exchanges;
};

struct LogDecision {
  std::uint64_t step = 0;
  std::uint64_t round = 0;
  std::uint32_t epoch = 0;
  plan::Plan plan;
  std::optional<plan::Plan> from;
  std::string reason;
  const control::Decision* details = nullptr;  // none: nothing was predicted
};

struct LogSummary {
  std::string plan;
  std::uint64_t steps = 0;
  std::uint64_t exchanges = 0;
  Bytes bytes, control_bytes;
  std::uint64_t voids = 0;
};

// Any thread may write. Nothing that goes wrong in a write is thrown: training matters more than
// its log. The first failure is the last line: failure() says what it was.
class RunLog {
 public:
  // Opens the file; what was in it goes when the header is written. Throws IoError that names it.
  RunLog(std::string path, std::function<Seconds()> clock);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void write(const LogHeader& header);
  void write(const LogDecision& decision);
  void write(const LogStep& step);
  void note(std::uint64_t step, std::span<const std::pair<std::string, double>> values);
  void phase(std::uint64_t step, std::string_view name);
  void message(Severity severity, std::string_view text);
  // Whatever comes later is not written.
  void end(std::uint64_t step, const std::optional<std::string>& error, const LogSummary& summary);

  [[nodiscard]] std::optional<std::string> failure() const;

 private:
  [[nodiscard]] JsonObject line(std::string_view type) const;
  enum class Place : std::uint8_t { kMiddle, kLast };
  void write_line(JsonObject&& line, Place place = Place::kMiddle);

  const std::string path_;
  const std::function<Seconds()> clock_;
  const Seconds began_;
  int file_ = -1;
  bool begun_ = false;  // otherwise a file that is still empty was made for nothing
  mutable std::mutex mutex_;
  std::optional<std::string> failure_;
  bool ended_ = false;
};

// The same keys as a line has, without type and t.
void put(JsonObject& object, const LogStep& step, Seconds began);
[[nodiscard]] std::string to_json(const LogSummary& summary);

}  // namespace pliant::runlog
