// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_unordered`: ours, a pool instance whose objects may be destroyed in any order.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

#include <string_view>

namespace bench::shape {

struct pooled_unordered_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return m_pool.template make_shared<T>(std::forward<Args>(args)...);
    }
    static constexpr bool takes(std::string_view pattern) { return pattern == "burst" || pattern == "list"; }

private:
    pooled::pool m_pool{pooled::pool_options{.name = "bench", .teardown = pooled::teardown::unordered}};
};

}  // namespace bench::shape
