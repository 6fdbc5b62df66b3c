// SPDX-License-Identifier: BSL-1.0
// A capture thread creates packets, a second thread uses and drops them, and the pool's bound provides back pressure: when the
// consumer falls behind, try_make_shared returns an empty pointer and the packet counts as lost, as in a network card.
#include <pooled/pooled.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

struct Packet {
    explicit Packet(std::uint32_t n) : number(n) {}
    std::uint32_t number;
    std::byte data[1500];  // left as it is: a pool does not write what the constructor does not
};

// The simplest possible queue. Its nodes come from a pool, too.
class PacketQueue {
public:
    void push(std::shared_ptr<Packet> packet) {
        {
            std::lock_guard const lock{m_mutex};
            m_packets.push_back(std::move(packet));
        }
        m_changed.notify_one();
    }

    // Empty when the queue is closed and drained.
    std::shared_ptr<Packet> pop() {
        std::unique_lock lock{m_mutex};
        m_changed.wait(lock, [this] { return m_closed || !m_packets.empty(); });
        if (m_packets.empty()) return nullptr;
        std::shared_ptr<Packet> packet = std::move(m_packets.front());
        m_packets.pop_front();
        return packet;
    }

    void close() {
        {
            std::lock_guard const lock{m_mutex};
            m_closed = true;
        }
        m_changed.notify_one();
    }

private:
    std::mutex m_mutex;
    std::condition_variable m_changed;
    std::deque<std::shared_ptr<Packet>, pooled::allocator<std::shared_ptr<Packet>>> m_packets;
    bool m_closed = false;
};

int main() {
    constexpr std::uint32_t k_packets = 100'000;

    pooled::pool packets{{.name = "packets", .max_bytes = std::size_t{8} << 20}};
    packets.reserve<Packet>(1'000);

    PacketQueue queue;
    std::uint64_t used = 0;
    std::thread consumer([&] {
        while (std::shared_ptr<Packet> const packet = queue.pop())
            ++used;  // dropped here, on another thread than the one that made it
    });

    std::uint64_t lost = 0;
    for (std::uint32_t i = 0; i < k_packets; ++i) {
        if (std::shared_ptr<Packet> packet = packets.try_make_shared<Packet>(i))
            queue.push(std::move(packet));
        else
            ++lost;
    }
    queue.close();
    consumer.join();

    pooled::pool_stats const stats = packets.stats();
    std::printf("%u packets: %llu used, %llu lost to the bound; %llu of at most %llu bytes taken\n",
                k_packets, static_cast<unsigned long long>(used), static_cast<unsigned long long>(lost),
                static_cast<unsigned long long>(stats.upstream_bytes),
                static_cast<unsigned long long>(stats.max_bytes));
    bool const right =
        used + lost == k_packets && stats.in_use == 0 && stats.upstream_bytes <= stats.max_bytes;
    return right ? 0 : 1;
}
