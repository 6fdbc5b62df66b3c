// SPDX-License-Identifier: BSL-1.0
// growing_list: what a pool's interface does not show of its steps, or shows by chance. The rest: compat/boost_intrusive_pool*.cpp.

#include "pooled/impl/object/growing_list.hpp"

#include "pooled/detail/own_core.hpp"
#include "pooled/impl/pool/extension.hpp"

#include "support/in_child.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>
#include <ucontext.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <latch>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using pooled::detail::growth_limits;
using own_core = pooled::detail::own_core<pooled::detail::sharing::shared>;

// Things are the elements of an array.
struct things {
    std::array<int, 256> all{};
    std::size_t made = 0;
    std::size_t building = 0;
    int undone = 0;
    int forgotten = 0;
    bool is_out_of_memory = false;
    bool is_failing = false;
    std::function<void()> during = [] {};  // called by each step
};

struct maker {
    things* of;
    void make(std::size_t count, std::size_t before) {
        EXPECT_EQ(before, of->made);
        if (of->is_out_of_memory) throw std::bad_alloc();
        of->building = count;
        of->during();
        if (of->is_failing) throw std::runtime_error("a constructor");
    }
    void keep(void** out) noexcept {
        for (std::size_t i = of->building; i-- != 0;)
            *out++ = &of->all[of->made + i];
        of->made += of->building;
    }
    void undo() noexcept { ++of->undone; }
    void forget() noexcept {
        of->building = 0;
        ++of->forgotten;
    }
};

struct owner final : pooled::detail::pool_extension {
    owner(pooled::detail::pool_core& c, growth_limits limits, things& all) noexcept
        : core(c), list(c, limits, maker{&all}) {}
    ~owner() = default;
    void on_retire(pooled::detail::thread_cache& cache) noexcept override { list.on_retire(cache); }
    void after_fork_in_child() noexcept override { list.after_fork_in_child(); }
    pooled::detail::pool_core& core;
    pooled::detail::growing_list<maker> list;
};

class growing_list : public testing::Test {
protected:
    auto& make(growth_limits limits) {
        m_owner = &own_core::make<owner>({.name = "test"}, limits, all);
        m_owner->list.make_initial();
        return m_owner->list;
    }
    ~growing_list() override { end(); }
    void end() {
        if (m_owner == nullptr) return;
        static_cast<void>(m_owner->list.take_all([](maker&, std::size_t) {}));
        m_owner->core.close();
        own_core::destroy(*m_owner, m_owner->core);
        m_owner = nullptr;
        all = {};
    }
    things all;

    auto& lock() { return m_owner->core.caches().mutex(); }

private:
    owner* m_owner = nullptr;
};

// Runs on a thread that then waits, with what it has in its cache, until the test ends.
class other_thread {
public:
    template <class Run>
    explicit other_thread(Run run)
        : m_thread([this, run] {
              run();
              m_ran.count_down();
              m_end.wait();
          }) {
        m_ran.wait();
    }
    ~other_thread() {
        m_end.count_down();
        m_thread.join();
    }
    other_thread(other_thread const&) = delete;
    other_thread& operator=(other_thread const&) = delete;

private:
    std::latch m_ran{1};
    std::latch m_end{1};
    std::thread m_thread;
};

TEST_F(growing_list, steps_of_the_only_thread_take_no_lock) {
    auto& list = make({2, 2, 0});
    for (int i = 0; i < 17; ++i)  // the addresses have space for 32 then
        static_cast<void>(list.take());
    {
        pooled::detail::scoped_lock const held(lock());
        for (int i = 0; i < 10; ++i)
            EXPECT_NE(list.take(), nullptr);
    }
    EXPECT_EQ(list.capacity(), 28U);
    EXPECT_EQ(list.idle(), 1U);
    EXPECT_EQ(list.steps(), 14U);
}

TEST_F(growing_list, constructor_may_put_and_take_without_a_step_in_a_step) {
    auto& list = make({1, 1, 0});
    void* last = nullptr;
    for (int i = 0; i < 5; ++i)
        last = list.take();
    int begun = 0;
    all.during = [&] {
        if (++begun != 1) return;
        EXPECT_TRUE(list.put(last, false));
        EXPECT_EQ(list.take(), last);
        EXPECT_EQ(list.take(), nullptr);
        EXPECT_TRUE(list.put(last, false));
    };
    EXPECT_EQ(list.take(), &all.all[5]);
    EXPECT_EQ(begun, 1);
    all.during = [] {};
    EXPECT_EQ(list.capacity(), 7U);
    EXPECT_EQ(list.idle(), 2U);
    for (int i = 0; i < 3; ++i)
        EXPECT_NE(list.take(), nullptr);
    EXPECT_EQ(list.capacity(), 9U);
    EXPECT_EQ(list.idle(), 1U);
}

TEST_F(growing_list, what_a_second_thread_has_cached_is_taken_before_a_step_is_made) {
    for (int round = 0; round < 3; ++round) {
        auto& list = make({1, 1, 0});
        for (int i = 0; i < 5; ++i)
            static_cast<void>(list.take());
        EXPECT_EQ(list.capacity(), 6U);
        {
            other_thread const second([&list] {
                void* const p = list.take();  // the sixth: a seventh is made
                void* const q = list.take();
                EXPECT_TRUE(list.put(p, false));
                EXPECT_TRUE(list.put(q, false));
            });
            EXPECT_EQ(list.capacity(), 8U);
            EXPECT_EQ(list.idle(), 3U);
            for (int i = 0; i < 2; ++i)
                EXPECT_NE(list.take(), nullptr);
            EXPECT_EQ(list.capacity(), 8U);
            EXPECT_EQ(list.idle(), 1U);
            EXPECT_NE(list.take(), nullptr);
            EXPECT_EQ(list.capacity(), 9U);
        }
        EXPECT_NE(list.take(), nullptr);
        EXPECT_EQ(list.capacity(), 10U);
        end();
    }
}

TEST_F(growing_list, what_a_second_thread_stole_is_taken_before_a_step_is_made) {
    auto& list = make({1, 1, 0});
    std::array<void*, 39> taken{};  // so many that two threads may cache some
    for (void*& p : taken)
        p = list.take();
    for (std::size_t i = 0; i < 10; ++i)
        EXPECT_TRUE(list.put(taken[i], false));
    other_thread const second([&list] { EXPECT_NE(list.take(), nullptr); });
    EXPECT_TRUE(list.put(taken[10], false));
    EXPECT_EQ(list.idle(), 11U);
    for (int i = 0; i < 10; ++i)
        EXPECT_NE(list.take(), nullptr);
    EXPECT_EQ(list.capacity(), 40U);
    EXPECT_NE(list.take(), nullptr);
    EXPECT_EQ(list.capacity(), 41U);
}

TEST_F(growing_list, thread_that_was_the_only_one_may_end_or_be_cleared_by_another) {
    auto& list = make({1, 1, 0});
    std::thread([&list] {
        for (int i = 0; i < 5; ++i)
            static_cast<void>(list.take());
    }).join();
    EXPECT_EQ(list.idle(), 1U);
    for (int i = 0; i < 5; ++i)
        EXPECT_NE(list.take(), nullptr);
    EXPECT_EQ(list.capacity(), 11U);
    other_thread const second(
        [&] { EXPECT_EQ(list.take_all([this](maker&, std::size_t) { all.made = 0; }).size(), 1U); });
    EXPECT_EQ(list.capacity(), 0U);
    EXPECT_NE(list.take(), nullptr);
    EXPECT_EQ(list.capacity(), 2U);
}

TEST_F(growing_list, forked_child_forgets_the_step_of_a_thread_that_it_does_not_have) {
    if (test::k_sanitized) GTEST_SKIP() << "sanitizers do not follow a fork of several threads";
    auto& list = make({1, 1, 0});
    std::atomic<bool> is_in_step{false};
    std::atomic<bool> may_go_on{false};
    all.during = [&] {
        is_in_step = true;
        while (!may_go_on)
            std::this_thread::yield();
    };
    std::thread grower([&] { EXPECT_NE(list.take(), nullptr); });
    while (!is_in_step)
        std::this_thread::yield();
    EXPECT_EQ(test::in_child([&] {
                  all.during = [] {};
                  return list.take() != nullptr && list.take() != nullptr && all.forgotten == 1;
              }),
              0);
    may_go_on = true;
    grower.join();
    EXPECT_EQ(all.forgotten, 0);
}

// A fibre that is suspended within a constructor, and continues on another thread.
TEST_F(growing_list, step_that_ends_on_another_thread_ends_in_that_threads_cache) {
    if (test::k_sanitized) GTEST_SKIP() << "sanitizers do not follow a change of stacks";
    auto& list = make({64, 64, 0});
    static ucontext_t outside;
    static ucontext_t fibre;
    static std::function<void()> work;
    std::vector<char> stack(1U << 20);
    ASSERT_EQ(::getcontext(&fibre), 0);
    fibre.uc_stack.ss_sp = stack.data();
    fibre.uc_stack.ss_size = stack.size();
    fibre.uc_link = nullptr;
    ::makecontext(
        &fibre,
        +[] {
            work();
            ::swapcontext(&fibre, &outside);
        },
        0);
    all.during = [] { ::swapcontext(&fibre, &outside); };
    work = [&] {
        while (all.made < 128)
            static_cast<void>(list.take());
    };
    auto const next = [&list] {
        void* found = nullptr;
        list.check([&found](void* p) { found = p; });
        return found;
    };
    ASSERT_EQ(::swapcontext(&outside, &fibre), 0);
    EXPECT_EQ(all.made, 64U) << "it is within the step";
    std::thread([&] {
        EXPECT_EQ(next(), nullptr);  // this thread has a cache
        ASSERT_EQ(::swapcontext(&outside, &fibre), 0);
        EXPECT_EQ(all.made, 128U);
        EXPECT_EQ(next(), &all.all[64]) << "this thread takes what was made first";
        EXPECT_EQ(list.take(), &all.all[64]);
    }).join();
    EXPECT_EQ(list.idle(), 63U);
}

// A thread that wants all has waited for the step, and gets what the grower held.
TEST_F(growing_list, puts_the_last_one_back_before_another_thread_takes_all) {
    for (int round = 0; round < 1000; ++round) {
        auto& list = make({1, 1, 0});
        all.is_failing = true;
        std::atomic<bool> is_in_step{false};
        std::size_t taken = 0;
        std::thread other;
        all.during = [&] {
            is_in_step = true;
            for (int i = 0; i < round % 100; ++i)  // so that the step ends while the other one begins to wait
                static_cast<void>(is_in_step.exchange(true));
        };
        other = std::thread([&] {
            while (!is_in_step)
                std::this_thread::yield();
            taken = list.take_all([](maker&, std::size_t) {}).size();
        });
        EXPECT_THROW(static_cast<void>(list.take()), std::runtime_error);
        other.join();
        EXPECT_EQ(taken, 1U);
        end();
    }
}

}  // namespace
