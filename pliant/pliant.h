// SPDX-License-Identifier: MIT
// Main header of Pliant for C++ programs: the engine, plans, units and errors. Include one backend
// as well, for example pliant/comm/mpi/session.h.
#pragma once

#include "pliant/common/errors.h"
#include "pliant/common/exit_code.h"
#include "pliant/common/units.h"
#include "pliant/common/version.h"
#include "pliant/engine/dials.h"
#include "pliant/engine/engine.h"
#include "pliant/plan/pins.h"
#include "pliant/plan/plan.h"
