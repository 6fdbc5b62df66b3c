// SPDX-License-Identifier: BSL-1.0
// Types whose namespace has functions of the names that the library uses, and that overload operator&: argument-dependent
// lookup must not find them. They are deleted, so a call of one does not compile.

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace app {

#define POOLED_TEST_HIJACK(name) \
    template <class... Any>      \
    void name(Any&&...) = delete

POOLED_TEST_HIJACK(address_of);
POOLED_TEST_HIJACK(addressof);
POOLED_TEST_HIJACK(adopt);
POOLED_TEST_HIJACK(allocate_array);
POOLED_TEST_HIJACK(allocate_block);
POOLED_TEST_HIJACK(allocate_bytes_or_throw);
POOLED_TEST_HIJACK(allocate_objects);
POOLED_TEST_HIJACK(cast);
POOLED_TEST_HIJACK(construct_at);
POOLED_TEST_HIJACK(construct_rows);
POOLED_TEST_HIJACK(deallocate_array);
POOLED_TEST_HIJACK(deallocate_bytes);
POOLED_TEST_HIJACK(defer);
POOLED_TEST_HIJACK(defer_object);
POOLED_TEST_HIJACK(defer_or_finish);
POOLED_TEST_HIJACK(defer_to_outermost);
POOLED_TEST_HIJACK(destroy_at);
POOLED_TEST_HIJACK(drop_outermost);
POOLED_TEST_HIJACK(elements_in);
POOLED_TEST_HIJACK(exchange);
POOLED_TEST_HIJACK(finish_now);
POOLED_TEST_HIJACK(forward);
POOLED_TEST_HIJACK(free);
POOLED_TEST_HIJACK(header_of);
POOLED_TEST_HIJACK(introduce);
POOLED_TEST_HIJACK(is_incremental);
POOLED_TEST_HIJACK(is_to_be_deferred);
POOLED_TEST_HIJACK(launder);
POOLED_TEST_HIJACK(make);
POOLED_TEST_HIJACK(make_array);
POOLED_TEST_HIJACK(make_object);
POOLED_TEST_HIJACK(make_with_tail);
POOLED_TEST_HIJACK(move);
POOLED_TEST_HIJACK(retire);
POOLED_TEST_HIJACK(run_unless_deferred);
POOLED_TEST_HIJACK(start_of);
POOLED_TEST_HIJACK(tail_bytes);
POOLED_TEST_HIJACK(try_allocate_bytes);
POOLED_TEST_HIJACK(try_destroy_in);

int g_alive = 0;

struct entity : pooled::enable_rc_from_this<entity> {
    explicit entity(entity* = nullptr) { ++g_alive; }
    entity(entity const& other) : pooled::enable_rc_from_this<entity>(other) { ++g_alive; }
    entity& operator=(entity const&) = delete;
    virtual ~entity() { --g_alive; }
    void operator&() const = delete;  // NOLINT: that is the test

    std::shared_ptr<entity> shared;
    pooled::rc_ptr<entity> counted;
    pooled::unique_ptr<entity> unique;
};
struct derived : entity {
    using entity::entity;
};

// A pointer to it has both as associated classes, and so a lookup by argument would make the compiler complete them.
struct never_defined;
template <class T>
struct holder {
    T member;
};

}  // namespace app

namespace {

template <class Pool>
void use(Pool& pool) {
    app::entity* const argument = nullptr;
    for (int i = 0; i < 300; ++i) {
        auto root = pool.template make_shared<app::entity>(argument);
        root->shared = pool.template try_make_shared<app::derived>(argument);
        root->counted = pool.template make_rc<app::derived>(argument);
        root->counted->counted = pool.template try_make_rc<app::entity>();
        root->unique = pool.template make_unique<app::derived>(argument);
        root->unique->unique = pool.template try_make_unique<app::entity>();
        auto const array = pool.template make_shared<app::entity[]>(3);
        auto const unique_array = pool.template make_unique<app::entity[]>(3);
        auto const observer = root->counted->weak_rc_from_this();
        auto const cast = pooled::dynamic_pointer_cast<app::derived>(root->counted);
        EXPECT_NE(cast, nullptr);
        if (i % 2 == 0) {
            pooled::reclaim_scope const scope;
            root.reset();
        }
    }
    pool.drain();
    EXPECT_EQ(app::g_alive, 0);
}

TEST(names_of_the_users, do_not_hijack_calls_of_the_library) {
    pooled::pool immediate;
    pooled::pool unordered{{.teardown = pooled::teardown::unordered}};
    pooled::pool incremental{{.teardown = pooled::teardown::incremental}};
    pooled::local_pool local;
    use(immediate);
    use(unordered);
    use(incremental);
    use(local);
    {
        auto root = pooled::make_shared<app::entity>();
        root->counted = pooled::make_rc<app::entity>();
        root->unique = pooled::make_unique<app::derived>();
        std::vector<app::entity, pooled::allocator<app::entity>> const elements(3);
        EXPECT_EQ(app::g_alive, 6);
    }
    EXPECT_EQ(app::g_alive, 0);
}

template <class Pool>
void use_incomplete(Pool& pool) {
    using pointer = app::holder<app::never_defined>*;
    // Not make_shared: the std::shared_ptr of libstdc++ completes it.
    auto const counted = pool.template make_rc<pointer>();
    auto const counted_array = pool.template make_rc<pointer[]>(3);
    auto const unique = pool.template make_unique<pointer>();
    auto const unique_array = pool.template make_unique<pointer[]>(3);
    auto const unique_rows = pool.template make_unique<pointer[][2]>(3);
    auto const overwritten = pool.template make_unique_for_overwrite<pointer[]>(3);
    EXPECT_TRUE(unique_array[2] == nullptr);
    EXPECT_TRUE(unique_rows[2][1] == nullptr);
}

TEST(names_of_the_users, are_not_looked_up_if_that_needs_an_incomplete_class) {
    pooled::pool shared;
    pooled::local_pool local;
    use_incomplete(shared);
    use_incomplete(local);
}

}  // namespace
