// SPDX-License-Identifier: BSL-1.0
#pragma once

// local_pool: a pool for one thread at a time.

#include "pooled/make_shared.hpp"
#include "pooled/pool.hpp"
