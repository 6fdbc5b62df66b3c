// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the tests use of std::latch. On Windows, that of libstdc++ 12 sometimes misses that it is woken: docs/platforms.md.

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace test {

class latch {
public:
    explicit latch(std::size_t count) noexcept : m_count(count) {}
    latch(latch const&) = delete;
    latch& operator=(latch const&) = delete;

    void count_down() {
        std::scoped_lock const lock(m_mutex);
        if (--m_count == 0) m_is_zero.notify_all();
    }
    void wait() {
        std::unique_lock lock(m_mutex);
        m_is_zero.wait(lock, [&] { return m_count == 0; });
    }
    void arrive_and_wait() {
        count_down();
        wait();
    }

private:
    std::mutex m_mutex;
    std::condition_variable m_is_zero;
    std::size_t m_count;
};

}  // namespace test
