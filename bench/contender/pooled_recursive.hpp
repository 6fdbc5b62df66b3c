// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_recursive`: our memory under the standard library's own destruction, which recurses: shows what
// the library's teardown gains.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

namespace bench {

struct pooled_recursive_contender : allocate_shared_contender<pooled::allocator> {};

}  // namespace bench
