// SPDX-License-Identifier: BSL-1.0
#pragma once

// pooled: memory pools for objects owned by smart pointers. This header includes all of the library but compat/.

#include "pooled/allocator.hpp"
#include "pooled/config.hpp"
#include "pooled/default_pool.hpp"
#include "pooled/destroy_in_place.hpp"
#include "pooled/error.hpp"
#include "pooled/fwd.hpp"
#include "pooled/lifecycle.hpp"
#include "pooled/live_report.hpp"
#include "pooled/local_pool.hpp"
#include "pooled/make_shared.hpp"
#include "pooled/object_pool.hpp"
#include "pooled/pending.hpp"
#include "pooled/pool.hpp"
#include "pooled/rc_from_this.hpp"
#include "pooled/rc_ptr.hpp"
#include "pooled/reclaim_scope.hpp"
#include "pooled/stats.hpp"
#include "pooled/tail.hpp"
#include "pooled/to_shared.hpp"
#include "pooled/unique_ptr.hpp"
#include "pooled/version.hpp"
