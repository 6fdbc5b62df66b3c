// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_scope`: as `pooled`, but what is dropped together is destroyed together, in a reclaim_scope.
#pragma once

#include "contender/pooled.hpp"

namespace bench {

struct pooled_scope_contender : pooled_contender {
    using together_scope = pooled::reclaim_scope;
};

}  // namespace bench
