// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a pool is behind its handle: the central stocks, the chunks, the list of thread caches. It outlives the handle:
// a pool that is destroyed while blocks are out is closed, and its core is destroyed by whoever brings the last one home.
//
//   thread_cache ◀─ magazines ─▶ central[size class] ◀─ slabs ─ chunks ◀─ upstream
//
// Locks, in the order in which they may be waited for: m_mutex (chunks, caches, large allocations; the user's upstream is
// called under it, and may itself be a pool), the registry's, those of the size classes in ascending order, metadata's.
// Who holds the registry's lock and needs an m_mutex tries, and gives way.
//
// Invariants: each central's (see there); a closed core has no caches; remaining = blocks outside, once closed.
// Any thread may call unless said otherwise; a core with a local cache is for one thread at a time.

#include "pooled/base/error.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/cache/central.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/chunk.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/extension.hpp"
#include "pooled/pool/options.hpp"
#include "pooled/pool/stats.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <utility>

namespace pooled::detail {

// Which threads a pool serves.
enum class sharing : bool { local, shared };

// In front of an allocation that no size class serves.
struct alignas(k_cache_line) large_header {
    std::byte* base;  // what upstream gave
    std::size_t total;
    std::size_t align;
    std::size_t bytes;        // what was asked
    large_header* next;       // while it is free and reserved
    map_entry outer;          // what the address map said before: upstream may be a pool
    std::uintptr_t seal = 0;  // shows, in a checked build, that a payload in use begins behind it

    [[nodiscard]] static std::uintptr_t seal_of(void const* payload) noexcept {
        return ~address_of(payload) * 0x9e3779b97f4a7c15U;
    }
};

// Large blocks of one shape that are held ready.
struct large_reserve {
    std::size_t total;
    std::size_t align;
    std::size_t in_use = 0;  // that come back here
    large_header* free = nullptr;
    large_reserve* next = nullptr;
};

// Threads that want to fork, and need the locks of all pools at once.
POOLED_EXPORT inline constinit std::atomic<int> g_forks_pending{0};

// The first lock that an operation on a pool takes. It holds back for a moment, and only for a moment, while a fork is
// pending: the caller may itself hold the lock of a pool that this one is the upstream of.
class core_mutex : public pool_mutex {
public:
    using pool_mutex::pool_mutex;
    void lock() noexcept {
        if (g_forks_pending.load(std::memory_order_relaxed) != 0) [[unlikely]]
            platform::pause(platform::k_attempts_awake);
        pool_mutex::lock();
    }
};

class pool_core final : public std::pmr::memory_resource {
public:
    // For the registry, which knows the ids. Throws std::bad_alloc.
    [[nodiscard]] static pool_core& create(pool_options const& options, sharing kind, std::uint32_t id);

    // The handle goes. Blocks that are out keep the core alive; no one may allocate from it any more.
    void close() noexcept;

    [[nodiscard]] std::uint32_t id() const noexcept { return m_id; }
    [[nodiscard]] std::uint32_t slot() const noexcept { return m_slot; }
    [[nodiscard]] bool is_local() const noexcept { return m_kind == sharing::local; }
    [[nodiscard]] bool is_incremental() const noexcept { return m_teardown == teardown::incremental; }
    [[nodiscard]] bool is_immediate() const noexcept { return m_teardown == teardown::immediate; }
    [[nodiscard]] char const* name() const noexcept { return m_name.data(); }
    // Requires a local pool: its one cache lies right behind the core, one load less on the way to it.
    [[nodiscard]] thread_cache& local_cache() noexcept {
        return *std::launder(reinterpret_cast<thread_cache*>(this + 1));
    }

    // When the fast path found nothing. Null when the bound is reached; throws what upstream throws.
    [[nodiscard]] void* pop_slow(class_index c);
    void push_slow(class_index c, void* block) noexcept;

    // Beyond the largest size class. Null when the bound is reached; throws what upstream throws.
    [[nodiscard]] void* allocate_large(std::size_t bytes, std::size_t align);
    void deallocate_large(void* p) noexcept;

    // From here on `count` blocks of the class can be in use at once without a call to upstream. False when the bound
    // does not allow that.
    [[nodiscard]] bool reserve(class_index c, std::size_t count);
    [[nodiscard]] bool reserve_large(std::size_t bytes, std::size_t align, std::size_t count);

    // Returns the bytes given back to upstream.
    std::size_t trim() noexcept;

    [[nodiscard]] pool_stats stats();

    [[noreturn]] void throw_exhausted(std::size_t bytes) const;

    // Walks every structure, with all threads kept out; for tests.
    [[nodiscard]] bool is_valid();

    // For the layers above. All but the first three require lock().
    // acquire: pairs with the release in set_extension(); the extension is seen constructed.
    [[nodiscard]] pool_extension* extension() const noexcept {
        return m_extension.load(std::memory_order_acquire);
    }
    void set_extension(pool_extension* extension) noexcept;
    [[nodiscard]] bool set_extension_if_none(pool_extension& extension) noexcept;  // false: it has one
    [[nodiscard]] bool relieve(std::uint64_t& seen) noexcept {
        pool_extension* const e = extension();
        return e != nullptr && e->relieve(seen);
    }
    [[nodiscard]] core_mutex& lock() noexcept { return m_mutex; }
    // Keeps all threads out of their caches, those to come too, until it is undone; O(threads).
    void hold_caches() noexcept;
    void let_caches_go() noexcept;
    template <class Visit>
    void for_each_cache(Visit&& visit) noexcept;

private:
    friend class registry;

    template <std::size_t... Classes>
    pool_core(pool_options const& options, sharing kind, std::uint32_t id,
              std::index_sequence<Classes...>) noexcept;
    ~pool_core() override = default;
    pool_core(pool_core const&) = delete;
    pool_core& operator=(pool_core const&) = delete;

    void* do_allocate(std::size_t bytes, std::size_t align) override;
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override;
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

    // core_memory.hpp: all require m_mutex.
    struct grown {
        void* block = nullptr;     // found in another thread's cache
        bool is_at_bound = false;  // and none was found
    };
    [[nodiscard]] grown grow(class_index c, thread_cache* caller);
    [[nodiscard]] slab* take_slab(std::size_t block_bytes);
    [[nodiscard]] slab* take_free_slab(std::size_t block_bytes) noexcept;
    [[nodiscard]] chunk* new_chunk(std::size_t bytes, std::size_t slab_bytes);
    void put_slab(slab& s) noexcept;
    void reclaim_slabs() noexcept;
    enum class reservations : bool { forget, keep };
    void collect_and_reclaim(reservations what) noexcept;
    std::size_t release_free_chunks(std::uint64_t mark = 0) noexcept;
    void release_chunk(chunk& c) noexcept;
    [[nodiscard]] grown find_room(class_index c, thread_cache* caller);
    [[nodiscard]] slab* take_slab_after_reclaim(std::size_t block_bytes);
    void add_slab(class_index c, slab& s) noexcept;

    [[nodiscard]] bool refuse_reserve() const;
    void prepare_threads();

    // core_large.hpp: all require m_mutex.
    struct large_shape {
        std::size_t offset;
        std::size_t total;
        std::size_t align;
    };
    [[nodiscard]] large_shape shape_of_large(std::size_t bytes, std::size_t align) const;
    [[nodiscard]] void* new_large(large_shape shape);
    [[nodiscard]] static large_header& header_of(void* payload) noexcept;
    void give_back_large(large_header const& header) noexcept;
    [[nodiscard]] large_reserve* find_reserve(std::size_t total, std::size_t align) const noexcept;
    std::size_t release_large() noexcept;

    // core_caches.hpp: all require m_mutex.
    void stop_caches() noexcept;
    void resume_caches() noexcept;
    void collect_caches(class_index c) noexcept;
    template <class Visit>
    void for_each_other_gate(Visit&& visit) noexcept;
    [[nodiscard]] void* raid(class_index c, thread_cache* caller) noexcept;
    [[nodiscard]] void* pop_past(thread_cache* caller, class_index c) noexcept;
    [[nodiscard]] std::uint64_t held_in_caches(class_index c) const noexcept;
    [[nodiscard]] std::uint64_t in_use(class_index c) const noexcept;
    void link(thread_cache& cache) noexcept;
    void unlink(thread_cache& cache) noexcept;
    void retire(thread_cache& cache) noexcept;
    void lock_classes() noexcept;
    void unlock_classes() noexcept;

    [[nodiscard]] static constexpr std::size_t bytes_of(sharing kind) noexcept {
        return sizeof(pool_core) + (kind == sharing::local ? sizeof(thread_cache) : 0);
    }

    void came_home(std::int64_t count) noexcept;
    void destroy() noexcept;

    std::array<char, 48> m_name{};
    std::uint32_t m_id;
    std::uint32_t m_slot;
    sharing m_kind;
    teardown m_teardown;
    std::size_t m_slab_bytes;
    std::size_t m_chunk_bytes;

    core_mutex m_mutex;
    upstream m_upstream;
    chunk* m_chunks = nullptr;
    slab* m_free_slabs = nullptr;  // without a size class
    thread_cache* m_caches = nullptr;
    bool m_caches_held = false;
    std::atomic<pool_extension*> m_extension{nullptr};
    std::uint64_t m_chunks_made = 0;
    large_reserve* m_large_reserves = nullptr;
    std::uint64_t m_large_count = 0;
    std::uint64_t m_large_bytes = 0;
    bool m_large_closed = false;
    std::atomic<bool> m_closed{false};
    std::atomic<std::int64_t> m_remaining{0};

    std::array<central, k_class_count> m_central;
};

}  // namespace pooled::detail
