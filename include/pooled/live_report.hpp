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
    live_census all(*m_core);
    out << "pool '" << m_core->name() << "': " << all.objects << " blocks in use, " << all.bytes
        << " bytes\n";
    while (live_group const* const one = all.next()) {
        out << "  " << one->objects << " of ";
        if (one->type != nullptr)
            out << one->type << ", " << one->bytes << " bytes\n";
        else
            out << one->block_bytes << " bytes that name no type, " << one->bytes << " bytes\n";
    }
    if (all.uncertain != 0)
        out << "  uncertain: " << all.uncertain << " blocks that threads allocated or freed meanwhile\n";
    if (all.doubt != nullptr) out << "  uncertain: " << all.doubt << '\n';
}

POOLED_END_DETAIL
