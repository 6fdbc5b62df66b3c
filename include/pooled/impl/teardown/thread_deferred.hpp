// SPDX-License-Identifier: BSL-1.0
#pragma once

// The objects that one thread deferred in incremental pools: a thread_deferred for each pool, in a list of the thread. The
// owner changes a thread_deferred inside its gate; deferred_store.hpp says what other threads may do.

#include "pooled/config.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/gate.hpp"
#include "pooled/detail/intrusive_list.hpp"
#include "pooled/impl/os/fork_gate.hpp"
#include "pooled/impl/os/platform.hpp"
#include "pooled/impl/teardown/deferred_queue.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class deferred_store;

// The objects that one thread has deferred in one pool. Freed by its owner, or in a forked child.
struct thread_deferred {
    detail::gate<> gate;
    deferred_store* pool = nullptr;
    deferred_batch* batch = nullptr;               // inside the gate
    observed<std::size_t> size;                    // of the batch
    std::atomic<std::uint64_t> in_destruction{0};  // owner writes; more than one when a destructor allocates
    std::atomic<std::uint64_t> destroyed{0};       // owner writes
    std::atomic<bool> is_blocked{false};  // the owner waits for other threads, so they must not wait for it
    void const* owner = nullptr;
    list_links<thread_deferred> owned;  // the owner's list: owner only
    list_links<thread_deferred> links;  // the pool's: its mutex
};
struct owned_deferred_links {
    static constexpr auto k_member = &thread_deferred::owned;
};

// Lets the owner into its gate, unless the pool is closed; waits while another thread collects. Keeps forks out, because the owner
// may take the arena's lock inside, and so that a child finds all batches complete.
class deferred_pass {
public:
    POOLED_ALWAYS_INLINE explicit deferred_pass(thread_deferred& mine) noexcept : m_mine(mine) {
        g_fork_gate.enter();
        for (unsigned attempt = 0; !(m_is_in = mine.gate.enter()); platform::pause(attempt++))
            if (mine.gate.is_closed()) return;
    }
    POOLED_ALWAYS_INLINE ~deferred_pass() {
        if (m_is_in) m_mine.gate.leave();
        g_fork_gate.leave();
    }
    deferred_pass(deferred_pass const&) = delete;
    deferred_pass& operator=(deferred_pass const&) = delete;
    [[nodiscard]] explicit operator bool() const noexcept { return m_is_in; }

private:
    thread_deferred& m_mine;
    bool m_is_in;
};

// Constant-initialised and trivially destructible, so it works until the thread has ended.
struct thread_deferrals {
    thread_deferred* recent = nullptr;
    intrusive_list<thread_deferred, thread_deferred*, owned_deferred_links> owned;
    bool is_destroying =
        false;  // a deferred object is being destroyed: drops and allocations in its destructor destroy no other
    bool is_armed = false;
    bool has_ended = false;
    unsigned reliefs =
        0;  // allocations that found no memory, nested in destructors that such allocations run
    unsigned kept_in_destruction = 0;  // objects that it destroys without a thread_deferred
};
POOLED_STATE(thread_local thread_deferrals, t_deferrals, {});

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
