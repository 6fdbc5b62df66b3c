// SPDX-License-Identifier: BSL-1.0
// A thread of real-time priority beside an ordinary one on the same processor, which runs only while the first one sleeps: nothing that it
// holds may stop the first one for ever. A call that spins instead ends when Linux takes the processor from real-time threads, after
// 0.95 s of a second, or never.

#include <gtest/gtest.h>

#if defined(__linux__)

#include "pooled/make_shared.hpp"
#include "pooled/object_pool.hpp"
#include "pooled/pool.hpp"

#include "support/in_child.hpp"

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

using namespace std::chrono_literals;

namespace {

[[nodiscard]] bool stay_on(int processor) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    return ::pthread_setaffinity_np(::pthread_self(), sizeof(one), &one) == 0;
}
[[nodiscard]] bool become(int policy, int priority) {
    sched_param const param{.sched_priority = priority};
    return ::pthread_setschedparam(::pthread_self(), policy, &param) == 0;
}

struct object {
    char bytes[200];
};

// Creates and drops, more than a thread caches; grows and shrinks; asks; begins and ends a pool and a thread.
void work(pooled::pool& pool, pooled::object_pool<object>& objects, bool all) {
    std::vector<std::shared_ptr<object>> some;
    for (int i = 0; i < 3'000; ++i)
        some.push_back(pool.make_shared<object>());
    for (int i = 0; i < 20; ++i)
        some.push_back(objects.acquire());
    some.clear();
    std::vector<void*> large;
    for (int i = 0; i < 20; ++i)
        large.push_back(pool.allocate(60'000));
    for (void* const p : large)
        pool.deallocate(p, 60'000);
    if (!all) return;
    static_cast<void>(pool.stats());
    static_cast<void>(pool.trim());
    pooled::pool another;
    static_cast<void>(another.make_shared<object>());
}

// Of the calling thread: what others take does not count.
[[nodiscard]] double processor_seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

enum status { k_done, k_no_permission, k_nothing_done, k_has_spun };

// The child's alarm ends it when it hangs, although its threads keep the processor.
[[nodiscard]] int run() {
    std::atomic<bool> is_over{false};
    std::atomic<int> rounds{0};
    pooled::pool pool;
    pooled::object_pool<object> objects;
    if (!stay_on(0)) return k_no_permission;
    std::thread low([&] {  // on the same processor, which it has while the other one sleeps
        while (!is_over) {
            work(pool, objects, true);
            ++rounds;
        }
    });
    int result = k_done;
    std::thread high([&] {
        while (rounds == 0)
            std::this_thread::sleep_for(100us);
        if (!become(SCHED_FIFO, 1)) {
            result = k_no_permission;
        } else {
            auto const end = std::chrono::steady_clock::now() + 500ms;
            int const before = rounds;
            // It wakes up at moments that have nothing to do with what the other one does.
            for (unsigned i = 0; std::chrono::steady_clock::now() < end; ++i) {
                std::this_thread::sleep_for(std::chrono::microseconds(30 + 7 * (i % 40)));
                double const begin = processor_seconds();
                work(pool, objects, i % 8 == 0);
                if (processor_seconds() - begin > 0.5) result = k_has_spun;
            }
            if (rounds == before) result = k_nothing_done;
        }
        static_cast<void>(become(SCHED_OTHER, 0));
        is_over = true;
    });
    high.join();
    low.join();
    return result;
}

TEST(a_thread_of_real_time_priority, is_not_stopped_by_one_that_it_has_preempted) {
    int const status = test::in_child(run, 20);
    if (status == k_no_permission) GTEST_SKIP() << "no permission for SCHED_FIFO";
    EXPECT_EQ(status, k_done) << "3: it spun for the other one; 1014: it hung";
}

}  // namespace

#endif
