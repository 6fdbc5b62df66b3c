// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a fork waits for, and what waits for a fork: threads that hold locks of the program or of libc and allocate, and threads that stay in a
// critical section of the library. fork_waits_first.cpp and fork_waits_late.cpp include this, with the library's handlers registered
// before and after those of the program. A parent or child that hangs is ended by its alarm.

#undef POOLED_STATIC  // takes locks of the library itself
#include "pooled/pooled.hpp"

#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <unistd.h>

namespace {

using pooled::detail::g_fork_gate;
using pooled::detail::g_forks_lost;
using pooled::detail::g_registry;

constexpr bool k_is_first = POOLED_STARTS_FIRST != 0;

struct {
    std::function<void()> prepare = [] {};
    std::function<void()> parent = [] {};
    std::function<void()> child = [] {};
} g_handlers;

// Refills and flushes two classes, and makes a chunk.
void use(pooled::pool& pool) {
    std::vector<std::shared_ptr<char[]>> all;
    for (std::size_t i = 0; i < 300; ++i)
        all.push_back(pool.make_shared<char[]>(i % 2 == 0 ? 100 : 2000));
    all.push_back(pool.make_shared<char[]>(300'000));
}

// A thread that does something again and again.
class busy {
public:
    explicit busy(std::function<void()> work)
        : m_thread([this, work = std::move(work)] {
              while (!m_is_over) {
                  work();
                  m_has_begun = true;
              }
          }) {
        while (!m_has_begun)
            std::this_thread::yield();
    }
    ~busy() {
        m_is_over = true;
        m_thread.join();
    }

private:
    std::atomic<bool> m_is_over{false};
    std::atomic<bool> m_has_begun{false};
    std::thread m_thread;
};

class fork_waits : public testing::Test {
protected:
    void SetUp() override {
        if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own threads do not survive a fork";
        ::alarm(60);
        use(pool);
        use(pooled::default_pool());
    }
    void TearDown() override {
        g_handlers = {};
        ::alarm(0);
    }
    // Where the library's handlers are not the last ones, each fork may have to wait until the thread is let in.
    static constexpr int k_forks = k_is_first ? 60 : 3;

    pooled::pool pool{{.name = "forked"}};
};

TEST_F(fork_waits, for_a_mutex_whose_holder_allocates) {
    std::mutex programs;
    g_handlers.prepare = [&] { programs.lock(); };
    g_handlers.parent = g_handlers.child = [&] { programs.unlock(); };
    busy const holder([&] {
        std::lock_guard const own(programs);
        use(pool);
        use(pooled::default_pool());
    });
    for (int i = 0; i < k_forks; ++i)
        ASSERT_EQ(test::in_child([&] {
                      use(pool);
                      use(pooled::default_pool());
                      if (k_is_first && g_forks_lost != 0) return 2;
                      return test::is_valid(pool) ? 0 : 1;
                  }),
                  0)
            << "fork " << i;
}

#if defined(__GLIBC__)
// A stream whose function does `work`.
struct stream {
    explicit stream(std::function<void()> what) : work(std::move(what)) {
        constexpr cookie_io_functions_t functions{nullptr,
                                                  [](void* self, char const*, std::size_t bytes) {
                                                      static_cast<stream*>(self)->work();
                                                      return static_cast<ssize_t>(bytes);
                                                  },
                                                  nullptr, nullptr};
        file = ::fopencookie(this, "w", functions);
    }
    ~stream() { std::fclose(file); }
    stream(stream const&) = delete;
    stream& operator=(stream const&) = delete;
    void flush_all() const {
        std::fputc('x', file);
        std::fflush(nullptr);
    }

    std::function<void()> work;
    std::FILE* file;
};

TEST_F(fork_waits, for_the_list_of_streams_whose_holder_allocates) {
    stream const one([&] { use(pool); });
    busy const flusher([&] { one.flush_all(); });
    for (int i = 0; i < k_forks; ++i)
        ASSERT_EQ(test::in_child([&] {
                      use(pool);
                      std::thread([] { std::fclose(std::fopen("/dev/null", "w")); }).join();
                      return test::is_valid(pool) ? 0 : 1;
                  }),
                  0)
            << "fork " << i;
}
#endif

// It does not run, and holds every lock that a child needs.
class stays_inside {
public:
    explicit stays_inside(pooled::pool& pool)
        : m_thread([this, &caches = test::core_of(pool).caches()] {
              caches.lock();
              while (!caches.try_lock_classes()) {}
              g_registry.lock();
              m_is_inside.count_down();
              m_may_leave.wait();
              g_registry.unlock();
              caches.unlock_classes();
              caches.unlock();
          }) {
        m_is_inside.wait();
    }
    ~stays_inside() {
        m_may_leave.count_down();
        m_thread.join();
    }

private:
    std::latch m_is_inside{1};
    std::latch m_may_leave{1};
    std::thread m_thread;
};

struct counted {
    std::shared_ptr<counted> next;
};

TEST_F(fork_waits, not_for_ever_for_a_thread_that_stays_inside_and_the_child_goes_on) {
    std::vector<std::unique_ptr<pooled::pool>> many;  // some of them are beyond the near ones
    for (int i = 0; i < 40; ++i) {
        many.push_back(std::make_unique<pooled::pool>());
        use(*many.back());
    }
    pooled::pool bounded{{.name = "bounded", .max_bytes = 1U << 20}};
    std::vector<std::shared_ptr<char[]>> of_bounded;
    while (auto one = bounded.try_make_shared<char[]>(1000))
        of_bounded.push_back(std::move(one));
    std::size_t const most = of_bounded.size();
    pooled::object_pool<std::string> strings{{.name = "strings", .max_objects = 20}};
    auto const kept_string = strings.acquire();
    std::thread([&] {  // all others are idle in this thread's cache, or behind it
        std::vector<std::shared_ptr<std::string>> all;
        while (auto one = strings.try_acquire())
            all.push_back(std::move(one));
    })
        .join();
    pooled::pool later{{.name = "later", .teardown = pooled::teardown::incremental}};
    auto deferred = later.make_shared<counted>();
    pooled::local_pool local;
    auto local_object = local.make_shared<std::string>("local");
    auto of_pool = pool.make_shared<std::string>("of the pool");
    auto of_default = pooled::make_shared<std::string>("of the default pool");
    auto large = pool.make_shared<char[]>(5'000'000);
    auto to_close = std::make_unique<pooled::pool>();
    auto of_closed = to_close->make_shared<std::string>("outlives its pool");

    auto const child = [&] {
        if (g_forks_lost == 0) return 10;
        use(pool);
        use(pooled::default_pool());
        if (*of_pool != "of the pool" || *of_default != "of the default pool") return 11;
        of_pool.reset();
        of_default.reset();
        large.reset();
        // As many as before, beside those of before; freed in both orders.
        std::vector<std::shared_ptr<char[]>> anew;
        while (auto one = bounded.try_make_shared<char[]>(1000))
            anew.push_back(std::move(one));
        if (anew.size() < most) return 12;
        of_bounded.clear();
        anew.clear();
        use(bounded);
        if (!test::is_valid(bounded)) return 13;
        std::vector<std::shared_ptr<std::string>> objects;
        while (auto one = strings.try_acquire())
            objects.push_back(std::move(one));
        if (objects.size() != 20) return 14;
        objects.clear();
        if (!test::is_valid(strings)) return 15;
        later.make_shared<counted>().reset();
        deferred.reset();
        later.drain();
        local_object = local.make_shared<std::string>(*local_object + " pool");
        if (*local_object != "local pool") return 16;
        for (std::size_t i = 3; i < many.size(); i += 12) {
            use(*many[i]);
            std::thread([&] { use(*many[i]); }).join();
            if (!test::is_valid(*many[i])) return 17;
        }
        many.clear();
        to_close.reset();
        if (*of_closed != "outlives its pool") return 18;
        of_closed.reset();
        {
            pooled::pool born;
            use(born);
        }
        pool.trim();
        pooled::default_pool().trim();
        static_cast<void>(pool.stats());
        pool.reserve<counted>(1000);
        if (!test::is_valid(pool) || !test::is_valid(pooled::default_pool())) return 19;
        // A child of that one is an ordinary one, and another that is lost works as well.
        int const ordinary = test::in_child([&] {
            use(pool);
            return g_forks_lost == 1 ? 0 : 1;
        });
        if (ordinary != 0) return 20;
        stays_inside const again(pool);
        return test::in_child([&] {
            use(pool);
            use(pooled::default_pool());
            use(bounded);
            return g_forks_lost == 2 && test::is_valid(pool) && strings.try_acquire() != nullptr ? 0 : 1;
        });
    };
    for (int i = 0; i < 2; ++i) {
        stays_inside const thread(pool);
        ASSERT_EQ(test::in_child(child), 0);
    }
    EXPECT_EQ(g_forks_lost, 0U);
    EXPECT_EQ(test::in_child([&] {
                  use(pool);
                  return g_forks_lost == 0 && test::is_valid(pool) ? 0 : 1;
              }),
              0);
    of_bounded.clear();
    use(bounded);
    EXPECT_TRUE(test::is_valid(pool) && test::is_valid(bounded) && test::is_valid(strings));
    EXPECT_EQ(bounded.stats().in_use, 0U);
}

TEST_F(fork_waits, not_for_ever_for_a_thread_that_stays_in_its_cache) {
    pooled::pool bounded{{.name = "bounded", .max_bytes = 1U << 20}};
    std::latch is_inside(1);
    std::latch may_leave(1);
    std::thread thread([&] {
        use(pool);
        use(bounded);
        auto& gate = pooled::detail::t_state().find(test::core_of(pool).id())->gate;
        while (!gate.enter())
            use(pool);
        is_inside.count_down();
        may_leave.wait();
        gate.leave();
        use(pool);
        use(bounded);
    });
    is_inside.wait();
    EXPECT_EQ(test::in_child([&] {
                  use(pool);
                  use(bounded);
                  return g_forks_lost == 1 && test::is_valid(pool) ? 0 : 1;
              }),
              0);
    // Whoever looks into that cache waits for its owner again.
    std::thread other([&] { pool.trim(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    may_leave.count_down();
    other.join();
    thread.join();
    EXPECT_TRUE(test::is_valid(pool));
    EXPECT_EQ(pool.stats().in_use, 0U);
}

// Handlers of a program run in the child before those of the library, if they were registered before.
TEST_F(fork_waits, not_for_ever_and_a_handler_in_the_child_may_use_pools) {
    pooled::object_pool<std::string> strings{{.name = "strings", .max_objects = 20}};
    strings.acquire().reset();
    std::thread started;
    g_handlers.child = [&] {
        use(pool);
        use(pooled::default_pool());
        strings.acquire().reset();
        started = std::thread([&] { use(pool); });
    };
    g_handlers.prepare = g_handlers.parent = [&] { strings.acquire().reset(); };
    stays_inside const thread(pool);
    EXPECT_EQ(test::in_child([&] {
                  started.join();
                  use(pool);
                  return g_forks_lost == 1 && test::is_valid(pool) && test::is_valid(strings) ? 0 : 1;
              }),
              0);
}

TEST_F(fork_waits, for_no_handler_that_forks_itself) {
    busy const user([&] { use(pool); });
    int in_handler = -1;
    bool is_in_handler = false;
    g_handlers.prepare = [&] {
        if (std::exchange(is_in_handler, true)) return;
        in_handler = test::in_child([&] {
            use(pool);
            std::thread([&] { use(pool); }).join();
            return test::is_valid(pool) ? 0 : 1;
        });
        is_in_handler = false;
    };
    for (int i = 0; i < 5; ++i) {
        ASSERT_EQ(test::in_child([&] {
                      use(pool);
                      std::thread([&] { use(pool); }).join();
                      return test::is_valid(pool) ? 0 : 1;
                  }),
                  0);
        ASSERT_EQ(in_handler, 0);
    }
}

TEST_F(fork_waits, not_for_ever_for_another_fork) {
    std::latch both(2);
    g_handlers.prepare = g_handlers.parent = [] { ::usleep(300'000); };
    std::atomic<int> worst{0};
    auto const fork_once = [&] {
        both.arrive_and_wait();
        int const status = test::in_child([&] {
            use(pool);
            use(pooled::default_pool());
            std::thread([&] { use(pool); }).join();
            return test::is_valid(pool) ? 0 : 1;
        });
        if (status != 0) worst = status;
    };
    busy const user([&] { use(pool); });
    std::thread other(fork_once);
    fork_once();
    other.join();
    EXPECT_EQ(worst, 0);
    g_handlers = {};
    EXPECT_EQ(test::in_child([&] {
                  use(pool);
                  return g_forks_lost == 0 ? 0 : 1;
              }),
              0);
}

// It holds a lock of a program that the fork needs, and everybody else is let in with it.
TEST_F(fork_waits, for_nobody_in_a_long_handler_while_others_work_on) {
    g_handlers.prepare = [] { ::usleep(300'000); };
    busy const one([&] { use(pool); });
    busy const two([&] {
        pooled::pool born;
        use(born);
        std::thread([&] { use(pool); }).join();
    });
    for (int i = 0; i < 3; ++i)
        ASSERT_EQ(test::in_child([&] {
                      use(pool);
                      use(pooled::default_pool());
                      pooled::pool born;
                      use(born);
                      return test::is_valid(pool) ? 0 : 1;
                  }),
                  0);
}

}  // namespace

int main(int argc, char** argv) {
    ::pthread_atfork([] { g_handlers.prepare(); }, [] { g_handlers.parent(); }, [] { g_handlers.child(); });
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
