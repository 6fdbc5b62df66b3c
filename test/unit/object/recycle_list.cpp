// SPDX-License-Identifier: BSL-1.0
// recycle_list: what a pool's interface does not show of its steps, or shows by chance. The rest: object_pool*.cpp and
// compat/boost_intrusive_pool*.cpp.

#include "pooled/object/recycle_list.hpp"

#include "pooled/object/recycle_list_slow.hpp"
#include "pooled/pool.hpp"

#include "support/sanitizer.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>
#if defined(__GLIBC__)
#include <ucontext.h>
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

POOLED_BEGIN_NAMESPACE
namespace detail {
template <>
struct record_access::of<struct released_apart> {
    // What a thread does that has waited for the lock in vain.
    static bool put(recycle_list& list, recycle_node* n) { return list.put_apart(n); }
};
}  // namespace detail
POOLED_END_NAMESPACE

namespace {

using pooled::detail::recycle_node;
using pooled::detail::sharing;

constexpr std::int64_t k_minute = 60'000'000'000;
struct lasting {
    std::int64_t time = k_minute;
    static int watch(pooled::detail::waiter&) noexcept { return 0; }
    [[nodiscard]] std::int64_t remaining() const noexcept { return time; }
};

// A list of things without content.
class owner final : public pooled::detail::recycle_list {
public:
    std::array<recycle_node, 256> all{};
    std::size_t made = 0;
    bool is_failing = false;
    std::function<void()> during = [] {};  // called by each step

    recycle_node* take() {
        void* p = pop<sharing::shared>();
        return static_cast<recycle_node*>(p != nullptr ? p : wait(lasting()).object);
    }
    recycle_node* pop_cached() { return static_cast<recycle_node*>(pop<sharing::shared>()); }
    void give(recycle_node* n) {
        if (!push<sharing::shared>(n, *n)) put(n);
    }
    std::size_t take_all() {
        std::size_t const count = discard(in_use::forget);
        made = 0;
        return count;
    }
    void forget_all() {
        discard(in_use::close);
        core().close();
        end();
    }
    [[nodiscard]] std::size_t capacity() { return count().capacity; }
    [[nodiscard]] std::size_t idle() { return count().idle; }

private:
    friend pooled::detail::recycle_list;
    owner(pooled::detail::pool_core& c, pooled::detail::recycle_limits const& limits) noexcept
        : recycle_list(c, limits) {}
    ~owner() = default;
    void build_objects(pooled::detail::recycle_stack& built, std::size_t count, bool) override {
        during();
        if (is_failing) throw std::runtime_error("a constructor");
        while (built.size() != count)
            built.push(all[made++]);
    }
    void destroy_one(void*) noexcept override {}
    void end() noexcept override { destroy<sharing::shared>(*this); }
};

class recycle_list : public testing::Test {
protected:
    owner& make(std::size_t step, std::size_t bound = std::numeric_limits<std::size_t>::max()) {
        pooled::detail::recycle_limits const limits{.bound = bound, .growth = step};
        m_owner = &owner::make<owner, sharing::shared>({.name = "test"}, limits, step);
        return *m_owner;
    }
    ~recycle_list() override { end(); }
    void end() {
        if (m_owner == nullptr) return;
        EXPECT_TRUE(m_owner->is_valid());
        m_owner->forget_all();
        m_owner = nullptr;
    }
    auto& lock() { return m_owner->core().caches(); }

private:
    owner* m_owner = nullptr;
};

TEST_F(recycle_list, only_thread_takes_no_lock_for_what_was_built) {
    auto& list = make(20, 20);
    list.reserve(20);
    std::vector<recycle_node*> taken;
    for (int i = 0; i < 20; ++i)
        taken.push_back(list.take());
    for (recycle_node* const one : taken)
        list.give(one);
    {
        pooled::detail::scoped_lock const held(lock());
        for (recycle_node*& one : taken)
            EXPECT_NE(one = list.pop_cached(), nullptr);
        for (recycle_node* const one : taken)
            EXPECT_TRUE(list.push<sharing::shared>(one, *one));
    }
    EXPECT_EQ(list.idle(), 20U);
    // No longer the only one: its share of the objects is smaller.
    test::sleeper second;
    second.run([&list, &taken] {
        for (recycle_node*& one : taken)
            EXPECT_NE(one = list.take(), nullptr);
    });
    std::size_t cached = 0;
    for (recycle_node* const one : taken)
        if (list.push<sharing::shared>(one, *one))
            ++cached;
        else
            list.put(one);
    EXPECT_LE(cached, 4U);
    EXPECT_EQ(list.idle(), 20U);
}

TEST_F(recycle_list, thread_that_reserves_gets_its_cache_though_no_object_is_built) {
    auto& list = make(2);
    std::thread([&] {
        auto const& mine = pooled::detail::t_state().near_caches[list.core().slot()];
        EXPECT_EQ(mine, nullptr);
        list.reserve(2);
        EXPECT_NE(mine, nullptr);
    }).join();
}

TEST_F(recycle_list, what_a_second_thread_has_cached_is_taken_before_a_step_is_made) {
    for (int round = 0; round < 3; ++round) {
        auto& list = make(1);
        for (int i = 0; i < 5; ++i)
            static_cast<void>(list.take());
        EXPECT_EQ(list.capacity(), 5U);
        {
            test::sleeper second;
            second.run([&list] {
                recycle_node* const p = list.take();
                recycle_node* const q = list.take();
                list.give(p);
                list.give(q);
            });
            EXPECT_EQ(list.capacity(), 7U);
            EXPECT_EQ(list.idle(), 2U);
            for (int i = 0; i < 2; ++i)
                EXPECT_NE(list.take(), nullptr);
            EXPECT_EQ(list.capacity(), 7U);
            EXPECT_NE(list.take(), nullptr);
            EXPECT_EQ(list.capacity(), 8U);
        }
        EXPECT_NE(list.take(), nullptr);
        EXPECT_EQ(list.capacity(), 9U);
        end();
    }
}

TEST_F(recycle_list, what_a_second_thread_stole_is_taken_before_a_step_is_made) {
    auto& list = make(1);
    std::array<recycle_node*, 39> taken{};  // so many that two threads may cache some
    for (recycle_node*& p : taken)
        p = list.take();
    for (std::size_t i = 0; i < 10; ++i)
        list.give(taken[i]);
    test::sleeper second;
    second.run([&list] { EXPECT_NE(list.take(), nullptr); });
    list.give(taken[10]);
    EXPECT_EQ(list.idle(), 10U);
    for (int i = 0; i < 10; ++i)
        EXPECT_NE(list.take(), nullptr);
    EXPECT_EQ(list.capacity(), 39U);
    EXPECT_NE(list.take(), nullptr);
    EXPECT_EQ(list.capacity(), 40U);
}

TEST_F(recycle_list, thread_that_was_the_only_one_may_end_or_be_cleared_by_another) {
    auto& list = make(1);
    std::thread([&list] {
        for (int i = 0; i < 5; ++i)
            static_cast<void>(list.take());
    }).join();
    for (int i = 0; i < 5; ++i)
        EXPECT_NE(list.take(), nullptr);
    recycle_node* const idle = list.take();
    list.give(idle);
    EXPECT_EQ(list.capacity(), 11U);
    test::sleeper second;
    second.run([&] { EXPECT_EQ(list.take_all(), 1U); });
    EXPECT_EQ(list.capacity(), 0U) << "those in use do not count any more";
    EXPECT_NE(list.take(), nullptr);
    EXPECT_EQ(list.capacity(), 1U);
}

// The thread that made the list is its only user.
TEST_F(recycle_list, while_its_only_user_waits_what_others_release_is_in_no_cache) {
    auto& list = make(1, 1);
    recycle_node* const only = list.take();
    std::thread other([&] {
        while (list.count().waiting == 0)
            std::this_thread::yield();
        EXPECT_TRUE(list.is_valid()) << "a thread waits: central mode";
        list.reserve(0);  // now this one has a cache
        bool const is_cached = list.push<sharing::shared>(only, *only);
        EXPECT_FALSE(is_cached) << "the waiter does not get it";
        list.put(is_cached ? list.pop<sharing::shared>() : only);
    });
    void const* const got = list.wait(lasting()).object;
    other.join();
    EXPECT_EQ(got, only);
    list.give(only);
}

// Such an acquisition did not find an object that was idle: in cached mode, the next thread would have to stop all others.
TEST_F(recycle_list, what_is_taken_in_place_of_waiters_does_not_end_central_mode) {
    using base = pooled::detail::recycle_list;
    auto& list = make(1, 1);
    void* p = list.base::take().object;
    std::array<std::optional<pooled::detail::waiter>, 2> waiters;  // one of them waits at any time
    for (std::size_t i = 0; i != 3000; ++i) {
        pooled::detail::waiter& mine = waiters[i % 2].emplace();
        ASSERT_EQ(list.base::take(&mine).how, base::outcome::must_wait);
        if (i != 0) {
            EXPECT_EQ(list.base::take(&*waiters[(i - 1) % 2], true).object, nullptr);
        }
        list.put(p);
        p = list.base::take().object;
        if (p == nullptr) p = list.base::take(&mine).object;  // 50 µs have passed: it keeps its offer
        ASSERT_NE(p, nullptr);
    }
    EXPECT_EQ(list.base::take(&*waiters[1], true).object, nullptr);
    list.put(p);
    auto* const n = static_cast<recycle_node*>(list.base::take().object);
    EXPECT_FALSE(list.push<sharing::shared>(n, *n));
    list.put(n);
}

// The lock's holder frees it when another thread has waited for it in vain, but has left nothing yet.
TEST_F(recycle_list, what_is_left_when_the_lock_is_free_is_offered_to_who_waits) {
    using base = pooled::detail::recycle_list;
    auto& list = make(1, 1);
    recycle_node* const n = list.take();
    pooled::detail::waiter mine;
    ASSERT_EQ(list.base::take(&mine).how, base::outcome::must_wait);
    EXPECT_TRUE(pooled::detail::record_access::of<pooled::detail::released_apart>::put(list, n));
    EXPECT_TRUE(mine.wait(lasting{0}));
    EXPECT_EQ(list.base::take(&mine).object, n);
    list.put(n);
}

#if defined(__GLIBC__)
// A fibre that is suspended within a constructor, and continues on another thread.
TEST_F(recycle_list, step_may_end_on_another_thread) {
    if (test::k_sanitized) GTEST_SKIP() << "sanitizers do not follow a change of stacks";
    auto& list = make(64);
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
    list.during = [] { ::swapcontext(&fibre, &outside); };
    work = [&] {
        while (list.made < 128)
            static_cast<void>(list.take());
    };
    ASSERT_EQ(::swapcontext(&outside, &fibre), 0);
    EXPECT_EQ(list.made, 64U) << "it is within the step";
    std::thread([&] {
        ASSERT_EQ(::swapcontext(&outside, &fibre), 0);
        EXPECT_EQ(list.made, 128U);
    }).join();
    EXPECT_EQ(list.idle(), 63U);
}
#endif

}  // namespace
