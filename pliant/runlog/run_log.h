// SPDX-License-Identifier: MIT
// RunLog: writer of the JSON lines that docs/formats/run-log.md describes. Each is handed to the
// system whole, by one write(2), so a process that is killed leaves a log that is good up to its
// last line.
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
#include "pliant/runlog/lines.h"
#include "pliant/runlog/options.h"

namespace pliant::runlog {

// The path with every {rank} filled in; nothing if this rank writes none.
[[nodiscard]] std::optional<std::string> log_path(const Options& options, int rank);

// Any thread may write. Nothing that goes wrong in a write is thrown: training matters more than
// its log. The first failure is the last line: failure() says what it was.
class RunLog {
 public:
  // Opens the file. If it holds the log of an earlier run, that is renamed when the header is
  // written: run.jsonl becomes run.1.jsonl, or the next number that is free. Throws IoError that
  // names the file.
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
  void end(std::uint64_t step, const Ending& ending, const LogSummary& summary);

  [[nodiscard]] std::optional<std::string> failure() const;

 private:
  [[nodiscard]] JsonObject line(std::string_view type) const;
  enum class Place : std::uint8_t { kMiddle, kLast };
  void write_line(JsonObject&& line, Place place = Place::kMiddle);
  void reserve_older();
  void keep_older();

  std::string path_;
  const std::function<Seconds()> clock_;
  const Seconds began_;
  int file_ = -1;
  std::string older_;   // the name for the log of the run before; empty if there is none
  bool begun_ = false;  // otherwise a file that is still empty was made for nothing
  mutable std::mutex mutex_;
  std::optional<std::string> failure_;
  bool ended_ = false;
};

}  // namespace pliant::runlog
