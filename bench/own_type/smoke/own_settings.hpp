// SPDX-License-Identifier: BSL-1.0
// What `poolbench try` would write, for the smoke build: its run covers the patterns' arithmetic, and the template.
#pragma once

#include "own_pattern/template.hpp"

using poolbench_own_type = message;
#define POOLBENCH_OWN_ARGUMENTS 1u
