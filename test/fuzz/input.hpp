// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where a fuzzed program takes its decisions from: the bytes of a file, or a generator with a seed.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace fuzz {

// Zero once the bytes are used up.
class input {
public:
    explicit input(std::span<std::uint8_t const> bytes) noexcept : m_left(bytes) {}
    [[nodiscard]] bool empty() const noexcept { return m_left.empty(); }
    [[nodiscard]] std::size_t byte() noexcept {
        if (m_left.empty()) return 0;
        std::size_t const first = m_left.front();
        m_left = m_left.subspan(1);
        return first;
    }
    [[nodiscard]] std::size_t below(std::size_t end) noexcept { return byte() % end; }
    [[nodiscard]] bool flag() noexcept { return byte() % 2 != 0; }

private:
    std::span<std::uint8_t const> m_left;
};

// SplitMix64 (Steele, Lea, Flood, 2014): any seed is good.
class generator {
public:
    explicit generator(std::uint64_t seed) noexcept : m_state(seed) {}
    [[nodiscard]] std::uint64_t next() noexcept {
        std::uint64_t z = m_state += 0x9e37'79b9'7f4a'7c15U;
        z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9U;
        z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebU;
        return z ^ (z >> 31);
    }
    [[nodiscard]] std::size_t below(std::size_t end) noexcept { return next() % end; }

private:
    std::uint64_t m_state;
};

// In every build: the sanitizer, or libFuzzer, then shows the stack and keeps the input.
inline void check(bool holds, char const* what) {
    if (holds) return;
    std::fprintf(stderr, "fuzz: broken: %s\n", what);
    std::abort();
}

}  // namespace fuzz
