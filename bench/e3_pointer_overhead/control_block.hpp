// SPDX-License-Identifier: BSL-1.0
// How many bytes a shared_ptr requests from its allocator besides the object, found by an allocator that counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace bench::e3_pointer_overhead {

// Adds the bytes asked for to a count outside, since the standard library rebinds and copies the allocator.
// Empty, like std::allocator, so that the control block is no larger than with that one.
struct byte_count {
    static inline std::size_t s_bytes = 0;
};

template <class T>
struct counting_allocator {
    using value_type = T;

    counting_allocator() = default;
    template <class U>
    counting_allocator(const counting_allocator<U>&) {}  // NOLINT: converting, as allocators do

    T* allocate(std::size_t n) {
        byte_count::s_bytes += n * sizeof(T);
        return std::allocator<T>{}.allocate(n);
    }
    void deallocate(T* p, std::size_t n) { std::allocator<T>{}.deallocate(p, n); }
    friend bool operator==(counting_allocator, counting_allocator) { return true; }
};

// The block that make_shared requests, minus an object of eight bytes: an int would be padded to that.
inline std::size_t joint_control_block_bytes() {
    byte_count::s_bytes = 0;
    const auto p = std::allocate_shared<std::int64_t>(counting_allocator<std::int64_t>{}, 1);
    return byte_count::s_bytes - sizeof(std::int64_t);
}

// The block that shared_ptr<int>(new int) requests besides the int.
inline std::size_t separate_control_block_bytes() {
    byte_count::s_bytes = 0;
    const std::shared_ptr<int> p(new int(1), std::default_delete<int>{}, counting_allocator<int>{});
    return byte_count::s_bytes;
}

}  // namespace bench::e3_pointer_overhead
