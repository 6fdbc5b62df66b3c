// SPDX-License-Identifier: BSL-1.0
#pragma once

// reclaim_scope: while one stands on a thread, objects of the library's pools that lose their last owner on that thread are
// gathered; when it ends, they are torn down together, with all that they alone own. Independent chains then take turns,
// and their cache misses overlap: five lists dropped in one scope cost a third of five lists dropped one by one.
//
//   {
//       pooled::reclaim_scope together;
//       for (auto& list : lists) list.reset();
//   }   // here all of them are destroyed
//
// For automatic variables only: it ends on the thread it began on, in the reverse order of its likes. Within another one,
// or within a destructor that such a teardown runs, it may leave the work to the outermost. Objects whose type is
// trivially destructible own nothing, and go at once. O(1) besides the teardown itself.

#include "pooled/teardown/teardown.hpp"

#include <cstddef>

namespace pooled {

class [[nodiscard]] reclaim_scope {
public:
    reclaim_scope() noexcept = default;
    ~reclaim_scope() { detail::t_teardown.stop_gathering(m_before); }
    reclaim_scope(reclaim_scope const&) = delete;
    reclaim_scope& operator=(reclaim_scope const&) = delete;
    void* operator new(std::size_t) = delete;
    void* operator new[](std::size_t) = delete;

private:
    detail::teardown_state::phase m_before = detail::t_teardown.start_gathering();
};

}  // namespace pooled
