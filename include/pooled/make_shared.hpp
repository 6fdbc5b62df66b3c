// SPDX-License-Identifier: BSL-1.0
#pragma once

// The functions that make objects in the process-wide pool, and those of the pools' members: make_shared, make_unique, make_rc and
// make_local_rc, with their _for_overwrite, _with_tail and try_ forms.

#include "pooled/detail/make_rc.hpp"
#include "pooled/detail/make_shared.hpp"
#include "pooled/detail/make_unique.hpp"
#include "pooled/detail/make_with_tail.hpp"
