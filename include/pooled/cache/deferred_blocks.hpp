// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a thread does to the list of a class while another one has its lock and does not run: blocks that the thread frees, or those of a
// slab that it takes from the heap. Whoever has the lock next sets their bits; what must not be late, as those blocks may return earlier,
// is counted at once: how many blocks the class has.

#include "pooled/base/atomics.hpp"
#include "pooled/base/push_list.hpp"
#include "pooled/config.hpp"
#include "pooled/os/metadata.hpp"

#include <new>

POOLED_BEGIN_NAMESPACE
namespace detail {

struct deferred_blocks {
    deferred_blocks* next;
    std::uint32_t count;  // addresses of free blocks, which follow: at least one
    std::uint32_t room;   // for so many

    [[nodiscard]] static deferred_blocks*& next_of(deferred_blocks& one) noexcept { return one.next; }
    [[nodiscard]] void** blocks() noexcept { return reinterpret_cast<void**>(this + 1); }
    // Null: no memory.
    [[nodiscard]] static deferred_blocks* make(std::uint32_t room) noexcept {
        void* const memory = g_metadata.try_allocate(bytes(room));
        return memory != nullptr ? ::new (memory) deferred_blocks{nullptr, 0, room} : nullptr;
    }
    void free() noexcept { g_metadata.deallocate(this, bytes(room)); }

private:
    [[nodiscard]] static constexpr std::size_t bytes(std::uint32_t room) noexcept {
        return sizeof(deferred_blocks) + room * sizeof(void*);
    }
};

// Those of one class. Any thread may call, without a lock, and waits for none.
class deferred_list : public push_list<deferred_blocks, deferred_blocks::next_of> {
public:
    // The blocks of all slabs that were ever added to the class without its lock, and those slabs' units. Who removes such a slab
    // subtracts it from the list's own counts, which hold the rest, modulo their size.
    [[nodiscard]] std::uint64_t added_blocks() const noexcept {
        return m_added_blocks.load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint32_t added_units() const noexcept {
        return m_added_units.load(std::memory_order_relaxed);
    }
    // Before any other thread can have one of the blocks, and free it.
    void add(std::uint32_t blocks, std::uint32_t units) noexcept {
        m_added_blocks.fetch_add(blocks, std::memory_order_relaxed);
        m_added_units.fetch_add(units, std::memory_order_relaxed);
    }

private:
    template <class>
    friend struct record_access;
    atomic<std::uint64_t> m_added_blocks{0};
    atomic<std::uint32_t> m_added_units{0};
};

}  // namespace detail
POOLED_END_NAMESPACE
