// SPDX-License-Identifier: BSL-1.0
// The objects of E9: 64 KiB that take some ten microseconds to fill, and 48 bytes whose construction is almost free.
#pragma once

#include "support/payload.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bench::e9_recycled {

inline std::atomic<std::uint64_t> g_built{0};

// Represents whatever makes a buffer expensive: a table to compute, pages to touch, a device to inform.
class costly_buffer {
public:
    costly_buffer() {
        g_built.fetch_add(1, std::memory_order_relaxed);
        std::uint64_t state = 1;
        for (std::uint64_t& word : m_words) {
            state ^= state << 13;  // xorshift64, Marsaglia 2003: each word depends on the one before
            state ^= state >> 7;
            state ^= state << 17;
            word = state;
        }
    }
    costly_buffer(const costly_buffer&) = delete;
    costly_buffer& operator=(const costly_buffer&) = delete;

    unsigned char first() const { return static_cast<unsigned char>(m_words[0]); }

private:
    std::uint64_t m_words[65536 / 8];
};

template <std::size_t Payload>
struct object_of_size;
template <>
struct object_of_size<65536> {
    using type = costly_buffer;
};
template <>
struct object_of_size<48> {
    using type = packet<48>;
};
template <std::size_t Payload>
using object = typename object_of_size<Payload>::type;

// A contender's pool of each of the objects.
template <template <class> class Pool>
class pool_of_each {
public:
    template <class T>
    Pool<T>& of() {
        if constexpr (sizeof(T) == sizeof(costly_buffer))
            return m_costly;
        else
            return m_cheap;
    }

private:
    Pool<costly_buffer> m_costly;
    Pool<packet<48>> m_cheap;
};

}  // namespace bench::e9_recycled
