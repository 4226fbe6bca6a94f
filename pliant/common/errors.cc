// SPDX-License-Identifier: MIT
#include "pliant/common/errors.h"

#include <cerrno>
#include <cstring>

namespace pliant {

IoError io_error_from_errno(const std::string& attempt) {
  return IoError(attempt + ": " + std::strerror(errno));
}

}  // namespace pliant
