// SPDX-License-Identifier: BSL-1.0
// When to defer, by the state of a thread alone. Stack pointers are made up, but for the thread's own: on any other stack
// the first drop is an outermost drop, and its depth decides. And what that rests on: the records of outermost drops, the table of block
// types, and destroy_in_place<T>.

#include "pooled/teardown/teardown.hpp"

#include "pooled/pooled.hpp"
#include "pooled/teardown/block_type.hpp"

#include "support/starting_line.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace pooled::detail;

constexpr std::uintptr_t k_fibre = std::uintptr_t{0x7a00'0000'0000};  // no stack of this program

class teardown_state_test : public testing::Test {
protected:
    [[nodiscard]] static stack_bounds find_stack_bounds() {
        stack_bounds found;
        platform::find_stack(found.low, found.high);
        return found;
    }
    // With large pages, an emulator does not list the main thread's stack in /proc/self/maps.
    [[nodiscard]] static bool has_bounds() {
#if defined(POOLED_TEST_EMULATED)
        return find_stack_bounds().bytes() != 0;
#else
        return true;
#endif
    }
    // From here on it knows the bounds of the thread's own stack.
    void know_bounds() { EXPECT_EQ(state.find(stack_pointer()), nullptr); }
    ~teardown_state_test() override { t_drop_window() = m_window; }
    teardown_state state;

private:
    drop_window m_window = std::exchange(t_drop_window(), {});
};

TEST_F(teardown_state_test, lets_the_first_drop_of_a_thread_be_an_outermost_drop) {
    EXPECT_FALSE(may_recurse());
    EXPECT_EQ(state.choose(k_fibre, false), drop_way::outermost);
}

TEST_F(teardown_state_test, leaves_errno_alone_when_it_looks_for_the_bounds_of_the_stack) {
    errno = 42;
    know_bounds();
    EXPECT_EQ(errno, 42);
}

TEST_F(teardown_state_test, recurses_on_the_threads_own_stack_while_much_of_it_is_left) {
    if (!has_bounds()) GTEST_SKIP() << "the emulator does not say where the stack is";
    know_bounds();
    EXPECT_EQ(state.choose(stack_pointer(), false), drop_way::destroy);
    EXPECT_TRUE(may_recurse()) << "the fast path knows it from then on";
}

TEST_F(teardown_state_test, lets_a_drop_near_the_end_of_the_stack_be_an_outermost_drop) {
    know_bounds();
    EXPECT_EQ(state.choose(find_stack_bounds().low + 4096, false), drop_way::outermost);
}

TEST_F(teardown_state_test, lets_the_first_drop_on_another_stack_be_an_outermost_drop) {
    know_bounds();
    EXPECT_EQ(state.choose(k_fibre, false), drop_way::outermost);
    EXPECT_EQ(state.choose(find_stack_bounds().high + (std::uintptr_t{1} << 20), false), drop_way::outermost);
}

TEST_F(teardown_state_test, asks_for_the_bounds_when_a_drop_is_below_the_first_one) {
    if (!has_bounds()) GTEST_SKIP() << "the emulator does not say where the stack is";
    std::uintptr_t const here = stack_pointer();
    EXPECT_EQ(state.choose(here, false), drop_way::outermost);
    EXPECT_EQ(state.choose(here - 64, false), drop_way::destroy);
}

TEST_F(teardown_state_test, defers_to_what_another_thread_began_on_the_same_fibre) {
    teardown_state other;
    outermost_drop drop;
    other.begin(drop, k_fibre, outermost_kind::immediate);
    EXPECT_EQ(state.choose(k_fibre - outermost_drop::k_depth - 1, false), drop_way::defer);
    other.end(drop);
}

TEST_F(teardown_state_test, recurses_12_kib_below_an_outermost_drop_and_then_defers_to_it) {
    know_bounds();
    outermost_drop drop;
    state.begin(drop, k_fibre, outermost_kind::immediate);
    EXPECT_EQ(state.find(k_fibre - 100), &drop);
    EXPECT_EQ(state.choose(k_fibre - 100, false), drop_way::destroy);
    EXPECT_EQ(state.choose(k_fibre - outermost_drop::k_depth, false), drop_way::destroy);
    EXPECT_EQ(state.choose(k_fibre - outermost_drop::k_depth - 1, false), drop_way::defer);
    state.end(drop);
    EXPECT_EQ(state.find(k_fibre - 100), nullptr);
    EXPECT_FALSE(may_recurse()) << "what was known of that stack is forgotten";
}

TEST_F(teardown_state_test, defers_at_any_depth_to_a_scope) {
    if (!has_bounds()) GTEST_SKIP() << "the emulator does not say where the stack is";
    know_bounds();
    std::uintptr_t const here = stack_pointer();
    EXPECT_EQ(state.choose(here, false), drop_way::destroy);
    EXPECT_TRUE(may_recurse());
    outermost_drop scope;
    state.begin(scope, here, outermost_kind::scope);
    EXPECT_FALSE(may_recurse());
    EXPECT_EQ(state.choose(here, false), drop_way::defer);
    EXPECT_EQ(state.choose(here, true), drop_way::defer);
    state.end(scope);
    EXPECT_EQ(state.choose(here, false), drop_way::destroy);
}

TEST_F(teardown_state_test, defers_objects_of_unordered_pools_to_each_other_at_any_depth_and_no_others) {
    know_bounds();
    std::uintptr_t const here = stack_pointer();
    EXPECT_EQ(state.choose(here, true), drop_way::outermost);
    outermost_drop drop;
    state.begin(drop, here, outermost_kind::unordered);
    EXPECT_EQ(state.choose(here - 64, true), drop_way::defer);
    EXPECT_EQ(state.choose(here - 64, false), drop_way::destroy);
    EXPECT_TRUE(may_recurse());
    state.end(drop);
    EXPECT_FALSE(may_recurse()) << "the window was for below that drop";
    outermost_drop immediate;
    state.begin(immediate, here, outermost_kind::immediate);
    EXPECT_EQ(state.choose(here - 64, true), drop_way::outermost) << "it takes what lacks stack alone";
    state.end(immediate);
}

TEST_F(teardown_state_test, finds_the_innermost_of_several_on_the_threads_own_stack) {
    know_bounds();
    std::uintptr_t const here = stack_pointer();
    outermost_drop outer;
    outermost_drop inner;
    EXPECT_TRUE(state.begin(outer, here, outermost_kind::scope));
    EXPECT_TRUE(state.begin(inner, here - 64, outermost_kind::immediate));
    EXPECT_EQ(state.find(here - 128), &inner);
    state.end(inner);
    EXPECT_EQ(state.find(here - 128), &outer);
    EXPECT_FALSE(state.begin(inner, here - 64, outermost_kind::scope)) << "the outer one gathers as much";
    state.end(outer);
}

// Which record a drop on a stack of unknown bounds belongs to: one that lies a little above it, the innermost of several.

using pooled::detail::outermost_drop;
using pooled::detail::outermost_drop_table;

constexpr std::uintptr_t k_stack = std::uintptr_t{0x7f00'1234'0000};

struct record : outermost_drop {
    record(outermost_drop_table& in, std::uintptr_t at) : table(in) {
        top = at;
        table.insert(*this);
    }
    ~record() { table.remove(*this); }
    record(record const&) = delete;
    record& operator=(record const&) = delete;
    outermost_drop_table& table;
};

class outermost_drops : public testing::Test {
protected:
    outermost_drop_table table;
};

TEST_F(outermost_drops, are_found_by_drops_below_them) {
    record const one(table, k_stack);
    EXPECT_EQ(table.find(k_stack), &one);
    EXPECT_EQ(table.find(k_stack - outermost_drop::k_below), &one);
    EXPECT_EQ(table.find(k_stack + outermost_drop::k_above - 1), &one);
}

TEST_F(outermost_drops, are_not_found_from_other_stacks) {
    record const one(table, k_stack);
    EXPECT_EQ(table.find(k_stack - outermost_drop::k_below - 1), nullptr);
    EXPECT_EQ(table.find(k_stack + outermost_drop::k_above), nullptr);
}

TEST_F(outermost_drops, of_one_stack_give_the_innermost) {
    record const outer(table, k_stack);
    record const inner(table, k_stack - 8192);
    EXPECT_EQ(table.find(k_stack - 10'000), &inner);
    EXPECT_EQ(table.find(k_stack - 1000), &outer) << "the inner one is too far below";
}

TEST_F(outermost_drops, are_found_across_the_border_of_two_locks) {
    std::uintptr_t const border = k_stack & ~std::uintptr_t{0xffff};
    record const above(table, border + 100);
    EXPECT_EQ(table.find(border - 100), &above);
}

// The numbered table of block types: one number a type, whoever asks; full at 16256. Counts near their limit: smart/rc_ptr.cpp.

using pooled::detail::block_type;
using pooled::detail::block_types;
using pooled::detail::copy_directory;
using pooled::detail::type_tag;

constexpr block_type k_any{.retire = nullptr,
                           .retire_observed = nullptr,
                           .free = nullptr,
                           .finish = nullptr,
                           .object_offset = 8,
                           .object_bytes = 1};

TEST(the_table_of_block_types, takes_16256_and_then_says_no) {
    auto const table = std::make_unique<block_types>();
    auto const numbers = std::make_unique<copy_directory>();
    std::set<type_tag> seen;
    for (std::size_t i = 0; i < 16'256; ++i) {
        pooled::detail::atomic<type_tag> tag{pooled::detail::k_no_type};
        type_tag const given = table->add(k_any, tag, *numbers);
        ASSERT_NE(given, pooled::detail::k_no_type);
        ASSERT_EQ(tag.load(), given);
        seen.insert(given);
    }
    EXPECT_EQ(seen.size(), 16'256U);
    EXPECT_EQ(*seen.rbegin(), 16'383U);
    for (int i = 0; i < 3; ++i) {
        pooled::detail::atomic<type_tag> tag{pooled::detail::k_no_type};
        EXPECT_EQ(table->add(k_any, tag, *numbers), pooled::detail::k_no_type);
        EXPECT_EQ(tag.load(), pooled::detail::k_no_type);
    }
}

// Its number is one that this copy has not given. Who deferred it knows where the object lies in the block.
TEST(the_table_of_block_types, refuses_to_finish_what_another_copy_deferred) {
    auto const table = std::make_unique<block_types>();
    table->set_foreign(pooled::detail::k_foreign_type);
    std::uint64_t header = 16'000;
    char const* const report = "an object that one shared library deferred is to be destroyed by another one";
    block_type const& type = (*table)[header];
    EXPECT_DEATH(type.finish(type, &header, false), report);
    EXPECT_DEATH(type.finish(type, &header, true), report);
}

// Threads make their first objects of the same types at the same moment.
template <int N>
struct object {
    int value = N;
};
template <int... N>
[[nodiscard]] int made_wrong(std::integer_sequence<int, N...>) {
    return (0 + ... + int{pooled::make_rc<object<N>>()->value != N});
}

TEST(the_table_of_block_types, serves_first_objects_made_by_several_threads_at_once) {
    std::atomic<int> wrong{0};
    test::starting_line start(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            start.arrive_and_wait();
            wrong += made_wrong(std::make_integer_sequence<int, 40>{});
        });
    for (auto& t : threads)
        t.join();
    EXPECT_EQ(wrong, 0);
}

TEST(the_table_of_block_types, tells_types_of_one_layout_apart) {
    struct a {
        explicit a(int& n) : count(n) {}
        ~a() { count += 1; }
        int& count;
    };
    struct b {
        explicit b(int& n) : count(n) {}
        ~b() { count += 100; }
        int& count;
    };
    int count = 0;
    pooled::rc_ptr<void> p = pooled::make_rc<a>(count);
    p = pooled::make_rc<b>(count);
    EXPECT_EQ(count, 1);
    p = nullptr;
    EXPECT_EQ(count, 101);
}

// destroy_in_place<T>: objects of such a type are destroyed where their last owner drops them, in every mode.

int g_alive = 0;

struct guard {
    guard() noexcept { ++g_alive; }
    guard(guard const&) = delete;
    guard& operator=(guard const&) = delete;
    ~guard() { --g_alive; }
};
struct deferrable : guard {};

}  // namespace

template <>
inline constexpr bool pooled::destroy_in_place<guard> = true;

namespace {

template <class T, class Pool>
int alive_after_drops(Pool& pool) {
    auto shared = pool.template make_shared<T>();
    auto observed = pool.template make_shared<T const>();
    std::weak_ptr<T const> const observer = observed;
    auto counted = pool.template make_rc<T>();
    pooled::rc_ptr<T> const copy = counted;
    auto unique = pool.template make_unique<T>();
    shared.reset();
    observed.reset();
    unique.reset();
    counted.reset();
    const_cast<pooled::rc_ptr<T>&>(copy).reset();
    return g_alive;
}

TEST(a_type_that_is_destroyed_in_place, is_never_deferred_by_a_pool) {
    pooled::pool incremental{{.teardown = pooled::teardown::incremental}};
    EXPECT_EQ(alive_after_drops<guard>(incremental), 0);
    EXPECT_EQ(alive_after_drops<deferrable>(incremental), 4);
    incremental.drain();
    pooled::pool unordered{{.teardown = pooled::teardown::unordered}};
    EXPECT_EQ(alive_after_drops<guard>(unordered), 0);
    EXPECT_EQ(incremental.stats().in_use, 0U);
    EXPECT_EQ(unordered.stats().in_use, 0U);
}

TEST(a_type_that_is_destroyed_in_place, is_never_gathered_by_a_scope) {
    pooled::pool pool;
    pooled::reclaim_scope const scope;
    EXPECT_EQ(alive_after_drops<guard>(pool), 0);
    EXPECT_EQ(alive_after_drops<deferrable>(pool), 4);
}

// What an unordered pool's object drops is deferred to the outermost drop; an immediate pool's object is not.
TEST(an_unordered_pool, defers_its_own_objects_to_the_outermost_drop) {
    pooled::pool unordered{{.teardown = pooled::teardown::unordered}};
    pooled::pool immediate;
    struct owner {
        ~owner() {
            own.reset();
            alive_after_own = g_alive;
            other.reset();
            alive_after_other = g_alive;
        }
        int& alive_after_own;
        int& alive_after_other;
        std::shared_ptr<deferrable> own;
        std::shared_ptr<deferrable> other;
    };
    int after_own = -1;
    int after_other = -1;
    auto root = unordered.make_shared<owner>(after_own, after_other, unordered.make_shared<deferrable>(),
                                             immediate.make_shared<deferrable>());
    root.reset();
    EXPECT_EQ(after_own, 2);
    EXPECT_EQ(after_other, 1);
    EXPECT_EQ(g_alive, 0);
}

}  // namespace
