// SPDX-License-Identifier: BSL-1.0
#pragma once

// The memory of a pool in slabs: takes chunks from upstream, gives slabs to size classes, takes empty slabs back for any other
// class, and returns empty chunks. It knows nothing about threads' caches.
//
//   upstream ─▶ chunk ─▶ slabs: free ◀──▶ of a size class          reserved ◀──▶ of one of the classes it is reserved for
//
// Invariants: each slab of each chunk is in m_free, in one reservation's list, or has a class;
//             chunk.held = its slabs that have a class or are reserved.
// Any thread may call; one lock, under which only that of the metadata arena is taken. It is not held while upstream runs. O(1)
// unless noted.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/chunk.hpp"
#include "pooled/heap/chunk_source.hpp"
#include "pooled/heap/free_slabs.hpp"
#include "pooled/heap/reservation.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class slab_heap {
public:
    using shape = chunk_source::shape;

    slab_heap(shape const& what, upstream& from) noexcept : m_source(what, from), m_mutex(what.is_shared) {}
    slab_heap(slab_heap const&) = delete;
    slab_heap& operator=(slab_heap const&) = delete;
    ~slab_heap() {
        forget_reservations();
        m_reservations.clear();
        upstream::call under_way(m_source.from());
        deallocate(detach_all(under_way), under_way);
    }

    // Takes all chunks out, including those with blocks in use; deallocate() returns them to upstream. Requires that no slab is in
    // a list of its class. O(slabs).
    [[nodiscard]] chunk* detach_all(upstream::call& under_way) noexcept {
        forget_reservations();
        scoped_lock const lock(m_mutex);
        chunk* all = nullptr;
        while (m_chunks != nullptr) {
            under_way.begin(m_chunks->bytes);
            chunk& c = detach(*m_chunks);
            c.next = all;
            all = &c;
            forget_live(c.base, c.bytes);
        }
        return all;
    }
    void deallocate(chunk* list, upstream::call& under_way) noexcept {
        while (list != nullptr) {
            chunk* const c = list;
            list = c->next;
            m_source.deallocate(*c, under_way);
        }
    }

    // A slab of class `c` with all blocks free; null: the caller must call grow().
    [[nodiscard]] slab* take(class_index c) noexcept {
        scoped_lock const lock(m_mutex);
        slab* const s = find(c);
        if (s == nullptr) return nullptr;
        hold(*s);
        s->assign(c);
        return s;
    }

    [[nodiscard]] bool has_free(class_index c) noexcept {
        scoped_lock const lock(m_mutex);
        return find(c) != nullptr;
    }

    // Requires a slab with a class and no block in use, which is in no list.
    void put(slab& s) noexcept {
        m_source.end_free(s, s.colour(), s.bytes);
        scoped_lock const lock(m_mutex);
        s.unassign();
        make_free(s);
    }

    // More free slabs, at least one that holds a block of `c`. False when the bound does not allow it. Throws what upstream
    // throws; the heap is then as before. O(slabs of a chunk).
    [[nodiscard]] bool grow(class_index c) {
        upstream::call under_way(m_source.from());
        chunk* const fresh = m_source.allocate(k_geometry[c].block_bytes, under_way);
        if (fresh == nullptr) return false;
        scoped_lock const lock(m_mutex);
        link(*fresh);
        under_way.settle();
        return true;
    }

    // A reserve() in progress. Unless it is settled, its destructor restores the former state. O(slabs).
    class attempt {
    public:
        // Throws std::bad_alloc.
        attempt(slab_heap& heap, std::array<class_index, 2> classes)
            : m_heap(heap), m_reservation(heap.add_reservation(classes)) {}
        ~attempt() {
            if (!m_is_settled) m_heap.cancel(m_reservation, m_grown);
        }
        attempt(attempt const&) = delete;
        attempt& operator=(attempt const&) = delete;

        void settle() noexcept {
            m_heap.settle(m_reservation);
            m_is_settled = true;
        }

    private:
        friend class slab_heap;
        slab_heap& m_heap;
        reservation& m_reservation;
        std::size_t m_grown = 0;  // bytes of added chunks
        bool m_is_settled = false;
    };

    // Makes free slabs with `count` blocks of the class `c` that only the classes of `by` may use. False when the bound does not
    // allow it; throws what upstream throws, and at once when the system has less memory. `touch`: makes their pages resident.
    // O(slabs).
    [[nodiscard]] bool reserve(attempt& by, class_index c, std::size_t count, bool touch) {
        class_geometry const& g = k_geometry[c];
        // Counted again after enough were added, because other threads may have taken some meanwhile.
        for (std::size_t have = 0; (have = claim(by.m_reservation, c, count)) < count;) {
            if (!m_source.from().may_give((count - have) * g.block_bytes)) return false;
            while (have < count) {
                upstream::call under_way(m_source.from());
                chunk* const fresh = m_source.allocate(g.block_bytes, under_way);
                if (fresh == nullptr) return false;
                by.m_grown += fresh->bytes;
                scoped_lock const lock(m_mutex);
                link(*fresh);
                under_way.settle();
                for (slab& s : fresh->slabs())
                    if (have < count) have += g.blocks_in(claim(by.m_reservation, s));
            }
        }
        if (touch && m_source.from().is_system()) touch_free(by.m_reservation);
        return true;
    }
    // Reserves a slab that is partly in use. False when it is already reserved for other classes.
    [[nodiscard]] bool reserve_in_use(attempt& by, slab& s) noexcept {
        scoped_lock const lock(m_mutex);
        if (s.reserved_for != nullptr) return s.reserved_for->classes == by.m_reservation.classes;
        s.reserved_for = &by.m_reservation;
        ++m_reserved_slabs;
        return true;
    }
    [[nodiscard]] bool is_reserved_for(class_index c) noexcept {
        scoped_lock const lock(m_mutex);
        return m_reserved_slabs != 0 && m_reservations.serve(c);
    }

    // Ends all reservations. O(slabs).
    void forget_reservations() noexcept {
        scoped_lock const lock(m_mutex);
        for (chunk* c = m_chunks; c != nullptr; c = c->next)
            for (slab& s : c->slabs())
                if (s.reserved_for != nullptr) unreserve(s);
    }
    [[nodiscard]] bool has_reservations() noexcept {
        scoped_lock const lock(m_mutex);
        return m_reserved_slabs != 0;
    }

    // Returns chunks without a slab in use to upstream, up to `most` bytes, and the number of bytes to the caller. O(chunks).
    std::size_t release_chunks(std::size_t most = k_size_max) noexcept {
        chunk* released = nullptr;
        std::size_t bytes = 0;
        upstream::call under_way(m_source.from());
        {
            scoped_lock const lock(m_mutex);
            for (chunk *c = m_chunks, *next = nullptr; c != nullptr; c = next) {
                next = c->next;
                if (c->held != 0 || c->bytes > most - bytes) continue;
                under_way.begin(c->bytes);
                bytes += c->bytes;
                detach(*c).next = released;
                released = c;
            }
        }
        deallocate(released, under_way);
        return bytes;
    }

    // Returns the pages of up to `most` free slabs to the system, those free for longest first. Returns the number of bytes,
    // without those that were returned before and not used since. O(slabs); takes the lock for one slab at a time, since a system
    // call for each takes microseconds.
    std::size_t purge(std::size_t most = k_size_max) noexcept {
        {
            scoped_lock const lock(m_mutex);
            m_free.begin_walk();
        }
        std::size_t bytes = 0;
        for (; most != 0; --most) {
            scoped_lock const lock(m_mutex);
            slab* const s = m_free.walk();
            if (s == nullptr) break;
            bytes += purge(*s, 0, s->bytes);
        }
        return bytes;
    }

    // The same for the free bytes [first, end) of a slab that is in use. Requires the lock of its class.
    std::size_t purge(slab& s, std::size_t first, std::size_t end) noexcept {
        auto const fresh = static_cast<std::uint16_t>(s.system_pages(first, end) & ~s.purged_pages);
        if (fresh == 0 || !m_source.from().is_system()) return 0;
        m_source.end_free(s, first, end);
        if (platform::release_pages(s.memory() + first, end - first) == 0) return 0;
        s.purged_pages |= fresh;
        s.marks.forget(fresh);
        return static_cast<std::size_t>(std::popcount(fresh)) * platform::k_page_bytes;
    }

    // The smallest number of slabs that were free at any moment since the last call; so many were not needed.
    [[nodiscard]] std::size_t take_fewest_free() noexcept {
        scoped_lock const lock(m_mutex);
        return m_free.take_fewest();
    }

    [[nodiscard]] std::size_t slab_bytes() const noexcept { return m_source.slab_bytes(); }

    // Checks every structure. O(slabs).
    [[nodiscard]] bool is_valid() noexcept {
        scoped_lock const lock(m_mutex);
        bool valid = m_free.is_valid();
        std::size_t free = 0;
        for (chunk* c = m_chunks; c != nullptr; c = c->next) {
            std::size_t held = 0;
            for (slab const& s : c->slabs()) {
                ++(s.is_free() ? free : held);
                valid = valid && (s.size_class != k_no_class || s.is_valid());
            }
            valid = valid && held == c->held;
        }
        return valid && free == m_free.count();
    }

private:
    // The functions that follow require the lock, unless noted.

    // A free slab that holds a block of `c`. Only the last slab of a chunk can be too short.
    [[nodiscard]] slab* find(class_index c) noexcept {
        for (reservation* r = m_reservations.first(); r != nullptr; r = r->next)
            if (r->serves(c))
                if (slab* const s = r->free.find(k_geometry[c].block_bytes)) return s;
        return m_free.find(k_geometry[c].block_bytes);
    }

    // Takes a free slab out of its list.
    void hold(slab& s) noexcept {
        if (s.reserved_for != nullptr) return s.reserved_for->free.remove(s);
        m_free.take(s);
        ++s.owner->held;
    }
    void make_free(slab& s) noexcept {
        if (s.reserved_for != nullptr) return s.reserved_for->free.push_front(s);
        m_free.put(s);
        --s.owner->held;
    }

    void link(chunk& c) noexcept {
        c.previous = nullptr;
        c.next = m_chunks;
        if (m_chunks != nullptr) m_chunks->previous = &c;
        m_chunks = &c;
        m_free.add(c);
    }
    chunk& detach(chunk& c) noexcept {
        m_free.forget(c);
        (c.previous != nullptr ? c.previous->next : m_chunks) = c.next;
        if (c.next != nullptr) c.next->previous = c.previous;
        return c;
    }

    // The functions that follow take the lock. Throws std::bad_alloc.
    [[nodiscard]] reservation& add_reservation(std::array<class_index, 2> classes) {
        reservation& r = reservation_list::make(classes);
        scoped_lock const lock(m_mutex);
        m_reservations.add(r);
        return r;
    }
    void cancel(reservation& r, std::size_t grown) noexcept {
        {
            scoped_lock const lock(m_mutex);
            for_each_reserved(r, [this](slab& s) { unreserve(s); });
            m_reservations.remove(r);
        }
        if (grown != 0) release_chunks(grown);
    }
    // If there is an earlier reservation for the same classes, it takes over the slabs of `r`.
    void settle(reservation& r) noexcept {
        scoped_lock const lock(m_mutex);
        reservation* const earlier = m_reservations.find_settled(r.classes);
        r.is_settled = true;
        if (earlier == nullptr) return;
        for_each_reserved(r, [&](slab& s) {
            s.reserved_for = earlier;
            if (s.size_class != k_no_class) return;
            r.free.remove(s);
            earlier->free.push_front(s);
        });
        m_reservations.remove(r);
    }

    // Reserves free slabs until those that are reserved for the same classes and free hold `count` blocks, and returns how
    // many they hold.
    [[nodiscard]] std::size_t claim(reservation& r, class_index c, std::size_t count) noexcept {
        class_geometry const& g = k_geometry[c];
        scoped_lock const lock(m_mutex);
        std::size_t have = 0;
        for (reservation const* one = m_reservations.first(); one != nullptr; one = one->next)
            if (one == &r || (one->is_settled && one->classes == r.classes))
                for (slab const* s = one->free.first(); s != nullptr; s = s->next)
                    have += g.blocks_in(s->bytes);
        for (slab* s = nullptr; have < count && (s = m_free.find(g.block_bytes)) != nullptr;)
            have += g.blocks_in(claim(r, *s));
        return have;
    }

    // The rest requires the lock. Takes a free slab; returns its bytes.
    std::size_t claim(reservation& r, slab& s) noexcept {
        hold(s);
        s.reserved_for = &r;
        r.free.push_front(s);
        ++m_reserved_slabs;
        return s.bytes;
    }
    template <class Visit>
    void for_each_reserved(reservation const& r, Visit&& visit) noexcept {
        for (chunk* c = m_chunks; c != nullptr; c = c->next)
            for (slab& s : c->slabs())
                if (s.reserved_for == &r) visit(s);
    }
    void unreserve(slab& s) noexcept {
        reservation& r = *s.reserved_for;
        s.reserved_for = nullptr;
        --m_reserved_slabs;
        if (s.size_class != k_no_class) return;
        r.free.remove(s);
        make_free(s);
    }

    // Takes the lock for one slab at a time, so that no thread uses the slab while its pages are written.
    void touch_free(reservation& r) noexcept {
        std::size_t left = 0;
        {
            scoped_lock const lock(m_mutex);
            for (slab const* s = r.free.first(); s != nullptr; s = s->next)
                ++left;
        }
        for (; left != 0; --left) {
            scoped_lock const lock(m_mutex);
            slab* const s = r.free.first();
            if (s == nullptr) return;
            platform::touch_pages(s->memory(), s->bytes);
            s->purged_pages = 0;
            r.free.remove(*s);
            r.free.push_back(*s);
        }
    }

    chunk_source m_source;
    optional_mutex m_mutex;
    chunk* m_chunks = nullptr;
    free_slabs m_free;
    reservation_list m_reservations;
    std::size_t m_reserved_slabs = 0;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
