// SPDX-License-Identifier: BSL-1.0
#pragma once

// A thread that runs tasks on request and sleeps in between, with whatever it has cached: for what must work while another
// thread neither runs nor ends.
//
//   test::sleeper other;
//   other.run([&] { pool.deallocate(p, 48); });   // returns when done
//   ...                                           // it sleeps here

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace test {

class sleeper {
public:
    sleeper() = default;
    ~sleeper() { end(); }
    sleeper(sleeper const&) = delete;
    sleeper& operator=(sleeper const&) = delete;

    // Runs `task` on the thread and waits for it. What it throws ends the program.
    void run(std::function<void()> task) {
        std::unique_lock lock(m_mutex);
        m_task = std::move(task);
        m_wake.notify_all();
        m_wake.wait(lock, [&] { return m_task == nullptr; });
    }

    // The thread ends; its thread_local destructors and exit hooks have run when this returns.
    void end() {
        if (!m_thread.joinable()) return;
        {
            std::scoped_lock const lock(m_mutex);
            m_is_over = true;
        }
        m_wake.notify_all();
        m_thread.join();
    }

private:
    void work() {
        std::unique_lock lock(m_mutex);
        for (;;) {
            m_wake.wait(lock, [&] { return m_task != nullptr || m_is_over; });
            if (m_task == nullptr) return;
            auto task = std::move(m_task);
            task();
            m_task = nullptr;
            m_wake.notify_all();
        }
    }

    std::mutex m_mutex;
    std::condition_variable m_wake;
    std::function<void()> m_task;
    bool m_is_over = false;
    std::thread m_thread{[this] { work(); }};
};

}  // namespace test
