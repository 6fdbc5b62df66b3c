// SPDX-License-Identifier: BSL-1.0
// What a job of bench/real defines. main.cpp runs it in a process of its own, and says what it took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace bench {

// FNV-1a of all that a job puts out, in 52 bits, which JSON's numbers hold: the same with every malloc and every edit, or the run has failed.
class digest {
    std::uint64_t m_hash = 0xcbf29ce484222325;

public:
    void add(std::string_view text) noexcept {
        for (const unsigned char byte : text)
            m_hash = (m_hash ^ byte) * 0x100000001b3;
    }

    void add(std::uint64_t number) noexcept {
        for (int shift = 0; shift < 64; shift += 8)
            m_hash = (m_hash ^ ((number >> shift) & 0xff)) * 0x100000001b3;
    }

    std::uint64_t value() const noexcept { return m_hash >> 12; }
};

// How often a job that does `times` rounds does them at this scale; at least once.
inline std::size_t scaled(std::size_t times, double scale) noexcept {
    const auto found = static_cast<std::size_t>(static_cast<double>(times) * scale);
    return found == 0 ? 1 : found;
}

// Deterministic; about half a second at scale 1. What it puts out goes into the digest.
void job(digest& output, double scale);

}  // namespace bench
