// SPDX-License-Identifier: BSL-1.0
#pragma once

// The deferred queue: objects that lost their last owner and await destruction. It consists of a *window* of sixteen objects,
// first in, first out, and then a stack for the others.
//
//   push ──▶ window: 16 words ──▶ pop: destroy it, which pushes more
//               ▲ when it is not full
//            stack: segments of 510 words; without memory for one, linked through the blocks' own first words
//
// When an object enters the window, the addresses of pool memory found in it are prefetched: when it drops the objects that it owns, their
// counts are in the cache. In the window, independent chains alternate; the stack keeps the frontier of a tree small (docs/teardown.md).
//
// Invariant: the stack is empty unless the window is full. One thread at a time. O(1).

#include "pooled/heap/page_map.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/teardown/block_type.hpp"

POOLED_BEGIN_DETAIL

class deferred {
public:
    constexpr deferred() noexcept = default;
    deferred(void* header, type_tag type, bool is_observed) noexcept
        : m_word(address_of(header) | (is_observed ? k_observed : 0) | type << k_type_shift) {
        sanitizer::hide_pointer(header);
    }

    [[nodiscard]] bool is_observed() const noexcept { return (m_word & k_observed) != 0; }
    [[nodiscard]] void* header() const noexcept { return reinterpret_cast<void*>(m_word & k_address_mask); }
    [[nodiscard]] void const* object() const noexcept {
        return static_cast<std::byte const*>(header()) + type().object_offset;
    }
    [[nodiscard]] block_type const& type() const noexcept { return g_block_types[m_word >> k_type_shift]; }

    // Destroys the object.
    void finish() const noexcept {
        block_type const& is = type();
        is.finish(is, header(), is_observed());
    }

private:
    static constexpr std::uint64_t k_observed = std::uint64_t{1} << 48;
    static constexpr std::uint64_t k_address_mask = k_observed - 1;
    static constexpr unsigned k_type_shift = 64 - k_type_bits;
    std::uint64_t m_word = 0;
};

class deferred_queue {
public:
    constexpr deferred_queue() noexcept = default;
    deferred_queue& operator=(deferred_queue&&) = delete;

    [[nodiscard]] bool empty() const noexcept { return m_size == 0; }
    [[nodiscard]] std::size_t size() const noexcept { return m_size + m_behind; }

    // Requires an object that only this thread can still destroy. The queue may write its header unless the object is observed.
    // False when there is no memory to record an observed object: the caller must destroy it.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push(deferred w, void const* object,
                                                 std::size_t object_bytes) noexcept {
        if (m_size == k_window) {
            if (m_top == nullptr || m_top->count == segment::k_words) [[unlikely]]
                return push_segment(w);
            m_top->words[m_top->count++] = w;
            ++m_behind;
            return true;
        }
        prefetch_from(object, object_bytes);
        m_window[(m_first + m_size++) % k_window] = w;
        return true;
    }

    // Requires that the queue is not empty. The caller must then finish() the object.
    [[nodiscard]] POOLED_ALWAYS_INLINE deferred pop() noexcept {
        deferred& first = m_window[m_first];
        deferred const next = first;
        m_first = (m_first + 1) % k_window;
        if (m_behind == 0)
            --m_size;
        else  // the window is full, so its new end is where its beginning was
            first = pop_behind();
        return next;
    }

    // Destroys up to `most` objects, also those that are pushed meanwhile. Returns how many.
    POOLED_API std::size_t finish(std::size_t most = ~std::size_t{0}) noexcept;

    deferred_queue* next_queue = nullptr;  // in a list

private:
    friend record_access;
    static constexpr std::uint32_t k_window = 16;
    static constexpr std::size_t k_scanned_words = 16;
    static constexpr std::size_t k_ahead = 4;
    // Blocks are contiguous and cross cache lines. Without this, the tree of 56-byte blocks takes 37 ns per node instead of 25.
    static constexpr std::uintptr_t k_second_line = 48;

    struct segment {
        static constexpr std::size_t k_words = 510;
        segment* below;
        std::size_t count;
        deferred words[k_words];
    };

    // The object's own lines are in the cache or being fetched, because its count was just written. A std::shared_ptr has two
    // addresses in the same block, of the object and of the count, so that block is fetched once. Not where a tool watches blocks of
    // malloc: Valgrind reports a branch that depends on what the object never wrote.
    POOLED_UNWATCHED static void prefetch_from(void const* object, std::size_t bytes) noexcept {
        if constexpr (POOLED_SANITIZE != 0) return;
        std::size_t const all = bytes / sizeof(std::uintptr_t);
        std::size_t const words = all < k_scanned_words ? all : k_scanned_words;
        auto const* const first = static_cast<std::byte const*>(object);
        for (std::size_t i = 0; i < words;) {
            std::uintptr_t const word = word_at(first, i++);
            if (g_page_map.find_leaf(word) == nullptr) continue;
            std::uintptr_t const next = i < words ? word_at(first, i) : 0;
            bool const is_pair = word - next < k_second_line;
            prefetch(is_pair ? next : word);
            i += is_pair ? 1 : 0;
        }
    }
    POOLED_UNWATCHED static std::uintptr_t word_at(std::byte const* words, std::size_t index) noexcept {
        std::uintptr_t word = 0;
        __builtin_memcpy(&word, words + index * sizeof(word), sizeof(word));
        return word;
    }
    POOLED_ALWAYS_INLINE static void prefetch(std::uintptr_t address) noexcept {
        __builtin_prefetch(reinterpret_cast<void const*>(address), 1);
        __builtin_prefetch(reinterpret_cast<void const*>(address + k_second_line), 1);
    }

    // Puts the object into a new segment of the stack or, without memory for one, links it. False as for push().
    [[nodiscard]] POOLED_API bool push_segment(deferred w) noexcept;

    // Requires a stack that is not empty. Objects that were pushed long ago are no longer in the caches, so they are prefetched
    // some steps before their turn.
    [[nodiscard]] POOLED_ALWAYS_INLINE deferred pop_behind() noexcept {
        deferred w = m_linked;
        if (m_top != nullptr) {
            std::size_t const count = --m_top->count;
            w = m_top->words[count];
            if (count >= k_ahead) prefetch(address_of(m_top->words[count - k_ahead].header()));
            if (count == 0) {
                segment* const empty = m_top;
                m_top = empty->below;
                g_metadata.deallocate(empty, sizeof(segment));
            }
        } else {
            __builtin_memcpy(&m_linked, w.header(), sizeof(m_linked));
        }
        --m_behind;
        block_type const& type = w.type();
        prefetch_from(static_cast<std::byte const*>(w.header()) + type.object_offset, type.object_bytes);
        return w;
    }

    std::uint32_t m_first = 0;
    std::uint32_t m_size = 0;
    std::size_t m_behind = 0;  // in the segments and linked
    segment* m_top = nullptr;
    deferred m_linked;
    deferred m_window[k_window]{};
};

#if POOLED_HAS_CODE

POOLED_CODE bool deferred_queue::push_segment(deferred w) noexcept {
    if (auto* const fresh = static_cast<segment*>(g_metadata.try_allocate(sizeof(segment)))) {
        fresh->below = m_top;
        fresh->words[0] = w;
        fresh->count = 1;
        m_top = fresh;
    } else {
        if (w.is_observed()) return false;
        __builtin_memcpy(w.header(), &m_linked, sizeof(m_linked));
        m_linked = w;
    }
    ++m_behind;
    return true;
}

POOLED_CODE std::size_t deferred_queue::finish(std::size_t most) noexcept {
    std::size_t done = 0;
    for (; done != most && !empty(); ++done)
        pop().finish();
    return done;
}

#endif

POOLED_END_DETAIL
