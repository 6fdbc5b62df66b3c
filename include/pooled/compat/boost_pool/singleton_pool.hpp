// SPDX-License-Identifier: BSL-1.0
#pragma once

// singleton_pool: one pool for each set of template arguments, never destroyed. Mutex is locked for each call, so any thread may call;
// details::pool::null_mutex does not lock, and one thread at a time uses the pool. A forked child may continue. O(1) where
// chunk_store is.

#include "pooled/compat/boost_pool/chunk_store.hpp"
#include "pooled/compat/boost_pool/user_allocator.hpp"
#include "pooled/config.hpp"
#include "pooled/detail/geometry.hpp"
#include "pooled/impl/os/platform.hpp"
#include "pooled/impl/os/raw_mutex.hpp"

#include <cstddef>
#include <new>
#include <type_traits>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat {

namespace details::pool {  // where Boost has them

struct null_mutex {
    null_mutex() = default;
    null_mutex(null_mutex const&) = delete;
    null_mutex& operator=(null_mutex const&) = delete;
    static void lock() noexcept {}
    static void unlock() noexcept {}
};
// Boost's macros.
#if defined(BOOST_DISABLE_THREADS) || defined(BOOST_NO_MT) || defined(BOOST_POOL_NO_MT)
using default_mutex = null_mutex;
#else
using default_mutex = pooled::detail::raw_mutex;
#endif

template <class Mutex>
class guard {
public:
    explicit guard(Mutex& mutex) : m_mutex(mutex) { m_mutex.lock(); }
    ~guard() { m_mutex.unlock(); }
    guard(guard const&) = delete;
    guard& operator=(guard const&) = delete;

private:
    Mutex& m_mutex;
};

}  // namespace details::pool

namespace detail {

// Align: that of the chunks. Types that need a larger one than others of their size have a pool of their own.
template <class Tag, std::size_t Bytes, std::size_t Align, class UserAllocator, class Mutex,
          std::size_t NextSize, std::size_t MaxSize>
class POOLED_EXPORT singleton_chunks {
public:
    static void* allocate() { return locked()->allocate(); }
    static void deallocate(void* p) noexcept { locked()->deallocate(p); }
    static void* allocate_row(std::size_t n) { return locked()->allocate_row(n); }
    static void deallocate_row(void* p, std::size_t n) noexcept { locked()->deallocate_row(p, n); }
    static bool release_memory() { return locked()->release_memory(); }
    static bool purge_memory() { return locked()->purge_memory(); }
    static bool is_from(void const* p) { return locked()->is_from(p); }

private:
    struct shared {
        Mutex mutex;
        chunk_store store{k_user_memory<UserAllocator>, Bytes, Align, NextSize, MaxSize};
    };
    // The store, and its mutex until the end of the expression.
    class locked {
    public:
        chunk_store* operator->() const noexcept { return &m_shared.store; }

    private:
        shared& m_shared = all();
        details::pool::guard<Mutex> m_guard{m_shared.mutex};
    };

    static shared& all() {
        static bool const is_made = make();
        static_cast<void>(is_made);
        static_cast<void>(&s_is_early);
        return *std::launder(reinterpret_cast<shared*>(s_memory));
    }
    // False without memory for the fork handlers; a fork is then as in Boost, which has none.
    POOLED_NOINLINE static bool make() {
        ::new (s_memory) shared;
        if constexpr (std::is_same_v<Mutex, details::pool::null_mutex>) return true;
        return pooled::detail::platform::at_fork([] { all().mutex.lock(); }, unlock, unlock);
    }
    static void unlock() { all().mutex.unlock(); }

    // The mutex and the first members of the store share a cache line.
    alignas(shared) alignas(
        pooled::detail::k_cache_line) static inline constinit std::byte s_memory[sizeof(shared)]{};
    // Before main(), as in Boost: a child that is forked while another thread makes the pool would wait for that for ever.
    static inline bool const s_is_early = (all(), true);
};

}  // namespace detail

template <class Tag, unsigned RequestedSize, class UserAllocator = default_user_allocator_new_delete,
          class Mutex = details::pool::default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0>
class singleton_pool {
    using chunks = detail::singleton_chunks<Tag, RequestedSize, detail::chunk_align(RequestedSize),
                                            UserAllocator, Mutex, NextSize, MaxSize>;

public:
    using tag = Tag;
    using mutex = Mutex;
    using user_allocator = UserAllocator;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;
    static constexpr unsigned requested_size = RequestedSize;
    static constexpr unsigned next_size = NextSize;

    singleton_pool() = delete;

    // A chunk, or contiguous chunks for `n` times the requested size; null when there is no memory, and for n = 0. Contiguous
    // chunks may be freed together or one by one. The ordered_ forms are the same as the others here.
    static void*(malloc)() { return chunks::allocate(); }
    static void* ordered_malloc() { return chunks::allocate(); }
    static void* ordered_malloc(size_type n) { return chunks::allocate_row(n); }

    static void(free)(void* chunk) { chunks::deallocate(chunk); }
    static void ordered_free(void* chunk) { chunks::deallocate(chunk); }
    static void(free)(void* p, size_type n) { chunks::deallocate_row(p, n); }
    static void ordered_free(void* p, size_type n) { chunks::deallocate_row(p, n); }

    // Whether `p` points into memory that this pool has made chunks of.
    static bool is_from(void* p) { return chunks::is_from(p); }

    // Both return whether any memory was returned to the user's allocator. purge_memory() also frees chunks in use.
    static bool release_memory() { return chunks::release_memory(); }
    static bool purge_memory() { return chunks::purge_memory(); }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat
