// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a thread does to the list of a class while another one has its lock and does not run: blocks that the thread frees, or a slab that
// it takes from the heap. Whoever has the lock next does the rest.

#include "pooled/base/atomics.hpp"
#include "pooled/config.hpp"
#include "pooled/os/metadata.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

POOLED_BEGIN_NAMESPACE
namespace detail {

struct deferred_blocks {
    deferred_blocks* next;
    std::uint32_t count;         // addresses of free blocks, which follow
    std::uint32_t room;          // for so many
    std::uint32_t added;         // blocks of a slab that is new to the class, and not counted yet; 0: none
    std::uint32_t added_units;   // of that slab
    std::uint64_t remote_frees;  // of a thread that has ended

    [[nodiscard]] void** blocks() noexcept { return reinterpret_cast<void**>(this + 1); }
    // Null: no memory.
    [[nodiscard]] static deferred_blocks* make(std::uint32_t room) noexcept {
        void* const memory = g_metadata.try_allocate(bytes(room));
        return memory != nullptr ? ::new (memory) deferred_blocks{nullptr, 0, room, 0, 0, 0} : nullptr;
    }
    void free() noexcept { g_metadata.deallocate(this, bytes(room)); }

private:
    [[nodiscard]] static constexpr std::size_t bytes(std::uint32_t room) noexcept {
        return sizeof(deferred_blocks) + room * sizeof(void*);
    }
};

// Those of one class. Any thread may call, without a lock, and waits for none.
class deferred_list {
public:
    [[nodiscard]] bool empty() const noexcept { return m_first.load(std::memory_order_relaxed) == nullptr; }
    // release: pairs with the acquire in take_all().
    void push(deferred_blocks& one) noexcept {
        deferred_blocks* first = m_first.load(std::memory_order_relaxed);
        do
            one.next = first;
        while (!m_first.compare_exchange_strong(first, &one, std::memory_order_release));
    }
    // The last one first.
    [[nodiscard]] deferred_blocks* take_all() noexcept {
        return empty() ? nullptr : m_first.exchange(nullptr, std::memory_order_acquire);
    }

private:
    std_atomics::atomic<deferred_blocks*> m_first{nullptr};
};

}  // namespace detail
POOLED_END_NAMESPACE
