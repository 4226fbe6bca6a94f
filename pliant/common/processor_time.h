// SPDX-License-Identifier: MIT
// Processor time of the calling thread. Time that other threads and programs use does not count.
#pragma once

#include <ctime>

#include "pliant/common/units.h"

namespace pliant {

inline Seconds processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return {static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec)};
}

}  // namespace pliant
