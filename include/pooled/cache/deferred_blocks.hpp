// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a thread does to the list of a class while another one has its lock and does not run: blocks that the thread frees, or those of a
// slab that it takes from the heap. Whoever has the lock next sets their bits.

#include "pooled/os/metadata.hpp"

POOLED_BEGIN_DETAIL

struct deferred_blocks {
    deferred_blocks* next;
    std::uint32_t count;  // addresses of free blocks, which follow: at least one
    std::uint32_t room;   // for so many

    static constexpr std::uint32_t k_few = 14;  // fill a piece of the arena: 9 bytes a block

    [[nodiscard]] static deferred_blocks*& next_of(deferred_blocks& one) noexcept { return one.next; }
    [[nodiscard]] void** blocks() noexcept { return reinterpret_cast<void**>(this + 1); }
    // Null: no memory.
    [[nodiscard]] static deferred_blocks* make(std::uint32_t room, deferred_blocks* next = nullptr) noexcept {
        void* const memory = g_metadata.try_allocate(bytes(room));
        return memory != nullptr ? ::new (memory) deferred_blocks{next, 0, room} : nullptr;
    }
    void free() noexcept { g_metadata.deallocate(this, bytes(room)); }
    void put(void* block) noexcept { blocks()[count++] = block; }

private:
    [[nodiscard]] static constexpr std::size_t bytes(std::uint32_t room) noexcept {
        return sizeof(deferred_blocks) + room * sizeof(void*);
    }
};

// The deferred blocks of one class. Any thread may call, without a lock, and waits for none.
class deferred_list : public push_list<deferred_blocks, deferred_blocks::next_of> {
public:
    // Requires what take_all() returned, perhaps with another batch in front; the first one may be empty. What others have pushed meanwhile
    // fills the first batch. O(blocks that were pushed meanwhile).
    void put_back(deferred_blocks* first) noexcept {
        if (first != nullptr && first->count == 0) std::exchange(first, first->next)->free();
        while (first != nullptr && !push_first(*first))
            for_each(take_all(), [&first](deferred_blocks& one) {
                while (one.count != 0 && first->count != first->room)
                    first->put(one.blocks()[--one.count]);
                if (one.count == 0) return one.free();
                one.next = first;
                first = &one;
            });
    }
    // One more, to the batch that was deferred last. False: there is no memory.
    [[nodiscard]] bool put(void* block) noexcept {
        deferred_blocks* const all = take_all();
        bool const is_full = all == nullptr || all->count == all->room;
        deferred_blocks* const to = is_full ? deferred_blocks::make(deferred_blocks::k_few, all) : all;
        if (to != nullptr) to->put(block);
        put_back(to != nullptr ? to : all);
        return to != nullptr;
    }
    // Null: there is none.
    [[nodiscard]] void* pop() noexcept {
        deferred_blocks* const all = take_all();
        void* const block = all != nullptr ? all->blocks()[--all->count] : nullptr;
        put_back(all);
        return block;
    }
};

POOLED_END_DETAIL
