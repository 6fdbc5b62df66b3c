// SPDX-License-Identifier: BSL-1.0
// A fixed number of large buffers circulates between a reader and a writer. The reader waits when all are in use, so a slow
// writer slows it down instead of filling the memory. A buffer returns to the pool when its last pointer is gone.

#include <pooled/pooled.hpp>

#include <atomic>
#include <chrono>
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

struct buffer {
    std::vector<std::byte> bytes = std::vector<std::byte>(std::size_t{64} * 1024);
    std::size_t used = 0;
};

// Buffers stay constructed between uses; only their mark is set back.
struct emptied {
    void on_release(buffer& b) const noexcept { b.used = 0; }
};

class queue {
public:
    void push(std::shared_ptr<buffer> b) {
        std::scoped_lock const lock(m_mutex);
        m_waiting.push_back(std::move(b));
    }
    std::shared_ptr<buffer> pop() {
        std::scoped_lock const lock(m_mutex);
        if (m_waiting.empty()) return nullptr;
        auto first = std::move(m_waiting.front());
        m_waiting.pop_front();
        return first;
    }

private:
    std::mutex m_mutex;
    std::deque<std::shared_ptr<buffer>> m_waiting;
};

}  // namespace

int main() {
    constexpr int k_messages = 10'000;
    pooled::object_pool<buffer, emptied> buffers{
        {.name = "buffers", .initial_objects = 8, .growth = 0, .max_objects = 8}};
    queue filled;
    std::atomic<bool> is_done = false;

    std::size_t written = 0;
    std::thread writer([&] {
        for (;;) {
            bool const was_done = is_done.load(std::memory_order_acquire);  // pairs with the release below
            while (auto const b = filled.pop())
                written += b->used;
            if (was_done) return;
            std::this_thread::yield();
        }
    });

    int read = 0;
    while (read < k_messages) {
        auto b = buffers.acquire_for(1s);
        if (!b) break;  // the writer hangs
        b->used = 1500;
        filled.push(std::move(b));
        ++read;
    }
    is_done.store(true, std::memory_order_release);
    writer.join();

    std::printf("%d messages, %zu bytes, through %zu buffers; %zu in use now\n", read, written,
                buffers.capacity(), buffers.in_use());
    return read == k_messages && written == std::size_t{1500} * k_messages && buffers.in_use() == 0 ? 0 : 1;
}
