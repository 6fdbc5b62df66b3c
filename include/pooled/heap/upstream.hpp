// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where a pool's memory comes from: pages of the operating system, or a std::pmr::memory_resource of the user's. Counts
// what it took and keeps it within the pool's bound.
//
// Invariant: used() = bytes allocated and not deallocated, those of calls under way included; used() <= max_bytes().
// Any thread may call; no lock is held while the resource runs, so it may use the pool itself. O(1), besides what the
// resource takes.

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/config.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/os/sanitizer.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory_resource>
#include <new>

namespace pooled::detail {

// Calls to any upstream that the thread is in.
POOLED_EXPORT inline constinit thread_local std::uint32_t t_upstream_calls = 0;

class upstream {
public:
    // Memory on its way from upstream or back: taken from the bound, but where no thread finds it. begin() before that, the
    // end when it is over.
    class call {
    public:
        explicit call(upstream& with) noexcept : m_with(with) {}
        ~call() {
            if (!m_has_begun) return;
            --t_upstream_calls;
            // release: both pair with the acquires in calls_ended() and wait_for_calls(); what was moved is seen.
            m_with.m_calls_ended.fetch_add(1, std::memory_order_release);
            m_with.m_under_way.fetch_sub(1, std::memory_order_release);
        }
        call(call const&) = delete;
        call& operator=(call const&) = delete;

        void begin() noexcept {
            if (m_has_begun) return;
            m_has_begun = true;
            ++t_upstream_calls;
            // acq_rel: what follows is not seen before it.
            m_with.m_under_way.fetch_add(1, std::memory_order_acq_rel);
        }

    private:
        upstream& m_with;
        bool m_has_begun = false;
    };

    // `resource` null: pages of the operating system. `max_bytes` 0: no bound.
    // `pool_name` is for messages.
    upstream(std::pmr::memory_resource* resource, std::size_t max_bytes, bool huge_pages,
             char const* pool_name = "?") noexcept
        : m_resource(resource),
          m_max(max_bytes == 0 ? k_size_max : max_bytes),
          m_huge_pages(huge_pages),
          m_pool_name(pool_name) {}

    // `bytes` at `align`; null when that would go over the bound. Throws what the resource throws, std::bad_alloc when
    // the operating system has no more; the state is then as before. `under_way` begins when the bound allows it.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align, call& under_way) {
        if (bytes > room()) return nullptr;
        under_way.begin();
        std::size_t used = m_used.load(std::memory_order_relaxed);
        do {
            if (bytes > m_max - used) return nullptr;
        } while (!m_used.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
        void* const p = allocate_within_bound(bytes, align, used == 0);
        m_calls.fetch_add(1, std::memory_order_relaxed);
        return p;
    }

    // Requires a result of allocate with the same arguments.
    void deallocate(void* p, std::size_t bytes, std::size_t align) noexcept {
        if (m_resource != nullptr) {
            sanitizer::remove_root(p, bytes);
            m_resource->deallocate(p, bytes, align);
        } else {
            platform::unmap_pages(p, mapped(bytes));
        }
        m_used.fetch_sub(bytes, std::memory_order_relaxed);
    }

    // Only pages of the operating system can be given back one by one, and touched in advance.
    [[nodiscard]] bool is_system() const noexcept { return m_resource == nullptr; }
    [[nodiscard]] char const* pool_name() const noexcept { return m_pool_name; }
    [[nodiscard]] bool is_bounded() const noexcept { return m_max != k_size_max; }
    [[nodiscard]] std::size_t room() const noexcept { return m_max - used(); }
    [[nodiscard]] std::size_t max_bytes() const noexcept { return m_max; }
    [[nodiscard]] std::size_t used() const noexcept { return m_used.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t calls() const noexcept { return m_calls.load(std::memory_order_relaxed); }

    // How many calls have ended. acquire: pairs with the release in ~call.
    [[nodiscard]] std::uint64_t calls_ended() const noexcept {
        return m_calls_ended.load(std::memory_order_acquire);
    }

    // False when no call has ended since calls_ended() was `before`, and none is under way: what a thread did not find in
    // the meantime, it would not find now. Waits for one that is under way; but not in a thread that is itself in a call,
    // and uses a pool there: the other one may be waiting for it.
    [[nodiscard]] bool wait_for_call(std::uint64_t before) const noexcept {
        for (unsigned attempt = 0; calls_ended() == before; ++attempt) {
            // acquire: pairs with the release in ~call.
            bool const is_any = m_under_way.load(std::memory_order_acquire) > 0;
            if (!is_any) return calls_ended() != before;
            if (t_upstream_calls != 0) return false;
            platform::pause(attempt);
        }
        return true;
    }

    // In a forked child: the calls that other threads had under way do not end there.
    void forget_calls() noexcept {
        m_used.fetch_sub(m_claimed.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
        m_under_way.store(0, std::memory_order_relaxed);
    }

private:
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
            if ((address_of(p) & (align - 1)) != 0) [[unlikely]]
                fail_misaligned(p, bytes, align);
            sanitizer::add_root(p, bytes);
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

    [[noreturn]] POOLED_NOINLINE void fail_misaligned(void const* p, std::size_t bytes,
                                                      std::size_t align) const {
        std::array<char, 320> message{};
        std::snprintf(
            message.data(), message.size(),
            "pooled: the upstream of pool '%s' returned %p for %zu bytes, which is not aligned to %zu as "
            "it was asked; its do_allocate must heed the alignment",
            m_pool_name, p, bytes, align);
        POOLED_FAIL(message.data());
        std::abort();
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
    std::atomic<std::int32_t> m_under_way{0};
    std::atomic<std::uint64_t> m_calls_ended{0};
    bool m_huge_pages;
    char const* m_pool_name;
};

}  // namespace pooled::detail
