// SPDX-License-Identifier: BSL-1.0
// E6: one thread creates packets and gives each of k readers a handle of its own; whichever reader is last frees it.
//
//            ring 1 -> reader 1: looks, drops its handle
//   creator  ring 2 -> reader 2: looks, drops its handle     the last of them frees the packet
//            ...
//
// Beside the allocator this measures the count: k - 1 copies on one thread, k drops on others. Readers beyond the number of processors
// less one share threads, which serve each of theirs in turn: threads that share a processor were switched after 230 to 930 packets, and
// that decided the result.
#pragma once

#include "contender/contender.hpp"
#include "support/hand_over.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/registry.hpp"
#include "support/spsc_ring.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace bench::e6_fan_out {

inline constexpr std::uint64_t k_packets = 5'000'000;
inline constexpr std::uint64_t k_turn =
    32;  // packets of one reader, then those of the next of the same thread

template <class C, std::size_t Payload>
measurement fan_out(const parameters& p) {
    using pointer = typename C::template pointer<packet<Payload>>;
    const std::uint64_t packets = scaled(k_packets, p.scale);
    // The first packets request memory and fill caches: not timed.
    const std::uint64_t warm_up = packets / 10 + 1;
    start_and_join_one_thread();
    const auto hand_over = time_hand_over();

    auto from = std::make_unique<C>();
    std::vector<std::unique_ptr<spsc_ring<pointer>>> rings;
    for (unsigned reader = 0; reader < p.threads; ++reader)
        rings.push_back(std::make_unique<spsc_ring<pointer>>());
    const unsigned threads = std::min(p.threads, std::max(2U, std::thread::hardware_concurrency()) - 1);
    processors apart(threads + 1);
    std::barrier phase(static_cast<std::ptrdiff_t>(threads) + 1);
    std::atomic<std::uint64_t> sum{0};

    std::vector<std::thread> readers;
    for (unsigned thread = 0; thread < threads; ++thread) {
        std::vector<spsc_ring<pointer>*> mine;
        for (std::size_t reader = thread; reader < rings.size(); reader += threads)
            mine.push_back(rings[reader].get());
        // Copies: the creator writes to its stack, where `from` and `rings` lie, for each packet.
        readers.emplace_back([&, mine, thread, contender = from.get()] {
            apart.take_one(thread);
            std::uint64_t seen = 0;
            for (const std::uint64_t count : {warm_up, packets}) {
                phase.arrive_and_wait();
                for (std::uint64_t done = 0; done < count; done += k_turn) {
                    const std::uint64_t turn = std::min(k_turn, count - done);
                    for (spsc_ring<pointer>* const ring : mine)
                        for (std::uint64_t i = 0; i < turn; ++i) {
                            pointer one = ring->pop();
                            seen += one->first();
                            contender->drop(one);
                        }
                }
                phase.arrive_and_wait();
            }
            sum.fetch_add(seen, std::memory_order_relaxed);  // read after the join
        });
    }
    const auto create = [&rings, contender = from.get()](std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            pointer one = contender->template make<packet<Payload>>();
            for (std::size_t reader = 1; reader < rings.size(); ++reader)
                rings[reader]->push(pointer(one));
            rings.front()->push(std::move(one));
        }
        for (const auto& ring : rings)
            ring->flush();
    };
    apart.take_one(threads);
    double seconds = 0;
    for (const std::uint64_t count : {warm_up, packets}) {
        phase.arrive_and_wait();  // all are ready
        const stopwatch watch;
        create(count);
        phase.arrive_and_wait();  // all packets are dropped
        seconds = watch.seconds();
    }
    for (std::thread& reader : readers)
        reader.join();
    if (sum != (warm_up + packets) * p.threads)
        throw std::runtime_error("a packet arrived with other contents");
    return {seconds, packets, {hand_over}};
}

template <contender C>
measurement run(const parameters& p) {
    return p.payload == 48 ? fan_out<C, 48>(p) : fan_out<C, 1500>(p);
}

}  // namespace bench::e6_fan_out
