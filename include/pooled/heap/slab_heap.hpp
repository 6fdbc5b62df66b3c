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
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/chunk.hpp"
#include "pooled/heap/chunk_source.hpp"
#include "pooled/heap/fill.hpp"
#include "pooled/heap/reservation.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace pooled::detail {

class slab_heap {
public:
    using shape = chunk_source::shape;

    slab_heap(shape const& what, upstream& from) noexcept : m_source(what, from), m_mutex(what.is_shared) {}
    slab_heap(slab_heap const&) = delete;
    slab_heap& operator=(slab_heap const&) = delete;
    ~slab_heap() {
        forget_reservations();
        while (reservation* const r = m_reservations) {
            m_reservations = r->next;
            g_metadata.deallocate(r, sizeof(reservation));
        }
        while (m_chunks != nullptr)
            m_source.deallocate(detach(*m_chunks));
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
        end_free(s, 0, std::size_t{s.total} * k_geometry[s.size_class].block_bytes);
        std::scoped_lock const lock(m_mutex);
        s.unassign();
        make_free(s);
    }

    // More free slabs, at least one that holds a block of `c`. False when the bound does not allow it. Throws what upstream
    // throws; the heap is then as before. O(slabs of a chunk).
    [[nodiscard]] bool grow(class_index c) {
        upstream::call under_way(m_source.from());
        chunk* const fresh = m_source.allocate(k_geometry[c].block_bytes, under_way);
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
                upstream::call under_way(m_source.from());
                chunk* const fresh = m_source.allocate(k_geometry[c].block_bytes, under_way);
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
        if (touch && m_source.from().is_system()) touch_free(r);
        return true;
    }

    // A slab of class `c` that is partly in use: it is reserved from here on. False when it is already.
    bool reserve_in_use(reservation const& key, slab& s) {
        reservation& r = reservation_for(key);
        std::scoped_lock const lock(m_mutex);
        if (s.reserved_for != nullptr) return s.reserved_for == &r;
        s.reserved_for = &r;
        ++m_reserved_slabs;
        return true;
    }
    [[nodiscard]] bool is_reserved_for(class_index c) noexcept {
        std::scoped_lock const lock(m_mutex);
        if (m_reserved_slabs == 0) return false;
        for (reservation const* r = m_reservations; r != nullptr; r = r->next)
            if (r->serves(c)) return true;
        return false;
    }

    // Ends all reservations. O(slabs).
    void forget_reservations() noexcept {
        std::scoped_lock const lock(m_mutex);
        for (chunk* c = m_chunks; c != nullptr; c = c->next)
            for (slab& s : c->slabs())
                if (s.reserved_for != nullptr) unreserve(s);
    }
    [[nodiscard]] bool has_reservations() noexcept {
        std::scoped_lock const lock(m_mutex);
        return m_reserved_slabs != 0;
    }

    // Gives chunks without a slab in use back to upstream, up to `most` bytes. Returns how many bytes. O(chunks).
    std::size_t release_chunks(std::size_t most = k_size_max) noexcept {
        chunk* released = nullptr;
        std::size_t bytes = 0;
        upstream::call under_way(m_source.from());
        {
            std::scoped_lock const lock(m_mutex);
            for (chunk *c = m_chunks, *next = nullptr; c != nullptr; c = next) {
                next = c->next;
                if (c->held != 0 || c->bytes > most - bytes) continue;
                under_way.begin();
                bytes += c->bytes;
                detach(*c).next = released;
                released = c;
            }
        }
        while (released != nullptr) {
            chunk* const c = released;
            released = c->next;
            m_source.deallocate(*c);
        }
        return bytes;
    }

    // Gives the pages of up to `most` free slabs back to the system, those first that were free longest. Returns how many
    // bytes. O(slabs).
    std::size_t purge(std::size_t most = k_size_max) noexcept {
        if (!m_source.from().is_system()) return 0;
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
        if (!m_source.from().is_system()) return 0;
        end_free(s, first, end);
        return platform::release_pages(s.base + first, end - first);
    }

    // The fewest slabs that were free at once since the last call: so many were of no use.
    [[nodiscard]] std::size_t take_fewest_free() noexcept {
        std::scoped_lock const lock(m_mutex);
        std::size_t const fewest = m_fewest_free;
        m_fewest_free = m_free_slabs;
        return fewest;
    }

    [[nodiscard]] optional_mutex& lock() noexcept { return m_mutex; }  // for fork only
    [[nodiscard]] std::size_t slab_bytes() const noexcept { return m_source.slab_bytes(); }

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
    // The free bytes [first, end) of a slab of a class: its pages may change from here on.
    void end_free([[maybe_unused]] slab const& s, [[maybe_unused]] std::size_t first,
                  [[maybe_unused]] std::size_t end) const noexcept {
#if POOLED_CHECKED
        fill::end_free(m_source.from().pool_name(), s.base + first, s.base + end,
                       k_geometry[s.size_class].block_bytes);
#endif
    }

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
    [[nodiscard]] bool claim(reservation& r, class_index c, std::size_t count,
                             std::size_t& claimed) noexcept {
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

    // Without the lock, which is held for one slab at a time: nobody uses it while its pages are written.
    void touch_free(reservation& r) noexcept {
        std::size_t left = 0;
        {
            std::scoped_lock const lock(m_mutex);
            for (slab const* s = r.free.first(); s != nullptr; s = s->next)
                ++left;
        }
        for (; left != 0; --left) {
            std::scoped_lock const lock(m_mutex);
            slab* const s = r.free.first();
            if (s == nullptr) return;
            platform::touch_pages(s->base, s->bytes);
            r.free.remove(*s);
            r.free.push_back(*s);
        }
    }

    chunk_source m_source;
    optional_mutex m_mutex;
    chunk* m_chunks = nullptr;
    slab_list m_free;
    std::size_t m_free_slabs = 0;
    std::size_t m_fewest_free = 0;
    reservation* m_reservations = nullptr;
    std::size_t m_reserved_slabs = 0;
};

}  // namespace pooled::detail
