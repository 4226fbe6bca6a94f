// SPDX-License-Identifier: MIT
// Writer of one JSON object, key by key, into a text. It does only what a log needs: no parsing, no
// copies, a microsecond for a line.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace pliant::runlog {

// In quotes, with everything escaped that JSON does not allow in a text. Bytes that are not UTF-8
// become U+FFFD.
[[nodiscard]] std::string json_text(std::string_view text);

class JsonObject {
 public:
  JsonObject& put(std::string_view key, std::string_view text) { return raw(key, json_text(text)); }
  JsonObject& put(std::string_view key, const char* text) {
    return put(key, std::string_view(text));
  }
  JsonObject& put(std::string_view key, const std::string& text) {
    return put(key, std::string_view(text));
  }
  JsonObject& put(std::string_view key, bool flag) { return raw(key, flag ? "true" : "false"); }
  JsonObject& put(std::string_view key, std::integral auto number) {
    begin(key);
    fmt::format_to(std::back_inserter(text_), "{}", number);
    return *this;
  }
  // Nine digits tell a nanosecond in a second. Non-finite numbers are written as null.
  JsonObject& put(std::string_view key, double number) {
    if (!std::isfinite(number)) return raw(key, "null");
    begin(key);
    fmt::format_to(std::back_inserter(text_), "{:.9g}", number);
    return *this;
  }
  template <typename T>
  JsonObject& put(std::string_view key, const std::optional<T>& value) {
    return value ? put(key, *value) : raw(key, "null");
  }
  // A time: microseconds, however long the run.
  JsonObject& time(std::string_view key, double seconds) {
    begin(key);
    fmt::format_to(std::back_inserter(text_), "{:.6f}", seconds);
    return *this;
  }
  // Adds a value that is JSON already.
  JsonObject& raw(std::string_view key, std::string_view json) {
    begin(key);
    text_ += json;
    return *this;
  }
  template <typename List, typename Write>
  JsonObject& list(std::string_view key, const List& items, Write&& write) {
    begin(key);
    text_ += '[';
    bool first = true;
    for (const auto& item : items) {
      if (!std::exchange(first, false)) text_ += ',';
      text_ += write(item);
    }
    text_ += ']';
    return *this;
  }

  [[nodiscard]] std::string text() && { return std::move(text_) + '}'; }

 private:
  void begin(std::string_view key) {
    text_ += text_.size() > 1 ? ",\"" : "\"";
    text_ += key;
    text_ += "\":";
  }
  std::string text_ = "{";
};

}  // namespace pliant::runlog
