// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where a pool's memory comes from: pages of the operating system, or a std::pmr::memory_resource of the user's. Counts
// what it took and keeps it within the pool's bound.
//
// Invariant: used() = bytes allocated and not deallocated, those of calls under way included; used() <= max_bytes().
// A call is under way as long as an upstream::call exists: until what was allocated is where other threads find it, or from
// where they no longer find what is given back until that is done.
// Any thread may call; no lock is held while the resource runs, so it may use the pool itself. O(1), besides what the
// resource takes.

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/config.hpp"
#include "pooled/os/platform.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

namespace pooled::detail {

// Calls to any upstream that the thread is in.
POOLED_EXPORT inline constinit thread_local std::uint32_t t_upstream_calls = 0;

class upstream {
public:
    class call {
    public:
        explicit call(upstream& to) noexcept : m_to(to) {
            m_to.m_under_way.fetch_add(1, std::memory_order_relaxed);
            ++t_upstream_calls;
        }
        ~call() {
            --t_upstream_calls;
            // release: pairs with the acquire in wait_for_calls(); what was allocated is seen.
            m_to.m_under_way.fetch_sub(1, std::memory_order_release);
        }
        call(call const&) = delete;
        call& operator=(call const&) = delete;

    private:
        upstream& m_to;
    };

    // `resource` null: pages of the operating system. `max_bytes` 0: no bound.
    upstream(std::pmr::memory_resource* resource, std::size_t max_bytes, bool huge_pages) noexcept
        : m_resource(resource), m_max(max_bytes == 0 ? k_size_max : max_bytes), m_huge_pages(huge_pages) {}

    // `bytes` at `align`; null when that would go over the bound. Throws what the resource throws, std::bad_alloc when
    // the operating system has no more; the state is then as before.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align) {
        std::size_t used = m_used.load(std::memory_order_relaxed);
        do {
            if (bytes > m_max - used) return nullptr;
        } while (!m_used.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
        void* const p = allocate_within_bound(bytes, align, used == 0);
        m_calls.fetch_add(1, std::memory_order_relaxed);
        note_change();
        return p;
    }

    // Requires a result of allocate with the same arguments.
    void deallocate(void* p, std::size_t bytes, std::size_t align) noexcept {
        if (m_resource != nullptr)
            m_resource->deallocate(p, bytes, align);
        else
            platform::unmap_pages(p, mapped(bytes));
        m_used.fetch_sub(bytes, std::memory_order_relaxed);
        note_change();
    }

    // Only pages of the operating system can be given back one by one, and touched in advance.
    [[nodiscard]] bool is_system() const noexcept { return m_resource == nullptr; }
    [[nodiscard]] bool is_bounded() const noexcept { return m_max != k_size_max; }
    [[nodiscard]] std::size_t room() const noexcept { return m_max - used(); }
    [[nodiscard]] std::size_t max_bytes() const noexcept { return m_max; }
    [[nodiscard]] std::size_t used() const noexcept { return m_used.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t calls() const noexcept { return m_calls.load(std::memory_order_relaxed); }

    // What calls had done at a moment.
    struct moment {
        std::uint64_t changes;
        bool had_calls;
    };
    [[nodiscard]] moment now() const noexcept {
        // acquire: pairs with the release in note_change(); a call whose change is counted here is seen under way, or over.
        std::uint64_t const changes = m_changes.load(std::memory_order_acquire);
        return {changes, m_under_way.load(std::memory_order_acquire) > 0};  // acquire: pairs with the release in ~call
    }

    // Waits until no call is under way. True when memory may have come or gone since `before`, so that who looked for some
    // after that moment, and found none, has to look again. A thread that is itself in a call, and uses a pool there, does
    // not wait: the other one may be waiting for it.
    [[nodiscard]] bool wait_for_calls(moment before) const noexcept {
        bool waited = before.had_calls;
        if (t_upstream_calls != 0) {
            waited = false;
        } else {
            // acquire: pairs with the release in ~call.
            for (unsigned attempt = 0; m_under_way.load(std::memory_order_acquire) > 0; ++attempt) {
                platform::pause(attempt);
                waited = true;
            }
        }
        return waited || m_changes.load(std::memory_order_relaxed) != before.changes;
    }

    // In a forked child: the calls that other threads had under way do not end there.
    void forget_calls() noexcept {
        m_used.fetch_sub(m_claimed.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
        m_under_way.store(0, std::memory_order_relaxed);
    }

private:
    // release: pairs with the acquire in now().
    void note_change() noexcept { m_changes.fetch_add(1, std::memory_order_release); }

    [[nodiscard]] void* allocate_within_bound(std::size_t bytes, std::size_t align, bool is_first) {
        struct claim {
            upstream& from;
            std::size_t bytes;
            bool is_met = false;
            claim(upstream& u, std::size_t n) noexcept : from(u), bytes(n) {
                from.m_claimed.fetch_add(bytes, std::memory_order_relaxed);
            }
            ~claim() {
                from.m_claimed.fetch_sub(bytes, std::memory_order_relaxed);
                if (!is_met) from.m_used.fetch_sub(bytes, std::memory_order_relaxed);
            }
        } claimed(*this, bytes);
        void* p = nullptr;
        if (m_resource != nullptr) {
            p = m_resource->allocate(bytes, align);
        } else {
            // The first chunk of a pool keeps small pages, so that a pool of ten objects does not take 2 MiB of memory.
            bool const huge = m_huge_pages && bytes >= k_huge_page_bytes && !is_first;
            p = platform::map_pages(mapped(bytes),
                                    huge && align < k_huge_page_bytes ? k_huge_page_bytes : align);
            if (p == nullptr) throw std::bad_alloc();
            if (huge) platform::advise_huge_pages(p, bytes);
        }
        claimed.is_met = true;
        return p;
    }

    // Whole granules of addresses, so that nobody else's memory shares the last one. Pages never touched cost nothing.
    [[nodiscard]] static std::size_t mapped(std::size_t bytes) noexcept {
        return round_up(bytes, k_granule_bytes);
    }

    std::pmr::memory_resource* m_resource;
    std::size_t m_max;
    std::atomic<std::size_t> m_used{0};
    std::atomic<std::size_t> m_claimed{0};  // by calls under way
    std::atomic<std::uint64_t> m_calls{0};
    std::atomic<std::uint64_t> m_changes{0};  // of used(), by calls that succeeded
    std::atomic<std::int32_t> m_under_way{0};
    bool m_huge_pages;
};

}  // namespace pooled::detail
