// SPDX-License-Identifier: BSL-1.0
// Fork handlers of the program's own. Those that were registered before the library's first use run while the library holds
// all its locks for the fork (prepare handlers in reverse order of registration, the others in order), and may use it.
// So main() here registers them first. The child of each test exits at once; one that hangs is ended by its alarm.

// The library's handlers are registered at its first use.
#define POOLED_STARTS_FIRST 0

#include "pooled/compat/boost_intrusive_pool.hpp"
#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>
#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <unistd.h>

namespace {

struct {
    std::function<void()> prepare = [] {};
    std::function<void()> parent = [] {};
    std::function<void()> child = [] {};
} g_handlers;

// The same for a parent that hangs.
template <class Function>
int in_child(Function&& function) {
    ::alarm(60);
    int const status = test::in_child(function);
    ::alarm(0);
    return status;
}

struct node {
    std::shared_ptr<node> next;
    char bytes[40];
};

// Refills, flushes and grows; large blocks; an object pool; a pool that is created, and one that is destroyed.
void use_everything(pooled::pool& pool) {
    {
        std::vector<std::shared_ptr<node>> objects;
        std::vector<std::shared_ptr<node>> of_default;
        for (int i = 0; i < 5000; ++i) {
            objects.push_back(pool.make_shared<node>());
            of_default.push_back(pooled::make_shared<node>());
        }
        auto const large = pool.make_shared<char[]>(300'000);
        large[299'999] = 'x';
    }
    static_cast<void>(pool.trim());
    static_cast<void>(pool.stats());
    pooled::pool born{{.name = "born"}};
    static_cast<void>(born.make_shared<node>());
    auto survivor = [] {
        pooled::pool ends{{.name = "ends"}};
        return ends.make_shared<node>();
    }();
    survivor.reset();
    pooled::pool later{{.name = "later", .teardown = pooled::teardown::incremental}};
    for (int i = 0; i < 100; ++i)
        static_cast<void>(later.make_shared<node>());
    later.drain();
}

// As fibres do.
void on_other_stack(void (*function)()) {
    std::vector<char> stack(1U << 20);
    ucontext_t here{};
    ucontext_t there{};
    ASSERT_EQ(::getcontext(&there), 0);
    there.uc_stack.ss_sp = stack.data();
    there.uc_stack.ss_size = stack.size();
    there.uc_link = &here;
    ::makecontext(&there, function, 0);
    ASSERT_EQ(::swapcontext(&here, &there), 0);
}

class fork_handlers : public testing::Test {
protected:
    void SetUp() override {
        if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own threads do not survive a fork";
    }
    void TearDown() override { g_handlers = {}; }

    pooled::pool pool{{.name = "forked"}};
};

TEST_F(fork_handlers, of_a_program_use_pools_while_other_threads_do) {
    g_handlers.prepare = g_handlers.parent = g_handlers.child = [this] { use_everything(pool); };
    pooled::pool bounded{{.name = "bounded", .max_bytes = 4U << 20}};
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
        threads.emplace_back([&] {
            while (!stop.load(std::memory_order_relaxed)) {
                std::vector<std::shared_ptr<node>> mine;
                for (int i = 0; i < 200; ++i) {
                    mine.push_back(pool.make_shared<node>());
                    mine.push_back(bounded.make_shared<node>());
                }
                std::thread([&] { static_cast<void>(pool.make_shared<node>()); }).join();
            }
        });
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(in_child([&] {
                      use_everything(pool);
                      use_everything(bounded);
                      return test::is_valid(pool) && test::is_valid(bounded) ? 0 : 1;
                  }),
                  0)
            << "fork " << i;
    stop = true;
    for (std::thread& one : threads)
        one.join();
    EXPECT_TRUE(test::is_valid(pool));
    EXPECT_EQ(pool.stats().in_use, 0U);
}

// The handler runs the pool dry; other threads' caches are searched, and stay closed until the fork is over.
TEST_F(fork_handlers, of_a_program_find_the_blocks_that_other_threads_have_cached) {
    pooled::pool bounded{{.name = "bounded", .max_bytes = 1U << 20}};
    auto const count = [&] { return test::held_blocks(bounded, 1024).take_all(); };
    std::size_t const capacity = count();
    std::atomic<bool> has_cached{false};
    std::atomic<bool> stop{false};
    std::thread other([&] {
        do {
            std::vector<void*> some;
            for (int i = 0; i < 100; ++i)
                if (void* const p = bounded.try_allocate(1024)) some.push_back(p);
            for (void* const p : some)
                bounded.deallocate(p, 1024);
            has_cached = true;
        } while (!stop);
    });
    while (!has_cached)
        std::this_thread::yield();
    std::size_t in_prepare = 0;
    std::size_t in_parent = 0;
    g_handlers.prepare = [&] { in_prepare = count(); };
    g_handlers.parent = [&] { in_parent = count(); };
    EXPECT_EQ(in_child([&] { return count() >= capacity - 100 ? 0 : 1; }), 0);
    // The other thread has up to a hundred in use; what it has cached is found.
    EXPECT_GE(in_prepare, capacity - 100);
    EXPECT_GE(in_parent, capacity - 100);
    stop = true;
    other.join();
    EXPECT_EQ(count(), capacity) << "a cache stayed closed";
    EXPECT_TRUE(test::is_valid(bounded));
}

// A request that fails at the bound empties the slots in which threads exchange blocks. A fork waits for that, or begins before.
TEST_F(fork_handlers, of_a_program_run_while_another_thread_empties_the_slots_of_the_bound) {
    for (auto const mode :
         {pooled::teardown::immediate, pooled::teardown::incremental}) {  // a near cache, and a far one
        pooled::pool bounded{{.name = "bounded", .max_bytes = 1U << 20, .teardown = mode}};
        test::held_blocks all(bounded, 200);
        all.take_all();
        std::atomic<int> phase{0};
        std::thread other([&] {
            EXPECT_EQ(bounded.try_allocate(4000), nullptr);
            phase = 1;
            while (phase != 2)
                std::this_thread::yield();
            EXPECT_EQ(bounded.try_allocate(4000), nullptr);
        });
        while (phase != 1)
            std::this_thread::yield();
        all.give_back(1);
        g_handlers.prepare = [&] {
            phase = 2;
            ::usleep(100'000);
        };
        EXPECT_EQ(in_child([&] { return bounded.try_allocate(200) != nullptr ? 0 : 1; }), 0);
        g_handlers = {};
        other.join();
        EXPECT_EQ(all.take_all(), 1U);
        all.give_back();
        EXPECT_EQ(bounded.stats().in_use, 0U);
    }
}

TEST_F(fork_handlers, of_a_program_acquire_and_release_recycled_objects) {
    pooled::object_pool<std::string> strings{{.name = "strings", .max_objects = 100}};
    auto const use = [&] {
        std::vector<std::shared_ptr<std::string>> all;
        while (auto one = strings.try_acquire())
            all.push_back(std::move(one));
        EXPECT_EQ(all.size(), 100U);
    };
    std::thread(use).join();
    g_handlers.prepare = g_handlers.parent = g_handlers.child = use;
    EXPECT_EQ(in_child([&] {
                  use();
                  return testing::Test::HasFailure() ? 1 : 0;
              }),
              0);
    use();
}

struct item : memorypool::boost_intrusive_pool_item {
    item() { in_constructor(); }
    static inline std::function<void()> in_constructor = [] {};
};

// That thread cannot end its step before the fork is over, so the handler gets null.
TEST_F(fork_handlers, of_a_program_take_items_while_another_thread_constructs_one) {
    memorypool::boost_intrusive_pool<item> items(1, 1);
    std::atomic<bool> is_constructing{false};
    std::atomic<bool> may_go_on{false};
    item::in_constructor = [&] {
        is_constructing = true;
        while (!may_go_on)
            std::this_thread::yield();
    };
    std::thread grower([&] { EXPECT_NE(items.allocate(), nullptr); });
    while (!is_constructing)
        std::this_thread::yield();
    int nulls = 0;
    g_handlers.prepare = g_handlers.parent = [&] { nulls += items.allocate() == nullptr ? 1 : 0; };
    EXPECT_EQ(in_child([&] {
                  may_go_on = true;  // the child's own step
                  return items.allocate() != nullptr ? 0 : 1;
              }),
              0);
    EXPECT_EQ(nulls, 2);
    may_go_on = true;
    grower.join();
    EXPECT_NE(items.allocate(), nullptr);
    item::in_constructor = [] {};
}

// A drop on a stack of unknown bounds takes a lock of the teardown layer.
TEST_F(fork_handlers, of_a_program_drop_on_stacks_that_are_no_threads) {
    auto const drop = [] {
        on_other_stack(+[] {
            auto first = pooled::make_shared<node>();
            for (int i = 0; i < 2000; ++i) {
                auto before = pooled::make_shared<node>();
                before->next = std::move(first);
                first = std::move(before);
            }
        });
    };
    drop();
    g_handlers.prepare = g_handlers.parent = g_handlers.child = drop;
    EXPECT_EQ(in_child([&] {
                  drop();
                  return 0;
              }),
              0);
    drop();
}

// What is created while the locks are held is consistent in the child, whoever uses it.
TEST_F(fork_handlers, of_a_program_hand_a_new_pool_to_other_threads) {
    std::atomic<pooled::pool*> made{nullptr};
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop)
            if (pooled::pool* const p = made.load())
                for (int i = 0; i < 100; ++i)
                    static_cast<void>(p->make_shared<node>());
    });
    std::vector<std::unique_ptr<pooled::pool>> all;
    g_handlers.prepare = [&] {
        all.push_back(std::make_unique<pooled::pool>());
        made = all.back().get();
    };
    for (int i = 0; i < 50; ++i)
        EXPECT_EQ(in_child([&] {
                      use_everything(*all.back());
                      return test::is_valid(*all.back()) ? 0 : 1;
                  }),
                  0);
    stop = true;
    other.join();
}

TEST_F(fork_handlers, of_a_child_start_threads_that_use_pools_when_the_fork_is_over) {
    std::thread made_in_child;
    g_handlers.child = [&] { made_in_child = std::thread([this] { use_everything(pool); }); };
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop)
            static_cast<void>(pool.make_shared<node>());
    });
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(in_child([&] {
                      made_in_child.join();
                      return test::is_valid(pool) ? 0 : 1;
                  }),
                  0);
    stop = true;
    other.join();
}

}  // namespace

int main(int argc, char** argv) {
    ::pthread_atfork([] { g_handlers.prepare(); }, [] { g_handlers.parent(); }, [] { g_handlers.child(); });
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
