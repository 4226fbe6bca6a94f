// SPDX-License-Identifier: MIT
// Exceptions of the library, one for each kind of failure: a bug of the caller, bad input, a
// failure of network or machine. An expected absence is a std::optional instead. The library throws
// these and never prints, aborts or exits.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace pliant {

// The caller broke a contract. The text carries both operands.
class ContractError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Something a person typed cannot be understood. The text names the culprit and, where there is
// one, the fix. Tools exit 2.
class InputError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// The operating system refused. The text is "attempt: reason".
class IoError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// IoError with the reason taken from errno as it is now.
[[nodiscard]] IoError io_error_from_errno(const std::string& attempt);

template <typename... Args>
void require(bool holds, fmt::format_string<Args...> text, Args&&... args) {
  if (!holds) throw ContractError(fmt::format(text, std::forward<Args>(args)...));
}

// Ranks that must be alike differ. The text names the fact, two ranks and both values.
class Disagreement : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Training diverged on all ranks: nothing of pliant's can mend that.
class Diverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace pliant
