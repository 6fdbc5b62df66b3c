// SPDX-License-Identifier: BSL-1.0
#pragma once

// A thread that has one of the library's locks and does not run, as one that is preempted there: others do without the lock.
//
//   test::preempted_holder holder(test::core_of(pool).caches());
//   ...                              // nothing that waits for the lock
//   EXPECT_TRUE(holder.leave());

#include "pooled/os/mutex.hpp"

#include <chrono>
#include <future>
#include <thread>

namespace test {

// It gives the lock up when something waits for it for so long that a test would not end otherwise.
class preempted_holder {
public:
    template <class Lock>
    explicit preempted_holder(Lock& held)
        : m_thread([this, &held] {
              while (!held.try_lock_for_a_moment()) {}
              pooled::detail::unlock_at_end const lock(held);
              m_has_lock.set_value();
              m_was_in_the_way =
                  m_may_leave.get_future().wait_for(std::chrono::seconds(20)) != std::future_status::ready;
          }) {
        m_has_lock.get_future().wait();
    }
    // False: something waited for it.
    [[nodiscard]] bool leave() {
        m_may_leave.set_value();
        m_thread.join();
        return !m_was_in_the_way;
    }

private:
    std::promise<void> m_has_lock;
    std::promise<void> m_may_leave;
    bool m_was_in_the_way = false;
    std::thread m_thread;
};

}  // namespace test
