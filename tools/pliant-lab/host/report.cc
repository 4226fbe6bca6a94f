// SPDX-License-Identifier: MIT
#include "tools/pliant-lab/host/report.h"

#include <fmt/core.h>

#include <cstdio>

#include "pliant/common/exit_code.h"
#include "tools/pliant-lab/host/sys.h"

namespace pliant::lab {
namespace {

int complain(const std::exception& error, int status) {
  fmt::print(stderr, "pliant-lab: {}\n", error.what());
  return status;
}

}  // namespace

int report_errors(const std::function<int()>& body) {
  try {
    const int status = body();
    if (std::fflush(stdout) != 0)
      throw io_error_from_errno("writing to stdout");  // a full disk must not look like success
    return status;
  } catch (const InputError& error) {
    return complain(error, kExitBadInput);
  } catch (const MissingError& error) {
    return complain(error, kExitMissing);
  } catch (const std::exception& error) {
    return complain(error, kExitFailed);
  }
}

}  // namespace pliant::lab
