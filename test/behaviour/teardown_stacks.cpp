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

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
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
struct counted : lives {
    pooled::rc_ptr<counted> next;
};
struct counted_observed : lives {
    pooled::rc_ptr<counted_observed> next;
    pooled::weak_rc_ptr<counted_observed> back;
};
struct counted_aware : lives, pooled::enable_rc_from_this<counted_aware> {
    pooled::rc_ptr<counted_aware> next;
};
struct unique : lives {
    pooled::unique_ptr<unique> next;
};

template <class Node>
auto list(std::size_t count) {
    using pointer = decltype(Node::next);
    pointer head;
    for (std::size_t i = 0; i < count; ++i) {
        pointer front;
        if constexpr (std::is_same_v<pointer, pooled::unique_ptr<Node>>)
            front = pooled::make_unique<Node>();
        else if constexpr (std::is_same_v<pointer, pooled::rc_ptr<Node>>)
            front = pooled::make_rc<Node>();
        else
            front = pooled::make_shared<Node>();
        if constexpr (requires { head->back; })
            if (head != nullptr) head->back = front;
        front->next = std::move(head);
        head = std::move(front);
    }
    return head;
}

// Lists of every kind, dropped by `on`, one after the other.
template <class On>
void drop_lists(On on) {
    auto const drop = [&](char const* of, auto head) {
        SCOPED_TRACE(of);
        on([&] {
            head.reset();
            EXPECT_EQ(g_alive, 0U);
        });
        EXPECT_EQ(g_alive, 0U);
    };
    drop("shared_ptr", list<plain>(test::depth()));
    drop("shared_ptr to observed nodes", list<observed>(test::depth()));
    drop("enable_shared_from_this", list<aware>(test::depth()));
    drop("rc_ptr", list<counted>(test::depth(2)));
    drop("rc_ptr to observed nodes", list<counted_observed>(test::depth(2)));
    drop("enable_rc_from_this", list<counted_aware>(test::depth(2)));
    drop("unique_ptr", list<unique>(test::depth(2)));
}

class on_a_thread_with_a_stack_of : public testing::TestWithParam<std::size_t> {};

TEST_P(on_a_thread_with_a_stack_of, deep_lists_are_destroyed) {
    if (test::k_sanitized && GetParam() < 64) GTEST_SKIP() << "a sanitizer's functions alone need as much";
    if (GetParam() << 10 < static_cast<std::size_t>(::sysconf(_SC_THREAD_STACK_MIN)))
        GTEST_SKIP() << "no thread of this system has so little";
    drop_lists([](auto&& work) { test::on_stack_of(GetParam() << 10, work); });
}

INSTANTIATE_TEST_SUITE_P(KiB, on_a_thread_with_a_stack_of, testing::Values(16, 20, 28, 128, 256, 8192),
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

class on_a_fibre_with_a_stack_of : public on_a_thread_with_a_stack_of {};

TEST_P(on_a_fibre_with_a_stack_of, deep_lists_are_destroyed) {
    if (test::k_sanitized && GetParam() < 64) GTEST_SKIP() << "a sanitizer's functions alone need as much";
    std::thread([] {
        drop_lists([](auto&& work) {
            fibre on(GetParam() << 10, [&](fibre&) { work(); });
            on.resume();
            EXPECT_TRUE(on.is_done());
        });
    }).join();
}

INSTANTIATE_TEST_SUITE_P(KiB, on_a_fibre_with_a_stack_of, testing::Values(16, 24, 64),
                         [](auto const& one) { return std::to_string(one.param); });

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

// Structures of every shape, and pools with other teardowns, on a stack where recursion ends after some thousand nodes.

class teardown_depth : public testing::Test {
protected:
    ~teardown_depth() override { EXPECT_EQ(g_alive, 0U); }

    // Drops it on the small stack; everything must be gone when the drop returns.
    template <class Pointer>
    static void expect_gone(Pointer& head, pooled::local_pool* local = nullptr) {
        EXPECT_NE(g_alive, 0U);
        test::on_small_stack([&] {
            // The checked build assumes that the pool belongs to the thread that allocated last.
            if (local != nullptr) local->deallocate(local->allocate(8), 8);
            head.reset();
            EXPECT_EQ(g_alive, 0U);
        });
    }
};

template <class Node, class Make>
auto list_of(std::size_t count, Make make) {
    decltype(make()) head;
    for (std::size_t i = 0; i < count; ++i) {
        auto node = make();
        node->next = std::move(head);
        head = std::move(node);
    }
    return head;
}

TEST_F(teardown_depth, a_list_of_a_local_pool_needs_no_stack) {
    pooled::local_pool pool;
    auto head = list_of<plain>(test::depth(), [&] { return pool.make_shared<plain>(); });
    expect_gone(head, &pool);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

struct with_unique;
struct with_local;
struct with_standard;
struct with_shared;
struct with_rc : lives {
    pooled::rc_ptr<with_unique> next;
};
struct with_unique : lives {
    pooled::unique_ptr<with_local> next;
};
struct with_local : lives {
    pooled::local_rc_ptr<with_standard> next;
};
struct with_standard : lives {
    std::shared_ptr<with_shared> next;
};
struct with_shared : lives {
    std::shared_ptr<with_rc> next;
};

TEST_F(teardown_depth, a_list_through_every_kind_of_pointer_and_pool_needs_no_stack) {
    pooled::pool pool;
    pooled::local_pool local;
    std::shared_ptr<with_rc> head;
    for (std::size_t i = 0; i < test::depth(5); ++i) {
        auto standard = std::make_shared<with_shared>();  // recurses by itself, but never twice in a row
        standard->next = std::move(head);
        auto by_one = local.make_local_rc<with_standard>();
        by_one->next = std::move(standard);
        auto alone = pool.make_unique<with_local>();
        alone->next = std::move(by_one);
        auto many = pooled::make_rc<with_unique>();
        many->next = std::move(alone);
        head = i % 2 == 0 ? pool.make_shared<with_rc>() : local.make_shared<with_rc>();
        head->next = std::move(many);
    }
    expect_gone(head, &local);
}

struct held_oddly : lives {
    std::variant<int, std::shared_ptr<held_oddly>> in_variant;
    std::optional<std::shared_ptr<held_oddly>> in_optional;
    std::vector<std::shared_ptr<held_oddly>> in_vector;
    std::function<void()> in_function;
};

TEST_F(teardown_depth, it_does_not_matter_what_holds_the_pointer) {
    std::shared_ptr<held_oddly> head;
    for (std::size_t i = 0; i < test::depth(4); ++i) {
        auto node = pooled::make_shared<held_oddly>();
        switch (i % 4) {
        case 0:
            node->in_variant = std::move(head);
            break;
        case 1:
            node->in_optional = std::move(head);
            break;
        case 2:
            node->in_vector.push_back(std::move(head));
            break;
        default:
            node->in_function = [kept = std::move(head)] { static_cast<void>(kept); };
        }
        head = std::move(node);
    }
    expect_gone(head);
}

struct big_frame : lives {
    ~big_frame() {
        std::array<char volatile, 48U << 10> frame;
        frame[0] = 1;
        next.reset();
        frame[frame.size() - 1] = frame[0];
    }
    std::shared_ptr<big_frame> next;
};

TEST_F(teardown_depth, destructors_with_large_frames_nest_twice_at_most) {
    auto head = list_of<big_frame>(test::depth(), [] { return pooled::make_shared<big_frame>(); });
    expect_gone(head);
}

// Between two steps down each node destroys some leaves: they must not move the bound of the recursion.
char const* g_lowest = nullptr;
[[gnu::always_inline]] inline char const*
stack_pointer() {  // not a local's address: AddressSanitizer has them elsewhere
    return static_cast<char const*>(__builtin_frame_address(0));
}
struct leaf : lives {};
struct wide : lives {
    ~wide() {
        char const* const here = stack_pointer();
        if (here < g_lowest) g_lowest = here;
    }
    std::shared_ptr<wide> next;
    std::vector<std::shared_ptr<leaf>> leaves;
};

TEST_F(teardown_depth, a_list_whose_nodes_own_leaves_needs_no_stack_however_many_these_are) {
    for (std::size_t width = 1; width < (test::k_sanitized ? 300 : 100);
         width += test::k_sanitized ? 12 : 3) {
        auto head = list_of<wide>(test::k_sanitized ? 500 : 2000, [&] {
            auto node = pooled::make_shared<wide>();
            for (std::size_t i = 0; i < width; ++i)
                node->leaves.push_back(pooled::make_shared<leaf>());
            return node;
        });
        test::on_small_stack([&] {
            char const* const top = stack_pointer();
            g_lowest = top;
            head.reset();
            EXPECT_LT(top - g_lowest, static_cast<std::ptrdiff_t>(test::k_small_stack / 2 + (32U << 10)))
                << width << " leaves a node";
            EXPECT_EQ(g_alive, 0U);
        });
    }
}

struct twig : lives {
    std::shared_ptr<twig> left;
    std::shared_ptr<twig> right;
};

TEST_F(teardown_depth, a_tree_as_deep_as_a_list_needs_no_stack_on_either_side) {
    std::shared_ptr<twig> root;
    for (std::size_t i = 0; i < test::depth(3); ++i) {
        auto node = pooled::make_shared<twig>();
        (i % 2 == 0 ? node->left : node->right) = std::move(root);
        (i % 2 == 0 ? node->right : node->left) = pooled::make_shared<twig>();
        root = std::move(node);
    }
    expect_gone(root);
}

// Each node is owned by two others, and is destroyed with the second.
TEST_F(teardown_depth, a_graph_with_shared_nodes_needs_no_stack) {
    std::shared_ptr<twig> last;
    std::shared_ptr<twig> before_last;
    for (std::size_t i = 0; i < test::depth(); ++i) {
        auto node = pooled::make_shared<twig>();
        node->left = last;
        node->right = std::move(before_last);
        before_last = std::move(last);
        last = std::move(node);
    }
    before_last.reset();
    expect_gone(last);
}

TEST_F(teardown_depth, deep_lists_gathered_in_a_scope_need_no_stack) {
    std::array<std::shared_ptr<plain>, 5> heads;
    for (auto& head : heads)
        head = list_of<plain>(test::depth(5), [] { return pooled::make_shared<plain>(); });
    test::on_small_stack([&] {
        {
            pooled::reclaim_scope const together;
            for (auto& head : heads)
                head.reset();
        }
        EXPECT_EQ(g_alive, 0U);
    });
}

TEST_F(teardown_depth, a_deep_list_of_an_incremental_pool_needs_no_stack) {
    pooled::pool pool{{.teardown = pooled::teardown::incremental}};
    auto head = list_of<plain>(test::depth(), [&] { return pool.make_shared<plain>(); });
    std::size_t const before = g_alive;
    test::on_small_stack([&] {
        head.reset();
        EXPECT_EQ(g_alive, before) << "the drop only takes note";
        EXPECT_EQ(pool.drain(), before);
        EXPECT_EQ(g_alive, 0U);
    });
}

TEST_F(teardown_depth, a_deep_list_by_turns_of_an_incremental_and_an_immediate_pool_needs_no_stack) {
    pooled::pool slow{{.teardown = pooled::teardown::incremental}};
    std::size_t made = 0;
    auto head = list_of<plain>(test::depth(), [&] {
        return made++ % 2 == 0 ? slow.make_shared<plain>() : pooled::make_shared<plain>();
    });
    test::on_small_stack([&] {
        head.reset();
        slow.drain();
        EXPECT_EQ(g_alive, 0U);
    });
}

TEST_F(teardown_depth, a_thread_that_ends_tears_down_what_it_put_off_without_stack) {
    pooled::pool pool{{.teardown = pooled::teardown::incremental}};
    auto head = list_of<plain>(test::depth(), [&] { return pool.make_shared<plain>(); });
    test::on_small_stack([&] { head.reset(); });
    EXPECT_EQ(g_alive, 0U);
}

}  // namespace
