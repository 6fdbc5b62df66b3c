// SPDX-License-Identifier: BSL-1.0
#pragma once

// pool::live_report(): what a pool holds, by type. A header of its own, because few programs print one.

#include "pooled/fwd.hpp"
#include "pooled/inspect/live_report.hpp"
#include "pooled/pool.hpp"

POOLED_BEGIN_DETAIL

template <sharing Sharing>
template <class Traits>
void basic_pool<Sharing>::live_report(std::basic_ostream<char, Traits>& out) const {
    auto const write = [](void* to, char const* text) {
        *static_cast<std::basic_ostream<char, Traits>*>(to) << text;
    };
    detail::report_live(*m_core, write, &out);
}

POOLED_END_DETAIL
