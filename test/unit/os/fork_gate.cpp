// SPDX-License-Identifier: BSL-1.0
// A thread that forks is alone: no other thread is then between enter() and leave(), whether it has its own flag or counts.

#include "pooled/os/fork_gate.hpp"

#include "pooled/os/platform.hpp"

#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using pooled::detail::fork_gate;
using pooled::detail::g_fork_gate;

// A thread that is inside nearly always, until it is stopped. The state is plain: only who may be inside writes to it.
class visitor {
public:
    explicit visitor(bool has_flag) : m_has_flag(has_flag), m_thread([this] { run(); }) {}
    ~visitor() {
        m_is_over = true;
        m_thread.join();
    }
    [[nodiscard]] long visits() const { return m_visits; }
    [[nodiscard]] bool is_inside() const { return m_is_inside; }

private:
    void run() {
        for (bool is_first = true; !m_is_over; is_first = false) {
            g_fork_gate.enter();
            m_is_inside = true;
            if (is_first && m_has_flag) g_fork_gate.own_flag();
            m_visits = m_visits + 1;
            for (int n = 0; n < 50; ++n)
                pooled::detail::platform::relax();
            m_is_inside = false;
            g_fork_gate.leave();
        }
        fork_gate::release_flag();
    }

    bool m_has_flag;
    bool volatile m_is_inside = false;
    long volatile m_visits = 0;
    std::atomic<bool> m_is_over{false};
    std::thread m_thread;
};

class fork_gate_test : public ::testing::Test {
protected:
    static void SetUpTestSuite() { ASSERT_TRUE(pooled::detail::platform::has_heavy_barrier()); }
};

TEST_F(fork_gate_test, keeps_threads_with_and_without_a_place_out_while_one_forks) {
    visitor const with(true);
    visitor const without(false);
    for (int i = 0; i < 300 && !HasFailure(); ++i) {
        g_fork_gate.begin();
        long const before = with.visits() + without.visits();
        EXPECT_FALSE(with.is_inside());
        EXPECT_FALSE(without.is_inside());
        for (int n = 0; n < 50; ++n)
            pooled::detail::platform::relax();
        EXPECT_EQ(with.visits() + without.visits(), before);
        g_fork_gate.end();
        std::this_thread::yield();
    }
    for (bool have_run = false; !have_run; std::this_thread::yield()) {
        g_fork_gate.begin();  // orders what follows
        have_run = with.visits() != 0 && without.visits() != 0;
        g_fork_gate.end();
    }
}

TEST_F(fork_gate_test, serves_more_threads_than_it_has_flags_and_those_that_follow_them) {
    int const threads = test::k_sanitized ? 300 : 600;  // there are 256 flags
    for (int generation = 0; generation < 2; ++generation) {
        std::latch are_inside(threads);
        long visits = 0;
        std::atomic<int> ended{0};
        std::vector<std::thread> all;
        for (int i = 0; i < threads; ++i)
            all.emplace_back([&] {
                g_fork_gate.enter();
                g_fork_gate.own_flag();
                g_fork_gate.leave();
                are_inside.arrive_and_wait();
                g_fork_gate.enter();
                std::atomic_ref(visits).fetch_add(1);
                g_fork_gate.leave();
                ++ended;
                fork_gate::release_flag();
            });
        while (ended != threads) {
            g_fork_gate.begin();
            long const before = visits;
            for (int n = 0; n < 50; ++n)
                pooled::detail::platform::relax();
            EXPECT_EQ(visits, before);
            g_fork_gate.end();
            std::this_thread::yield();
        }
        for (std::thread& one : all)
            one.join();
        EXPECT_EQ(visits, threads);
    }
}

TEST_F(fork_gate_test, lets_the_thread_that_forks_and_sections_within_sections_pass) {
    g_fork_gate.begin();
    g_fork_gate.begin();
    EXPECT_TRUE(fork_gate::is_passed());
    g_fork_gate.enter();
    g_fork_gate.enter();
    g_fork_gate.leave();
    g_fork_gate.leave();
    g_fork_gate.end();
    EXPECT_TRUE(fork_gate::is_passed());
    g_fork_gate.end();
    EXPECT_FALSE(fork_gate::is_passed());
}

// They are inside here, and the fork does not ask, so that the child finds the worst that it may find.
TEST_F(fork_gate_test, gives_no_place_to_a_thread_in_its_fork_handlers) {
    // Such a thread is not counted, so taking a flag would count it out.
    void const* own = this;
    std::thread([&] {
        g_fork_gate.begin();
        g_fork_gate.enter();
        g_fork_gate.own_flag();
        own = pooled::detail::t_fork_gate().own;
        g_fork_gate.leave();
        g_fork_gate.end();
        fork_gate::release_flag();
    }).join();
    EXPECT_EQ(own, nullptr);
}

TEST_F(fork_gate_test, forgets_in_a_child_threads_that_were_about_to_see_the_fork) {
    std::latch are_inside(2);
    std::latch is_over(1);
    auto const stay = [&](bool has_flag) {
        g_fork_gate.enter();
        if (has_flag) g_fork_gate.own_flag();
        are_inside.count_down();
        is_over.wait();
        g_fork_gate.leave();
        fork_gate::release_flag();
    };
    std::thread with(stay, true);
    std::thread without(stay, false);
    are_inside.wait();
    pid_t const child = ::fork();
    if (child == 0) {
        ::alarm(10);
        g_fork_gate.forget_others();
        g_fork_gate.begin();  // waits for nobody
        g_fork_gate.end();
        ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    is_over.count_down();
    with.join();
    without.join();
}

}  // namespace
