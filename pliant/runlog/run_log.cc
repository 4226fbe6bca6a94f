// SPDX-License-Identifier: MIT
#include "pliant/runlog/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>

#include "pliant/common/errors.h"

namespace pliant::runlog {
namespace {

constexpr std::string_view kRank = "{rank}";
constexpr int kVersion = 1;

// Only its owner may read it: a command line and messages may hold what others should not see.
int open_file(const std::string& path, int flags) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags,
              0600);  // NOLINT(cppcoreguidelines-pro-type-vararg)
}

// Nothing for what is no file, such as a pipe.
std::optional<std::int64_t> size_of(int file) {
  struct stat about {};
  if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  return about.st_size;
}

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double monotonic_clock() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string object_of(const std::vector<std::pair<std::string, std::string>>& texts) {
  std::string json = "{";
  for (const auto& [key, value] : texts)
    json += fmt::format("{}{}:{}", json.size() > 1 ? "," : "", json_text(key), json_text(value));
  return json + "}";
}

std::string json_of(const model::Prediction& prediction) {
  JsonObject out;
  out.put("plan", to_string(prediction.plan))
      .put("step", prediction.step.value)
      .put("exchange", prediction.exchange.value);
  out.put("exposed", prediction.exposed.value)
      .put("efficiency", prediction.efficiency)
      .put("updated", prediction.updated_fraction);
  out.put("gain", prediction.gain).put("bytes", prediction.bytes);
  return std::move(out).text();
}

}  // namespace

std::optional<std::string> log_path(const Options& options, int rank) {
  auto place = options.path.find(kRank);
  if (options.path.empty() || (place == std::string::npos && rank != 0)) return std::nullopt;
  std::string path = options.path;
  for (; place != std::string::npos; place = path.find(kRank, place))
    path.replace(place, kRank.size(), std::to_string(rank));
  return path;
}

RunLog::RunLog(std::string path, std::function<Seconds()> clock)
    : path_(std::move(path)), clock_(std::move(clock)), began_(clock_()) {
  file_ = open_file(path_, 0);
  if (file_ < 0) throw io_error_from_errno(fmt::format("opening the run log '{}'", path_));
  try {
    if (size_of(file_).value_or(0) > 0) reserve_older();
  } catch (...) {
    close(file_);
    throw;
  }
}

RunLog::~RunLog() {
  if (!begun_ && size_of(file_) == 0) unlink(path_.c_str());
  if (!begun_ && !older_.empty()) unlink(older_.c_str());
  close(file_);
}

// An empty file holds the name until the header is written: another run cannot take it.
void RunLog::reserve_older() {
  std::error_code unknown;
  const auto there = std::filesystem::canonical(path_, unknown);  // behind symbolic links
  if (!unknown) path_ = there.string();
  const std::filesystem::path path = path_;
  for (int attempt = 1;; ++attempt) {
    std::filesystem::path name = path;
    name.replace_filename(
        fmt::format("{}.{}{}", path.stem().string(), attempt, path.extension().string()));
    const int reserved = open_file(name.string(), O_EXCL);
    if (reserved >= 0) {
      close(reserved);
      older_ = name.string();
      return;
    }
    if (errno != EEXIST)
      throw io_error_from_errno(
          fmt::format("keeping the run log '{}' as '{}'", path_, name.string()));
  }
}

void RunLog::keep_older() {
  if (older_.empty()) return;
  int fresh = -1;
  if (rename(path_.c_str(), older_.c_str()) == 0) fresh = open_file(path_, O_EXCL);
  if (fresh < 0) {
    failure_ =
        io_error_from_errno(fmt::format("keeping the run log '{}' as '{}'", path_, older_)).what();
    return;
  }
  close(file_);
  file_ = fresh;
}

JsonObject RunLog::line(std::string_view type) const {
  JsonObject line;
  line.put("type", type).time("t", (clock_() - began_).value);
  return line;
}

void RunLog::write_line(JsonObject&& line, Place place) {
  const std::string text = std::move(line).text() + '\n';
  const std::lock_guard lock(mutex_);
  if (failure_ || ended_) return;
  ended_ = place == Place::kLast;
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      failure_ = io_error_from_errno(fmt::format("writing the run log '{}'", path_)).what();
      return;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::optional<std::string> RunLog::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void RunLog::write(const LogHeader& header) {
  begun_ = true;
  keep_older();
  JsonObject out = line("header");
  const std::string name =
      header.name.empty() ? std::filesystem::path(path_).stem().string() : header.name;
  out.put("format", "pliant-run-log").put("version", kVersion).put("name", name);
  // Both at the moment at which t was 0.
  const double since = (clock_() - began_).value;
  out.time("started", wall_clock() - since).time("mono", monotonic_clock() - since);
  out.raw("versions", object_of(header.versions)).list("command", header.command, json_text);
  out.put("rank", header.rank)
      .put("world", header.world)
      .put("lanes", header.lanes)
      .put("parameters", header.parameters);
  out.put("layout", fmt::format("{:016x}", header.layout))
      .raw("options", object_of(header.options))
      .put("optimizer", header.optimizer);
  out.put("costs", header.costs).list("buckets", header.buckets, [](std::size_t entries) {
    return std::to_string(entries);
  });
  write_line(std::move(out));
}

void RunLog::write(const LogDecision& decision) {
  JsonObject out = line("decision");
  out.put("step", decision.step)
      .put("round", decision.round)
      .put("epoch", decision.epoch)
      .put("plan", to_string(decision.plan));
  out.put("from", decision.from ? std::optional(to_string(*decision.from)) : std::nullopt)
      .put("changed", decision.from != decision.plan);
  const control::Decision nothing;
  const control::Decision& details = decision.details != nullptr ? *decision.details : nothing;
  out.put("trial", details.trial)
      .put("short", decision.brief)
      .put("reason", decision.reason)
      .put("inputs", details.inputs)
      .put("candidates", details.candidates);
  out.list("front", details.front,
           [](const model::Prediction& prediction) { return json_of(prediction); });
  out.raw("chosen", details.chosen && details.chosen->plan == decision.plan
                        ? json_of(*details.chosen)
                        : "null");
  write_line(std::move(out));
}

void RunLog::write(const LogStep& step) {
  JsonObject out = line("step");
  put(out, step, began_);
  write_line(std::move(out));
}

void RunLog::note(std::uint64_t step, std::span<const std::pair<std::string, double>> values) {
  std::string numbers = "{";
  for (const auto& [name, value] : values) {
    numbers += fmt::format("{}{}:", numbers.size() > 1 ? "," : "", json_text(name));
    numbers += std::isfinite(value) ? fmt::format("{:.9g}", value) : "null";
  }
  JsonObject out = line("note");
  out.put("step", step).raw("values", numbers + "}");
  write_line(std::move(out));
}

void RunLog::phase(std::uint64_t step, std::string_view name) {
  JsonObject out = line("phase");
  out.put("step", step).put("name", name);
  write_line(std::move(out));
}

void RunLog::message(Severity severity, std::string_view text) {
  JsonObject out = line("message");
  out.put("level", severity == Severity::kWarning ? "warning" : "info").put("text", text);
  write_line(std::move(out));
}

void RunLog::end(std::uint64_t step, const Ending& ending, const LogSummary& summary) {
  JsonObject out = line("end");
  out.put("step", step)
      .put("status", ending.error            ? "failed"
                     : ending.is_interrupted ? "interrupted"
                                             : "closed")
      .put("error", ending.error)
      .raw("summary", to_json(summary));
  write_line(std::move(out), Place::kLast);
}

}  // namespace pliant::runlog
