// SPDX-License-Identifier: BSL-1.0
// Deep structures on every kind of stack: threads with small and large ones, the main thread under a small limit, and
// fibres, which switch during destructors and move between threads. POOLED_TEST_DEPTH says how deep; 10,000,000 is
// run by hand.

#include "pooled/pooled.hpp"

#include "support/sanitizer.hpp"
#include "support/small_stack.hpp"

#include <gtest/gtest.h>

#if defined(POOLED_TEST_SANITIZER_ADDRESS)
#include <sanitizer/common_interface_defs.h>
#endif
#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

std::size_t g_alive = 0;

struct lives {
    lives() noexcept { ++g_alive; }
    lives(lives const&) = delete;
    lives& operator=(lives const&) = delete;
    ~lives() { --g_alive; }
};

struct plain : lives {
    std::shared_ptr<plain> next;
};
struct observed : lives {
    std::shared_ptr<observed> next;
    std::weak_ptr<observed> back;
};
struct aware : lives, std::enable_shared_from_this<aware> {
    std::shared_ptr<aware> next;
};
struct by_unique;
struct by_rc;
struct by_shared : lives {
    pooled::rc_ptr<by_rc> next;
};
struct by_rc : lives {
    pooled::unique_ptr<by_unique> next;
};
struct by_unique : lives {
    std::shared_ptr<by_shared> next;
};

template <class Node>
std::shared_ptr<Node> list(std::size_t count) {
    std::shared_ptr<Node> head;
    for (std::size_t i = 0; i < count; ++i) {
        auto front = pooled::make_shared<Node>();
        if constexpr (std::is_same_v<Node, observed>)
            if (head != nullptr) head->back = front;
        front->next = std::move(head);
        head = std::move(front);
    }
    return head;
}

std::shared_ptr<by_shared> mixed_list(std::size_t count) {
    std::shared_ptr<by_shared> head;
    for (std::size_t i = 0; i < count; i += 3) {
        auto last = pooled::make_unique<by_unique>();
        last->next = std::move(head);
        auto middle = pooled::make_rc<by_rc>();
        middle->next = std::move(last);
        head = pooled::make_shared<by_shared>();
        head->next = std::move(middle);
    }
    return head;
}

// Lists of every kind, dropped by `on`, one after the other.
template <class On>
void drop_lists(On on) {
    auto const drop = [&](auto head) {
        on([&] { head.reset(); });
        EXPECT_EQ(g_alive, 0U);
    };
    drop(list<plain>(test::depth()));
    drop(list<observed>(test::depth()));
    drop(list<aware>(test::depth()));
    drop(mixed_list(test::depth()));
}

class on_a_thread_with_a_stack_of : public testing::TestWithParam<std::size_t> {};

TEST_P(on_a_thread_with_a_stack_of, deep_lists_are_destroyed) {
    drop_lists([](auto&& work) { test::on_stack_of(GetParam() << 10, work); });
}

INSTANTIATE_TEST_SUITE_P(KiB, on_a_thread_with_a_stack_of, testing::Values(128, 256, 8192),
                         [](auto const& one) { return std::to_string(one.param); });

#if !defined(__SANITIZE_THREAD__) && !defined(POOLED_TEST_SANITIZER_THREAD)

// One function on its own stack. resume() runs it until it calls pause(), or returns.
class fibre {
public:
    fibre(std::size_t bytes, std::function<void(fibre&)> work) : m_work(std::move(work)), m_bytes(bytes) {
        m_stack =
            ::mmap(nullptr, bytes + k_guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ::mprotect(m_stack, k_guard, PROT_NONE);
        start(static_cast<std::byte*>(m_stack) + k_guard);
    }
    // On memory of the caller's.
    fibre(std::byte* stack, std::size_t bytes, std::function<void(fibre&)> work)
        : m_work(std::move(work)), m_bytes(bytes) {
        start(stack);
    }
    ~fibre() {
        if (m_stack != nullptr) ::munmap(m_stack, m_bytes + k_guard);
    }
    fibre(fibre const&) = delete;
    fibre& operator=(fibre const&) = delete;

    void resume() {
        side const outside = leave(m_stack_bottom, m_bytes);
        ::swapcontext(&m_outside, &m_inside);
        arrive(outside);
    }
    void pause() {
        side const inside = leave(m_outside_bottom, m_outside_bytes);
        ::swapcontext(&m_inside, &m_outside);
        arrive(inside, &m_outside_bottom, &m_outside_bytes);
    }
    [[nodiscard]] bool is_done() const { return m_is_done; }

private:
    static constexpr std::size_t k_guard = 4096;

    // AddressSanitizer keeps frames of its own for each stack, and must be informed of each change.
    struct side {
        void* fake_stack = nullptr;
    };
    static side leave([[maybe_unused]] void const* to, [[maybe_unused]] std::size_t bytes) {
        side from;
#if defined(POOLED_TEST_SANITIZER_ADDRESS)
        __sanitizer_start_switch_fiber(&from.fake_stack, to, bytes);
#endif
        return from;
    }
    static void arrive([[maybe_unused]] side at, [[maybe_unused]] void const** from = nullptr,
                       [[maybe_unused]] std::size_t* bytes = nullptr) {
#if defined(POOLED_TEST_SANITIZER_ADDRESS)
        __sanitizer_finish_switch_fiber(at.fake_stack, from, bytes);
#endif
    }

    void start(std::byte* stack) {
        m_stack_bottom = stack;
        ::getcontext(&m_inside);
        m_inside.uc_stack.ss_sp = stack;
        m_inside.uc_stack.ss_size = m_bytes;
        m_inside.uc_link = nullptr;
        auto const self = reinterpret_cast<std::uintptr_t>(this);
        ::makecontext(&m_inside, reinterpret_cast<void (*)()>(&run), 2, static_cast<unsigned>(self),
                      static_cast<unsigned>(self >> 32));
    }
    static void run(unsigned low, unsigned high) {
        auto* const self = reinterpret_cast<fibre*>(std::uintptr_t{low} | std::uintptr_t{high} << 32);
        arrive({}, &self->m_outside_bottom, &self->m_outside_bytes);
        self->m_work(*self);
        self->m_is_done = true;
#if defined(POOLED_TEST_SANITIZER_ADDRESS)
        __sanitizer_start_switch_fiber(nullptr, self->m_outside_bottom, self->m_outside_bytes);
#endif
        ::swapcontext(&self->m_inside, &self->m_outside);
    }

    std::function<void(fibre&)> m_work;
    std::size_t m_bytes;
    void* m_stack = nullptr;
    void const* m_stack_bottom = nullptr;
    void const* m_outside_bottom = nullptr;
    std::size_t m_outside_bytes = 0;
    ucontext_t m_inside{};
    ucontext_t m_outside{};
    bool m_is_done = false;
};

TEST(on_a_fibre, deep_lists_are_destroyed_on_64_KiB) {
    std::thread([] {
        drop_lists([](auto&& work) {
            fibre on(64 << 10, [&](fibre&) { work(); });
            on.resume();
            EXPECT_TRUE(on.is_done());
        });
    }).join();
}

TEST(on_a_fibre, a_first_drop_leaves_the_threads_own_stack_usable) {
    std::thread([] {
        fibre first(256 << 10, [](fibre&) { list<plain>(10).reset(); });
        first.resume();
        list<plain>(test::depth()).reset();
        EXPECT_EQ(g_alive, 0U);
    }).join();
}

TEST(on_a_fibre, above_its_threads_stack_deep_lists_are_destroyed) {
    std::size_t const bytes = 1 << 20;
    void* const memory =
        ::mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstack(&attributes, memory,
                            bytes);  // the lower half; the fibre gets a part of the upper one
    pthread_t thread;
    ::pthread_create(
        &thread, &attributes,
        [](void* upper) -> void* {
            list<plain>(10).reset();
            fibre on(static_cast<std::byte*>(upper), 256 << 10,
                     [](fibre&) { list<plain>(test::depth()).reset(); });
            on.resume();
            list<plain>(test::depth()).reset();
            return nullptr;
        },
        static_cast<std::byte*>(memory) + bytes);
    ::pthread_join(thread, nullptr);
    ::pthread_attr_destroy(&attributes);
    ::munmap(memory, 2 * bytes);
    EXPECT_EQ(g_alive, 0U);
}

fibre* g_current = nullptr;
struct switches : lives {
    ~switches() {
        if (g_current != nullptr) g_current->pause();
    }
    std::shared_ptr<switches> next;
};

// Two lists, on neighbouring stacks: each destructor goes on with the other list.
TEST(on_a_fibre, destructors_may_switch_to_another_fibre) {
    std::thread([] {
        std::size_t const count = test::depth(10);
        std::size_t const bytes = 64 << 10;
        std::vector<std::byte> stacks(2 * bytes);
        auto const work = [count](fibre& self) {
            auto head = list<switches>(count);
            g_current = &self;
            head.reset();
        };
        fibre low(stacks.data(), bytes, work);
        fibre high(stacks.data() + bytes, bytes, work);
        while (!low.is_done() || !high.is_done())
            for (fibre* each : {&low, &high})
                if (!each->is_done()) {
                    g_current = each;
                    each->resume();
                }
        g_current = nullptr;
        EXPECT_EQ(g_alive, 0U);
    }).join();
}

TEST(on_a_fibre, a_destructor_may_move_to_another_thread) {
    std::size_t const count = test::depth(100);
    fibre on(64 << 10, [count](fibre& self) {
        auto head = list<switches>(count);
        g_current = &self;
        head.reset();
        g_current = nullptr;
    });
    while (!on.is_done())
        std::thread([&] {
            on.resume();
            list<plain>(100).reset();
        }).join();
    EXPECT_EQ(g_alive, 0U);
}

// What is dropped at depth one on a fibre is destroyed at once, whatever another fibre is in the midst of.
TEST(on_a_fibre, a_drop_does_not_wait_for_another_fibre) {
    std::thread([] {
        std::size_t const bytes = 64 << 10;
        std::vector<std::byte> stacks(2 * bytes);
        fibre below(stacks.data(), bytes, [](fibre&) {
            auto p = pooled::make_shared<plain>();
            std::size_t const before = g_alive;
            p.reset();
            EXPECT_EQ(g_alive, before - 1);
        });
        fibre above(stacks.data() + bytes, bytes, [&](fibre& self) {
            auto head = list<switches>(1000);
            g_current = &self;
            head.reset();
        });
        for (int i = 0; i < 500; ++i)
            above.resume();  // deep in the list
        below.resume();
        while (!above.is_done())
            above.resume();
        g_current = nullptr;
        EXPECT_EQ(g_alive, 0U);
    }).join();
}

// A thread that has ended has a cache as long as it drains. Another fibre of it may use that cache, and go on when the first drain is over.
ucontext_t g_ended, g_first, g_second;
pooled::pool* g_incremental = nullptr;
std::size_t g_first_drained = 0;
std::size_t g_second_drained = 0;
struct switching : lives {
    explicit switching(int i) : number(i) {}
    ~switching() {
        if (number == 0) ::swapcontext(&g_first, &g_second);
        if (number == 1) ::swapcontext(&g_second, &g_first);
    }
    int number;
};
void drain_on_two_fibres(void*) {
    static std::vector<char> first(256 << 10);
    static std::vector<char> second(256 << 10);
    auto const prepare = [](ucontext_t& one, std::vector<char>& stack, void (*run)()) {
        ::getcontext(&one);
        one.uc_stack.ss_sp = stack.data();
        one.uc_stack.ss_size = stack.size();
        one.uc_link = &g_ended;
        ::makecontext(&one, run, 0);
    };
    prepare(g_first, first, [] {
        g_first_drained = g_incremental->drain(1);
        ::swapcontext(&g_first, &g_second);
    });
    prepare(g_second, second, [] { g_second_drained = g_incremental->drain(2); });
    ::swapcontext(&g_ended, &g_first);
}

TEST(on_fibres, of_a_thread_that_has_ended_two_can_drain_one_pool) {
    pooled::pool pool{{.name = "incremental", .teardown = pooled::teardown::incremental}};
    g_incremental = &pool;
    std::vector<std::shared_ptr<switching>> objects;
    for (int i = 0; i < 4; ++i)
        objects.push_back(pool.make_shared<switching>(i));
    objects.clear();
    static pthread_key_t key;  // younger than the library's key: its function runs after the library's
    ASSERT_EQ(::pthread_key_create(&key, drain_on_two_fibres), 0);
    std::thread([&] {
        struct with_destructor {
            ~with_destructor() {}
        };
        static_cast<void>(pool.make_shared<with_destructor>());
        ::pthread_setspecific(key, &key);
    }).join();
    EXPECT_EQ(g_first_drained, 1U);
    EXPECT_EQ(g_second_drained, 2U);
    pool.drain();
    EXPECT_EQ(g_alive, 0U);
}

#endif

// Run by the test below, in a process whose main thread has 256 KiB.
TEST(on_the_main_thread, DISABLED_deep_lists_are_destroyed) {
    drop_lists([](auto&& work) { work(); });
}

TEST(on_the_main_thread, deep_lists_are_destroyed_under_a_limit_of_256_KiB) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer starts anew with a larger stack";
    pid_t const child = ::fork();
    if (child == 0) {
        rlimit limit{};
        ::getrlimit(RLIMIT_STACK, &limit);
        limit.rlim_cur = 256 << 10;
        ::setrlimit(RLIMIT_STACK, &limit);
        ::execl("/proc/self/exe", "self", "--gtest_also_run_disabled_tests",
                "--gtest_filter=on_the_main_thread.DISABLED_deep_lists_are_destroyed", "--gtest_brief=1",
                static_cast<char*>(nullptr));
        ::_exit(127);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

}  // namespace
