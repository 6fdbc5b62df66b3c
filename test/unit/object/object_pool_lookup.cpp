// SPDX-License-Identifier: BSL-1.0
// Which functions the library calls with a user's types. Namespace `app` declares functions with the names and signatures of
// the library's own: an unqualified call in the library would find them by argument-dependent lookup, and either call them
// or be ambiguous. Its types also delete the unary operator&.

#include "pooled/compat/recycle.hpp"
#include "pooled/pooled.hpp"

#include "kinds.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>

namespace app {

inline int g_hijacked = 0;

struct message : std::enable_shared_from_this<message> {
    int uses = 0;
    void operator&() const = delete;
};

struct counted_message : pooled::enable_rc_from_this<counted_message> {
    void operator&() const = delete;
};

struct lifecycle {
    std::function<message*(void*)> create = [](void* where) { return ::new (where) message; };
    void on_acquire(message& m) const { ++m.uses; }
    void on_release(message& m) const { ++m.uses; }
    void operator&() const = delete;
};

struct factory {
    message* operator()(void* where) const { return ::new (where) message; }
};

// lifecycle.hpp, object_pool.hpp
template <class T, class L>
void create_object(L&, void*) {
    ++g_hijacked;
}
template <class T, class L, class... Args>
void call_on_acquire(L&, T&, Args&&...) {
    ++g_hijacked;
}
template <class T, class L>
void call_on_release(L&, T&) noexcept {
    ++g_hijacked;
}
template <class T, class Create>
void create_with(Create&&, void*) {
    ++g_hijacked;
}
template <class Function>
bool is_set(Function const&) {
    ++g_hijacked;
    return false;
}
[[maybe_unused]] void check_created(message const*, void const*) { ++g_hijacked; }
template <class T, class Factory>
std::function<void(void*)> make_factory(Factory&&) {
    ++g_hijacked;
    return {};
}

// object/slot.hpp
template <class X>
std::weak_ptr<X>& owner_in(std::enable_shared_from_this<X> const&) {
    ++g_hijacked;
    static std::weak_ptr<X> nobody;
    return nobody;
}
template <class T>
void forget_owners(T&) noexcept {
    ++g_hijacked;
}

// object_pool.hpp
template <class T>
void introduce(T*) {
    ++g_hijacked;
}
template <class T, class Counting>
pooled::detail::rc_ptr_of<T, Counting> adopt_made(T*) {
    ++g_hijacked;
    return {};
}
template <auto Sharing, class Core, class T>
void deallocate_bytes(Core&, T*, std::size_t, std::size_t) noexcept {
    ++g_hijacked;
}

// compat/recycle.hpp
template <class T>
void let_share(std::shared_ptr<T> const&) {
    ++g_hijacked;
}

}  // namespace app

namespace {

template <class Kind>
class argument_dependent_lookup : public testing::Test {
protected:
    ~argument_dependent_lookup() override { EXPECT_EQ(app::g_hijacked, 0); }

    template <class Pool>
    static void use(Pool& pool) {
        for (int i = 0; i < 10; ++i) {
            EXPECT_TRUE(pool.acquire());
            EXPECT_TRUE(pool.try_acquire());
            EXPECT_TRUE(pool.acquire_unique());
            EXPECT_TRUE(pool.acquire_rc());
            EXPECT_TRUE(pool.acquire_for(std::chrono::seconds(1)));
        }
        EXPECT_EQ(pool.capacity(), 1U);
        EXPECT_EQ(pool.clear(), 1U);
    }
};
TYPED_TEST_SUITE(argument_dependent_lookup, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(argument_dependent_lookup, does_not_replace_what_builds_and_recycles_an_object) {
    typename TypeParam::template pool<app::message> pool;
    this->use(pool);
}

TYPED_TEST(argument_dependent_lookup, does_not_replace_the_calls_of_a_lifecycle) {
    typename TypeParam::template pool<app::message, app::lifecycle> pool;
    this->use(pool);
    EXPECT_EQ(pool.acquire()->uses, 1) << "on_acquire was called";
    EXPECT_EQ(pool.acquire()->uses, 3) << "so was on_release";
}

TYPED_TEST(argument_dependent_lookup, does_not_replace_the_call_of_a_factory) {
    typename TypeParam::template pool<app::message> pool({}, app::factory());
    this->use(pool);
}

TYPED_TEST(argument_dependent_lookup, does_not_replace_what_introduces_an_object_to_its_counts) {
    typename TypeParam::template pool<app::counted_message> pool;
    this->use(pool);
    auto const owner = pool.acquire_rc();
    EXPECT_FALSE(owner->weak_rc_from_this().expired());
}

TEST(argument_dependent_lookup_in_recycle, does_not_replace_what_lets_an_object_share_its_owner) {
    recycle::shared_pool<app::message> shared;
    recycle::unique_pool<app::message> unique;
    for (int i = 0; i < 10; ++i) {
        auto const m = shared.allocate();
        EXPECT_EQ(m->shared_from_this(), m);
        EXPECT_TRUE(unique.allocate());
    }
    EXPECT_EQ(app::g_hijacked, 0);
}

}  // namespace
