// SPDX-License-Identifier: BSL-1.0
// A bounded queue of recycled buffers with timed waits, as QueuePtr gives: a producer waits for a free buffer, a consumer for a full
// one, each for a limited time. The buffers are those of a pooled::object_pool, the queue holds pointers. docs/migration/queueptr.md
// has what differs.
#include <pooled/pooled.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

using buffer = std::vector<std::byte>;
using buffer_ptr = std::shared_ptr<buffer>;

// No longer than the pool's bound, since each buffer in it is in use.
class buffer_queue {
public:
    void push(buffer_ptr full) {
        {
            std::scoped_lock const lock(m_mutex);
            m_buffers.push_back(std::move(full));
        }
        m_changed.notify_one();
    }
    // Empty after the time.
    buffer_ptr pop_for(std::chrono::milliseconds time) {
        std::unique_lock lock(m_mutex);
        if (!m_changed.wait_for(lock, time, [this] { return !m_buffers.empty(); })) return nullptr;
        buffer_ptr full = std::move(m_buffers.front());
        m_buffers.pop_front();
        return full;
    }

private:
    std::mutex m_mutex;
    std::condition_variable m_changed;
    std::deque<buffer_ptr> m_buffers;
};

}  // namespace

int main() {
    constexpr std::size_t k_bound = 16;
    constexpr std::size_t k_messages = 20'000;

    // A released buffer is cleared and keeps its capacity.
    pooled::object_pool<buffer, pooled::clear_on_release> buffers(
        {.name = "buffers", .max_objects = k_bound});
    buffer_queue queue;
    std::atomic<bool> is_done = false;
    std::size_t waits = 0;
    std::size_t received = 0;
    bool is_right = true;

    std::thread consumer([&] {
        for (;;) {
            bool const is_last = is_done;
            buffer_ptr const full = queue.pop_for(is_last ? 0ms : 10ms);
            if (full) {
                is_right = is_right && full->size() == received % 1500 + 1 &&
                           full->back() == static_cast<std::byte>(received % 256);
                ++received;
            } else if (is_last) {
                return;
            }
        }
    });
    for (std::size_t i = 0; i < k_messages; ++i) {
        buffer_ptr empty;
        while (!(empty = buffers.acquire_for(10ms)))  // all are in the queue or with the consumer
            ++waits;
        is_right = is_right && empty->empty();
        empty->resize(i % 1500 + 1, static_cast<std::byte>(i % 256));
        queue.push(std::move(empty));
    }
    is_done = true;
    consumer.join();

    std::vector<buffer_ptr> all;
    all.reserve(k_bound);
    for (std::size_t i = 0; i < k_bound; ++i)
        all.push_back(buffers.acquire());
    bool const is_bounded = buffers.acquire_for(1ms) == nullptr && buffers.capacity() == k_bound;
    std::printf("%zu of %zu messages in %zu buffers; the producer waited for 10 ms %zu times\n", received,
                k_messages, buffers.capacity(), waits);
    return is_right && received == k_messages && is_bounded ? 0 : 1;
}
