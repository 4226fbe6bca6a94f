// SPDX-License-Identifier: MIT
#pragma once
#include "gloo/names.h"
