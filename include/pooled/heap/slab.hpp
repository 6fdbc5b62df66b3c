// SPDX-License-Identifier: BSL-1.0
#pragma once

// A chunk: the unit that the heap requests from upstream and divides into spans. A slab: a span of granules with blocks of one size
// class. Their records lie in one piece of the metadata arena, apart from the memory they describe, and say which blocks are free: the
// memory itself is neither read nor written.
//
//   chunk    | granule 0 | granule 1 | … | granule n-1 |     the only one of a tiny pool may be shorter
//   slab     | colour | block 0 | block 1 | block 2 | … | block total-1 | rest |
//   bits                1: free   0: in a thread's cache or in use
//   records  | header, bits | header, bits | …      one for each granule; each has bits for 1024 blocks
//
// The first record of a span is its descriptor. Of the other records it uses the bits only, and of the last one `granules`. Offsets in
// bytes are from memory(), the span's first byte, unless they are called a block's.
//
// Invariants: memory() <= blocks < memory() + k_granule_bytes, equal without a class; memory() never changes, and blocks not while
//             a block is in use, so the thread that frees one may read it without the lock;
//             free = number of set bits <= total; no bit at or beyond total is set;
//             a span without a class has free == total == 0;
//             in the hardened build, a free block has its mark (heap/free_mark.hpp), unless it starts at or after `unmarked_from`, or
//             was written to;
//             a free span's length is `granules` of its first and of its last record; the last record of another span has 0
//             there, unless it is also the first.
//             held = a chunk's granules that are in use or reserved; a chunk with held == 0 can return to upstream.
// Chunks are guarded by the lock of the heap. Slabs are guarded by the lock of their class, or by that of the heap while they have none;
// both are held when the class changes, and any thread may read which it is. O(1); allocate: O(words).

#include "pooled/base/intrusive_list.hpp"
#include "pooled/heap/free_mark.hpp"
#include "pooled/heap/page_map.hpp"

#include <new>

POOLED_BEGIN_DETAIL

struct chunk;
struct reservation;

inline constexpr class_index k_no_class = 254;
inline constexpr class_index k_left = 253;  // no block, and not free: heap/apart.hpp
inline constexpr class_index k_lent = 252;  // so, too: the system takes or makes its pages

// Two addresses of an array, which the processor reads, writes and adds to as one.
using address_pair [[gnu::vector_size(16), gnu::aligned(8), gnu::may_alias]] = std::uintptr_t;

struct alignas(k_cache_line) slab {
    static constexpr std::size_t k_word_bits = 64;
    static constexpr std::size_t k_words = k_granule_bytes / k_min_block_bytes / k_word_bits;
    static constexpr std::uint16_t k_nowhere = 0xffff;

    std::byte* blocks = nullptr;  // the first one
    chunk* owner = nullptr;
    list_links<slab> links;  // in a list of the heap, or of the slabs of its class with a free block
    observed<reservation*> reserved_for;
    std::uint32_t granules = 1;
    std::uint32_t total = 0;
    std::uint32_t free = 0;
    std::uint16_t first_word = 0;  // no bit is set in any earlier word
    std::uint16_t short_by = 0;    // bytes that are missing from the span's last granule
    observed<std::uint8_t> size_class{static_cast<std::uint8_t>(k_no_class)};
    bool is_purged = false;  // of a listed free span: no page of it is resident
    // Where the thread's cache of its class is, in bytes from that of the first class: for operator delete. Beyond any if there is none.
    observed<std::uint16_t> cache_at{k_nowhere};
    // In the hardened build, an offset from `blocks`: no block from there on was used since the slab has its class. In other builds, a large
    // block has is_zero() here.
    observed<std::uint32_t> unmarked_from;
    std::array<std::uint64_t, k_words> bits{};

    [[nodiscard]] bool is_free() const noexcept {
        return size_class == k_no_class && reserved_for == nullptr;
    }

    [[nodiscard]] std::size_t colour() const noexcept { return address_of(blocks) % k_granule_bytes; }
    [[nodiscard]] std::byte* memory() const noexcept { return blocks - colour(); }
    // The only granule of a pool bounded to less than one is shorter.
    [[nodiscard]] std::size_t bytes() const noexcept { return granules * k_granule_bytes - short_by; }
    [[nodiscard]] slab& last_record() noexcept { return this[granules - 1]; }

    // Requires a class.
    [[nodiscard]] std::size_t block_bytes() const noexcept {
        return size_class == k_exact ? bytes() : k_geometry[size_class].block_bytes;
    }

    // Whether the memory of a large block, which was not freed since the slab has its class, was new from the system then.
    [[nodiscard]] bool is_zero() const noexcept { return !k_hardened && unmarked_from != 0; }
    void set_zero(bool is) noexcept {
        if (!k_hardened) unmarked_from = std::uint32_t{is};
    }

    // Whether a block starts there that class_for() does not serve. It may be free.
    [[nodiscard]] bool is_large_block(void const* p) const noexcept {
        return size_class >= k_inlined_classes && size_class <= k_exact && p == blocks;
    }

    // The word of the bitmap with the bits of blocks from 64 · w on: this[w / k_words].bits[w % k_words] in six instructions less.
    [[nodiscard]] POOLED_ALWAYS_INLINE std::uint64_t& word(std::size_t w) noexcept {
        return reinterpret_cast<std::uint64_t*>(this)[w + (w / k_words + 1) * (k_cache_line / 8)];
    }
    [[nodiscard]] POOLED_ALWAYS_INLINE std::uint64_t word(std::size_t w) const noexcept {
        return const_cast<slab*>(this)->word(w);
    }
    [[nodiscard]] std::size_t words() const noexcept { return (total + k_word_bits - 1) / k_word_bits; }

    [[nodiscard]] static constexpr std::uint16_t cache_of(class_index c) noexcept {
        return c < k_inlined_classes ? static_cast<std::uint16_t>(c * k_class_cache_bytes) : k_nowhere;
    }
    // All blocks free, of size class `c`; or none: they are in use, or the caller's. Requires a span without a class.
    void assign(class_index c, bool are_free = true) noexcept {
        class_geometry const& g = k_geometry[c];
        std::size_t const size = bytes();
        cache_at = cache_of(c);
        total = c != k_exact ? g.blocks_in(size) : 1;
        if (are_free) free = total;
        if (c != k_exact) blocks += g.colour_of(address_of(blocks), size);
        first_word = 0;
        unmarked_from = std::uint32_t{0};
        std::size_t const whole = total / k_word_bits;
        for (std::size_t w = 0; w < whole; ++w)
            word(w) = ~std::uint64_t{0};
        if (total % k_word_bits != 0) word(whole) = (std::uint64_t{1} << (total % k_word_bits)) - 1;
        // release: pairs with the acquire in central::follow(), which must not see an earlier `free` with this class.
        size_class.publish(static_cast<std::uint8_t>(c));
    }

    // Requires a class, and all blocks free. `then`: its class without a block.
    void unassign(class_index then = k_no_class) noexcept {
        for (std::size_t w = 0; w < words(); ++w)
            word(w) = 0;
        blocks = memory();
        size_class = static_cast<std::uint8_t>(then);
        cache_at = k_nowhere;
        total = free = 0;
    }

    // Takes up to `count` free blocks, the lowest addresses first, and writes these from `top` downwards. Returns how many.
    std::uint32_t allocate(std::uint32_t count, void** top) noexcept {
        std::uint32_t const taken = count < free ? count : free;
        free -= taken;
        take(taken, top);
        return taken;
    }
    // Requires so many bits; those of a slab that assign() has left none count as no free blocks.
    POOLED_CLEARED void take(std::uint32_t const taken, void** top) noexcept {
        std::uint32_t left = taken;
        std::size_t const size = k_geometry[size_class].block_bytes;
        std::uint32_t w = first_word;
        [[maybe_unused]] std::size_t unmarked = unmarked_from;
        while (left != 0) {
            std::uint64_t set = word(w);
            // Does what the loop below does, for a whole word.
            if (!k_hardened && set == ~std::uint64_t{0} && left >= k_word_bits) {
                address_pair two = address_pair{size, 0} + (address_of(blocks) + w * k_word_bits * size);
#pragma GCC unroll 4
                for (std::size_t i = 0; i < k_word_bits; i += 2, two += 2 * size)
                    *reinterpret_cast<address_pair*>(top -= 2) = two;
                left -= static_cast<std::uint32_t>(k_word_bits);
                set = 0;
            }
            for (; set != 0 && left != 0; --left, set &= set - 1) {
                std::size_t const offset =
                    (w * k_word_bits + static_cast<std::size_t>(std::countr_zero(set))) * size;
                if constexpr (k_hardened)
                    if (offset >= unmarked) {
                        free_mark::put_on(blocks + offset);
                        unmarked = offset + size;
                    }
                *--top = blocks + offset;
            }
            word(w) = set;
            if (set == 0) ++w;
        }
        first_word = static_cast<std::uint16_t>(w);
        if constexpr (k_hardened) unmarked_from = static_cast<std::uint32_t>(unmarked);
    }

    // Whether a block of size class `c` that starts there may be in use: where it may not, no mark says so. Without the lock.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool may_be_in_use(class_index c, void const* p) const noexcept {
        return size_class == c && address_of(p) - address_of(blocks) < unmarked_from;
    }

    // Prefetches up to `count` blocks that allocate() passes on next, for writing.
    void prefetch_lowest(std::uint32_t count) const noexcept {
        std::size_t const size = k_geometry[size_class].block_bytes;
        for (std::size_t w = first_word; w * k_word_bits < total; ++w)
            for (std::uint64_t set = word(w); set != 0; set &= set - 1) {
                if (count-- == 0) return;
                auto const nth = w * k_word_bits + static_cast<std::size_t>(std::countr_zero(set));
                __builtin_prefetch(blocks + nth * size, 1);
            }
    }

    // Finds the index of the block that starts there. False: none does.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool find_index(void const* block, class_geometry const& g,
                                                       std::uint32_t& index) const noexcept {
        std::uintptr_t const offset = address_of(block) - address_of(blocks);
        index = g.index_of(static_cast<std::uint32_t>(offset));
        return index < total && index * std::uintptr_t{g.block_bytes} == offset;
    }
    // False: it is free already. But for their number.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool set_free(std::uint32_t index) noexcept {
        auto const w = static_cast<std::uint32_t>(index / k_word_bits);
        std::uint64_t const before = word(w);
        word(w) |= std::uint64_t{1} << (index % k_word_bits);
        if (word(w) == before) [[unlikely]]
            return false;
        if (w < first_word) first_word = static_cast<std::uint16_t>(w);
        return true;
    }

    // Records as free those of the blocks before `last`, from `index` on, that lie one after the other, each `stride` after the one before it,
    // up to a word in which one of them is free already. Returns how many. Out of line, so that blocks in random order need no registers for it.
    [[nodiscard]] POOLED_CLEARED std::size_t deallocate_run(void* const* block, void* const* last,
                                                            std::uint32_t index, std::uintptr_t stride,
                                                            bool is_up) noexcept {
        void* const* next = block;
        auto* const end = detail::smaller(last, block + (is_up ? total - index : index + 1));
        address_pair two = address_pair{0, stride} + address_of(*block);
        for (; end - next >= 16; next += 16) {
            address_pair differ{};
#pragma GCC unroll 8
            for (std::ptrdiff_t i = 0; i < 8; ++i, two += 2 * stride)
                differ |= reinterpret_cast<address_pair const*>(next)[i] ^ two;
            if ((differ[0] | differ[1]) != 0) break;
        }
        auto run = static_cast<std::size_t>(next - block);
        for (; block + run != end && address_of(block[run]) == address_of(*block) + run * stride; ++run) {}
        for (std::size_t n = 0, in_word = 0;; n += in_word) {
            if (n == run) return n;
            std::size_t const from = is_up ? index + n : index - n;
            std::size_t const at = from % k_word_bits;
            in_word = detail::smaller(run - n, is_up ? k_word_bits - at : at + 1);
            auto const mask = ~std::uint64_t{0} >> (k_word_bits - in_word) << (is_up ? at : at + 1 - in_word);
            if ((word(from / k_word_bits) & mask) != 0) return n;
            word(from / k_word_bits) |= mask;
            first_word = detail::smaller(first_word, static_cast<std::uint16_t>(from / k_word_bits));
        }
    }

    // Records as free the leading blocks of [block, end) that lie in this slab, and returns the first one that does not, or that
    // is wrong (error_of()). `g`: of the slab's class. Optimized for neighbours one after the other, upwards or downwards.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* const* deallocate(void* const* block, void* const* end,
                                                               class_geometry const& g) noexcept {
        std::uintptr_t const size = g.block_bytes;
        void* const* const all = block;
        while (block != end) {
            std::uint32_t index = 0;
            if (!find_index(*block, g, index)) [[unlikely]]
                break;
            if (end - block > 1) {
                std::uintptr_t const stride = address_of(block[1]) - address_of(*block);
                if (stride == size || stride == 0 - size) {
                    std::size_t const n = deallocate_run(block, end, index, stride, stride == size);
                    block += n;
                    if (n != 0) continue;
                }
            }
            if (!set_free(index)) [[unlikely]]
                break;
            ++block;
        }
        free += static_cast<std::uint32_t>(block - all);
        return block;
    }
    // Records one block as free. False: it is wrong, or lies in another slab.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool deallocate(void* block, class_geometry const& g) noexcept {
        std::uint32_t index = 0;
        if (!find_index(block, g, index) || !set_free(index)) [[unlikely]]
            return false;
        ++free;
        return true;
    }

    static constexpr char const* k_already_free = "the block is free already (double free)";
    static constexpr char const* k_not_a_block = "no block starts there";
    // Why deallocate() stopped at a block; null: it lies in another slab, or is a block that is not free.
    [[nodiscard]] char const* error_of(void const* block) const noexcept {
        std::uintptr_t const offset = address_of(block) - address_of(blocks);
        std::size_t const size = k_geometry[size_class].block_bytes;
        std::size_t const index = offset / size;
        bool const is_block = index < total && index * size == offset;
        if (address_of(block) - address_of(memory()) >= bytes() || (is_block && !is_free(index)))
            return nullptr;
        return is_block ? k_already_free : k_not_a_block;
    }
    // Requires index < total.
    [[nodiscard]] bool is_free(std::size_t index) const noexcept {
        return (word(index / k_word_bits) >> (index % k_word_bits) & 1) != 0;
    }

    [[nodiscard]] bool is_empty() const noexcept { return free == total; }  // no block is in use

    // Calls visit(first, end) for each run of free blocks, with its offsets.
    template <class Visit>
    void for_each_free_run(Visit&& visit) const noexcept {
        std::size_t const size = k_geometry[size_class].block_bytes;
        std::uint32_t first = 0;
        for (std::uint32_t i = 0; i <= total; ++i) {
            if (i != total && is_free(i)) continue;
            if (i != first) visit(colour() + first * size, colour() + i * size);
            first = i + 1;
        }
    }

    [[nodiscard]] bool is_valid() const noexcept {
        std::uint32_t set = 0;
        for (std::size_t w = 0; w < granules * k_words; ++w) {
            set += static_cast<std::uint32_t>(std::popcount(word(w)));
            if (w < first_word && word(w) != 0) return false;
        }
        if (cache_at != cache_of(size_class)) return false;
        if (size_class == k_no_class) return set == 0 && free == 0 && total == 0 && colour() == 0;
        bool const none_beyond =
            total % k_word_bits == 0 || word(total / k_word_bits) >> (total % k_word_bits) == 0;
        return set == free && free <= total && none_beyond;
    }
};

static_assert(sizeof(slab) == k_cache_line + slab::k_words * sizeof(std::uint64_t));

using slab_list = intrusive_list<slab>;

struct alignas(k_cache_line) chunk {
    list_links<chunk> links;
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    map_entry outer;           // the page map's former entry for this memory, since upstream may be a pool
    std::uint64_t number = 0;  // value of next_region() when the chunk came from upstream
    std::uint32_t granules = 0;
    std::uint32_t held = 0;
    std::uint32_t epoch = 0;       // g_forks_lost when its heap was constructed
    std::uint32_t new_from = 0;    // no span from this granule on was ever in use; the memory is the system's
    std::uint8_t align_log = 0;    // of the alignment with which upstream was asked
    bool may_be_huge : 1 = false;  // it has 2 MiB, and its pool wants huge pages
    bool was_full : 1 = false;     // is_small_and_full() when slab_heap::collapse_one() last looked at it
    bool was_live : 1 = false;     // in the checked build: its former bit for the first byte, as `outer`
    observed<bool> is_huge;  // it got a huge page from collapse_one(), and none of its pages returned since

    // The records of its granules follow the chunk's. They are all zero until a span begins there.
    [[nodiscard]] span<slab> records() noexcept { return {reinterpret_cast<slab*>(this + 1), granules}; }
    [[nodiscard]] static constexpr std::size_t descriptor_bytes(std::size_t granules) noexcept {
        return sizeof(chunk) + granules * sizeof(slab);
    }
    [[nodiscard]] std::size_t index_of(slab const& s) noexcept {
        return static_cast<std::size_t>(&s - records().data());
    }
    // The record of granule `i`, which begins a span.
    [[nodiscard]] slab& record(std::size_t i) noexcept {
        slab& s = records()[i];
        if (s.owner == nullptr) {
            ::new (static_cast<void*>(&s)) slab;
            s.blocks = base + i * k_granule_bytes;
            s.owner = this;
            if (bytes < k_granule_bytes) s.short_by = static_cast<std::uint16_t>(k_granule_bytes - bytes);
        }
        return s;
    }

    // Whether it is worth a huge page, and may have small ones.
    [[nodiscard]] bool is_small_and_full() const noexcept {
        return may_be_huge && !is_huge && held >= granules / 8 * 7;
    }

    // The record before the span `s`, the last one of the span there, or null; and the first record of the span after it.
    [[nodiscard]] static slab* before(slab& s) noexcept {
        return s.owner->index_of(s) == 0 ? nullptr : &s - 1;
    }
    [[nodiscard]] static slab* after(slab& s) noexcept {
        return s.owner->index_of(s) + s.granules == s.owner->granules ? nullptr : &s + s.granules;
    }
};

POOLED_END_DETAIL
