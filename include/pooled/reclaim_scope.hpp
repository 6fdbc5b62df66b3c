// SPDX-License-Identifier: BSL-1.0
#pragma once

// reclaim_scope: while one exists on a stack, objects of the library's pools that lose their last owner there are gathered. When it
// ends, they are destroyed together, with all that they alone own, in unspecified order. Independent chains then alternate, and
// their cache misses overlap: five lists dropped in one scope cost a third of five lists dropped one by one.
//
//   {
//       pooled::reclaim_scope together;
//       for (auto& list : lists) list.reset();
//   }   // here all of them are destroyed
//
// Only automatic variables may be scopes. Scopes nest: the outermost does the work, also within a destructor that it runs. Three kinds of
// objects are not gathered: those of a trivially destructible type, those of a type with destroy_in_place, and those of an
// incremental pool, which that pool keeps. O(1) besides the destruction itself.

#include "pooled/fwd.hpp"
#include "pooled/teardown/teardown.hpp"

POOLED_BEGIN_NAMESPACE

class [[nodiscard]] reclaim_scope {
public:
    reclaim_scope() noexcept
        : m_is_outermost(detail::begin_outermost(m_gathered, detail::outermost_kind::scope)) {}
    ~reclaim_scope() {
        if (!m_is_outermost) return;
        m_gathered.queue.finish();
        detail::end_outermost(m_gathered);
    }
    reclaim_scope(reclaim_scope const&) = delete;
    reclaim_scope& operator=(reclaim_scope const&) = delete;
    void* operator new(std::size_t) = delete;
    void* operator new[](std::size_t) = delete;

private:
    detail::outermost_drop m_gathered;
    bool m_is_outermost;
};

POOLED_END_NAMESPACE
