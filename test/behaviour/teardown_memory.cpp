// SPDX-License-Identifier: BSL-1.0
// Teardown when the system has no more memory, not even for the list of deferred objects.

#include "pooled/pooled.hpp"

#include "support/no_metadata.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace {

int g_alive = 0;

// Trims a pool on request, on its own thread.
class trimmer {
public:
    explicit trimmer(pooled::pool& pool)
        : m_thread([this, &pool] {
              for (;;) {
                  m_asked.acquire();
                  pool.trim();
                  m_done.release();
              }
          }) {}
    ~trimmer() { std::_Exit(15); }  // the tests end the process
    trimmer(trimmer const&) = delete;
    trimmer& operator=(trimmer const&) = delete;

    void trim() noexcept {
        m_asked.release();
        m_done.acquire();
    }

private:
    std::binary_semaphore m_asked{0};
    std::binary_semaphore m_done{0};
    std::thread m_thread;
};

struct node {
    explicit node(trimmer* t = nullptr) noexcept : trims(t) { ++g_alive; }
    node(node const&) = delete;
    node& operator=(node const&) = delete;
    ~node() {
        --g_alive;
        // It waits for this thread to be outside of the pool.
        if (trims != nullptr) trims->trim();
    }
    trimmer* trims;
    std::shared_ptr<node> next;
};

void expect_alive(int expected) {
    if (g_alive == expected) return;
    std::fprintf(stderr, "%d alive, not %d\n", g_alive, expected);
    std::_Exit(13);
}

class without_memory : public testing::Test {
protected:
    without_memory() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
    void SetUp() override {
        if (test::k_sanitized) GTEST_SKIP() << "a sanitizer needs memory of its own";
    }
};

TEST_F(without_memory, a_scope_keeps_what_it_can_and_destroys_the_rest) {
    EXPECT_EXIT(
        {
            std::vector<std::shared_ptr<node>> all;
            std::vector<std::weak_ptr<node>> observers;
            for (int i = 0; i < 2000; ++i) {
                all.push_back(pooled::make_shared<node>());
                if (i % 2 == 0) observers.emplace_back(all.back());
            }
            test::end_metadata();
            {
                pooled::reclaim_scope const scope;
                for (auto& each : all)
                    each.reset();
            }
            expect_alive(0);
            std::_Exit(0);
        },
        testing::ExitedWithCode(0), "");
}

// With a list of deferred objects that is there already, and without one.
TEST_F(without_memory, an_incremental_pool_destroys_at_once_and_outside_of_its_gate) {
    for (bool const has_list : {true, false})
        EXPECT_EXIT(
            {
                alarm(60);
                pooled::pool pool({.teardown = pooled::teardown::incremental});
                trimmer trims(pool);
                std::vector<std::shared_ptr<node>> all;
                std::vector<std::weak_ptr<node>> observers;
                for (int i = 0; i < 500; ++i) {
                    all.push_back(pool.make_shared<node>(&trims));
                    if (has_list) observers.emplace_back(all.back());
                }
                if (has_list) pool.make_shared<node>(&trims).reset();
                test::end_metadata();
                for (auto& each : all)
                    each.reset();
                pool.drain();
                expect_alive(0);
                std::_Exit(0);
            },
            testing::ExitedWithCode(0), "");
}

// One that has no cache of the pool, and cannot get one.
TEST_F(without_memory, a_thread_destroys_what_others_deferred) {
    EXPECT_EXIT(
        {
            alarm(60);
            pooled::pool pool({.max_bytes = 1 << 16, .teardown = pooled::teardown::incremental});
            pooled::pool other({.teardown = pooled::teardown::incremental});
            int objects = 0;
            std::atomic<int> step{0};
            auto const wait_for = [&](int wanted) {
                while (step != wanted)
                    std::this_thread::yield();
            };
            std::thread owner([&] {
                {
                    std::vector<std::shared_ptr<node>> all;
                    while (auto one = pool.try_make_shared<node>())
                        all.push_back(std::move(one));
                }
                objects = g_alive;
                step = 1;
                wait_for(4);
            });
            std::thread drains([&] {
                wait_for(1);
                other.make_shared<node>().reset();  // what a thread needs once
                other.drain();
                step = 2;
                wait_for(3);
                if (pool.drain(3) != 3) std::_Exit(15);
                expect_alive(objects - 3);
                for (int i = 0; i < 4; ++i)
                    if (pool.try_make_shared<node>() == nullptr) std::_Exit(16);
                pool.drain();
                step = 4;
            });
            wait_for(2);
            test::end_metadata();
            while (pooled::detail::g_metadata.try_allocate(sizeof(pooled::detail::thread_cache)) != nullptr) {
            }
            step = 3;
            drains.join();
            owner.join();
            expect_alive(0);
            std::_Exit(0);
        },
        testing::ExitedWithCode(0), "");
}

}  // namespace
