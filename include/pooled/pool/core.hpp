// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of a pool that outlives its handle: a pool that is destroyed while blocks are in use is closed, and its core is
// destroyed when the last of them is returned.
//
// The slow operations are virtual, as the copy of the library that made a core serves it: pool/concrete_core.hpp.
//
//   pool_core ─ thread_cache of a local pool ─ pool_memory      one block of the metadata arena
//
// Invariant: a closed core has no caches.
// Any thread may call; a core with a local cache is for one thread at a time.

#include "pooled/cache/thread_cache.hpp"
#include "pooled/options.hpp"
#include "pooled/stats.hpp"
#if POOLED_HAS_CODE
#include "pooled/pool/memory.hpp"
#endif

POOLED_BEGIN_DETAIL

// Which threads a pool serves.
enum class sharing : bool { local, shared };

class registry;
class cache_set;
class pool_memory;

// An addition of a higher layer to one pool, which does not own it: the idle objects of an object_pool, or the deferred objects of an
// incremental pool. A pool has at most one. Called under no lock, unless noted.
class pool_extension {
public:
    // Called at each allocation from an incremental pool, and at each slow allocation from other pools.
    virtual void on_allocate() noexcept {}
    // Destroys up to `budget` deferred objects, whichever thread dropped them. Returns their number.
    virtual std::size_t drain(std::size_t /*budget*/) noexcept { return 0; }
    // A list of all deferred objects, whichever thread dropped them; null when there are none. The caller then owns it.
    [[nodiscard]] virtual deferred_queue* take_deferred() noexcept { return nullptr; }
    // Called when an allocation found no free block: destroys some deferred objects, or waits for those that other threads are
    // destroying. False when none was destroyed since the last call with the same `seen`, and none is left.
    virtual bool relieve(std::uint64_t& /*seen*/) noexcept { return false; }
    // Called before the pool's handle is destroyed: afterwards, no thread allocates from the pool.
    virtual void on_close() noexcept {}
    // The last call: no block is in use, and no thread can reach the pool any more.
    virtual void on_destroy() noexcept {}
    // Called when the cache's owner has ended, or does not exist in this process: takes what the extension keeps in the cache.
    // The lock of the caches is held.
    virtual void on_retire(thread_cache& /*cache*/) noexcept {}
    // Called in a forked child, where only the thread that forked exists; no other was in a critical section or inside its cache.
    virtual void after_fork_in_child() noexcept {}
    // Called there before it, if other threads may have been in the midst of anything: forgets all that they may have been changing.
    virtual void begin_anew() noexcept {}

protected:
    // `description`: where its parts are, for another program: one of those in inspect/record.hpp.
    explicit pool_extension(void const* description) noexcept : m_description(description) {}
    ~pool_extension() = default;
    pool_extension& operator=(pool_extension&&) = delete;

private:
    friend record_access;
    [[maybe_unused]] void const* m_description;
};

class [[gnu::visibility("default")]] alignas(thread_cache) pool_core : public std::pmr::memory_resource {
public:
    // Throws std::bad_alloc, and std::invalid_argument for options that make no sense.
    [[nodiscard]] static pool_core& create(pool_options options, sharing kind, std::uint32_t id,
                                           registry& made_by);

    // A block from the calling thread's cache or, if that has none, from the pool's memory. The class is that of class_for(). Null when the
    // bound is reached; throws what upstream throws.
    [[nodiscard]] virtual void* allocate_block(block_request const& what) = 0;
    // What that gave. `bytes`: the size with which it was allocated, or 0: not known.
    virtual void deallocate_block(class_index c, void* p, std::size_t bytes) noexcept = 0;
    // A block that the caller has verified, of an inlined class.
    virtual void deallocate_verified(class_index c, void* block) noexcept = 0;
    // A block that no thread's cache takes, of the class that its slab has. `cache`: the calling thread's, or null.
    virtual void deallocate_past_cache(class_index c, void* block, thread_cache* cache) noexcept = 0;
    // `count` objects of one type, each of them a block of class `a.c` or `b`, which are those of any_class_for(). False when the bound does
    // not allow it; throws what upstream throws.
    [[nodiscard]] virtual bool reserve(block_request a, class_index b, std::size_t count) = 0;
    virtual std::size_t trim() noexcept = 0;
    [[nodiscard]] virtual bool owns(void const* p) const noexcept = 0;
    [[nodiscard]] virtual pool_stats stats() = 0;
    // Checks every structure, with other threads kept out.
    [[nodiscard]] virtual bool is_valid() = 0;
    // Does what that of upstream does.
    [[nodiscard]] virtual bool may_give(std::size_t bytes) const = 0;
    [[noreturn]] virtual void throw_exhausted(std::size_t bytes) const = 0;
    // False when the pool has another extension than `old`. Takes the lock of the caches, so that it does not change during a fork.
    virtual bool exchange_extension(pool_extension* old, pool_extension* one) noexcept = 0;
    // The pool's handle is destroyed: no thread allocates from it any more. Destroys the core if no block is in use.
    virtual void close() noexcept = 0;
    // Returns all memory to upstream, also that of blocks in use.
    virtual void discard() noexcept = 0;

    [[nodiscard]] registry& made_by() const noexcept { return m_made_by; }
    [[nodiscard]] std::uint32_t id() const noexcept { return m_id; }
    [[nodiscard]] std::uint32_t slot() const noexcept { return m_slot; }
    [[nodiscard]] bool is_local() const noexcept { return m_kind == sharing::local; }
    [[nodiscard]] bool is_incremental() const noexcept { return m_teardown == pooled::teardown::incremental; }
    [[nodiscard]] bool is_immediate() const noexcept { return m_teardown == pooled::teardown::immediate; }
    [[nodiscard]] char const* name() const noexcept { return m_name.data(); }
    [[nodiscard]] exhaustion_hook const& on_exhausted() const noexcept { return m_on_exhausted; }
    [[nodiscard]] pool_memory& memory() const noexcept { return m_memory; }
    // A hint, except for a thread that holds the lock of the caches.
    [[nodiscard]] bool is_closed() const noexcept { return m_is_closed.load(std::memory_order_relaxed); }
    // Requires a local pool: its one cache lies right after the core, one load less on the way to it.
    [[nodiscard]] thread_cache& local_cache() noexcept {
        return *std::launder(
            reinterpret_cast<thread_cache*>(reinterpret_cast<std::byte*>(this) + sizeof(pool_core)));
    }
    // acquire: pairs with the release in exchange_extension(); the constructed extension is seen.
    [[nodiscard]] pool_extension* extension() const noexcept {
        return m_extension.load(std::memory_order_acquire);
    }

#if POOLED_HAS_CODE
    [[nodiscard]] cache_set& caches() noexcept { return m_memory.caches(); }

    // Called when the owner of the cache has ended, or does not exist in this process. Requires the lock of the caches. False: as there.
    bool retire(thread_cache& cache) noexcept {
        bool const is_retired = caches().retire(cache);
        if (pool_extension* const above = is_retired ? extension() : nullptr) above->on_retire(cache);
        return is_retired;
    }

protected:
    // Not declared for a user of the compiled library: GCC would describe the class in its debug information, 35 KB.
    pool_core(pool_options const& options, sharing kind, std::uint32_t id, registry& made_by,
              pool_memory& memory) noexcept
        : m_made_by(made_by),
          m_id(id),
          m_slot(near_slot(id)),
          m_kind(kind),
          m_teardown(options.teardown),
          m_on_exhausted(options.on_exhausted),
          m_memory(memory) {
        std::size_t length = detail::smaller(options.name.size(), sizeof(m_name) - 1);
        // Does not cut within a character, whose further bytes are 10xxxxxx in UTF-8.
        if (length < options.name.size())
            while (length != 0 && (static_cast<unsigned char>(options.name[length]) & 0xc0) == 0x80)
                --length;
        options.name.copy(m_name.data(), length);
    }
#endif

protected:
    ~pool_core() override = default;
    pool_core(pool_core const&) = delete;  // declared for a compiler that sees no other constructor
    pool_core& operator=(pool_core const&) = delete;

    // A local pool's cache lies right after its core.
    [[nodiscard]] static constexpr std::size_t memory_at(sharing kind) noexcept {
        return sizeof(pool_core) + (kind == sharing::local ? sizeof(thread_cache) : 0);
    }

private:
    friend class concrete_core;
    friend record_access;
    registry& m_made_by;
    std::uint32_t m_id;
    std::uint32_t m_slot;
    sharing m_kind;
    pooled::teardown m_teardown;
    std_atomics::atomic<bool> m_is_closed{false};
    std_atomics::atomic<pool_extension*> m_extension{nullptr};
    std::array<char, 48> m_name{};
    exhaustion_hook m_on_exhausted;
    pool_memory& m_memory;  // after the core and the local cache
};

// What the teardown layer sets before it defers an object for the first time. The first is called when a pool has no free block, before
// it reports exhaustion: it destroys some deferred objects, and is false when there are none; `seen` is as in relieve(), at first all
// ones. The second is called at exit(), after the static objects that are younger than the first pool were destroyed.
POOLED_STATE(atomic<bool (*)(pool_core& core, std::uint64_t& seen) noexcept>, g_pressure_hook, {nullptr});
POOLED_STATE(atomic<void (*)() noexcept>, g_exit_hook, {nullptr});
POOLED_STATE(atomic<void (*)() noexcept>, g_anew_hook, {nullptr});  // as pool_extension::begin_anew()

[[nodiscard]] inline bool destroy_some_deferred(pool_core& core, std::uint64_t& seen) noexcept {
    auto* const hook =
        g_pressure_hook.load(std::memory_order_acquire);  // pairs with the release in install_hooks()
    return hook != nullptr && hook(core, seen);
}

POOLED_END_DETAIL
