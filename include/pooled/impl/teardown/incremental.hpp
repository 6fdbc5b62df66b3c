// SPDX-License-Identifier: BSL-1.0
#pragma once

// Incremental teardown: a drop only defers its object, and later allocations on that thread destroy a few objects each. A thread
// that only drops, while another allocates, destroys some in each drop once many are deferred. An allocation that finds no memory
// drains, then waits for what other threads are destroying, unless they wait themselves.
//
// No function here runs a destructor under a lock of the library. A fibre must not change threads within a destructor that
// one of these functions runs.

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/impl/instrument/malloc_backed.hpp"
#include "pooled/impl/os/metadata.hpp"
#include "pooled/impl/os/platform.hpp"
#include "pooled/impl/pool/extension.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/impl/teardown/deferred_queue.hpp"
#include "pooled/impl/teardown/teardown.hpp"
#if POOLED_HAS_CODE
#include "pooled/impl/teardown/deferred_store.hpp"
#endif

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

#if POOLED_HAS_CODE
class deferred_objects final : public pool_extension {
public:
    // The deferrals of an incremental pool, made at the first call. Throws std::bad_alloc.
    POOLED_API static void attach_to(pool_core& core);

    // False when the object must be destroyed now: the thread or the pool is ending, or there is no memory to record it.
    [[nodiscard]] bool defer(deferred d, void const* object, std::size_t object_bytes) noexcept;

    // A list of all deferred objects, whichever thread dropped them; null when there are none. The caller then owns it.
    [[nodiscard]] POOLED_API deferred_batch* take_all() noexcept;

    POOLED_VIRTUAL void on_allocate() noexcept override;
    POOLED_VIRTUAL std::size_t drain(std::size_t budget) noexcept override;
    POOLED_VIRTUAL bool relieve(std::uint64_t& seen) noexcept override;
    POOLED_VIRTUAL void on_close() noexcept override;
    POOLED_VIRTUAL void on_destroy() noexcept override;
    POOLED_VIRTUAL void after_fork_in_child() noexcept override;

private:
    // Objects destroyed at an allocation: more than one, so that their number decreases; few, so that it stays fast.
    static constexpr std::size_t k_objects_per_allocation = 4;
    // How deeply allocations may nest in destructors that such allocations run: the innermost reports exhaustion.
    static constexpr unsigned k_nested_reliefs = 8;
    static constexpr unsigned k_attempts_before_report = 200'000;  // 10 s and more

    // How many objects a drop destroys when `size` are deferred already: none up to 1024, then enough that a thread which only
    // drops structures of n objects has at most 64 n deferred; at most 128, so this holds for n up to 128.
    [[nodiscard]] static constexpr std::size_t objects_per_drop(std::size_t size) noexcept {
        return size <= 1024 ? 0 : detail::smaller<std::size_t>(size / 64, 128);
    }

    deferred_objects() noexcept : m_store(this, sizeof(deferred_objects)) {}
    static void step(thread_deferred& mine, std::size_t budget) noexcept;

    deferred_store m_store;
};
#endif

[[nodiscard]] POOLED_ALWAYS_INLINE pool_core& core_of(void const* block) noexcept {
    return *g_registry.find(malloc_blocks::find_owned(block).pool_id());
}
[[nodiscard]] inline bool is_incremental(void const* block) noexcept {
    return core_of(block).is_incremental();
}

// A list of the objects that were deferred in an incremental pool, whichever thread dropped them; null when there are none. The
// caller then owns it.
[[nodiscard]] POOLED_API deferred_batch* take_deferred(pool_core& core) noexcept;

// Defers an object of a pool that is not immediate, or else destroys it.
POOLED_API void defer_or_finish(deferred d, void const* object, std::size_t object_bytes) noexcept;

#if POOLED_HAS_CODE

POOLED_CODE deferred_batch* take_deferred(pool_core& core) noexcept {
    pool_extension* const extension = core.is_incremental() ? core.extension() : nullptr;
    return extension != nullptr ? static_cast<deferred_objects*>(extension)->take_all() : nullptr;
}

POOLED_CODE void deferred_objects::attach_to(pool_core& core) {
    if (core.extension() != nullptr) return;
    install_hooks();
    g_metadata.reserve(sizeof(thread_deferred), 1);  // so that a thread's first drop makes no system call
    g_metadata.reserve(sizeof(deferred_batch), 1);
    auto* const made = ::new (g_metadata.allocate(sizeof(deferred_objects))) deferred_objects;
    if (!core.set_extension_if_none(*made)) made->m_store.release_reference();
}

POOLED_CODE deferred_batch* deferred_objects::take_all() noexcept { return m_store.take_all(); }

inline bool deferred_objects::defer(deferred d, void const* object, std::size_t object_bytes) noexcept {
    thread_deferred* const mine = m_store.own_or_made();
    if (mine == nullptr) return false;
    std::size_t const size = m_store.push(*mine, d, object, object_bytes);
    if (std::size_t const budget = objects_per_drop(size); budget != 0) [[unlikely]]
        step(*mine, budget);
    return size != 0;
}

// Owner only. Does nothing within the destructor of a deferred object, whose caller continues with the next objects.
inline void deferred_objects::step(thread_deferred& mine, std::size_t budget) noexcept {
    if (t_deferrals.is_destroying) return;
    for (; budget != 0 && deferred_store::destroy_one(mine); --budget) {}
}

void deferred_objects::on_allocate() noexcept {
    thread_deferred* mine = m_store.own();
    if (mine == nullptr || mine->size == 0) {
        if (!m_store.has_kept()) [[likely]]
            return;
        mine = m_store.own_or_made();
        if (mine == nullptr || !m_store.collect(mine)) return;
    }
    step(*mine, k_objects_per_allocation);
}

std::size_t deferred_objects::drain(std::size_t budget) noexcept {
    std::size_t done = 0;
    while (done != budget) {
        thread_deferred* const mine = m_store.own_or_made();
        if (mine != nullptr && deferred_store::destroy_one(*mine)) {
            ++done;
            continue;
        }
        if (!m_store.collect(mine)) break;
        if ((mine == nullptr || mine->gate.is_closed()) && m_store.destroy_one_kept()) ++done;
    }
    return done;
}

bool deferred_objects::relieve(std::uint64_t& seen) noexcept {
    if (t_deferrals.reliefs >= k_nested_reliefs) return false;
    for (unsigned attempt = 0;; ++attempt) {
        ++t_deferrals.reliefs;
        std::size_t const done = drain(k_objects_per_retry);
        --t_deferrals.reliefs;
        if (done != 0) return true;
        deferred_store::set_blocked(true);
        deferred_store::progress const now = m_store.look();
        // A thread that has ended is not seen to be blocked: it would wait for itself.
        bool const may_wait = t_deferrals.kept_in_destruction == 0 && !fork_gate::is_passed();
        bool const is_over = now.destroyed != seen || !now.is_any_left || !may_wait;
        if (!is_over) platform::pause(attempt);
        deferred_store::set_blocked(false);
        if (is_over) return std::exchange(seen, now.destroyed) != now.destroyed;
        POOLED_EXPENSIVE_CHECK(
            attempt < k_attempts_before_report,
            "pooled: an allocation from an exhausted incremental pool has waited long for a "
            "destructor that another thread runs; does that destructor wait for a lock which is "
            "held around this allocation?");
    }
}

// Destroys all deferred objects; later ones are not deferred any more.
void deferred_objects::on_close() noexcept {
    drain(~std::size_t{0});
    m_store.close();
    while (m_store.destroy_one_kept()) {}
}

void deferred_objects::on_destroy() noexcept { m_store.release_reference(); }
void deferred_objects::after_fork_in_child() noexcept { m_store.after_fork_in_child(); }

POOLED_CODE void defer_or_finish(deferred d, void const* object, std::size_t object_bytes) noexcept {
    pool_core& core = core_of(d.header());
    if (!core.is_incremental()) return detail::defer_to_outermost(d, object, object_bytes);
    if (deferred_queue* const redirect = t_teardown.redirect) {
        if (!redirect->push(d, object, object_bytes)) detail::finish_now(d);
        return;
    }
    auto* const deferred_here = static_cast<deferred_objects*>(core.extension());
    if (deferred_here == nullptr || !deferred_here->defer(d, object, object_bytes)) detail::finish_now(d);
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
