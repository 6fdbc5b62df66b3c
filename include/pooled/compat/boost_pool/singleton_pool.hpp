// SPDX-License-Identifier: BSL-1.0
#pragma once

// singleton_pool: one pool for each set of template arguments, made at its first use and never destroyed.
//
// Thread-safe whatever Mutex is, and none is locked: only details::pool::null_mutex changes anything, which says that one
// thread at a time uses the pool, and saves some instructions. purge_memory() needs the pool for itself. O(1), but
// release_memory() and purge_memory().

#include "pooled/base/bits.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/compat/boost_pool/chunk_pool.hpp"
#include "pooled/config.hpp"
#include "pooled/pool/checks.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/pool.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>

namespace pooled::compat {

namespace details::pool {  // where Boost has them

struct null_mutex {
    null_mutex() = default;
    null_mutex(null_mutex const&) = delete;
    null_mutex& operator=(null_mutex const&) = delete;
    static void lock() noexcept {}
    static void unlock() noexcept {}
};
using default_mutex = std::mutex;

}  // namespace details::pool

namespace detail {

template <class Tag, unsigned RequestedSize, class UserAllocator, class Mutex, unsigned NextSize,
          unsigned MaxSize>
class POOLED_EXPORT singleton_chunks {
    using pool_type =
        std::conditional_t<std::is_same_v<Mutex, details::pool::null_mutex>, local_pool, pooled::pool>;
    using chunks = chunk_pool<UserAllocator, pool_type>;
    static constexpr pooled::detail::sharing k_sharing = pool_type::k_sharing;
    template <std::size_t Bytes, std::size_t Align>
    static constexpr pooled::detail::class_index k_class = pooled::detail::class_for(Bytes, Align);

public:
    // Null when the user's allocator has no more, or the system no memory for the pool's books.
    POOLED_NOINLINE static void* allocate(std::size_t bytes, std::size_t align) {
        chunks* const made = get();
        return made != nullptr ? made->allocate(bytes, align) : nullptr;
    }

    // Requires a result of allocate with the same arguments, and not null.
    POOLED_NOINLINE static void deallocate(void* p, std::size_t bytes, std::size_t align) noexcept {
        find()->deallocate(p, bytes, align);
    }

    // The same for a size known at compile time. acquire: pairs with the release in get; the core is seen constructed.
    template <std::size_t Bytes, std::size_t Align>
    [[nodiscard]] POOLED_ALWAYS_INLINE static void* allocate_one() {
        if constexpr (k_class<Bytes, Align> != pooled::detail::k_large)
            if (auto* const core = s_core.load(std::memory_order_acquire)) [[likely]]
                if (void* const p = pooled::detail::allocate_cached<k_sharing>(
                        pooled::detail::in_pool<k_sharing>(*core).cache(), k_class<Bytes, Align>))
                    [[likely]] {
                    pooled::detail::checks::on_allocate(p, k_class<Bytes, Align>, Bytes);
                    return p;
                }
        return allocate(Bytes, Align);
    }
    template <std::size_t Bytes, std::size_t Align>
    POOLED_ALWAYS_INLINE static void deallocate_one(void* p) noexcept {
        if constexpr (k_class<Bytes, Align> != pooled::detail::k_large)
            pooled::detail::deallocate(
                pooled::detail::in_pool<k_sharing>(*s_core.load(std::memory_order_acquire)),
                k_class<Bytes, Align>, p, Bytes);
        else
            deallocate(p, Bytes, Align);
    }

    // Null before the first allocation. acquire: pairs with the release in make; the pool is seen constructed.
    [[nodiscard]] static chunks* find() noexcept { return s_chunks.load(std::memory_order_acquire); }

private:
    // Whoever gets the pool here sees to it that its core is known before a block of it is. release: pairs with the
    // acquires above.
    [[nodiscard]] static chunks* get() {
        chunks* made = find();
        if (made == nullptr) made = make();
        if (made != nullptr && s_core.load(std::memory_order_relaxed) == nullptr)
            s_core.store(&made->core(), std::memory_order_release);
        return made;
    }

    // A race between first calls is settled without a lock, so that a fork meets none held. The pool is never destroyed,
    // and lies on the heap, where leak checkers find through it what it holds. acq_rel: pairs with the acquire in find, and
    // sees the pool of a thread that was faster.
    [[nodiscard]] static chunks* make() {
        try {
            auto made = std::make_unique<chunks>(RequestedSize, NextSize, MaxSize);
            chunks* winner = nullptr;
            if (s_chunks.compare_exchange_strong(winner, made.get(), std::memory_order_acq_rel))
                winner = made.release();
            return winner;
        } catch (std::bad_alloc const&) {
            return nullptr;
        }
    }

    static inline constinit std::atomic<chunks*> s_chunks{nullptr};
    static inline constinit std::atomic<pooled::detail::pool_core*> s_core{nullptr};  // its core: a load less
};

}  // namespace detail

template <class Tag, unsigned RequestedSize, class UserAllocator = default_user_allocator_new_delete,
          class Mutex = details::pool::default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0>
class singleton_pool {
    using chunks = detail::singleton_chunks<Tag, RequestedSize, UserAllocator, Mutex, NextSize, MaxSize>;
    static constexpr std::size_t k_align = detail::chunk_align(RequestedSize);

public:
    using tag = Tag;
    using mutex = Mutex;
    using user_allocator = UserAllocator;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;
    static constexpr unsigned requested_size = RequestedSize;
    static constexpr unsigned next_size = NextSize;

    singleton_pool() = delete;

    // A chunk, or `n` chunks in a row; null when there is no memory, and for n = 0. What comes in a row is given back in a
    // row. Whether it is ordered makes no difference here.
    static void* malloc() { return chunks::template allocate_one<RequestedSize, k_align>(); }
    static void* ordered_malloc() { return malloc(); }
    static void* ordered_malloc(size_type n) {
        if (n == 0) return nullptr;
        return chunks::allocate(pooled::detail::saturating_multiply(n, RequestedSize), k_align);
    }

    static void free(void* chunk) {
        if (chunk != nullptr) chunks::template deallocate_one<RequestedSize, k_align>(chunk);
    }
    static void ordered_free(void* chunk) { free(chunk); }
    static void free(void* p, size_type n) {
        if (p != nullptr) chunks::deallocate(p, std::size_t{n} * RequestedSize, k_align);
    }
    static void ordered_free(void* p, size_type n) { free(p, n); }

    // Whether `p` points into memory that this pool has made chunks of.
    static bool is_from(void* p) { return chunks::find() != nullptr && chunks::find()->is_from(p); }

    // Both return whether the user's allocator got memory back. purge_memory() takes the chunks in use along.
    static bool release_memory() { return chunks::find() != nullptr && chunks::find()->release_memory(); }
    static bool purge_memory() { return chunks::find() != nullptr && chunks::find()->purge_memory(); }
};

}  // namespace pooled::compat
