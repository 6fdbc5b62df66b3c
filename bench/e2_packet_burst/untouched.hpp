// SPDX-License-Identifier: BSL-1.0
// E2's claim about zeroing: creating a packet must write no byte of it that its constructor does not write.
// (The library of VS2017 zeroed the payload first; without that, allocate_shared was twice as fast.)
#pragma once

#include "contender/contender.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/registry.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace bench::e2_packet_burst {

inline constexpr unsigned char k_pattern = 0xA5;

// Bytes beyond the first that differ from the pattern. Not inlined and behind a barrier: to the compiler the
// contents of an object just constructed are indeterminate, and it may take any value for them.
template <std::size_t Payload>
[[gnu::noinline]] std::size_t count_touched(const packet<Payload>* object) {
    const unsigned char* bytes = object->bytes();
    keep_alive(bytes);
    return static_cast<std::size_t>(
        std::count_if(bytes + 1, bytes + Payload, [](unsigned char b) { return b != k_pattern; }));
}

// Fills an object's bytes with the pattern, drops it, and creates others until one has the same
// address. Where the payload is the whole block, the allocator's own link (8 or 16 bytes) counts as touched.
template <class C, std::size_t Payload>
measurement untouched() {
    constexpr std::uint64_t k_wanted = 1000;
    constexpr std::uint64_t k_most_tries = 100 * k_wanted;
    C from;
    std::size_t worst = 0;
    std::uint64_t found = 0;
    const stopwatch watch;
    for (std::uint64_t tries = 0; found < k_wanted; ++tries) {
        if (tries == k_most_tries)
            throw std::runtime_error("freed blocks are not given out again: cannot tell");
        auto first = from.template make<packet<Payload>>();
        auto* const bytes = const_cast<unsigned char*>(first->bytes());
        const auto where = reinterpret_cast<std::uintptr_t>(std::to_address(first));
        std::fill(bytes, bytes + Payload, k_pattern);
        keep_alive(bytes);
        from.drop(first);
        auto second = from.template make<packet<Payload>>();
        if (reinterpret_cast<std::uintptr_t>(std::to_address(second)) == where) {
            worst = std::max(worst, count_touched(std::to_address(second)));
            ++found;
        }
        from.drop(second);
    }
    return {watch.seconds(), found, {{"bytes_touched", static_cast<double>(worst)}}};
}

}  // namespace bench::e2_packet_burst
