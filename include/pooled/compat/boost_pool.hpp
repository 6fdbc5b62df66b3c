// SPDX-License-Identifier: BSL-1.0
#pragma once

// Boost.Pool's public names in namespace pooled::compat, for programs written for it: change one include and one namespace.
// Boost itself is not needed.
//
//   std::list<int, pooled::compat::fast_pool_allocator<int>> numbers;
//   pooled::compat::object_pool<Order> orders;
//   using Buffers = pooled::compat::singleton_pool<struct BufferTag, 4096>;
//
//   default_user_allocator_new_delete, …_malloc_free                                             any thread
//   pool, object_pool, simple_segregated_storage                                                 one thread at a time
//   singleton_pool, pool_allocator, fast_pool_allocator                                          any thread
//
// Nothing here is [[nodiscard]]: programs written for Boost must compile as they are. docs/migration.md lists the differences.
// The interface is that of Boost.Pool, by Stephen Cleary and its later maintainers.

#include "pooled/compat/boost_pool/pool.hpp"
#include "pooled/config.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/os/platform.hpp"
#include "pooled/impl/os/raw_mutex.hpp"

#include <cstddef>
#include <functional>
#include <limits>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat {

// Objects that are destroyed at the latest with their pool.
template <class T, class UserAllocator = default_user_allocator_new_delete>
class object_pool : pool<UserAllocator> {
    using chunks = pool<UserAllocator>;

public:
    using element_type = T;
    using user_allocator = UserAllocator;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;

    // How many objects to ask the user's allocator for, at first and at most (0: no limit).
    explicit object_pool(size_type next_size = 32, size_type max_size = 0)
        : chunks(sizeof(T), next_size, max_size, details::chunk_align_of<T>()) {}

    // Destroys the objects in use, highest address first: if nothing was freed, from newest to oldest. A destructor may destroy
    // objects that are not destroyed yet.
    ~object_pool() {
        if constexpr (!std::is_trivially_destructible_v<T>)
            this->for_each_in_use([](void* chunk) { static_cast<T*>(chunk)->~T(); });
    }

    // Memory for an object. The caller must construct the object or call free() before the pool is destroyed. Null when there is no
    // memory.
    T*(malloc)() { return static_cast<T*>((this->chunks::malloc)()); }

    // Requires a result of malloc() without an object; null is ignored.
    void(free)(T* memory) { (this->chunks::free)(memory); }

    // An object; null when there is no memory. Throws what the constructor throws, the pool is then as before.
    template <class... Args>
    T* construct(Args&&... args) {
        T* const memory = (this->malloc)();
        if (memory == nullptr) return nullptr;
        try {
            return ::new (static_cast<void*>(memory)) T(std::forward<Args>(args)...);
        } catch (...) {
            (this->free)(memory);
            throw;
        }
    }

    // Null is ignored.
    void destroy(T* object) {
        if (object == nullptr) return;
        object->~T();
        (this->free)(object);
    }

    using chunks::get_next_size;
    using chunks::is_from;
    using chunks::set_next_size;
};

namespace details::pool {  // where Boost has them

struct null_mutex {
    static void lock() noexcept {}
    static void unlock() noexcept {}
};
// Boost's macros.
#if defined(BOOST_DISABLE_THREADS) || defined(BOOST_NO_MT) || defined(BOOST_POOL_NO_MT)
using default_mutex = null_mutex;
#else
using default_mutex = detail::raw_mutex;
#endif

template <class Mutex>
using guard = std::lock_guard<Mutex>;

}  // namespace details::pool

// One pool for each set of template arguments, never destroyed. Mutex is locked for each call, so any thread may call;
// details::pool::null_mutex does not lock, and one thread at a time uses the pool. A forked child may continue. O(1) where pool is.
// `Align`: types that need a larger one than others of their size have a pool of their own.
template <class Tag, unsigned RequestedSize, class UserAllocator = default_user_allocator_new_delete,
          class Mutex = details::pool::default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0,
          std::size_t Align = details::chunk_align(RequestedSize)>
class POOLED_EXPORT singleton_pool {
public:
    using tag = Tag;
    using mutex = Mutex;
    using user_allocator = UserAllocator;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;
    static constexpr unsigned requested_size = RequestedSize;
    static constexpr unsigned next_size = NextSize;

    singleton_pool() = delete;

    // As those of pool.
    static void*(malloc)() { return (locked()->malloc)(); }
    static void* ordered_malloc() { return (locked()->malloc)(); }
    static void* ordered_malloc(size_type n) { return locked()->ordered_malloc(n); }
    static void(free)(void* chunk) { (locked()->free)(chunk); }
    static void ordered_free(void* chunk) { (locked()->free)(chunk); }
    static void(free)(void* chunks, size_type n) { (locked()->free)(chunks, n); }
    static void ordered_free(void* chunks, size_type n) { (locked()->free)(chunks, n); }
    static bool is_from(void* p) { return locked()->is_from(p); }
    static bool release_memory() { return locked()->release_memory(); }
    static bool purge_memory() { return locked()->purge_memory(); }

private:
    struct shared {
        Mutex mutex;
        compat::pool<UserAllocator> pool{RequestedSize, NextSize, MaxSize, Align};
    };
    // The pool, and its mutex until the end of the expression.
    class locked {
    public:
        compat::pool<UserAllocator>* operator->() const noexcept { return &m_shared.pool; }

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
        return detail::platform::at_fork([] { all().mutex.lock(); }, unlock, unlock);
    }
    static void unlock() { all().mutex.unlock(); }

    // The mutex and the first members of the pool share a cache line.
    alignas(shared) alignas(
        detail::k_cache_line) static inline constinit std::byte s_memory[sizeof(shared)]{};
    // Before main(), as in Boost: a child that is forked while another thread makes the pool would wait for that for ever.
    static inline bool const s_is_early = (all(), true);
};

namespace details {

// Stateless and always equal. T may be incomplete until a member is used, and void for rebinding.
template <class T, class Tag, class UserAllocator, class Mutex, unsigned NextSize, unsigned MaxSize>
class singleton_allocator {
public:
    using value_type = T;
    using user_allocator = UserAllocator;
    using mutex = Mutex;
    using pointer = T*;
    using const_pointer = T const*;
    using reference = std::add_lvalue_reference_t<T>;
    using const_reference = std::add_lvalue_reference_t<T const>;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    static constexpr unsigned next_size = NextSize;
    template <class Other>
    struct rebind {
        using other = singleton_allocator<Other, Tag, UserAllocator, Mutex, NextSize, MaxSize>;
    };

    constexpr singleton_allocator() noexcept = default;
    template <class Other>
    constexpr singleton_allocator(  // NOLINT: allocators convert
        singleton_allocator<Other, Tag, UserAllocator, Mutex, NextSize, MaxSize> const&) noexcept {}

    template <class Other>
    [[nodiscard]] friend constexpr bool
    operator==(singleton_allocator const&,
               singleton_allocator<Other, Tag, UserAllocator, Mutex, NextSize, MaxSize> const&) noexcept {
        return true;
    }

    template <class Other>
    static Other* address(Other& object) {
        return &object;
    }
    static size_type max_size() { return (std::numeric_limits<size_type>::max)(); }

    template <class Other, class... Args>
    static void construct(Other* where, Args&&... args) {
        ::new (static_cast<void*>(where)) Other(std::forward<Args>(args)...);
    }
    template <class Other>
    static void destroy(Other* object) {
        object->~Other();
    }

    // Memory for n objects; n may be 0. Throws std::bad_array_new_length if they exceed the address space, else std::bad_alloc.
    static T* allocate(size_type n = 1) {
        if (n > detail::k_size_max / sizeof(T)) throw std::bad_array_new_length();
        void* const p = n > 1 ? chunks<>::ordered_malloc(n) : (chunks<>::malloc)();
        if (p == nullptr) [[unlikely]]
            throw std::bad_alloc();
        return static_cast<T*>(p);
    }
    static T* allocate(size_type n, void const*) { return allocate(n); }

    // Requires a result of allocate with the same n.
    static void deallocate(T* p, size_type n = 1) noexcept {
        n > 1 ? (chunks<>::free)(p, n) : (chunks<>::free)(p);
    }

private:
    // A template, so that a class with an allocator of itself as a member can be written.
    template <class Other = T>
    using chunks =
        singleton_pool<Tag, sizeof(Other), UserAllocator, Mutex, NextSize, MaxSize, chunk_align_of<Other>()>;
};

}  // namespace details

// For containers and std::allocate_shared, on the singleton_pool of their tag and of T's size, and as thread-safe as that. The two
// differ only in their pools.
struct pool_allocator_tag {};
template <class T, class UserAllocator = default_user_allocator_new_delete,
          class Mutex = details::pool::default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0>
using pool_allocator =
    details::singleton_allocator<T, pool_allocator_tag, UserAllocator, Mutex, NextSize, MaxSize>;

struct fast_pool_allocator_tag {};
template <class T, class UserAllocator = default_user_allocator_new_delete,
          class Mutex = details::pool::default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0>
using fast_pool_allocator =
    details::singleton_allocator<T, fast_pool_allocator_tag, UserAllocator, Mutex, NextSize, MaxSize>;

// A list of free chunks in memory that the caller provides. As in Boost, each free chunk contains the address of the next one, so
// this class, unlike all others of the library, writes to free chunks and reads them. A list is ordered if the addresses ascend; the
// ordered_ functions keep it so. `chunk_bytes` is a multiple of sizeof(void*), and blocks are aligned for a pointer. O(1), but:
// segregate, add_block and free_n O(chunks of the block); the ordered_ functions also, and malloc_n, O(free chunks).
template <class SizeType = std::size_t>
class simple_segregated_storage {
public:
    using size_type = SizeType;

    simple_segregated_storage() = default;
    simple_segregated_storage(simple_segregated_storage const&) = delete;
    simple_segregated_storage& operator=(simple_segregated_storage const&) = delete;

    // Links the chunks of a block of `bytes`, the last one to `end`; a rest that is no whole chunk stays unused. Returns the block.
    // Requires bytes >= chunk_bytes.
    static void* segregate(void* block, size_type bytes, size_type chunk_bytes, void* end = nullptr) {
        for (size_type i = bytes / chunk_bytes; i-- != 0;) {
            void* const chunk = static_cast<std::byte*>(block) + i * chunk_bytes;
            nextof(chunk) = end;
            end = chunk;
        }
        return end;
    }

    // The block's chunks are used next; or each at its place in the order. The same is required as for segregate.
    void add_block(void* block, size_type bytes, size_type chunk_bytes) {
        first = segregate(block, bytes, chunk_bytes, first);
    }
    void add_ordered_block(void* block, size_type bytes, size_type chunk_bytes) {
        void*& link = link_to(block);
        link = segregate(block, bytes, chunk_bytes, link);
    }

    bool empty() const { return first == nullptr; }

    // Requires that the list is not empty.
    void*(malloc)() {
        void* const chunk = first;
        first = nextof(chunk);
        return chunk;
    }
    void(free)(void* chunk) {
        nextof(chunk) = first;
        first = chunk;
    }
    void ordered_free(void* chunk) {
        void*& link = link_to(chunk);
        nextof(chunk) = link;
        link = chunk;
    }

    // The first `n` chunks of the list that follow each other in it as in memory; null if there are none, and for n = 0.
    void* malloc_n(size_type n, size_type chunk_bytes) {
        if (n == 0) return nullptr;
        for (void** link = &first; *link != nullptr;) {
            void* const row = *link;
            void* last = row;
            size_type found = 1;
            for (; found != n && nextof(last) == static_cast<std::byte*>(last) + chunk_bytes; ++found)
                last = nextof(last);
            if (found == n) {
                *link = nextof(last);
                return row;
            }
            link = &nextof(last);
        }
        return nullptr;
    }
    // Nothing for n = 0.
    void free_n(void* chunks, size_type n, size_type chunk_bytes) {
        if (n != 0) add_block(chunks, n * chunk_bytes, chunk_bytes);
    }
    void ordered_free_n(void* chunks, size_type n, size_type chunk_bytes) {
        if (n != 0) add_ordered_block(chunks, n * chunk_bytes, chunk_bytes);
    }

protected:
    // Of the free chunks that are before `p` in an ordered list, the last; null if there is none.
    void* find_prev(void* p) {
        void* before = nullptr;
        for (void* at = first; at != nullptr && !std::greater<void*>()(at, p); at = nextof(at))
            before = at;
        return before;
    }
    static void*& nextof(void* chunk) { return *static_cast<void**>(chunk); }

    void* first = nullptr;  // of the list; null if that is empty. The name is Boost's

private:
    void*& link_to(void* p) {
        void* const before = find_prev(p);
        return before != nullptr ? nextof(before) : first;
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat
