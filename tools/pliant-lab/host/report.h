// SPDX-License-Identifier: MIT
// Conversion of an exception into a message and an exit status.
#pragma once

#include <functional>

namespace pliant::lab {

// The result of `body`, or the exit status of the exception's kind after "pliant-lab: text" on
// stderr.
int report_errors(const std::function<int()>& body);

}  // namespace pliant::lab
