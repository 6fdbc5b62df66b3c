// SPDX-License-Identifier: BSL-1.0
#pragma once

// Idle objects of a recycle_list, linked through eight bytes of their own.

#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"

#include <array>
#include <cstring>
#include <utility>

POOLED_BEGIN_DETAIL

// The eight bytes by which a recycled object is known. A link points into the object it links to, so tools that look for leaks follow
// it. Generations are multiples of k_step. For threads that own the object.
//
//   in use, or in a thread's cache   | generation | count |     count: for the object's handles
//   in a stack                       | link, with k_linked in its lowest bits |
struct alignas(8) recycle_node {
    static constexpr std::uint32_t k_no_object = 0;  // a generation
    static constexpr std::uint32_t k_step = 8;       // from one to the next
    static constexpr std::uint32_t k_destroyed = 2;  // added to that of an object that was destroyed

    std::uint32_t generation = k_no_object;
    atomic<std::uint32_t> count{0};

    void set(std::uint32_t count_now, std::uint32_t generation_now) noexcept {
        generation = generation_now;
        count.store(count_now, std::memory_order_relaxed);
    }
    [[nodiscard]] bool is_linked() const noexcept {
        return generation % k_step == k_linked &&
               count.load(std::memory_order_relaxed) >> k_address_bits == 0;
    }
    // Addresses have at most 56 bits. Compiled to one store, and one load: no other thread uses the count meanwhile.
    void link(recycle_node const* next) noexcept {
        std::uint64_t const word = address_of(next) | k_linked;
        std::memcpy(static_cast<void*>(this), &word, sizeof(word));
    }
    [[nodiscard]] recycle_node* next() const noexcept {
        std::uint64_t word = 0;
        std::memcpy(&word, static_cast<void const*>(this), sizeof(word));
        return reinterpret_cast<recycle_node*>(static_cast<std::uintptr_t>(word - k_linked));
    }

private:
    friend record_access;
    static constexpr std::uint32_t k_linked = 5;
    static constexpr unsigned k_address_bits = 24;  // of the upper half
};
static_assert(sizeof(recycle_node) == recycle_node::k_step && alignof(recycle_node) == recycle_node::k_step);

// Last in, first out. An object is linked to the one that was pushed eight before it: what is popped eight pops later is prefetched,
// as from an array. Requires a lock, or one thread; size() may be read at any time. O(1).
class recycle_stack {
public:
    [[nodiscard]] std::size_t size() const noexcept { return m_size; }

    POOLED_ALWAYS_INLINE void push(recycle_node& n) noexcept {
        std::size_t const size = m_size;
        n.link(std::exchange(m_tops[size % k_ways], &n));
        m_size = size + 1;
    }
    // The object pushed last, which the caller must set(); null when there is none.
    [[nodiscard]] POOLED_ALWAYS_INLINE recycle_node* pop() noexcept {
        std::size_t const size = m_size;
        if (size == 0) return nullptr;
        m_size = size - 1;
        recycle_node*& top = m_tops[(size - 1) % k_ways];
        recycle_node* const n = top;
        top = n->next();
        __builtin_prefetch(top, 1);
        return n;
    }

    // Walks the stack: for tests.
    [[nodiscard]] bool is_valid() const noexcept {
        std::array<recycle_node*, k_ways> tops = m_tops;
        for (std::size_t left = m_size; left-- != 0; tops[left % k_ways] = tops[left % k_ways]->next())
            if (tops[left % k_ways] == nullptr || !tops[left % k_ways]->is_linked()) return false;
        return true;
    }

private:
    friend record_access;
    static constexpr std::size_t k_ways = 8;

    observed<std::size_t> m_size;
    // [i]: the newest of those that were pushed when size % k_ways was i. Meaningless where there is none.
    std::array<recycle_node*, k_ways> m_tops{};
};

POOLED_END_DETAIL
