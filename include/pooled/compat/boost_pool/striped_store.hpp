// SPDX-License-Identifier: BSL-1.0
#pragma once

// A chunk_store for any thread: in front of it, arrays of free chunks behind a lock of one byte each.
//
//   thread ─▶ stripe: lock, up to 62 addresses ─┐
//   thread ─▶ stripe                            ├─▶ mutex, chunk_store
//
// A thread uses its stripe until it finds it locked; then it moves to the next one. Threads that work at the same time therefore
// soon have a stripe each, and none waits for a holder that does not run. An operation costs one locked instruction, where a
// std::mutex costs two. The library's own thread caches need none, but their headers alone take longer to compile than all of
// Boost.Pool.
//
// Locks, in the order in which they may be taken: stripes by ascending index, the store's. constinit and trivially
// destructible: works before main and in static destructors. A forked child may continue. O(1), as chunk_store otherwise.

#include "pooled/compat/boost_pool/chunk_store.hpp"
#include "pooled/config.hpp"
#include "pooled/impl/os/platform.hpp"
#include "pooled/impl/os/raw_mutex.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail {

// The stripe that the calling thread used last, in any pool.
POOLED_EXPORT inline constinit thread_local unsigned t_stripe = 0;

class striped_store {
public:
    // `at_first_growth` is called once, before there is any memory.
    constexpr striped_store(user_memory const& user, std::size_t requested, std::size_t align,
                            std::size_t next_size, std::size_t max_size, bool (*at_first_growth)()) noexcept
        : m_store(user, requested, align, next_size, max_size), m_at_first_growth(at_first_growth) {}

    [[nodiscard]] void* allocate() {
        {
            holder const mine(*this);
            stripe& s = mine.held();
            if (s.size != 0) [[likely]]
                return s.chunks[--s.size];
            if (void* const p = refill(s)) return p;
        }
        return allocate_last();
    }
    // Null is ignored.
    void deallocate(void* p) noexcept {
        if (p == nullptr) return;
        holder const mine(*this);
        stripe& s = mine.held();
        if (s.size == k_most) [[unlikely]]
            flush(s);
        s.chunks[s.size++] = p;
    }

    // Calls use(store) while no other thread uses any of this, and all free chunks are in the store.
    template <class Use>
    auto exclusively(Use&& use) {
        std::scoped_lock const lock(*this);
        for (stripe& s : m_stripes)
            while (s.size != 0)
                m_store.deallocate(s.chunks[--s.size]);
        return use(m_store);
    }

    // Calls use(store), which may read regions only.
    template <class Use>
    auto locked(Use&& use) {
        std::scoped_lock const lock(m_mutex);
        return use(m_store);
    }

    // All of it: also around a fork.
    void lock() noexcept {
        for (stripe& s : m_stripes)
            for (unsigned attempt = 0; !s.try_lock(); ++attempt)
                pooled::detail::platform::pause(attempt);
        m_mutex.lock();
    }
    void unlock() noexcept {
        m_mutex.unlock();
        for (stripe& s : m_stripes)
            s.unlock();
    }

private:
    static constexpr unsigned k_stripes = 8;
    static constexpr std::uint32_t k_most = 62;
    static constexpr std::uint32_t k_half = k_most / 2;

    struct alignas(128) stripe {  // two cache lines: see thread_cache.hpp
        std::atomic<std::uint32_t> is_locked{0};
        std::uint32_t size = 0;
        std::array<void*, k_most> chunks{};

        // acquire: pairs with the release in unlock.
        [[nodiscard]] bool try_lock() noexcept {
            return is_locked.exchange(1, std::memory_order_acquire) == 0;
        }
        // release: pairs with the acquire in try_lock.
        void unlock() noexcept { is_locked.store(0, std::memory_order_release); }
    };

    class holder {
    public:
        POOLED_ALWAYS_INLINE explicit holder(striped_store& store) noexcept
            : m_held(&store.m_stripes[t_stripe]) {
            if (!m_held->try_lock()) [[unlikely]]
                m_held = store.lock_another();
        }
        POOLED_ALWAYS_INLINE ~holder() { m_held->unlock(); }
        holder(holder const&) = delete;
        holder& operator=(holder const&) = delete;
        [[nodiscard]] stripe& held() const noexcept { return *m_held; }

    private:
        stripe* m_held;
    };

    [[nodiscard]] POOLED_NOINLINE stripe* lock_another() noexcept {
        for (unsigned attempt = 1;; ++attempt) {
            t_stripe = (t_stripe + 1) % k_stripes;
            if (m_stripes[t_stripe].try_lock()) return &m_stripes[t_stripe];
            if (attempt % k_stripes == 0) pooled::detail::platform::pause(attempt / k_stripes);
        }
    }

    // Requires the stripe's lock. Null when the user's allocator has no more.
    [[nodiscard]] POOLED_NOINLINE void* refill(stripe& s) {
        std::scoped_lock const lock(m_mutex);
        if (m_at_first_growth != nullptr && m_at_first_growth()) m_at_first_growth = nullptr;
        void* const p = m_store.allocate();
        s.size = static_cast<std::uint32_t>(m_store.take(s.chunks.data(), k_half));
        std::reverse(s.chunks.data(), s.chunks.data() + s.size);  // used in the store's order
        return p;
    }
    POOLED_NOINLINE void flush(stripe& s) noexcept {
        std::scoped_lock const lock(m_mutex);
        for (std::uint32_t i = 0; i < k_half; ++i)
            m_store.deallocate(s.chunks[i]);
        std::copy(s.chunks.data() + k_half, s.chunks.data() + k_most, s.chunks.data());
        s.size = k_most - k_half;
    }

    [[nodiscard]] void* allocate_last();

    std::array<stripe, k_stripes> m_stripes{};
    pooled::detail::raw_mutex m_mutex;  // held during a fork, and then not to be waited for by the library
    chunk_store m_store;
    bool (*m_at_first_growth)();  // false: to be tried again
};

// The user's allocator has no more, but other stripes may.
POOLED_NOINLINE inline void* striped_store::allocate_last() {
    return exclusively([](chunk_store& store) { return store.allocate(); });
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail
