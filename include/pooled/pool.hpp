// SPDX-License-Identifier: BSL-1.0
#pragma once

// pool: blocks of any size for any thread. local_pool: the same for one thread, without atomics.
//
//   pooled::pool packets{{.name = "packets", .max_bytes = 1u << 30}};
//   packets.reserve<Packet>(1'000'000);
//   std::shared_ptr<Packet> p = packets.make_shared<Packet>(arguments...);
//
// A pool may be destroyed while blocks are in use, including those that only weak pointers keep: its memory lives until the last
// block is returned. Only allocating from it afterwards is undefined.

#include "pooled/fwd.hpp"
#include "pooled/options.hpp"
#include "pooled/pool/concrete_core.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/registry.hpp"
#include "pooled/smart/counted_object.hpp"
#include "pooled/smart/makers.hpp"
#include "pooled/smart/standard_control_block.hpp"
#include "pooled/stats.hpp"

POOLED_BEGIN_NAMESPACE

namespace detail {

// Its make_ functions are in smart/makers.hpp.
template <sharing Sharing>
class basic_pool : public makers<basic_pool<Sharing>, Sharing> {
public:
    // Throws std::bad_alloc when memory for the pool's own structures, or pools (65536 at once), run out, and
    // std::invalid_argument for options that make no sense. Requests no memory for blocks yet.
    explicit basic_pool(pool_options const& options = {}) : basic_pool(g_registry.make(options, Sharing)) {}
    ~basic_pool() {
        if (pool_extension* const above = m_core->extension()) above->on_close();
        m_core->close();
    }
    basic_pool(basic_pool const&) = delete;
    basic_pool& operator=(basic_pool const&) = delete;

    // `bytes` at `align`, a power of two; 0 bytes are allowed. Throws exhausted when max_bytes is reached and no free
    // block is found in any thread's cache, else std::bad_alloc or what upstream throws; the pool is then as before. O(1).
    [[nodiscard]] POOLED_ALWAYS_INLINE void* allocate(std::size_t bytes,
                                                      std::size_t align = alignof(std::max_align_t)) {
        return allocate_bytes_or_throw(in_pool<Sharing>(*m_core), bytes, align);
    }

    // The same; null instead of exhausted or another std::bad_alloc.
    [[nodiscard]] void* try_allocate(std::size_t bytes, std::size_t align = alignof(std::max_align_t)) {
        return try_allocate_bytes(in_pool<Sharing>(*m_core), bytes, align);
    }

    // Requires a block of this pool, with the size and alignment it was allocated with; null is ignored. O(1).
    POOLED_ALWAYS_INLINE void deallocate(void* p, std::size_t bytes,
                                         std::size_t align = alignof(std::max_align_t)) noexcept {
        if (p != nullptr) deallocate_bytes(in_pool<Sharing>(*m_core), p, bytes, align);
    }

    // Memory for `count` objects of T at once, whichever make_ function creates them: as long as no more are alive, they call
    // neither malloc nor upstream. What was free already counts. Throws exhausted when the bound does not allow it, else what upstream throws; the pool
    // is then as before. trim() ends the reservation. O(count / blocks of a slab).
    template <class T>
    void reserve(std::size_t count) {
        using object = std::remove_cv_t<T>;
        using shared = standard_control_block;
        using counted = counted_object<object, from_any<>>;
        detail::reserve_classes(*m_core,
                                {any_class_for(shared::k_bytes<object>, shared::k_align<object>),
                                 detail::larger(shared::k_bytes<object>, counted::k_bytes),
                                 detail::larger(shared::k_align<object>, counted::k_align)},
                                any_class_for(counted::k_bytes, counted::k_align), count);
        if constexpr (k_is_deferrable_type<object>) {
            static_cast<void>(detail::is_to_be_deferred(place()));
            detail::ask_stack_bounds();
        }
    }

    // As reserve(), for blocks of so many bytes. Throws what reserve() throws.
    void reserve_bytes(std::size_t count, std::size_t bytes, std::size_t align = alignof(std::max_align_t)) {
        class_index const c = any_class_for(bytes, align);
        detail::reserve_classes(*m_core, {c, bytes, align}, c, count);
    }

    // A `max_bytes`, with chunks of the default size, under which `count` such blocks can be in use at once. For blocks of several sizes up
    // to 4 KiB the sum of these and a sixteenth more suffice.
    [[nodiscard]] static constexpr std::size_t
    bytes_for(std::size_t count, std::size_t bytes, std::size_t align = alignof(std::max_align_t)) noexcept {
        return detail::bytes_for(count, {any_class_for(bytes, align), bytes, align});
    }

    // Returns free memory, including what other threads have cached: chunks without a block in use to upstream
    // and, if the pool takes its memory from the operating system, the pages of free blocks. Returns the number of bytes: pages count
    // each time that they are free. Ends reservations. Leaves out what another thread has locked for 4 ms. O(threads + slabs + cached blocks).
    std::size_t trim() noexcept { return m_core->trim(); }

    // In an incremental pool, destroys, on this thread, up to `budget` deferred objects, whichever thread dropped them. Returns
    // their number; fewer than `budget` means that none is deferred any more. O(objects destroyed).
    std::size_t drain(std::size_t budget = ~std::size_t{0}) noexcept {
        pool_extension* const above = m_core->extension();
        return above != nullptr ? above->drain(budget) : 0;
    }

    // All deferred objects of an incremental pool, for another thread to destroy. O(threads). Defined in pending.hpp.
    [[nodiscard]] pending take_pending() noexcept;

    [[nodiscard]] pool_stats stats() const { return m_core->stats(); }

    // Which objects are in use: number and bytes by type, those with most bytes first; what names no type by size. Waits for no thread:
    // others may use the pool meanwhile, and the last line says how much that makes uncertain. The text is for people, and its format may
    // change. O(blocks in use). Defined in live_report.hpp.
    template <class Traits>
    void live_report(std::basic_ostream<char, Traits>& out) const;

    // Whether `p` points into memory that this pool has taken from upstream, and that does not belong to another pool whose upstream is this
    // one. `p` may be any address; it is not read. O(1).
    [[nodiscard]] bool owns(void const* p) const noexcept { return m_core->owns(p); }

    // Serves std::pmr containers. It deallocates as long as a block is in use, even after the pool was destroyed.
    [[nodiscard]] std::pmr::memory_resource* resource() const noexcept { return m_core; }

    [[nodiscard]] std::string_view name() const noexcept { return m_core->name(); }

private:
    friend class makers<basic_pool, Sharing>;
    friend struct pool_access;
    friend struct default_pool_access;
    explicit basic_pool(pool_core& core) noexcept : m_core(&core) {}
    static constexpr sharing k_sharing = Sharing;
    [[nodiscard]] in_pool<Sharing> place() const noexcept { return in_pool<Sharing>(*m_core); }

    pool_core* m_core;
};

template <class T>
concept pool_type =
    std::is_base_of_v<basic_pool<sharing::shared>, T> || std::is_base_of_v<basic_pool<sharing::local>, T>;

// Access to a pool for the library's own allocators and tests.
struct pool_access {
    template <class Pool>
    static constexpr sharing k_sharing = Pool::k_sharing;

    template <sharing Sharing>
    [[nodiscard]] static pool_core& core(basic_pool<Sharing> const& one) noexcept {
        return *one.m_core;
    }
    template <sharing Sharing>
    [[nodiscard]] static in_pool<Sharing> place(basic_pool<Sharing> const& one) noexcept {
        return one.place();
    }
};

}  // namespace detail

// Thread-safe.
class pool : public detail::basic_pool<detail::sharing::shared> {
public:
    using basic_pool::basic_pool;
};

// For one thread at a time: objects of it may only be dropped where the pool itself could be used. The thread that last
// allocated from it or adopted it uses it or, after that thread has ended, any other; the checked build reports a drop on
// another.
class local_pool : public detail::basic_pool<detail::sharing::local> {
public:
    using basic_pool::basic_pool;

    // Announces that the calling thread uses the pool from now on. The thread that used it before must have finished, and its
    // use must happen before this call. An allocation has the same effect, so only a thread that drops objects without
    // allocating needs to call it. Only the checked build uses this. O(1).
    void adopt() const { detail::adopt(detail::pool_access::core(*this)); }
};

POOLED_END_NAMESPACE
