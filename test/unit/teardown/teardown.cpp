// SPDX-License-Identifier: BSL-1.0
// When to defer, by the state of a thread alone. Stack pointers are made up, but for the thread's own: on any other stack
// the first drop is an outermost drop, and its depth decides.

#include "pooled/impl/teardown/teardown.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>

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
    EXPECT_TRUE(state.begin(outer, here, outermost_kind::scope));
    EXPECT_TRUE(state.begin(inner, here - 64, outermost_kind::immediate));
    EXPECT_EQ(state.find(here - 128), &inner);
    state.end(inner);
    EXPECT_EQ(state.find(here - 128), &outer);
    EXPECT_FALSE(state.begin(inner, here - 64, outermost_kind::scope)) << "the outer one gathers as much";
    state.end(outer);
}

}  // namespace
