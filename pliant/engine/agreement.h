// SPDX-License-Identifier: MIT
// Former header of Disagreement, kept for one release: include pliant/pliant.h instead.
#pragma once

#include "pliant/engine/engine.h"
