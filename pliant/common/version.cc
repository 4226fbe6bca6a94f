// SPDX-License-Identifier: MIT
#include "pliant/common/version.h"

namespace pliant {

std::string_view version() { return PLIANT_VERSION; }

}  // namespace pliant
