// SPDX-License-Identifier: BSL-1.0

// Plan: a holder of a lock that waits for the processor of those who want the lock. Once one of them has waited in vain, they let it run.

#include "pooled/os/mutex.hpp"

#include <gtest/gtest.h>

#ifdef __linux__

#include <atomic>
#include <thread>

#include <sched.h>

namespace {

using namespace pooled::detail;

// This thread, and those that it starts.
bool stay_on_one_processor() {
    cpu_set_t all;
    if (::sched_getaffinity(0, sizeof(all), &all) != 0) return false;
    for (int which = 0; which < CPU_SETSIZE; ++which) {
        if (!CPU_ISSET(which, &all)) continue;
        CPU_ZERO(&all);
        CPU_SET(which, &all);
        return ::sched_setaffinity(0, sizeof(all), &all) == 0;
    }
    return false;
}

TEST(mutex, lets_a_holder_run_that_waits_for_the_processor) {
    bool is_on_one = true;
    int attempts = 0;
    std::thread([&] {  // so that other tests keep their processors
        is_on_one = stay_on_one_processor();
        if (!is_on_one) return;
        mutex lock;
        std::atomic<bool> has_lock{false};
        std::atomic<bool> may_leave{false};
        std::thread holder([&] {
            scoped_lock const held(lock);
            has_lock = true;
            while (!may_leave) {}  // it wants to run
        });
        while (!has_lock)
            std::this_thread::yield();
        while (lock.try_lock_for_a_moment())  // in vain, after some milliseconds
            lock.unlock();
        may_leave = true;
        while (!lock.try_lock_for_a_moment())
            ++attempts;
        lock.unlock();
        holder.join();
    })
        .join();
    if (!is_on_one) GTEST_SKIP() << "threads cannot be kept on one processor";
    // Without that, it waits for the end of a time slice: hundreds of attempts.
    EXPECT_LE(attempts, 20);
}

}  // namespace

#endif
