// SPDX-License-Identifier: BSL-1.0
// The object that most workloads create: E2's packet, of any size.
#pragma once

#include <cstddef>

namespace bench {

// Non-copyable; its constructor writes one byte and leaves the rest as it found it. A constructor that is
// user-provided also keeps `make_shared<T>()` from zeroing the whole object first.
template <std::size_t Bytes>
class packet {
public:
    packet() { m_bytes[0] = 1; }
    explicit packet(unsigned char first) { m_bytes[0] = first; }
    packet(const packet&) = delete;
    packet& operator=(const packet&) = delete;

    unsigned char first() const { return m_bytes[0]; }
    const unsigned char* bytes() const { return m_bytes; }

private:
    unsigned char m_bytes[Bytes];
};

}  // namespace bench
