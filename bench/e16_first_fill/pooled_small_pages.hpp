// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_small_pages`: ours, a separate pool that never asks for huge pages.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

namespace bench::e16_first_fill {

struct pooled_small_pages_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return m_pool.template make_shared<T>(std::forward<Args>(args)...);
    }

private:
    pooled::pool m_pool{pooled::pool_options{.name = "bench", .huge_pages = false}};
};

}  // namespace bench::e16_first_fill
