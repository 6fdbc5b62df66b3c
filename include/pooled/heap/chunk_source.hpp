// SPDX-License-Identifier: BSL-1.0
#pragma once

// Chunks from upstream, and back to it: how long they are, their records, their entries in the page map, and what the checked and the
// hardened build record of them. Nothing here takes a lock of the heap, since upstream may use the pool.
//
//   chunk_bytes, or as much as the pool has ─▶ longer for a longer request ─▶ shorter at the bound ─▶ halves, while upstream refuses
//
// Any thread may call. O(granules of the chunk), besides what upstream takes.

#include "pooled/heap/checked_memory.hpp"
#include "pooled/heap/free_mark.hpp"
#include "pooled/heap/free_spans.hpp"
#include "pooled/heap/misuse.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/plugins/copies.hpp"

POOLED_BEGIN_DETAIL

class chunk_source {
public:
    struct shape {
        std::uint32_t pool_id;
        bool is_shared;
        bool has_small_slabs;
        std::size_t chunk_bytes;
        // Each chunk is as large as all before it together, and so is each slab of a class, up to the usual length: small pools are cheap.
        bool starts_small;
    };
    chunk_source(shape const& what, upstream& from) noexcept : m_shape(what), m_upstream(from) {}

    // Chunks are multiples of it: whole granules, so that owns() answers exactly; but a bound under one granule is usable, too.
    [[nodiscard]] std::size_t unit() const noexcept {
        return m_upstream.max_bytes() < k_granule_bytes ? k_min_block_bytes : k_granule_bytes;
    }

    // `held`: granules that the class has, which a program with many sizes touches a few blocks of; otherwise a slab of the usual length.
    [[nodiscard]] span_request span_for(block_request const& what,
                                        std::size_t held = k_size_max) const noexcept {
        if (what.c != k_exact) {
            std::size_t const usual = slab_granules_for(what.c, m_shape.has_small_slabs);
            std::size_t const least = m_shape.starts_small ? slab_granules_for(what.c, true) : usual;
            return {.granules = detail::clamp(held, least, usual), .bytes = what.block_bytes(), .c = what.c};
        }
        std::size_t const bytes = detail::larger<std::size_t>(what.bytes, 1);
        return {.granules = bytes / k_granule_bytes + (bytes % k_granule_bytes != 0),
                .bytes = bytes,
                .align = detail::larger(what.align, k_granule_bytes)};
    }

    // A chunk whose only span is in no list; null when the bound is reached. Throws what upstream throws; nothing is taken then.
    // O(granules). If upstream does not have that much in one piece, half as much is requested, down to what is needed.
    // `is_apart`: for heap/apart.hpp, which serves requests of this length alone with it.
    // `under_way` must be settled once other threads can find the chunk.
    [[nodiscard]] chunk* take_chunk(span_request const& what, upstream::call& under_way,
                                    bool is_apart = false) {
        std::size_t const least = round_up(what.bytes, unit());
        std::size_t bytes = m_shape.chunk_bytes;
        if (is_apart && (!m_upstream.is_system() || m_upstream.is_bounded()))  // untouched pages cost nothing
            bytes = detail::smaller(bytes, k_spans_apart * what.granules * k_granule_bytes);
        std::size_t const used = m_upstream.used();
        bool const is_small = what.bytes <= k_max_block_bytes;
        bool const is_dense = is_small && (fills_quickly(used) || used >= k_least_for_huge_pages);
        if (m_shape.starts_small && used < bytes && !is_dense)
            bytes = detail::larger(k_slab_bytes, std::bit_ceil(used));
        bytes = detail::larger(bytes, what.granules * k_granule_bytes);
        // Chunks as long as their alignment touch, and are one mapping.
        if (m_upstream.is_system() && !m_upstream.is_bounded() && what.align <= k_longest_for_align)
            bytes = detail::larger(bytes, what.align);
        if (std::size_t const left = m_upstream.available(); bytes > left) bytes = round_down(left, unit());
        if (bytes < least) return nullptr;
        for (;; bytes = detail::larger(least, round_down(bytes / 2, unit()))) {
            chunk* const c = take_exactly(bytes, what, bytes <= least, is_dense, under_way);
            if (c != nullptr && is_small) note_small(*c);
            if (c != nullptr || bytes <= least) return c;
        }
    }

    // What to do with a chunk that the system does not take back.
    enum class refused : bool { keep, abandon };
    // Requires a chunk in no list, whose bytes are of `under_way`. False when the system did not take it back: the chunk is as before or, if
    // it is abandoned, gone, and only its addresses are lost.
    [[nodiscard]] bool return_chunk(chunk& c, upstream::call& under_way, refused what) noexcept {
        g_page_map.assign(c.base, c.bytes, c.outer.bits());  // before another thread can get the memory
        checked_memory::set_exists(c.base, c.was_live);
        if constexpr (k_hardened)
            if (!m_upstream.is_system()) free_mark::take_off(c.base);  // a pool there has the same mark
        bool const is_returned =
            m_upstream.deallocate(c.base, c.bytes, std::size_t{1} << c.align_log, under_way);
        if (!is_returned && what == refused::keep) return map(c.records()[0]), false;
        if (!is_returned) m_upstream.abandon(c.base, c.bytes, under_way);
        g_metadata.deallocate(&c, chunk::descriptor_bytes(c.granules));
        return is_returned;
    }

    // The granules of a span lead to its first record. O(granules).
    void map(slab& s) const noexcept {
        g_page_map.assign(s.memory(), s.bytes(), map_entry(m_shape.pool_id, &s, !m_shape.is_shared).bits());
    }

    // The pages of the free bytes [first, end) of a slab may change from now on: in the checked build, nothing wrote to the free blocks there.
    // The records of a span without a class could change already.
    static void end_free(slab const& s, std::size_t first, std::size_t end) noexcept {
        if (s.size_class <= k_exact)
            checked_memory::end_free(s.memory() + first, s.memory() + end, s.block_bytes());
    }

private:
    static constexpr std::size_t k_spans_apart = 8;
    static constexpr std::size_t k_max_granules = ~std::uint32_t{0};
    static constexpr std::size_t k_least_for_huge_pages = 2 * k_huge_page_bytes;
    static constexpr std::size_t k_longest_for_align = std::size_t{32} << 20;  // whose records are 384 KiB

    // Whether a pool that has not much memory soon will: each of its last two chunks for small blocks lasted for less than 1 ns a byte, so
    // half of the time went to page faults, and then half of it and the one before was resident. Not more: of many sizes, each has a slab that
    // is not full. So the pool has 2 MiB then, or nearly all is resident. One alone may be a queue that is full now. Other threads may note
    // another chunk meanwhile: a hint.
    [[nodiscard]] bool fills_quickly(std::size_t used) noexcept {
        if (!may_fill_quickly(used)) return false;
        bool const was_quick = m_was_quick;
        bool const is_quick = platform::time() < m_quick_until;
        std::size_t const last = m_last_bytes;
        std::size_t const before = m_before_bytes;
        std::size_t const resident =
            platform::resident_bytes(m_last, last) + platform::resident_bytes(m_before, before);
        m_was_quick = is_quick && 2 * resident >= last + before;
        bool const is_full = 8 * resident >= 7 * (last + before);
        return was_quick && m_was_quick && used >= (is_full ? k_huge_page_bytes / 2 : k_huge_page_bytes);
    }
    // Whether that makes a difference to the next chunk. Otherwise the clock, which may be the program's and use the pool, is not read.
    [[nodiscard]] bool may_fill_quickly(std::size_t used) const noexcept {
        return used >= k_huge_page_bytes / 8 && used < k_least_for_huge_pages &&
               m_upstream.wants_huge_pages(k_huge_page_bytes);
    }
    void note_small(chunk const& c) noexcept {
        if (!may_fill_quickly(m_upstream.used())) return;
        m_before = m_last;
        m_before_bytes = m_last_bytes;
        m_last = c.base;
        m_last_bytes = c.bytes;
        m_quick_until = platform::time() + static_cast<std::int64_t>(c.bytes);
    }

    // How many bytes of a new chunk, from its start on, huge pages are worth asking for: at least half of each will be touched. A large
    // block is longer than those of the class before, and of one under 2 MiB the beginning may be all that is used; so may a few small blocks
    // of a small pool's chunk, unless `is_dense`; and small blocks with a large alignment touch a page each.
    [[nodiscard]] std::size_t dense_bytes(std::size_t bytes, span_request const& what,
                                          bool is_dense) const noexcept {
        if (what.bytes <= k_max_block_bytes) return is_dense && what.align <= k_granule_bytes ? bytes : 0;
        if (what.bytes < k_huge_page_bytes) return 0;
        if (bytes > what.granules * k_granule_bytes) return bytes;  // the rest serves other blocks
        std::size_t const touched = what.c == k_exact ? what.bytes : k_geometry[what.c - 1].block_bytes;
        return detail::smaller(bytes, touched + k_huge_page_bytes / 2);
    }

    // Null when the bound is reached, or when upstream does not have that much but may have less.
    [[nodiscard]] chunk* take_exactly(std::size_t bytes, span_request const& what, bool is_last,
                                      bool is_dense, upstream::call& under_way) {
        std::size_t const count = (bytes + k_granule_bytes - 1) / k_granule_bytes;
        if (count > k_max_granules) {
            under_way.fail();
            POOLED_NO_MEMORY;
        }
        std::size_t const dense = dense_bytes(bytes, what, is_dense);
        void* base = nullptr;
        POOLED_TRY { base = m_upstream.allocate(bytes, what.align, under_way, dense); }
        POOLED_CATCH(std::bad_alloc const&) {
            if (is_last) POOLED_RETHROW;
        }
        if (base == nullptr) return nullptr;
        if ((address_of(base) & (what.align - 1)) != 0) [[unlikely]]
            fail_with(
                "pooled: the upstream of pool '%s' returned %p for %zu bytes, which is not aligned to %zu as "
                "requested; its do_allocate must honour the alignment",
                name_of_pool(m_shape.pool_id), base, bytes, what.align);
        bool const is_mapped = g_page_map.prepare(base, bytes) && checked_memory::prepare(base, bytes);
        void* const records =
            is_mapped ? g_metadata.try_allocate_zeroed(chunk::descriptor_bytes(count)) : nullptr;
        if (records == nullptr) {
            if (!m_upstream.deallocate(base, bytes, what.align, under_way))
                m_upstream.abandon(base, bytes, under_way);
            under_way.fail();
            POOLED_NO_MEMORY;
        }

        auto* const c = ::new (records) chunk;
        c->base = static_cast<std::byte*>(base);
        c->bytes = bytes;
        c->align_log = static_cast<std::uint8_t>(std::countr_zero(what.align));
        c->may_be_huge = bytes == k_huge_page_bytes && m_upstream.wants_huge_pages(bytes);
        c->number = detail::next_region();
        c->outer = g_page_map.find(base);
        c->was_live = checked_memory::set_exists(base, false);
        c->granules = static_cast<std::uint32_t>(count);
        if (!m_upstream.is_system()) c->new_from = c->granules;
        c->record(0).granules = c->granules;
        map(c->record(0));
        return c;
    }

    shape m_shape;
    observed<std::byte*> m_last;  // the last chunk for small blocks; perhaps it is gone
    observed<std::size_t> m_last_bytes;
    observed<std::byte*> m_before;  // the one before it
    observed<std::size_t> m_before_bytes;
    observed<std::int64_t> m_quick_until;
    observed<bool> m_was_quick;  // m_before

protected:
    // What a reservation touches is not filled.
    void forget_small() noexcept { m_quick_until = 0; }

    upstream& m_upstream;
};

POOLED_END_DETAIL
