// SPDX-License-Identifier: BSL-1.0
#pragma once

// singleton_pool: one pool for each set of template arguments, never destroyed.
//
// Any thread may call, whatever Mutex is, and no Mutex is locked. Only details::pool::null_mutex changes anything: one thread at a
// time uses the pool, and the locks are omitted. O(1) where chunk_store is.

#include "pooled/compat/boost_pool/chunk_store.hpp"
#include "pooled/compat/boost_pool/striped_store.hpp"
#include "pooled/compat/boost_pool/user_allocator.hpp"
#include "pooled/config.hpp"
#include "pooled/impl/os/platform.hpp"

#include <cstddef>
#include <mutex>
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
// The same macros as in Boost.
#if defined(BOOST_DISABLE_THREADS) || defined(BOOST_NO_MT) || defined(BOOST_POOL_NO_MT)
using default_mutex = null_mutex;
#else
using default_mutex = std::mutex;
#endif

// For programs that use it; nothing here does.
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
    static constexpr bool k_is_shared = !std::is_same_v<Mutex, details::pool::null_mutex>;

public:
    static void* allocate() { return s_store.allocate(); }
    static void deallocate(void* p) noexcept { s_store.deallocate(p); }
    static void* allocate_row(std::size_t n) {
        return n == 1 ? allocate() : use_all([n](chunk_store& store) { return store.allocate_row(n); });
    }
    static void deallocate_row(void* p, std::size_t n) noexcept {
        if (n == 1) return deallocate(p);
        use_all([p, n](chunk_store& store) { store.deallocate_row(p, n); });
    }
    static bool release_memory() {
        return use_all([](chunk_store& store) { return store.release_memory(); });
    }
    static bool purge_memory() {
        return use_all([](chunk_store& store) { return store.purge_memory(); });
    }
    static bool is_from(void const* p) {
        if constexpr (k_is_shared)
            return s_store.locked([p](chunk_store const& store) { return store.is_from(p); });
        else
            return s_store.is_from(p);
    }

private:
    template <class Use>
    static auto use_all(Use&& use) {
        if constexpr (k_is_shared)
            return s_store.exclusively(use);
        else
            return use(s_store);
    }

    using store = std::conditional_t<k_is_shared, striped_store, chunk_store>;

    static void lock() noexcept { s_store.lock(); }
    static void unlock() noexcept { s_store.unlock(); }
    static constexpr store make() noexcept {
        constexpr user_memory const& k_user = k_user_memory<UserAllocator>;
        if constexpr (k_is_shared)
            return store(k_user, Bytes, Align, NextSize, MaxSize,
                         [] { return pooled::detail::platform::at_fork(lock, unlock, unlock); });
        else
            return store(k_user, Bytes, Align, NextSize, MaxSize);
    }

    static inline constinit store s_store = make();
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
