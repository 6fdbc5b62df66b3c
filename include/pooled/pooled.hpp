// SPDX-License-Identifier: BSL-1.0
#pragma once

// pooled: memory pools for objects owned by smart pointers. This header includes all of the library but compat/.

#include "pooled/config.hpp"
#include "pooled/fwd.hpp"
#include "pooled/object/object_pool.hpp"
#include "pooled/pool/default_pool.hpp"
#include "pooled/pool/pool.hpp"
#include "pooled/pool/stats.hpp"
#include "pooled/smart/allocator.hpp"
#include "pooled/smart/deleter.hpp"
#include "pooled/smart/make_rc.hpp"
#include "pooled/smart/make_shared.hpp"
#include "pooled/smart/make_unique.hpp"
#include "pooled/smart/make_with_tail.hpp"
#include "pooled/smart/rc_from_this.hpp"
#include "pooled/smart/rc_ptr.hpp"
#include "pooled/smart/to_shared.hpp"
#include "pooled/teardown/destroy_in_place.hpp"
#include "pooled/teardown/pending.hpp"
#include "pooled/teardown/reclaim_scope.hpp"
#include "pooled/version.hpp"
