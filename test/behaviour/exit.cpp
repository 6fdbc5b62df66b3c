// SPDX-License-Identifier: BSL-1.0
// Pools while a process ends: static destructors, thread_local destructors, atexit handlers. Each test forks as a
// death test and checks the exit code.

#include "pooled/pooled.hpp"

#include "support/death_tests.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <pthread.h>

namespace {

// Errors that a destructor at the very end finds: GoogleTest no longer exists then.
[[noreturn]] void give_up(char const* what) {
    std::fputs(what, stderr);
    std::_Exit(13);
}

void use_default_pool(char const* when) {
    std::vector<std::shared_ptr<int>, pooled::allocator<std::shared_ptr<int>>> all;
    for (int i = 0; i < 1000; ++i)
        all.push_back(pooled::make_shared<int>(i));
    auto const large = pooled::make_unique<char[]>(100'000);
    for (int i = 0; i < 1000; ++i)
        if (*all[static_cast<std::size_t>(i)] != i) give_up(when);
}

struct uses_at_end {
    ~uses_at_end() {
        held.reset();
        use_default_pool("in a destructor");
        observed.reset();
    }
    std::shared_ptr<int> held = pooled::make_shared<int>(1);
    std::weak_ptr<int> observed = held;
};

uses_at_end g_before_main;  // destroyed after everything that main has used

TEST(at_exit, the_default_pool_works_in_static_destructors) {
    test::expect_good_end([] {
        static uses_at_end const late;
        use_default_pool("before");
    });
}

TEST(at_exit, the_default_pool_works_in_atexit_handlers) {
    test::expect_good_end([] {
        std::atexit([] { use_default_pool("in an early handler"); });
        use_default_pool("before");
        std::atexit([] { use_default_pool("in a late handler"); });
    });
}

TEST(at_exit, the_default_pool_works_in_thread_local_destructors) {
    test::expect_good_end([] {
        std::thread([] {
            static thread_local uses_at_end const before_the_pools_own_hook;
            use_default_pool("on the thread");
        }).join();
        static thread_local uses_at_end const of_the_main_thread;
    });
}

TEST(at_exit, a_static_pool_is_outlived_by_static_objects_of_it) {
    test::expect_good_end([] {
        static std::shared_ptr<int> outlives;  // destroyed after the pool: constructed before
        static std::vector<pooled::unique_ptr<int>> many;
        static pooled::pool early{{.name = "early"}};
        outlives = early.make_shared<int>(1);
        for (int i = 0; i < 1000; ++i)
            many.push_back(early.make_unique<int>(i));
    });
}

TEST(at_exit, a_threads_objects_are_dropped_after_main_has_returned) {
    test::expect_good_end([] {
        static std::shared_ptr<int> from_thread;
        std::thread([] { from_thread = pooled::make_shared<int>(1); }).join();
    });
}

TEST(at_exit, a_thread_local_local_pool_is_outlived_by_its_objects) {
    test::expect_good_end([] {
        std::thread([] {
            static thread_local std::shared_ptr<int> outlives;
            static thread_local pooled::local_pool mine;
            outlives = mine.make_shared<int>(1);
        }).join();
    });
}

TEST(at_exit, a_pthread_key_destructor_that_runs_last_may_use_the_pool) {
    test::expect_good_end([] {
        static pthread_key_t key;
        // Registers itself again and again, so that it runs after the library's own hook.
        pthread_key_create(&key, [](void* rounds) {
            use_default_pool("in a key's destructor");
            auto const left = reinterpret_cast<std::uintptr_t>(rounds) - 1;
            if (left != 0) pthread_setspecific(key, reinterpret_cast<void*>(left));
        });
        std::thread([] {
            use_default_pool("on the thread");
            pthread_setspecific(key, reinterpret_cast<void*>(std::uintptr_t{3}));
        }).join();
        if (pooled::default_pool().stats().in_use != 1) give_up("blocks were lost");  // g_before_main's
    });
}

}  // namespace
