// SPDX-License-Identifier: BSL-1.0
// When to defer, by the state of a thread alone. Stack pointers are made up, but for the thread's own: on any other stack
// the first drop is an outermost drop, and its depth decides.

#include "pooled/impl/teardown/teardown.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace {

using namespace pooled::detail;

constexpr std::uintptr_t k_fibre = std::uintptr_t{0x7a00'0000'0000};  // no stack of this program

class teardown_state_test : public testing::Test {
protected:
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
    teardown_state state;
};

TEST_F(teardown_state_test, lets_the_first_drop_of_a_thread_be_an_outermost_drop) {
    EXPECT_FALSE(state.may_recurse());
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
    EXPECT_TRUE(state.may_recurse()) << "the fast path knows it from then on";
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
    EXPECT_FALSE(state.may_recurse()) << "what was known of that stack is forgotten";
}

TEST_F(teardown_state_test, defers_at_any_depth_to_a_scope) {
    if (!has_bounds()) GTEST_SKIP() << "the emulator does not say where the stack is";
    know_bounds();
    std::uintptr_t const here = stack_pointer();
    EXPECT_EQ(state.choose(here, false), drop_way::destroy);
    EXPECT_TRUE(state.may_recurse());
    outermost_drop scope;
    state.begin(scope, here, outermost_kind::scope);
    EXPECT_FALSE(state.may_recurse());
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
    EXPECT_TRUE(state.may_recurse());
    state.end(drop);
    EXPECT_FALSE(state.may_recurse()) << "the window was for below that drop";
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
    state.begin(outer, here, outermost_kind::scope);
    state.begin(inner, here - 64, outermost_kind::scope);
    EXPECT_EQ(state.find(here - 128), &inner);
    state.end(inner);
    EXPECT_EQ(state.find(here - 128), &outer);
    state.end(outer);
}

// The functions that use the calling thread's state.

struct node {
    static constexpr int k_count = 20;
    std::uint64_t header = 0;  // the queue's to write
    int number = 0;
    std::vector<int>* order = nullptr;
    node* next = nullptr;
    bool is_unordered = false;
    ~node();
};

void finish_node(void* p) noexcept { std::destroy_at(static_cast<node*>(p)); }
constexpr block_type k_node{.retire = nullptr,
                            .retire_observed = nullptr,
                            .finish = finish_node,
                            .finish_observed = finish_node,
                            .free = nullptr,
                            .object_offset = 0,
                            .object_bytes = sizeof(node)};

// As a handle does that drops its object.
void drop(node* n, bool is_unordered = false) {
    if (!try_destroy(n, is_unordered))
        defer_to_outermost(deferred(n, tag_of<k_node>(), false), n, sizeof(node));
}
node::~node() {
    if (next != nullptr) drop(next, is_unordered);
    order->push_back(number);
}

class drops : public testing::Test {
protected:
    // A chain in memory that outlives the objects.
    node* make_chain(bool is_unordered = false) {
        for (int i = node::k_count; i-- != 0;) {
            auto* const n = ::new (memory[i]) node;
            n->number = i;
            n->order = &order;
            n->next = i + 1 < node::k_count ? reinterpret_cast<node*>(memory[i + 1]) : nullptr;
            n->is_unordered = is_unordered;
        }
        return reinterpret_cast<node*>(memory[0]);
    }
    alignas(node) std::byte memory[node::k_count][sizeof(node)];
    std::vector<int> order;
};

TEST_F(drops, are_nested_as_the_standards_while_there_is_stack) {
    drop(make_chain());
    ASSERT_EQ(order.size(), std::size_t{node::k_count});
    EXPECT_EQ(order.front(), node::k_count - 1) << "the last is destroyed within the others' destructors";
    EXPECT_EQ(order.back(), 0);
    EXPECT_EQ(find_outermost(), nullptr);
}

TEST_F(drops, of_an_unordered_pool_are_one_after_the_other) {
    drop(make_chain(true), true);
    ASSERT_EQ(order.size(), std::size_t{node::k_count});
    for (int i = 0; i < node::k_count; ++i)
        EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(find_outermost(), nullptr);
}

TEST_F(drops, within_a_gathering_drop_wait_until_it_ends) {
    drop_outermost(outermost_kind::scope, [&] {
        drop(make_chain());
        EXPECT_TRUE(order.empty());
    });
    EXPECT_EQ(order.size(), std::size_t{node::k_count});
}

TEST_F(drops, that_wait_are_destroyed_for_an_allocation_without_memory) {
    EXPECT_EQ(relieve_outermost(), 0U);
    drop_outermost(outermost_kind::scope, [&] {
        drop(make_chain());
        EXPECT_EQ(relieve_outermost(), std::size_t{node::k_count});
        EXPECT_EQ(order.size(), std::size_t{node::k_count});
        EXPECT_EQ(relieve_outermost(), 0U);
        drop(make_chain());
        EXPECT_EQ(relieve_outermost(), std::size_t{node::k_count}) << "as often as need be";
    });
}

TEST_F(drops, that_cannot_be_deferred_are_made_at_once) {
    node* const n = make_chain();
    n->next = nullptr;
    defer_to_outermost(deferred(n, tag_of<k_node>(), false), n, sizeof(node));
    EXPECT_EQ(order, std::vector<int>{0});
}

TEST_F(drops, forget_where_to_defer_an_object_when_that_ends) {
    drop_outermost(outermost_kind::scope, [] { EXPECT_EQ(choose_way(false), drop_way::defer); });
    EXPECT_EQ(t_teardown.take_recipient(), nullptr);
}

TEST_F(drops, install_what_the_pool_calls_before_the_first_is_deferred) {
    drop_outermost(outermost_kind::scope, [] {});
    EXPECT_EQ(g_pressure_hook.load(), &relieve_pressure);
    EXPECT_EQ(g_exit_hook.load(), &finish_deferred_at_exit);
}

}  // namespace
