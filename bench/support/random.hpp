// SPDX-License-Identifier: BSL-1.0
// A small fast generator with the same sequence on every standard library (std distributions differ).
#pragma once

#include <cstdint>

namespace bench {

inline constexpr std::uint64_t k_seed = 0x706f6f6c65644231;  // fixed: every contender gets the same input

// splitmix64, S. Vigna, public domain algorithm: passes BigCrush, one multiply-shift chain for each number.
class random_source {
public:
    explicit random_source(std::uint64_t seed = k_seed) : m_state(seed) {}

    std::uint64_t next() {
        std::uint64_t z = (m_state += 0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }

    // Uniform in [0, bound) for bound < 2^32, without a division.
    std::uint32_t below(std::uint32_t bound) {
        return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
    }

private:
    std::uint64_t m_state;
};

}  // namespace bench
