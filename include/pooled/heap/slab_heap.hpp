// SPDX-License-Identifier: BSL-1.0
#pragma once

// The memory of a pool in spans: divides chunks, gives slabs to size classes, takes empty slabs back for any other class, and returns
// empty chunks. A block that no class serves is a span of its own.
//
//   upstream ─▶ chunk ─▶ spans: free ◀──▶ slab of a size class     reserved ◀──▶ slab of one of the classes it is reserved for
//
// Invariants: each span of each chunk is in m_free, in one reservation's list, or has a class, which may be k_lent;
//             what was done without the lock (heap/apart.hpp) is part of that before its next holder does anything else;
//             chunk.held = granules of its spans that have a class or are reserved; those with held == 0 are the first of m_chunks.
// Any thread may call; one lock, under which only that of the metadata arena is taken. It is not held
// while upstream runs. Nothing on the way of an allocation or a free waits for a holder that does not run, except at the bound.
// O(granules of a span) for its entries in the page map, otherwise O(1) unless noted.

#include "pooled/heap/checked_memory.hpp"
#include "pooled/heap/chunk_source.hpp"
#include "pooled/heap/free_spans.hpp"
#include "pooled/heap/reservation.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

POOLED_BEGIN_DETAIL

class slab_heap : private chunk_source, public lockable<slab_heap> {
public:
    using chunk_source::refused;
    using chunk_source::shape;
    using chunk_source::span_for;
    using chunk_source::unit;
    slab_heap(shape const& what, upstream& from) noexcept
        : chunk_source(what, from), lockable(!what.is_shared) {}
    ~slab_heap() {
        upstream::call under_way(m_upstream);
        intrusive_list<chunk> all;
        for (unsigned turn = 0; !detach_all(all, under_way); ++turn)
            platform::pause(turn);
        return_chunks(all, under_way, refused::abandon);
    }

    // Takes all chunks out, including those with blocks in use; return_chunks() returns them to upstream. Requires that no slab is in
    // a list of its class, or that all classes are locked. False: another thread has spans in its hands; the caller tries again, and holds no
    // lock meanwhile. O(slabs).
    [[nodiscard]] bool detach_all(intrusive_list<chunk>& all, upstream::call& under_way) noexcept {
        std::uint64_t const before = apart();
        scoped_lock const lock(*this);
        end_reservations();  // under the same lock: a reserve() in progress must keep no span
        if (m_lent_spans != 0 || !was_alone(before)) return false;
        for (chunk& c : m_chunks) {
            under_way.begin(c.bytes);
            all.push_front(detach(c));
            checked_memory::forget(c.base, c.bytes);
        }
        return true;
    }
    // Requires detached chunks. One that the system does not take back is free again, unless this is the pool's end.
    std::size_t return_chunks(intrusive_list<chunk> list, upstream::call& under_way, refused what) noexcept {
        std::size_t bytes = 0;
        for (chunk& c : list) {
            std::size_t const size = c.bytes;
            if (return_chunk(c, under_way, what)) {
                bytes += size;
            } else if (what == refused::keep) {
                bool const is_purged = c.records()[0].is_purged;
                bytes += is_purged ? 0 : platform::release_pages(c.base, size);
                c.is_huge = false;
                scoped_lock const lock(*this);
                link(c, true);
                under_way.settle(size);
            }
        }
        return bytes;
    }

    // A slab with all blocks free; null: the caller must call grow(). `may_wait`: for the lock, at the bound, before null, which means
    // there that there is none. `are_free`: as for slab::assign(); `held`: as for span_for().
    [[nodiscard]] slab* allocate(block_request const& what, bool may_wait = false, bool are_free = true,
                                 std::size_t held = k_size_max) noexcept;
    // Whether nobody has looked for a span without the lock since apart() was `before`: such a thread may have free spans in its hands.
    [[nodiscard]] bool was_alone(std::uint64_t before) const noexcept {
        std_atomics::full_barrier();  // pairs with that in allocate_apart()
        return static_cast<std::uint32_t>(before) == 0 && m_apart.load(std::memory_order_relaxed) == before;
    }
    // acquire: pairs with the release in allocate_apart(); what was put back is seen.
    [[nodiscard]] std::uint64_t apart() const noexcept { return m_apart.load(std::memory_order_acquire); }
    // Changes when a span becomes free, or may serve more requests, or when one was looked for in vain without the lock; not 0. Without the lock.
    // acquire: pairs with the release in note_gain().
    [[nodiscard]] std::uint32_t gains() const noexcept { return m_gains.load(std::memory_order_acquire); }
    // Whether allocate() finds one, with the same `held`. False, too, when another thread has the lock and does not run.
    [[nodiscard]] bool has_free(class_index c, bool may_wait = false,
                                std::size_t held = k_size_max) noexcept {
        try_scoped_lock const lock(*this, may_wait);
        return lock && find_span(span_for(c, held)) != nullptr;
    }

    // Whether it is of a heap that was here before, in the parent of this process: nobody has a record of its free blocks.
    [[nodiscard]] bool is_lost(slab const& s) const noexcept {
        return may_have_lost() && s.owner->epoch != m_epoch;
    }
    [[nodiscard]] bool may_have_lost() const noexcept { return m_epoch != 0; }

    // Requires a slab with a class and no block in use, which is in no list.
    void deallocate(slab& s) noexcept {
        end_free(s, s.colour(), s.bytes());
        try_scoped_lock const lock(*this, false);
        if (!lock) return leave(s);
        s.unassign();
        make_free(s);
    }

    // More free spans, at least one that allocate() finds: returns their bytes, 0 when the bound does not allow it. Throws what upstream
    // throws; the heap is then as before. `has_failed`: without exceptions, upstream did not give what the bound allows. O(granules of a chunk).
    [[nodiscard]] std::size_t grow(block_request const& what, bool* has_failed = nullptr) {
        return extend(span_for(what), has_failed);
    }

    // A reserve() in progress. Unless it is settled, its destructor restores the former state. O(slabs).
    class attempt {
    public:
        // Throws std::bad_alloc.
        attempt(slab_heap& heap, std::array<class_index, 2> classes, bool touches = false);
        ~attempt();
        attempt& operator=(attempt&&) = delete;

        void settle() noexcept { m_heap.settle(*std::exchange(m_reservation, nullptr)); }
        bool may_wait = false;    // for the lock: then all that is free counts, and a refusal is exact
        bool has_looked = true;   // all that is free counted
        bool has_failed = false;  // as of grow()

    private:
        friend class slab_heap;
        slab_heap& m_heap;
        reservation* m_reservation;
        std::size_t m_blocks = 0;  // in free spans, as far as it knows
        std::size_t m_left = 0;    // how many are missing
        bool m_touches;            // new chunks, before anybody has them
        std::uint32_t m_epoch = m_heap.m_epoch;
    };

    // Makes free spans that only the classes of `by` may use, until missing() is 0: the result of claim(), for what the caller needs
    // then, as other threads may take some meanwhile. False when the bound does not allow it; throws what upstream throws, and at once
    // when the system has less memory. O(spans).
    template <class Missing>
    [[nodiscard]] bool reserve(attempt& by, span_request const& what, Missing&& missing);
    // Reserves free spans until those that are reserved for the same classes and free hold `count` blocks. Returns how many are missing.
    [[nodiscard]] std::size_t claim(attempt& by, span_request const& what, std::size_t count) noexcept;
    // Makes the pages of what was reserved resident, of one span at a time, without the lock; others may be taken meanwhile, and put. False:
    // another thread has the lock and does not run; all is to be reserved anew, and is resident then.
    [[nodiscard]] bool touch(attempt& by) noexcept;
    // Reserves a slab that is partly in use. False when it is already reserved for other classes.
    [[nodiscard]] bool reserve_in_use(attempt& by, slab& s) noexcept;
    [[nodiscard]] bool is_reserved_for(class_index c) noexcept {
        try_scoped_lock const lock(*this, false);
        return lock && m_reservations.serve(c);
    }

    // Ends all reservations, unless another thread has the lock and does not run. O(spans).
    void forget_reservations() noexcept;
    // Called in a forked child, where the attempts of other threads do not end.
    void forget_others() noexcept;
    // If there are none, free memory may return. True, too, when another thread has the lock and does not run.
    [[nodiscard]] bool has_reservations() noexcept {
        try_scoped_lock const lock(*this, false);
        return !lock || !m_reservations.empty();
    }

    // Returns chunks without a granule in use to upstream, up to `most` bytes, and the number of bytes to the caller; of more than `step`
    // bytes, which take a millisecond, the first. O(chunks without a granule in use).
    std::size_t release_chunks(std::size_t most = k_size_max, bool may_wait = false,
                               std::size_t step = k_size_max) noexcept;

    // Returns the pages of free spans to the system, those of the longest first, until `most` bytes of spans have no resident page. Returns
    // the number of bytes, without spans that had none before. O(spans + their pages); takes the lock for one span at a time.
    std::size_t purge(std::size_t most = k_size_max) noexcept {
        purging all{observed<std::size_t>(most), {}, true, {}};
        return go_on(all, k_size_max);
    }
    // The same in steps, each of which takes less than a millisecond; first of whole chunks, up to `of_chunks` bytes, which return
    // to upstream. Without those, and when no step of one with them is left, a chunk with a huge page that is half in use keeps it.
    // has_step(), without the lock: whether there is one to be taken.
    void begin_purge(std::size_t bytes, std::size_t of_chunks) noexcept {
        if (try_scoped_lock const lock(*this, false); lock)
            m_purging = {
                observed(bytes), observed(of_chunks), of_chunks != 0 || (has_step() && m_purging.splits), {}};
    }
    [[nodiscard]] bool has_step() const noexcept { return m_purging.bytes != 0; }
    void do_step() noexcept {
        std::size_t const released = release_chunks(m_purging.of_chunks, false, k_step_bytes);
        if (released == 0) return static_cast<void>(go_on(m_purging, k_looks_in_step));
        try_scoped_lock const lock(*this, false);
        if (!lock) return;
        m_purging.bytes = m_purging.bytes - detail::smaller<std::size_t>(released, m_purging.bytes);
        m_purging.of_chunks = saturating_subtract(m_purging.of_chunks, released);
    }

    // Chunks of 2 MiB that were filled with small pages, because huge ones were slow to get, get those later, as their use is proved: a
    // chunk that was nearly all in use when two walks in a row passed it, and resident. One in a call, and then none for twice as long as
    // it took, so that a third of the time is spent at most: the ski-rental argument (Karlin et al., Competitive snoopy caching, 1988) with a price
    // that is known once it is paid.
    //
    // Called at a period's end. Begins a walk, unless the last one goes on.
    void begin_collapsing() noexcept {
        if (!platform::may_collapse()) return;
        try_scoped_lock const lock(*this, false);
        if (!lock) return;
        if (m_walked == nullptr) m_walked = m_chunks.first();
        std::int64_t none = k_no_collapse;
        m_next_collapse.compare_exchange_strong(none, 0, std::memory_order_relaxed);
    }
    // A hint; then collapse_one() is worth a look at the clock.
    [[nodiscard]] bool may_collapse() const noexcept {
        return m_next_collapse.load(std::memory_order_relaxed) < k_collapsing;
    }
    // A part of the walk, up to a chunk that gets a huge page. Without the lock: the system waits for a thread of its own on each
    // processor. A page that returns to the system meanwhile is taken again with the huge one. O(1), and what the system takes.
    void collapse_one() noexcept;
    // How long none is tried after one that took so long: then a third of the time is spent at most. A system without huge pages looks for
    // them in vain, and may take as long. One of over 20 ms waited: a thread of the system did not get its processor (0.95 s beside one of
    // real time). The next may wait, too: a thousandth of the time.
    [[nodiscard]] static constexpr std::int64_t pause_after(std::int64_t took, bool is_huge) noexcept {
        return (took > 20'000'000 ? 1024 : is_huge ? 2 : 32) * took;
    }

    // Returns the pages that hold free blocks of a slab alone, also those that were returned before. Requires the lock of its class. None in
    // the hardened build, in which these blocks have marks.
    std::size_t purge_in_use(slab& s) noexcept;

    // The smallest number of bytes that were free at any moment since the last call: they were not needed.
    // 0, too, when another thread has the lock and does not run; the same of free_bytes().
    [[nodiscard]] std::size_t take_fewest_free() noexcept {
        try_scoped_lock const lock(*this, false);
        return lock ? m_free.take_fewest() * k_granule_bytes : 0;
    }
    [[nodiscard]] std::size_t free_bytes() noexcept {
        try_scoped_lock const lock(*this, false);
        return lock ? m_free.unneeded_granules() * k_granule_bytes : 0;
    }

    // Needs no lock. acquire: pairs with the release in detach().
    [[nodiscard]] std::size_t empty_bytes() const noexcept { return m_empty_bytes.acquire(); }

    // Checks every structure. O(granules).
    [[nodiscard]] bool is_valid() noexcept {
        scoped_lock const lock(*this);
        bool valid = m_free.is_valid();
        std::size_t free = 0;
        std::size_t held = 0;
        for_each_span([&](slab& s) {
            (s.is_free() ? free : held) += s.granules;
            valid = valid && (s.size_class != k_no_class || s.is_valid());  // another is its class's
        });
        bool is_any_held = false;
        for (chunk const& c : m_chunks) {
            held -= c.held;
            valid = valid && (c.held != 0 || !is_any_held);
            is_any_held = is_any_held || c.held != 0;
        }
        return valid && held == 0 && free == m_free.granules();
    }

private:
    friend record_access;
    static constexpr std::int64_t k_no_collapse = INT64_MAX;
    static constexpr std::int64_t k_collapsing = k_no_collapse - 1;  // a thread is at it

    // Does what take_chunk() does. When the heap cannot grow, all free spans are looked at, and shorter ones serve, until it can again, so
    // that a bound is exact.
    [[nodiscard]] chunk* take_or_note(span_request const& what, upstream::call& under_way,
                                      bool is_apart = false) {
        POOLED_TRY {
            chunk* const fresh = take_chunk(what, under_way, is_apart);
            if (fresh == nullptr) note_refusal();
            return fresh;
        }
        POOLED_CATCH(...) {
            note_refusal();
            POOLED_RETHROW;
        }
    }
    // Whoever looked for a span in vain may find one now.
    void note_refusal() noexcept {
        if (!m_was_refused.exchange(true, std::memory_order_relaxed)) note_gain();
    }

    // Whether the bound does not allow such a span more, or upstream does not have it.
    [[nodiscard]] bool has_no_more(span_request const& what) const noexcept {
        return m_upstream.available() < what.granules * k_granule_bytes ||
               m_was_refused.load(std::memory_order_relaxed);
    }

    // What is done without the lock while its holder does not run: heap/apart.hpp.
    [[nodiscard]] slab* allocate_apart(span_request const& what, bool are_free) noexcept;
    void leave(slab& s) noexcept;
    // Does what grow() does. Of the new spans, `by` reserves so many that it misses no block, or all.
    std::size_t extend(span_request const& what, bool* has_failed, attempt* by = nullptr);
    friend lockable;
    void on_lock() noexcept {
        if (!m_left_chunks.empty() || !m_left_spans.empty() || !m_kept_spans.empty()) [[unlikely]]
            do_apart_slow();
    }
    void on_unlock() noexcept { on_lock(); }
    void do_apart_slow() noexcept;

    // The functions that follow require the lock, unless noted.

    // A chunk's spans are taken from its start on, as far as they are free.
    static void note_use(slab& s) noexcept {
        chunk& in = *s.owner;
        auto const first = static_cast<std::uint32_t>(in.index_of(s));
        s.set_zero(first >= in.new_from);
        in.new_from = detail::larger(in.new_from, first + s.granules);
    }

    // A free span, first of those reserved for the class: of the best length or longer; else a shorter one of which at most an eighth is
    // left over, or, when there is no more or the chunk is shorter, any that holds a block.
    [[nodiscard]] slab* find_span(span_request const& what) noexcept {
        slab* const reserved = m_reservations.find_reserved(what);
        return reserved != nullptr ? reserved : find_unreserved(what);
    }
    [[nodiscard]] slab* find_unreserved(span_request const& what) noexcept {
        if (slab* const s = m_free.find(what)) return s;
        bool const is_last = has_no_more(what);
        if (is_last)
            if (slab* const s = m_free.find_any(what)) return s;
        for (std::size_t most = what.granules; slab* const s = m_free.find_shorter(most);
             most = s->granules) {
            if (s->bytes() < what.bytes) break;
            if (is_last || s->owner->granules < what.granules || k_geometry[what.c].uses(s->bytes()))
                return s;
        }
        return nullptr;
    }
    // Takes what is needed of a free span out of its list; all of a reserved one.
    slab& hold(slab& s, span_request const& what) noexcept {
        if (reservation* const by = s.reserved_for) {
            by->free.remove(s);
            return s;
        }
        std::size_t const skip = free_spans::skip_to(s, what.align) / k_granule_bytes;
        return hold(s, detail::smaller<std::size_t>(s.granules - skip, what.granules), skip);
    }
    slab& hold(slab& s, std::size_t count, std::size_t skip) noexcept {
        slab& taken = m_free.take(s, count, skip);
        chunk& in = *taken.owner;
        if (in.held == 0) {
            m_empty_bytes.subtract(in.bytes);
            unlist(in);
            m_chunks.push_back(in);
        }
        in.held += static_cast<std::uint32_t>(count);
        return taken;
    }
    // Needs no lock. release: pairs with the acquire in gains(); who then takes the lock finds what became free.
    void note_gain() noexcept { m_gains.fetch_add(2, std::memory_order_release); }
    // Does what free_spans::put() does.
    slab& make_free(slab& s, bool is_purged = false) noexcept {
        note_gain();
        if (reservation* const by = s.reserved_for) {
            by->free.push_front(s);
            return s;
        }
        chunk& in = *s.owner;
        in.held -= s.granules;
        if (in.held == 0) {
            m_empty_bytes.add(in.bytes);
            unlist(in);
            m_chunks.push_front(in);
        }
        return m_free.put(s, is_purged);
    }

    void link(chunk& c, bool is_purged = false) noexcept {
        m_was_refused.store(false, std::memory_order_relaxed);
        note_gain();
        c.epoch = m_epoch;
        m_chunks.push_front(c);
        m_free.put(c.records()[0], is_purged);
        m_empty_bytes.add(c.bytes);
    }
    chunk& detach(chunk& c) noexcept {
        m_free.forget(c);
        // release: pairs with the acquire in empty_bytes(); that the call has begun is seen.
        if (c.held == 0) m_empty_bytes.publish(m_empty_bytes - c.bytes);
        unlist(c);
        return c;
    }
    void unlist(chunk& c) noexcept {
        if (m_walked == &c) m_walked = m_chunks.after(c);
        m_chunks.remove(c);
    }

    // `visit` may change no span's length.
    template <class Visit>
    void for_each_span(Visit&& visit) noexcept {
        for (chunk& c : m_chunks)
            for (std::size_t i = 0; i < c.granules;) {
                slab& s = c.records()[i];
                visit(s);
                i += s.granules;
            }
    }

    // How far a purge() has come, and how many bytes it still may return.
    struct purging {
        observed<std::size_t> bytes;
        observed<std::size_t> of_chunks;  // of these, as whole chunks
        bool splits = true;               // huge pages, too
        free_spans::walk spans;
    };

    // Takes the next free span that may have resident pages out of its list, or the end of it, if all is more than `p.bytes`. Null: there is
    // none among the next `looks` spans.
    [[nodiscard]] slab* lend_next(purging& p, std::size_t& looks, upstream::call& under_way) noexcept;
    // Requires a span in no list. leave() ends it. `is_purged`: it has no resident page then.
    slab& begin_loan(slab& s, bool is_purged) noexcept {
        ++m_lent_spans;
        s.size_class = static_cast<std::uint8_t>(k_lent);
        s.is_purged = is_purged;
        return s;
    }

    static constexpr unsigned k_looks_apart = 64;
    static constexpr std::size_t k_looks_in_step = 128;
    static constexpr std::size_t k_looks_of_call = 8;  // a system call takes as long
    static constexpr std::size_t k_step_bytes = std::size_t{8} << 20;

    // Takes the lock for one span at a time, and not while it calls the system: the thread may be preempted there. When it is over, no
    // bytes are left.
    std::size_t go_on(purging& p, std::size_t looks) noexcept;

    // If there is an earlier reservation for the same classes, it takes over the spans of `r`. Without the lock, unless its holder runs.
    void settle(reservation& r) noexcept;

    // The rest requires the lock.
    void list(reservation& r) noexcept;
    // Reserves free spans for `count` blocks, and returns how many are missing.
    std::size_t claim_free(reservation& r, span_request const& what, std::size_t count) noexcept;
    // The spans of `r` pass to another reservation; null: to all classes.
    void unreserve(reservation& r, reservation* to = nullptr) noexcept;
    // All reservations; those in progress keep no span.
    void end_reservations() noexcept;
    // Its spans pass on as there.
    void end(reservation& r, reservation* to = nullptr) noexcept;

    std::uint32_t m_epoch = g_forks_lost;  // when it was constructed
    intrusive_list<chunk> m_chunks;
    atomic<std::int64_t> m_next_collapse{k_no_collapse};  // not before; one thread at a time takes it
    free_spans m_free;
    reservation_list m_reservations;
    purging m_purging;             // in steps
    std::size_t m_lent_spans = 0;  // of class k_lent
    observed<chunk*> m_walked;     // the next one that collapse_one() looks at; null: none
    // Of the last chunk in a forked child's parent: a huge page would be a copy of its memory.
    std::uint64_t m_of_parent = 0;
    atomic<bool> m_was_refused{false};    // the last attempt to grow failed
    observed<std::size_t> m_empty_bytes;  // of chunks with held == 0
    atomic<std::uint32_t> m_gains{1};     // odd
    static constexpr std::uint64_t k_begins_apart = (std::uint64_t{1} << 32) + 1;
    // How many threads look for a span, or leave a chunk, without the lock and, from bit 32 on, ever did.
    atomic<std::uint64_t> m_apart{0};
    // On their way to m_free, and to m_chunks: threads push these without the lock.
    static slab*& next_span(slab& s) noexcept { return s.links.next; }
    static chunk*& next_chunk(chunk& c) noexcept { return c.links.next; }
    push_list<slab, next_span> m_left_spans;
    push_list<slab, next_span> m_kept_spans;  // reserved, or lent: for the lock's next holder alone
    push_list<chunk, next_chunk> m_left_chunks;
};

POOLED_END_DETAIL
