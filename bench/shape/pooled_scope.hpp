// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_scope`: ours, the process-wide pool; what is dropped together is destroyed together, in a reclaim_scope.
#pragma once

#include "contender/pooled.hpp"

#include <string_view>

namespace bench::shape {

struct pooled_scope_contender : pooled_contender {
    using together_scope = pooled::reclaim_scope;
    static constexpr bool takes(std::string_view pattern) { return pattern == "burst" || pattern == "list"; }
};

}  // namespace bench::shape
