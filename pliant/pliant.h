// SPDX-License-Identifier: MIT
// Everything that a C++ program needs of Pliant but the backend: the engine, plans, units, errors.
// Beside it include one backend, for example pliant/comm/mpi/session.h.
#pragma once

#include "pliant/common/errors.h"
#include "pliant/common/exit_code.h"
#include "pliant/common/units.h"
#include "pliant/common/version.h"
#include "pliant/engine/dials.h"
#include "pliant/engine/engine.h"
#include "pliant/plan/pins.h"
#include "pliant/plan/plan.h"
