// SPDX-License-Identifier: BSL-1.0
// A thread makes tunnel messages from the package's pool and puts them in its queue, 64 at once, as its transports do; another
// takes, reads and drops them, as the thread of the tunnels does.
#include "job.hpp"

#include "I2NPProtocol.h"
#include "Queue.h"
#include "Tunnel.h"
#include "util.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

void bench::job(digest& output, double scale) {
    using message = std::shared_ptr<i2p::I2NPMessage>;
    const std::size_t batches = scaled(48'000, scale);
    constexpr std::size_t k_batch = 64;
    i2p::util::MemoryPoolMt<i2p::I2NPMessageBuffer<i2p::tunnel::I2NP_TUNNEL_MESSAGE_SIZE>> pool;
    i2p::util::Queue<message> queue;
    std::atomic<std::size_t> taken{0};
    std::uint64_t sum = 0;
    std::thread tunnels([&] {
        for (std::size_t done = 0; done < batches * k_batch;) {
            const message next = queue.GetNext();  // waits; null after a wake-up without a message
            if (!next) continue;
            sum = sum * 31 + next->GetPayload()[0] + next->GetPayload()[next->GetPayloadLength() - 1];
            taken.store(++done,
                        std::memory_order_release);  // release: pairs with the load that bounds the queue
        }
    });
    std::vector<std::uint8_t> payload(i2p::tunnel::TUNNEL_DATA_MSG_SIZE);
    for (std::size_t batch = 0; batch < batches; ++batch) {
        // acquire: pairs with the store of the other thread. At most 1,024 messages wait.
        while (batch * k_batch > taken.load(std::memory_order_acquire) + 1024)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        std::vector<message> messages;
        for (std::size_t i = 0; i < k_batch; ++i) {
            payload.front() = static_cast<std::uint8_t>(batch), payload.back() = static_cast<std::uint8_t>(i);
            messages.push_back(pool.AcquireSharedMt());
            messages.back()->Align(12);
            messages.back()->Concat(payload.data(), payload.size());
        }
        queue.Put(messages);
    }
    tunnels.join();
    output.add(sum);
}
