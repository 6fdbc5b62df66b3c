// SPDX-License-Identifier: BSL-1.0
// E2: create a million packets into a reserved vector, then clear it. Ten runs; the fastest and the slowest
// do not count, the rest is averaged. After "performance of several ways to construct a shared_ptr".
// Variant `untouched` is in untouched.hpp.
#pragma once

#include "contender/contender.hpp"
#include "e2_packet_burst/untouched.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/registry.hpp"
#include "support/resident_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <vector>

namespace bench::e2_packet_burst {

inline constexpr std::uint64_t k_packets = 1'000'000;
inline constexpr std::uint64_t k_runs = 10;
inline constexpr std::uint64_t k_least_runs = 3;  // the fastest and the slowest do not count

// `untouched` waits until a freed block is allocated again.
template <class C>
std::vector<std::string_view> variants() {
    if constexpr (requires { C::k_needs_bursts; }) return {"burst"};
    return {};
}

struct amounts {
    std::uint64_t packets;
    std::uint64_t runs;
};

// A burst that fits a cache would be another experiment: a quick run makes fewer. Those of 1500 B are smaller too, 375 MB: where
// a hypervisor has to supply the memory, touching 1.5 GB for the first time takes seconds.
template <std::size_t Payload>
amounts amounts_of(double scale) {
    const std::uint64_t smaller = Payload == 1500 && scale < 1 && !is_tiny(scale) ? 4 : 1;
    const std::uint64_t packets = is_tiny(scale) ? scaled(k_packets, scale) : k_packets / smaller;
    return {packets, std::min(k_runs, scaled(k_runs * smaller, scale, k_least_runs))};
}

template <class C, std::size_t Payload>
measurement burst(const parameters& p) {
    using packet_type = packet<Payload>;
    const auto [packets, runs] = amounts_of<Payload>(p.scale);
    start_and_join_one_thread();

    C from;
    // One vector for all runs, whose pages do not depend on the malloc: glibc's have 4 KiB, others' are huge.
    resident_vector<typename C::template pointer<packet_type>> burst;
    burst.reserve(packets);
    std::vector<double> seconds;
    for (std::uint64_t run = 0; run < runs; ++run) {
        const stopwatch watch;
        for (std::uint64_t i = 0; i < packets; ++i)
            burst.push_back(from.template make<packet_type>());
        keep_alive(burst.data());
        drop_all(from, burst);
        if constexpr (requires { from.all_dropped(); }) from.all_dropped();
        seconds.push_back(watch.seconds());
    }
    std::sort(seconds.begin(), seconds.end());
    const double sum = std::accumulate(seconds.begin() + 1, seconds.end() - 1, 0.0);
    return {sum, packets * (runs - 2), {{"ms_per_run", sum * 1e3 / static_cast<double>(runs - 2)}}};
}

template <contender C>
measurement run(const parameters& p) {
    if (p.variant == "untouched") return p.payload == 1500 ? untouched<C, 1500>() : untouched<C, 48>();
    return p.payload == 1500 ? burst<C, 1500>(p) : burst<C, 48>(p);
}

}  // namespace bench::e2_packet_burst
