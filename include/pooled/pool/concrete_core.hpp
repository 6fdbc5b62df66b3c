// SPDX-License-Identifier: BSL-1.0
#pragma once

// The slow operations of a core, in the copy of the library that made it, whoever calls. The instruments see each block here, as it is
// given to a caller and as it returns: but for the hardened build, the inlined code of a build with an instrument finds no cache.
//
// A source that makes no pool contains none of this. Any thread may call. O(1), besides what the pool's memory takes.

#include "pooled/config.hpp"

#if POOLED_HAS_CODE
#include "pooled/cache/cache_set.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/error.hpp"
#include "pooled/heap/checked_memory.hpp"
#include "pooled/heap/misuse.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/inspect/own_record.hpp"
#include "pooled/instrument/checked.hpp"
#include "pooled/instrument/hardened.hpp"
#include "pooled/instrument/malloc_backed.hpp"
#include "pooled/options.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/plugins/copies.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/memory.hpp"
#include "pooled/pool/registry.hpp"
#include "pooled/stats.hpp"

#include <stdexcept>

POOLED_BEGIN_DETAIL

inline constexpr char const* k_bad_alignment =
    "pooled: bad request for memory: the alignment is not a power of two; pass alignof(T)";

// Whether a hook is running on this thread. It may allocate, and is not called again for these allocations.
POOLED_THREAD_STATE(bool, t_in_exhaustion_hook, {false});

// Hidden: each executable and shared library that makes pools has a table of functions of its own.
class POOLED_HIDDEN concrete_core final : public pool_core {
public:
    using pool_core::pool_core;

    [[nodiscard]] void* allocate_block(block_request const& asked) override {
        if (asked.c == k_large) POOLED_CHECK(is_power_of_two(asked.align), k_bad_alignment);
        if (pool_extension* const above = extension()) [[unlikely]]
            above->on_allocate();
        block_request what(asked.c, saturating_add(asked.bytes, k_guard_bytes), asked.align);
        if (what.c == k_large) what.c = large_class_for(what.bytes, what.align);
        void* block = what.c != k_exact ? pop_cached(what.c) : nullptr;
        if (block == nullptr) block = allocate_past_cache(what);
        if constexpr (k_has_instrument) return give(asked, block);
        return block;
    }
    void deallocate_block(class_index c, void* p, std::size_t bytes) noexcept override {
        void* const block = malloc_blocks::exchange_back(*this, c, p, bytes);
        checks::on_deallocate(*this, c, block, bytes);
        if constexpr (k_hardened) hardened::on_deallocate(id(), c, block);
        take_back(c, block);
    }
    void deallocate_verified(class_index c, void* block) noexcept override {
        if (!push_cached(c, block)) deallocate_past_cache(c, block, own_cache());
    }

    // Out of line, so deallocate_verified() saves no registers for it.
    POOLED_NOINLINE void deallocate_past_cache(class_index c, void* block,
                                               thread_cache* cache) noexcept override {
        if (memory().deallocate(c, cache, block)) destroy();
    }

    [[nodiscard]] bool reserve(block_request a, class_index b, std::size_t count) override {
        POOLED_CHECK(is_power_of_two(a.align), k_bad_alignment);
        // The calling thread's cache, and memory for those of threads that use the pool later, so that they make no system call.
        if (own_cache() != nullptr) {
            caches().reserve_arrays(a.c);
            caches().reserve_arrays(b);
        }
        a.bytes = saturating_add(a.bytes, k_guard_bytes);
        return memory().reserve(a, b, count);
    }
    std::size_t trim() noexcept override { return memory().trim(); }
    [[nodiscard]] bool owns(void const* p) const noexcept override {
        map_entry const entry = malloc_blocks::find(p);
        return !entry.empty() && entry.pool_id() == id();
    }
    [[nodiscard]] pool_stats stats() override {
        pool_stats sum;
        sum.name = name();
        memory().fill(sum);
        return sum;
    }
    [[nodiscard]] bool is_valid() override { return memory().is_valid(); }
    [[nodiscard]] bool may_give(std::size_t bytes) const override { return memory().from().may_give(bytes); }
    [[noreturn]] void throw_exhausted(std::size_t bytes) const override {
        upstream const& from = memory().from();
        // Without exceptions, upstream's refusal is null.
        if (!from.is_bounded()) POOLED_THROW(not_enough_memory(bytes, name()));
        POOLED_THROW(exhausted(name(), bytes, from.used(), from.max_bytes()));
    }
    bool exchange_extension(pool_extension* old, pool_extension* one) noexcept override {
        scoped_lock const lock(caches());
        if (extension() != old) return false;
        g_fork_gate.order();  // a child finds it complete, or not at all
        m_extension.store(one, std::memory_order_release);
        g_fork_gate.order();
        return true;
    }
    void close() noexcept override {
        {
            scoped_lock const lock(caches());
            m_is_closed.store(true, std::memory_order_relaxed);
            caches().hold();
        }
        closing result = closing::must_wait;
        for (unsigned turn = 0; (result = try_close()) == closing::must_wait; ++turn)
            platform::pause(turn);
        if (result == closing::was_last) destroy();
        g_registry.free_closed_caches();  // the calling thread's cache was one of them
    }

    void discard() noexcept override { memory().discard(); }

    static constexpr bool k_has_instrument = POOLED_CHECKED != 0 || POOLED_SANITIZE != 0 || k_hardened;
    // What the caller gets for a request that the block serves: in the malloc-backed build another one or, if malloc has no memory, an
    // exception. Null stays null.
    [[nodiscard]] void* give(block_request const& asked, void* block) {
        if (block == nullptr) return nullptr;
        if constexpr (k_hardened) asked.c == k_large ? free_mark::take_off(block) : hardened::claim(block);
        void* const given = malloc_blocks::give(*this, block, asked.bytes, asked.align);
        if (given == nullptr) [[unlikely]] {
            take_back(asked.c, block);
            POOLED_THROW_OR(std::bad_alloc(), nullptr);
        }
        checks::on_allocate(*this, block, asked.bytes);
        return given;
    }

private:
    // Under the lock of the caches, so that no thread that returns the last block destroys the core. Must wait: an owner is inside its cache,
    // another thread has a lock that is needed and does not run, or the background thread works on the pool.
    enum class closing : unsigned char { must_wait, is_done, was_last };
    [[nodiscard]] closing try_close() noexcept {
        if (!g_registry.end_work(id()) || !caches().try_lock_for_a_moment()) return closing::must_wait;
        bool is_closed = caches().stop() && caches().leave_bound();
        if (is_closed) caches().set_closing(true);
        is_closed = is_closed && caches().are_all_outside() && caches().settle() && memory().close();
        caches().set_closing(false);
        bool const is_last = is_closed && memory().drop_references();
        caches().unlock();
        return !is_closed ? closing::must_wait : is_last ? closing::was_last : closing::is_done;
    }

    // No thread can reach the core any more. It leaves the page map before a new pool can have its id.
    void destroy() noexcept {
        std::uint32_t const id = this->id();
        g_registry.forget(id);
        if (pool_extension* const above = extension()) above->on_destroy();
        if (is_local()) local_cache().release();
        memory().~pool_memory();
        span<std::byte> const rest(reinterpret_cast<std::byte*>(this) + memory_at(m_kind),
                                   sizeof(pool_memory));
        if (auto* const gone = static_cast<concrete_core*>(g_dead_cores.exchange(this, rest))) {
            std::size_t const bytes = memory_at(gone->m_kind) + sizeof(pool_memory);
            gone->~concrete_core();
            checked_memory::forget(reinterpret_cast<std::byte*>(gone), k_min_block_bytes);
            g_metadata.deallocate(gone, bytes);
        }
        detail::directory().release_pool_id(id);
    }

    // The calling thread's cache, which is made if it has none; null if it can have none.
    [[nodiscard]] thread_cache* own_cache() noexcept {
        thread_cache* const mine = find_cache();
        bool const is_ready = mine != nullptr && mine->gate.is_open() && t_state().is_settled();
        return is_ready || is_local() ? mine : g_registry.attach(*this);
    }
    // The calling thread's cache if it has one, otherwise null.
    [[nodiscard]] thread_cache* find_cache() noexcept {
        return is_local()             ? &local_cache()
               : slot() != k_far_slot ? t_state().near_caches[slot()]
                                      : t_state().find(id());
    }

    // The block of a request of class `c`, perhaps k_large, that returns.
    void take_back(class_index c, void* block) noexcept {
        if (c == k_large) c = class_of_large(block);
        if (c != k_exact)
            deallocate_verified(c, block);
        else
            deallocate_past_cache(c, block, find_cache());
    }
    // The class of a large block that returns. Reports an address where none of this pool starts.
    [[nodiscard]] class_index class_of_large(void const* p) const noexcept {
        map_entry const entry = g_page_map.find(p);
        slab* const s = !entry.empty() && entry.pool_id() == id() ? entry.slab_at() : nullptr;
        if (s == nullptr || !s->is_large_block(p)) [[unlikely]]
            fail_deallocation(name(), p, k_no_large_block);
        if (s->is_zero()) s->set_zero(false);  // another thread may read the record
        return s->size_class;
    }

    // For large blocks, in pools beyond the near slots, and for other copies, whose inlined code finds no cache of this pool.
    [[nodiscard]] void* pop_cached(class_index c) noexcept {
        far_pass const pass(id());
        thread_cache* const cache = find_cache();
        if (!pass || cache == nullptr || !cache->gate.enter()) return nullptr;
        void* const block = cache->pop(c);
        cache->gate.leave();
        return block;
    }
    [[nodiscard]] bool push_cached(class_index c, void* block) noexcept {
        far_pass const pass(id());
        thread_cache* const cache = find_cache();
        if (!pass || cache == nullptr || !cache->gate.enter()) return false;
        bool const is_free = c >= k_first_large && cache->classes[c].is_hot(block);
        bool const is_pushed = cache->push(c, block);
        cache->gate.leave();
        if (is_free) [[unlikely]]
            fail_deallocation(name(), block, k_no_large_block);
        return is_pushed;
    }

    // Out of line, so the caller needs no stack frame for it.
    [[nodiscard]] POOLED_NOINLINE void* allocate_past_cache(block_request const& what) {
        std::size_t const bytes = what.c < k_first_large ? what.block_bytes() : what.bytes;
        std::uint64_t seen = ~std::uint64_t{0};
        bool may_ask = on_exhausted().call != nullptr && !t_in_exhaustion_hook();
        auto const find_more = [&] {
            if (detail::destroy_some_deferred(*this, seen)) return true;
            if (!std::exchange(may_ask, false)) return false;
            t_in_exhaustion_hook() = true;
            on_exhausted().call(bytes, on_exhausted().context);
            t_in_exhaustion_hook() = false;
            return true;
        };
        return detail::allocate_with_relief([&] { return memory().allocate(what, own_cache()); }, find_more);
    }

    void* do_allocate(std::size_t bytes, std::size_t align) override {
        return is_local() ? detail::allocate_bytes_or_throw(in_pool<sharing::local>(*this), bytes, align)
                          : detail::allocate_bytes_or_throw(in_pool<sharing::shared>(*this), bytes, align);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        checks::on_return(*this, p);
        if (is_local())
            detail::deallocate_bytes(in_pool<sharing::local>(*this), p, bytes, align);
        else
            detail::deallocate_bytes(in_pool<sharing::shared>(*this), p, bytes, align);
    }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }
};
static_assert(sizeof(concrete_core) == sizeof(pool_core), "a local pool's cache lies right after it");
static_assert(alignof(pool_memory) <= alignof(thread_cache), "it follows a core or a local pool's cache");

inline pool_core& pool_core::create(pool_options options, sharing kind, std::uint32_t id, registry& made_by) {
    constexpr std::size_t k_max_chunk_bytes = std::size_t{1} << 40;
    POOLED_CHECK(
        &made_by == &g_registry,
        "pooled: a shared library runs the functions of another one with its own state; link the other one "
        "without -Bsymbolic, or compile it with -fvisibility=hidden");
    options.huge_pages = platform::allows_huge_pages() && options.huge_pages;
    if (options.chunk_bytes > k_max_chunk_bytes)
        POOLED_THROW(std::invalid_argument(
            "pooled: pool_options::chunk_bytes is over 1 TiB; 0 takes the default of 2 MiB"));
    std::size_t const bytes = memory_at(kind) + sizeof(pool_memory);
    void* const at = g_metadata.allocate(bytes);
    if (!checked_memory::prepare(at, bytes)) {
        g_metadata.deallocate(at, bytes);
        POOLED_THROW(std::bad_alloc());
    }
    void* const memory = static_cast<std::byte*>(at) + memory_at(kind);
    auto* const core =
        ::new (at) concrete_core(options, kind, id, made_by, *static_cast<pool_memory*>(memory));
    ::new (memory) pool_memory(options, id, kind == sharing::shared);
    checked_memory::set_exists(core, true);
    if (kind == sharing::local) {
        auto* const cache = ::new (static_cast<void*>(core + 1)) thread_cache;
        cache->pool_id = id;
        core->caches().link(*cache);
    }
    return *core;
}

// What other copies of the library call for blocks of this copy. The registry only declares the table, and refers to it where a pool is
// made: with the table in a static initialiser, each source compiled the whole heap, 2.8 s more with GCC 12 at -O2.
POOLED_HIDDEN inline constexpr memory_copy k_copy_functions{
    .heap = &k_record,
    .region_of = [](void const* p) -> std::uint64_t {
        void const* const block = malloc_blocks::behind(p);
        map_entry const entry = g_page_map.find(block);
        if (entry.empty()) return 0;
        slab const& s = *entry.slab_at();
        return s.size_class < k_inlined_classes || s.is_large_block(block) ? s.owner->number : 0;
    },
    .deallocate = [](void* p) { detail::deallocate_found(p); },
    .default_core = []() -> void* { return &g_registry.default_core(); }};

POOLED_END_DETAIL

#endif
