// SPDX-License-Identifier: BSL-1.0
// A capture thread creates packets, a second one reads and drops them; they are handed over in bursts of 32, and a few
// hundred are always in transit.
//
// usage: capture_pipeline [packets]
#include "handles.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace {

struct Packet {
    explicit Packet(std::uint32_t number, std::uint32_t length) : m_number(number), m_length(length) {
        for (std::uint32_t i = 0; i < 64; ++i)  // the headers; the rest was written by the card
            m_data[i] = static_cast<std::byte>(number + i);
    }
    std::uint32_t m_number;
    std::uint32_t m_length;
    std::array<std::byte, 1500> m_data;
};

constexpr std::size_t k_burst = 32;
constexpr std::size_t k_bursts = 16;

// One thread pushes, another pops.
class BurstQueue {
public:
    using Burst = std::array<std::shared_ptr<Packet>, k_burst>;

    Burst& to_fill() {
        while (m_filled.load(std::memory_order_relaxed) - m_taken.load(std::memory_order_acquire) == k_bursts)
            std::this_thread::yield();
        return m_ring[m_filled.load(std::memory_order_relaxed) % k_bursts];
    }
    void filled() { m_filled.fetch_add(1, std::memory_order_release); }

    Burst& to_take() {
        while (m_filled.load(std::memory_order_acquire) == m_taken.load(std::memory_order_relaxed))
            std::this_thread::yield();
        return m_ring[m_taken.load(std::memory_order_relaxed) % k_bursts];
    }
    void taken() { m_taken.fetch_add(1, std::memory_order_release); }

private:
    std::array<Burst, k_bursts> m_ring;
    alignas(128) std::atomic<std::uint64_t> m_filled{0};
    alignas(128) std::atomic<std::uint64_t> m_taken{0};
};

}  // namespace

int main(int argc, char** argv) {
    const auto packets = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 5'000'000);
    const std::uint32_t bursts = packets / k_burst;
    BurstQueue queue;
    std::uint64_t sum = 0;
    std::thread consumer([&] {
        for (std::uint32_t i = 0; i < bursts; ++i) {
            for (auto& packet : queue.to_take()) {
                for (std::uint32_t at = 0; at < 64; ++at)
                    sum += std::to_integer<unsigned>(packet->m_data[at]) + packet->m_length;
                packet.reset();
            }
            queue.taken();
        }
    });
    for (std::uint32_t i = 0; i < bursts; ++i) {
        BurstQueue::Burst& burst = queue.to_fill();
        for (std::uint32_t j = 0; j < k_burst; ++j)
            burst[j] = make<Packet>(i * k_burst + j, 60 + j);
        queue.filled();
    }
    consumer.join();
    std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
