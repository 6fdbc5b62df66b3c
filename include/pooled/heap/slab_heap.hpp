// SPDX-License-Identifier: BSL-1.0
#pragma once

// The memory of a pool in slabs: takes chunks from upstream, gives slabs to size classes, takes empty slabs back for any
// other class, and returns empty chunks. It knows nothing of threads' caches.
//
//   upstream ─▶ chunk ─▶ slabs: free ◀──▶ of a size class          reserved ◀──▶ of one of the classes it is reserved for
//
// Invariants: each slab of each chunk is in m_free, in one reservation's list, or has a class;
//             chunk.held = its slabs that have a class or are reserved; m_free_slabs = slabs in m_free.
// Any thread may call; one lock, innermost but for that of the metadata arena. Upstream is called without it. O(1) unless
// said otherwise.

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/chunk.hpp"
#include "pooled/heap/live_map.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/reservation.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>

namespace pooled::detail {

// Makes the tables ready for memory that upstream gave. False when the system has no memory for them.
[[nodiscard]] inline bool prepare_maps(void const* base, std::size_t bytes) noexcept {
#if POOLED_CHECKED
    if (!g_live_map.prepare(base, bytes)) return false;
#endif
    return g_page_map.prepare(base, bytes);
}

class slab_heap {
public:
    struct shape {
        std::uint32_t pool_id;
        bool is_shared;
        std::size_t slab_bytes;
        std::size_t chunk_bytes;
        bool starts_small;  // chunks as large as all before them together, up to chunk_bytes: small pools are cheap
    };

    slab_heap(shape const& what, upstream& from) noexcept
        : m_upstream(from),
          m_pool_id(what.pool_id),
          m_is_shared(what.is_shared),
          m_slab_bytes(what.slab_bytes),
          m_chunk_bytes(what.chunk_bytes),
          m_starts_small(what.starts_small),
          m_mutex(what.is_shared) {}
    slab_heap(slab_heap const&) = delete;
    slab_heap& operator=(slab_heap const&) = delete;
    ~slab_heap() {
        forget_reservations();
        while (m_chunks != nullptr)
            release(detach(*m_chunks));
    }

    // A slab of class `c` with all blocks free, or null: grow() then.
    [[nodiscard]] slab* take(class_index c) noexcept {
        std::scoped_lock const lock(m_mutex);
        slab* const s = find(c);
        if (s == nullptr) return nullptr;
        hold(*s);
        s->assign(c);
        return s;
    }

    [[nodiscard]] bool has_free(class_index c) noexcept {
        std::scoped_lock const lock(m_mutex);
        return find(c) != nullptr;
    }

    // Requires a slab with a class and no block in use, which is in no list.
    void put(slab& s) noexcept {
        std::scoped_lock const lock(m_mutex);
        s.unassign();
        make_free(s);
    }

    // Whether grow(c) has a chance within the bound.
    [[nodiscard]] bool has_room(class_index c) const noexcept {
        return usable_room() >= k_geometry[c].block_bytes;
    }

    // More free slabs, at least one that holds a block of `c`. False when the bound does not allow it. Throws what upstream
    // throws; the heap is then as before. O(slabs of a chunk).
    [[nodiscard]] bool grow(class_index c) {
        chunk* const fresh = new_chunk(k_geometry[c].block_bytes);
        if (fresh == nullptr) return false;
        std::scoped_lock const lock(m_mutex);
        link(*fresh);
        return true;
    }

    // Makes free slabs with `count` blocks of the class `c` that only the classes of `key` may use. When the bound does not
    // allow it: false, and when upstream throws, what it throws; the heap is then as before. `touch`: their pages are made
    // resident. O(slabs).
    [[nodiscard]] bool reserve(reservation const& key, class_index c, std::size_t count, bool touch) {
        reservation& r = reservation_for(key);
        std::size_t claimed = 0;
        std::size_t grown = 0;
        auto const undo = [&]() noexcept {
            unclaim(r, claimed);
            release_chunks(grown);
        };
        try {
            while (!claim(r, c, count, claimed)) {
                chunk* const fresh = new_chunk(k_geometry[c].block_bytes);
                if (fresh == nullptr) {
                    undo();
                    return false;
                }
                grown += fresh->bytes;
                std::scoped_lock const lock(m_mutex);
                link(*fresh);
            }
        } catch (...) {
            undo();
            throw;
        }
        if (touch && m_upstream.is_system()) touch_free(r);
        return true;
    }

    // A slab that is in use is for the classes of `key` alone, too, once it is empty. Requires reserve() with the same key,
    // and the lock of the slab's class. O(reservations).
    void reserve_used(slab& s, reservation const& key) noexcept {
        std::scoped_lock const lock(m_mutex);
        if (s.reserved_for != nullptr) return;
        for (reservation* r = m_reservations; r != nullptr && s.reserved_for == nullptr; r = r->next)
            if (r->classes == key.classes) {
                s.reserved_for = r;
                ++m_reserved_slabs;
            }
    }

    // Ends all reservations. O(slabs).
    void forget_reservations() noexcept {
        std::scoped_lock const lock(m_mutex);
        for (chunk* c = m_chunks; c != nullptr; c = c->next)
            for (slab& s : c->slabs())
                if (s.reserved_for != nullptr) unreserve(s);
        while (reservation* const r = m_reservations) {
            m_reservations = r->next;
            g_metadata.deallocate(r, sizeof(reservation));
        }
    }
    [[nodiscard]] bool has_reservations() noexcept {
        std::scoped_lock const lock(m_mutex);
        return m_reserved_slabs != 0;
    }

    // Gives chunks without a slab in use back to upstream, up to `most` bytes. Returns how many bytes. O(chunks).
    std::size_t release_chunks(std::size_t most = k_size_max) noexcept {
        std::optional<upstream::call> under_way;
        chunk* released = nullptr;
        std::size_t bytes = 0;
        {
            std::scoped_lock const lock(m_mutex);
            for (chunk *c = m_chunks, *next = nullptr; c != nullptr; c = next) {
                next = c->next;
                if (c->held != 0 || c->bytes > most - bytes) continue;
                if (!under_way) under_way.emplace(m_upstream);  // from here on, nobody finds these slabs
                bytes += c->bytes;
                detach(*c).next = released;
                released = c;
            }
        }
        while (released != nullptr) {
            chunk* const c = released;
            released = c->next;
            release(*c);
        }
        return bytes;
    }

    // Gives the pages of up to `most` free slabs back to the system, those first that were free longest. Returns how many
    // bytes. O(slabs).
    std::size_t purge(std::size_t most = k_size_max) noexcept {
        if (!m_upstream.is_system()) return 0;
        std::size_t bytes = 0;
        std::scoped_lock const lock(m_mutex);
        for (slab* s = m_free.last(); s != nullptr && most != 0; s = s->previous, --most) {
            if (s->is_purged) continue;
            platform::release_pages(s->base, s->bytes);
            s->is_purged = true;
            bytes += s->bytes;
        }
        return bytes;
    }

    // The same for the free bytes [first, end) of a slab that is in use. Requires the lock of its class.
    std::size_t purge(slab const& s, std::size_t first, std::size_t end) noexcept {
        return m_upstream.is_system() ? platform::release_pages(s.base + first, end - first) : 0;
    }

    // The fewest slabs that were free at once since the last call: so many were of no use.
    [[nodiscard]] std::size_t take_fewest_free() noexcept {
        std::scoped_lock const lock(m_mutex);
        std::size_t const fewest = m_fewest_free;
        m_fewest_free = m_free_slabs;
        return fewest;
    }

    [[nodiscard]] optional_mutex& lock() noexcept { return m_mutex; }  // for fork only
    [[nodiscard]] std::size_t slab_bytes() const noexcept { return m_slab_bytes; }

    // Walks every structure. O(slabs).
    [[nodiscard]] bool is_valid() noexcept {
        std::scoped_lock const lock(m_mutex);
        std::size_t listed = 0;
        bool valid = true;
        for (slab const* s = m_free.first(); s != nullptr; s = s->next) {
            ++listed;
            valid = valid && s->size_class == k_no_class && s->reserved_for == nullptr;
        }
        std::size_t free = 0;
        for (chunk* c = m_chunks; c != nullptr; c = c->next) {
            std::uint32_t held = 0;
            for (slab const& s : c->slabs()) {
                bool const is_held = s.size_class != k_no_class || s.reserved_for != nullptr;
                held += is_held ? 1 : 0;
                free += is_held ? 0 : 1;
                valid = valid && (s.size_class != k_no_class || s.is_valid());
            }
            valid = valid && held == c->held;
        }
        return valid && free == listed && free == m_free_slabs && m_fewest_free <= m_free_slabs;
    }

private:
    // The functions that follow require the lock, but for those that say otherwise.

    // A free slab that holds a block of `c`. Only the last slab of a chunk can be too short.
    [[nodiscard]] slab* find(class_index c) noexcept {
        for (reservation* r = m_reservations; r != nullptr; r = r->next)
            if (r->serves(c))
                if (slab* const s = find_in(r->free, c)) return s;
        return find_in(m_free, c);
    }
    [[nodiscard]] static slab* find_in(slab_list const& list, class_index c) noexcept {
        slab* s = list.first();
        while (s != nullptr && s->bytes < k_geometry[c].block_bytes)
            s = s->next;
        return s;
    }

    // Takes a free slab out of its list.
    void hold(slab& s) noexcept {
        if (s.reserved_for != nullptr) return s.reserved_for->free.remove(s);
        m_free.remove(s);
        ++s.owner->held;
        m_fewest_free = std::min(m_fewest_free, --m_free_slabs);
    }
    void make_free(slab& s) noexcept {
        if (s.reserved_for != nullptr) return s.reserved_for->free.push_front(s);
        m_free.push_front(s);
        --s.owner->held;
        ++m_free_slabs;
    }

    void link(chunk& c) noexcept {
        c.previous = nullptr;
        c.next = m_chunks;
        if (m_chunks != nullptr) m_chunks->previous = &c;
        m_chunks = &c;
        // The list then begins with the lowest: memory is used from the bottom up.
        for (std::size_t i = c.slab_count; i-- != 0;)
            m_free.push_front(c.slabs()[i]);
        m_free_slabs += c.slab_count;
    }
    chunk& detach(chunk& c) noexcept {
        for (slab& s : c.slabs())
            if (s.size_class == k_no_class) m_free.remove(s);
        m_free_slabs -= std::min<std::size_t>(m_free_slabs, c.slab_count - c.held);
        m_fewest_free = std::min(m_fewest_free, m_free_slabs);
        (c.previous != nullptr ? c.previous->next : m_chunks) = c.next;
        if (c.next != nullptr) c.next->previous = c.previous;
        return c;
    }

    // Without the lock.
    [[nodiscard]] std::size_t next_chunk_bytes() const noexcept {
        if (!m_starts_small) return m_chunk_bytes;
        std::size_t const used = m_upstream.used();
        return used >= m_chunk_bytes ? m_chunk_bytes : std::max(m_slab_bytes, std::bit_ceil(used));
    }

    // Without the lock. Whole granules, so that owns() answers exactly; but a bound under one granule is usable, too.
    [[nodiscard]] std::size_t usable_room() const noexcept {
        bool const is_tiny = m_upstream.max_bytes() < k_granule_bytes;
        return round_down(m_upstream.room(), is_tiny ? k_min_block_bytes : k_granule_bytes);
    }

    // Without the lock. A chunk of which every slab is free, in no list; null when the bound is reached.
    [[nodiscard]] chunk* new_chunk(std::size_t block_bytes) {
        // A block larger than this pool's slabs gets a chunk to itself.
        std::size_t const slab_bytes = std::max(m_slab_bytes, round_up(block_bytes, k_granule_bytes));
        std::size_t bytes = slab_bytes > m_slab_bytes ? slab_bytes : next_chunk_bytes();
        if (bytes > m_upstream.room()) bytes = usable_room();
        if (bytes < block_bytes) return nullptr;

        std::size_t const count = (bytes + slab_bytes - 1) / slab_bytes;
        std::size_t const descriptor_bytes = chunk::descriptor_bytes(count);
        void* const descriptor = g_metadata.allocate(descriptor_bytes);
        void* base = nullptr;
        try {
            base = m_upstream.allocate(bytes, k_granule_bytes);
            if (base != nullptr && !prepare_maps(base, bytes)) {
                m_upstream.deallocate(base, bytes, k_granule_bytes);
                throw std::bad_alloc();
            }
        } catch (...) {
            g_metadata.deallocate(descriptor, descriptor_bytes);
            throw;
        }
        if (base == nullptr) {
            g_metadata.deallocate(descriptor, descriptor_bytes);
            return nullptr;
        }

        auto* const c = ::new (descriptor) chunk;
        c->base = static_cast<std::byte*>(base);
        c->bytes = bytes;
        c->outer = g_page_map.find(base);
        c->slab_count = static_cast<std::uint32_t>(count);
        for (std::size_t i = 0; i < count; ++i) {
            slab* const s = ::new (static_cast<void*>(&c->slabs()[i])) slab;
            s->base = c->base + i * slab_bytes;
            s->bytes = static_cast<std::uint32_t>(std::min(slab_bytes, bytes - i * slab_bytes));
            s->owner = c;
            g_page_map.assign(s->base, s->bytes,
                              map_entry(m_pool_id, s, m_is_shared ? map_entry::none : map_entry::local));
        }
        return c;
    }

    // Without the lock. Requires a chunk in no list.
    void release(chunk& c) noexcept {
        g_page_map.assign(c.base, c.bytes, c.outer);
        m_upstream.deallocate(c.base, c.bytes, k_granule_bytes);
        g_metadata.deallocate(&c, chunk::descriptor_bytes(c.slab_count));
    }

    // Without the lock. Throws std::bad_alloc.
    [[nodiscard]] reservation& reservation_for(reservation const& key) {
        void* const memory = g_metadata.allocate(sizeof(reservation));
        std::scoped_lock const lock(m_mutex);
        for (reservation* r = m_reservations; r != nullptr; r = r->next)
            if (r->classes == key.classes) {
                g_metadata.deallocate(memory, sizeof(reservation));
                return *r;
            }
        auto* const r = ::new (memory) reservation(key);
        r->next = m_reservations;
        m_reservations = r;
        return *r;
    }

    // Without the lock. Reserves free slabs until those that are reserved and free hold `count` blocks; counts them up in
    // `claimed`. False when there are too few.
    [[nodiscard]] bool claim(reservation& r, class_index c, std::size_t count, std::size_t& claimed) noexcept {
        std::size_t const block_bytes = k_geometry[c].block_bytes;
        std::scoped_lock const lock(m_mutex);
        std::size_t free = 0;
        for (slab const* s = r.free.first(); s != nullptr; s = s->next)
            free += s->bytes / block_bytes;
        for (slab* s = nullptr; free < count && (s = find_in(m_free, c)) != nullptr; ++claimed) {
            hold(*s);
            s->reserved_for = &r;
            r.free.push_front(*s);
            ++m_reserved_slabs;
            free += s->bytes / block_bytes;
        }
        return free >= count;
    }
    // Without the lock.
    void unclaim(reservation& r, std::size_t count) noexcept {
        std::scoped_lock const lock(m_mutex);
        for (slab* s = nullptr; count != 0 && (s = r.free.first()) != nullptr; --count)
            unreserve(*s);
    }
    void unreserve(slab& s) noexcept {
        reservation& r = *s.reserved_for;
        s.reserved_for = nullptr;
        --m_reserved_slabs;
        if (s.size_class != k_no_class) return;
        r.free.remove(s);
        make_free(s);
    }

    // Without the lock: the slabs are out of their list meanwhile, so that nobody uses them while pages are written.
    void touch_free(reservation& r) noexcept {
        slab_list touched;
        for (;;) {
            std::unique_lock lock(m_mutex);
            slab* const s = r.free.first();
            if (s == nullptr) break;
            r.free.remove(*s);
            lock.unlock();
            platform::touch_pages(s->base, s->bytes);
            touched.push_front(*s);
        }
        std::scoped_lock const lock(m_mutex);
        while (slab* const s = touched.first()) {
            touched.remove(*s);
            r.free.push_front(*s);
        }
    }

    upstream& m_upstream;
    std::uint32_t m_pool_id;
    bool m_is_shared;
    std::size_t m_slab_bytes;
    std::size_t m_chunk_bytes;
    bool m_starts_small;

    optional_mutex m_mutex;
    chunk* m_chunks = nullptr;
    slab_list m_free;
    std::size_t m_free_slabs = 0;
    std::size_t m_fewest_free = 0;
    reservation* m_reservations = nullptr;
    std::size_t m_reserved_slabs = 0;
};

}  // namespace pooled::detail
