// SPDX-License-Identifier: BSL-1.0
// Contender `one_slot`: allocate_shared on an allocator that always returns the same static slot. The limit
// for any allocator under std::shared_ptr: only the work of the control block is left.
#pragma once

#include "contender/contender.hpp"

#include <cstddef>

namespace bench::create_drop {

template <class T>
struct one_slot_allocator {
    using value_type = T;

    one_slot_allocator() = default;
    template <class U>
    one_slot_allocator(const one_slot_allocator<U>&) {}  // NOLINT: converting, as allocators do

    T* allocate(std::size_t) {
        static_assert(sizeof(T) <= sizeof(s_slot) && alignof(T) <= 64);
        return reinterpret_cast<T*>(s_slot);
    }
    void deallocate(T*, std::size_t) {}
    friend bool operator==(one_slot_allocator, one_slot_allocator) { return true; }

private:
    alignas(64) static inline std::byte s_slot[2048];
};

struct one_slot_contender : allocate_shared_contender<one_slot_allocator> {
    static constexpr bool k_thread_safe = false;
};

}  // namespace bench::create_drop
