// SPDX-License-Identifier: BSL-1.0
#pragma once

// The source of a pool's memory: pages of the operating system, or the user's std::pmr::memory_resource. Counts the bytes in use
// and enforces the pool's bound.
//
// Invariant: used() = bytes allocated and not deallocated, including calls in progress; used() <= max_bytes().
// Any thread may call, and waits for none. O(1), besides what the resource takes, which may use the pool.

#include "pooled/base/sanitizer.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/error.hpp"
#include "pooled/os/fork_gate.hpp"
#include "pooled/os/platform.hpp"

#include <memory_resource>

POOLED_BEGIN_DETAIL

// Chunks of 2 MiB of all pools. As many as k_most_apart are mappings of their own to the kernel (docs/mechanisms.md).
POOLED_STATE(atomic<std::uint32_t>, g_chunks_apart, {0});

// Number of calls to any upstream in which the thread is.
POOLED_THREAD_STATE(std::uint32_t, t_upstream_calls, = 0);

class upstream {
public:
    // Memory in transit from or to upstream: it counts under the bound, but no thread can find it. begin() precedes the transit,
    // the destructor ends it. Its bytes are added and subtracted together with the heap's own records, so that a forked child,
    // where the calls of other threads never end, knows how much is lost with them.
    class call {
    public:
        explicit call(upstream& with) noexcept : m_with(with) {}
        ~call() {
            if (m_has_begun) m_with.end(*this);
        }
        call& operator=(call&&) = delete;

        // `bytes` of memory that returns to upstream: under the lock under which it is taken out of the records.
        void begin(std::size_t bytes = 0) noexcept {
            fork_pass const pass;
            if (!m_has_begun) {
                m_has_begun = true;
                m_epoch = m_with.m_epoch;
                ++t_upstream_calls();
                // acq_rel: what follows is not seen earlier.
                m_with.m_under_way.fetch_add(1, std::memory_order_acq_rel);
            }
            if (!m_with.counts(*this)) m_with.m_used.fetch_sub(bytes, std::memory_order_relaxed);
            add(bytes);
        }
        // Called when everything received is recorded, or so many bytes of it, under the lock under which it was recorded.
        void settle(std::size_t bytes = k_size_max) noexcept {
            fork_pass const pass;
            std::size_t const settled = bytes < m_bytes ? bytes : m_bytes;
            if (!m_with.counts(*this)) m_with.m_used.fetch_add(settled, std::memory_order_relaxed);
            add(0 - settled);
        }
        // Without exceptions, a request that upstream refuses looks like one beyond the bound. There is no sense in trying again: the calls
        // that ended include that request.
        [[nodiscard]] bool has_failed() const noexcept { return m_has_failed; }
        void fail() noexcept { m_has_failed = true; }

    private:
        void add(std::size_t bytes) noexcept {
            m_bytes += bytes;
            if (m_with.counts(*this)) m_with.m_in_transit.fetch_add(bytes, std::memory_order_relaxed);
        }
        friend class upstream;
        upstream& m_with;
        void const* m_owner = &t_upstream_calls();
        std::size_t m_bytes = 0;
        bool m_has_begun = false;
        bool m_has_failed = false;
        std::uint64_t m_epoch = 0;
    };

    // `resource` null: pages of the operating system. `max_bytes` 0: no bound.
    upstream(std::pmr::memory_resource* resource, std::size_t max_bytes, bool huge_pages) noexcept
        : m_resource(resource), m_max(max_bytes == 0 ? k_size_max : max_bytes), m_huge_pages(huge_pages) {}

    // `bytes` at `align`; null when that would go over the bound. Throws what the resource throws, std::bad_alloc when
    // the operating system has no more; the state is then as before. `under_way` begins when the bound allows it. Of these,
    // the first `dense` will be touched: huge pages are worth asking for there.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align, call& under_way, std::size_t dense) {
        under_way.m_has_failed = false;
        if (bytes > available()) return nullptr;
        under_way.begin();
        if (!count(bytes, under_way)) return nullptr;
        void* p = nullptr;
        POOLED_TRY {
            p = ask(bytes, align, dense);
            m_calls.fetch_add(1, std::memory_order_relaxed);
        }
        POOLED_CATCH(...) {
            discount(bytes, under_way);
            POOLED_RETHROW;
        }
        if (p == nullptr) discount(bytes, under_way), under_way.fail();
        return p;
    }

    // Whether `bytes` more may be available, determined before the first piece is requested. False when the bound does not allow
    // them; throws std::bad_alloc when the system has less memory. A resource answers only an actual request.
    [[nodiscard]] bool may_give(std::size_t bytes) const {
        if (bytes > available()) return false;
        if (is_system() && bytes >= k_probed_bytes && !platform::may_map(bytes))
            POOLED_THROW(not_enough_memory(bytes));
        return true;
    }

    // Requires a result of allocate with the same arguments, whose bytes are of `under_way`. False when the system does not take it
    // back: the memory is still the caller's, and counted.
    [[nodiscard]] bool deallocate(void* p, std::size_t bytes, std::size_t align, call& under_way) noexcept {
        if (m_resource != nullptr) {
            sanitizer::remove_root(p, bytes);
            m_resource->deallocate(p, bytes, align);
        } else if (platform::unmap_pages(p, mapped(bytes))) {
            note_unmapped(bytes);
        } else {
            return false;
        }
        discount(bytes, under_way);
        return true;
    }
    // The last use of memory that was not taken back: only its addresses are lost, and it counts no more.
    void abandon(void* p, std::size_t bytes, call& under_way) noexcept {
        platform::release_pages(static_cast<std::byte*>(p), mapped(bytes));
        discount(bytes, under_way);
    }

    [[nodiscard]] bool wants_huge_pages(std::size_t bytes) const noexcept {
        return m_huge_pages && is_system() && bytes >= k_huge_page_bytes;
    }
    // Only pages of the operating system can be returned individually, and touched in advance.
    [[nodiscard]] bool is_system() const noexcept { return m_resource == nullptr; }
    [[nodiscard]] bool is_bounded() const noexcept { return m_max != k_size_max; }
    [[nodiscard]] std::size_t available() const noexcept { return room(used()); }
    [[nodiscard]] std::size_t max_bytes() const noexcept { return m_max; }
    // acquire: pairs with the release in count(); that its call has begun is seen.
    [[nodiscard]] std::size_t used() const noexcept { return m_used.load(std::memory_order_acquire); }
    // The most that it ever was, with what upstream was asked for and refused.
    [[nodiscard]] std::size_t most_used() const noexcept { return m_most.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t calls() const noexcept { return m_calls.load(std::memory_order_relaxed); }

    // Whether a block of `bytes` might be had after all: the bound allows it, or memory is in transit, or was since calls_ended()
    // was `before`.
    [[nodiscard]] bool may_give_soon(std::size_t bytes, std::uint64_t before) const noexcept {
        std::size_t const unit = m_max < k_granule_bytes ? 1 : k_granule_bytes;
        // acquire: pairs with the release in ~call.
        return round_up(bytes, unit) <= available() || m_under_way.load(std::memory_order_acquire) > 0 ||
               calls_ended() != before;
    }

    // How many calls have ended. acquire: pairs with the release in ~call.
    [[nodiscard]] std::uint64_t calls_ended() const noexcept {
        return m_calls_ended.load(std::memory_order_acquire);
    }

    // False when no call has ended since calls_ended() was `before`, and none is in progress: then another search would find
    // nothing new. Waits for a call in progress, except in a thread that is itself in a call and uses a pool there, or that
    // forks: the other call may be waiting for this thread.
    [[nodiscard]] bool wait_for_call(std::uint64_t before) const noexcept {
        for (unsigned attempt = 0; calls_ended() == before; ++attempt) {
            // acquire: pairs with the release in ~call.
            bool const is_any = m_under_way.load(std::memory_order_acquire) > 0;
            if (!is_any) return calls_ended() != before;
            if (t_upstream_calls() != 0 || fork_gate::is_passed()) return false;
            platform::pause(attempt);
        }
        return true;
    }

    // Called in a forked child. Other threads' calls in progress do not end there, and those of this thread, within a resource of the
    // program, count from now on as begun before the fork.
    void forget_calls() noexcept {
        if (m_under_way.exchange(0, std::memory_order_relaxed) == 0) return;
        m_used.fetch_sub(m_in_transit.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
        ++m_epoch;
    }

private:
    static constexpr std::uint32_t k_most_apart =
        1024;  // 2 GiB: the system allows 65,530 mappings, and each makes a fork 1 us longer
    static constexpr std::size_t k_probed_bytes = std::size_t{256} << 20;  // less is soon built, or refused

    // In a child, a call that began before its fork may bring the pool over its bound.
    [[nodiscard]] std::size_t room(std::size_t n) const noexcept { return m_max - detail::smaller(n, m_max); }
    // False: the call began before its thread forked, and its bytes do not count in the child.
    [[nodiscard]] bool counts(call const& one) const noexcept { return one.m_epoch == m_epoch; }
    // False: the bound does not allow it.
    [[nodiscard]] bool count(std::size_t bytes, call& under_way) noexcept {
        fork_pass const pass;
        std::size_t before = used();
        do
            if (bytes > room(before)) return false;
        // release: pairs with the acquire in used().
        while (counts(under_way) &&
               !m_used.compare_exchange_strong(before, before + bytes, std::memory_order_release));
        under_way.add(bytes);
        std::size_t most = most_used();
        while (most < before + bytes &&
               !m_most.compare_exchange_strong(most, before + bytes, std::memory_order_relaxed)) {}
        return true;
    }
    void discount(std::size_t bytes, call& under_way) noexcept {
        fork_pass const pass;
        if (counts(under_way)) m_used.fetch_sub(bytes, std::memory_order_relaxed);
        under_way.add(0 - bytes);
    }
    // Out of line, so that the state is that of the thread that runs it: a fibre may have moved to another one within the resource.
    POOLED_NOINLINE void end(call& one) noexcept {
        fork_pass const pass;
        if (one.m_owner == &t_upstream_calls()) --t_upstream_calls();
        if (!counts(one)) return;
        // release: both pair with the acquires in calls_ended() and wait_for_call(); the effect of the call is seen.
        m_calls_ended.fetch_add(1, std::memory_order_release);
        m_under_way.fetch_sub(1, std::memory_order_release);
    }

    [[nodiscard]] void* ask(std::size_t bytes, std::size_t align, std::size_t dense) {
        if (m_resource != nullptr) {
            void* given = m_resource->allocate(bytes, align);
            asm("" : "+r"(given));  // it is declared as never null, so compilers would remove the check
            if (given == nullptr) POOLED_NO_MEMORY;
            sanitizer::add_root(given, bytes);
            return given;
        }
        bool const is_long = bytes >= k_huge_page_bytes;
        bool const is_apart = bytes == k_huge_page_bytes &&
                              g_chunks_apart.fetch_add(1, std::memory_order_relaxed) < k_most_apart;
        void* const p = platform::map_pages(
            mapped(bytes), detail::larger(align, is_long ? k_huge_page_bytes : k_granule_bytes), is_apart);
        if (p == nullptr) {
            note_unmapped(bytes);
            POOLED_NO_MEMORY;
        }
        if (wants_huge_pages(dense)) platform::take_huge_pages(p, round_down(dense, k_huge_page_bytes));
        return p;
    }
    static void note_unmapped(std::size_t bytes) noexcept {
        if (bytes == k_huge_page_bytes) g_chunks_apart.fetch_sub(1, std::memory_order_relaxed);
    }

    // Whole granules of addresses, so that no foreign memory shares the last one. Untouched pages cost nothing.
    [[nodiscard]] static std::size_t mapped(std::size_t n) noexcept { return round_up(n, k_granule_bytes); }

    std::pmr::memory_resource* m_resource;
    std::size_t m_max;
    atomic<std::size_t> m_used{0};
    atomic<std::size_t> m_in_transit{0};  // the bytes of all calls
    atomic<std::size_t> m_most{0};
    atomic<std::uint64_t> m_calls{0};
    atomic<std::int32_t> m_under_way{0};
    atomic<std::uint64_t> m_calls_ended{0};
    bool m_huge_pages;
    std::uint64_t m_epoch = std::uint64_t{g_forks_lost} << 32;  // changes in a forked child
};

POOLED_END_DETAIL
