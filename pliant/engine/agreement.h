// SPDX-License-Identifier: MIT
// The place of Disagreement in version 0.1, kept for one release: include pliant/pliant.h instead.
#pragma once

#include "pliant/engine/engine.h"
