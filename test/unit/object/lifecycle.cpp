// SPDX-License-Identifier: BSL-1.0
// When the members of a lifecycle are called; each is optional.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/death_tests.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

struct connection {
    explicit connection(std::string to) : host(std::move(to)) {}
    connection(connection const&) = delete;
    std::string host;
    int uses = 0;
    bool is_open = false;
};

template <class Kind>
class lifecycle : public testing::Test {};
TYPED_TEST_SUITE(lifecycle, test::object_pool_kinds, test::object_pool_kind_names);

struct everything {
    std::string host;
    std::vector<std::string>* said;
    connection* create(void* where) {
        said->push_back("create");
        return ::new (where) connection(host);
    }
    void on_acquire(connection& c) {
        said->push_back("acquire");
        ++c.uses;
        c.is_open = true;
    }
    void on_release(connection& c) noexcept {
        said->push_back("release");
        c.is_open = false;
    }
};

TYPED_TEST(lifecycle, is_called_when_an_object_is_built_acquired_and_released) {
    std::vector<std::string> said;
    {
        typename TypeParam::template pool<connection, everything> pool({}, {"example", &said});
        for (int i = 1; i <= 3; ++i) {
            auto const c = pool.acquire();
            EXPECT_EQ(c->host, "example");
            EXPECT_EQ(c->uses, i);
            EXPECT_TRUE(c->is_open);
        }
        static_cast<void>(pool.acquire_unique());
    }
    std::vector<std::string> const expected{"create",  "acquire", "release", "acquire", "release",
                                            "acquire", "release", "acquire", "release"};
    EXPECT_EQ(said, expected);
}

TYPED_TEST(lifecycle, releases_once_when_the_last_of_many_owners_is_gone) {
    std::vector<std::string> said;
    typename TypeParam::template pool<connection, everything> pool({}, {"example", &said});
    auto a = pool.acquire();
    auto b = a;
    std::weak_ptr<connection> const watcher = a;
    a.reset();
    EXPECT_EQ(said.back(), "acquire");
    b.reset();
    EXPECT_EQ(said.back(), "release") << "a weak_ptr does not delay it";
    EXPECT_EQ(said.size(), 3U);
}

struct only_create {
    void create(void* where) const { ::new (where) connection("from create"); }
};
struct only_acquire {
    static void on_acquire(int& n) { ++n; }
};
struct only_release {
    void on_release(int& n) const { n = -1; }
};

struct final_and_explicit final {
    explicit final_and_explicit() = default;
    void on_acquire(int& n) const { n = 6; }
};

TYPED_TEST(lifecycle, may_be_a_final_class_with_an_explicit_default_constructor) {
    typename TypeParam::template pool<int, final_and_explicit> pool;
    EXPECT_EQ(*pool.acquire(), 6);
    typename TypeParam::template pool<int, final_and_explicit> with_factory({}, [] { return 1; });
    EXPECT_EQ(*with_factory.acquire(), 6);
}

TYPED_TEST(lifecycle, members_are_optional_and_may_be_static_or_return_nothing) {
    typename TypeParam::template pool<connection, only_create> created;
    EXPECT_EQ(created.acquire()->host, "from create");

    typename TypeParam::template pool<int, only_acquire> acquired;
    EXPECT_EQ(*acquired.acquire(), 1);
    EXPECT_EQ(*acquired.acquire(), 2);

    typename TypeParam::template pool<int, only_release> released;
    EXPECT_EQ(*released.acquire(), 0);
    EXPECT_EQ(*released.acquire(), -1);
}

struct with_arguments {
    void on_acquire(std::string& s, std::string&& text) const { s = std::move(text); }
    void on_acquire(std::string& s, int times, char c) const { s.assign(static_cast<std::size_t>(times), c); }
    void on_acquire(std::string& s, std::unique_ptr<int> n) const { s = std::to_string(*n); }
};

template <class Pool, class... Args>
concept waits_for_an_object_with = requires(Pool& pool, Args&&... args) {
    pool.acquire_for(std::chrono::seconds(1), args...);
    pool.acquire_unique_for(std::chrono::seconds(1), args...);
    pool.acquire_rc_for(std::chrono::seconds(1), args...);
    pool.acquire_until(std::chrono::steady_clock::now(), args...);
    pool.acquire_unique_until(std::chrono::steady_clock::now(), args...);
    pool.acquire_rc_until(std::chrono::steady_clock::now(), args...);
};

TYPED_TEST(lifecycle, refuses_other_arguments_while_it_waits) {
    using with = typename TypeParam::template pool<std::string, with_arguments>;
    static_assert(waits_for_an_object_with<with, int, char>);
    static_assert(!waits_for_an_object_with<with>);
    static_assert(!waits_for_an_object_with<with, char const*, char const*>);
    using without = typename TypeParam::template pool<std::string>;
    static_assert(waits_for_an_object_with<without>);
    static_assert(!waits_for_an_object_with<without, int>, "it would be ignored");
}

TYPED_TEST(lifecycle, gets_the_arguments_of_acquire) {
    using namespace std::chrono_literals;
    typename TypeParam::template pool<std::string, with_arguments> pool;
    std::string text = "moved";
    EXPECT_EQ(*pool.acquire(std::move(text)), "moved");
    EXPECT_TRUE(text.empty());  // NOLINT: that is the point
    EXPECT_EQ(*pool.acquire(3, 'x'), "xxx");
    EXPECT_EQ(*pool.acquire(std::make_unique<int>(7)), "7");
    EXPECT_EQ(*pool.try_acquire(1, 'a'), "a");
    EXPECT_EQ(*pool.acquire_for(1s, 2, 'b'), "bb");
    EXPECT_EQ(*pool.acquire_until(std::chrono::steady_clock::now(), 3, 'c'), "ccc");
    EXPECT_EQ(*pool.acquire_unique(4, 'd'), "dddd");
    EXPECT_EQ(*pool.try_acquire_unique(5, 'e'), "eeeee");
    EXPECT_EQ(*pool.acquire_unique_for(1s, 6, 'f'), "ffffff");
    EXPECT_EQ(*pool.acquire_rc(1, 'i'), "i");
    EXPECT_EQ(*pool.try_acquire_rc(2, 'j'), "jj");
    EXPECT_EQ(*pool.acquire_rc_for(1s, 3, 'k'), "kkk");
    EXPECT_EQ(*pool.acquire_rc_until(std::chrono::steady_clock::now(), 1, 'l'), "l");
    EXPECT_EQ(*pool.acquire_unique_until(std::chrono::steady_clock::now(), std::make_unique<int>(8)), "8");
#if POOLED_HAS_STOP_TOKEN
    EXPECT_EQ(*pool.acquire(std::stop_token(), 2, 'g'), "gg");
    EXPECT_EQ(*pool.acquire_unique(std::stop_token(), 2, 'h'), "hh");
#endif
    EXPECT_EQ(pool.capacity(), 1U);
}

TYPED_TEST(lifecycle, clear_on_release_clears_each_object_that_is_released) {
    static_assert(std::is_empty_v<pooled::clear_on_release>);
    typename TypeParam::template pool<std::vector<int>, pooled::clear_on_release> pool;
    std::size_t capacity = 0;
    {
        auto const used = pool.acquire();
        used->assign(100, 1);
        capacity = used->capacity();
    }
    auto const again = pool.acquire_unique();
    EXPECT_TRUE(again->empty());
    EXPECT_EQ(again->capacity(), capacity) << "the vector keeps its memory";
}

struct throws_when_cleared {
    bool throws = false;
    void clear() const {
        if (throws) throw std::runtime_error("not cleared");
    }
};

TYPED_TEST(lifecycle, clear_on_release_destroys_an_object_whose_clear_throws) {
    typename TypeParam::template pool<throws_when_cleared, pooled::clear_on_release> pool;
    pool.acquire()->throws = true;
    EXPECT_EQ(pool.capacity(), 0U);
}

struct resettable {
    int n = 1;
    void reset() noexcept { n = 1; }
};

TYPED_TEST(lifecycle, reset_on_release_resets_each_object_that_is_released) {
    static_assert(std::is_empty_v<pooled::reset_on_release>);
    typename TypeParam::template pool<resettable, pooled::reset_on_release> pool({.max_objects = 1});
    pool.acquire()->n = 7;
    EXPECT_EQ(pool.acquire()->n, 1);
    typename TypeParam::template pool<std::unique_ptr<int>, pooled::reset_on_release> pointers;
    *pointers.acquire() = std::make_unique<int>(4);
    EXPECT_EQ(*pointers.acquire(), nullptr);
    EXPECT_EQ(pointers.capacity(), 1U);
}

TYPED_TEST(lifecycle, of_functions_is_set_at_run_time) {
    std::vector<std::string> said;
    pooled::function_lifecycle<connection> functions;
    functions.create = [&](void* where) {
        said.emplace_back("create");
        return ::new (where) connection("at run time");
    };
    functions.on_acquire = [&](connection&) { said.emplace_back("acquire"); };
    functions.on_release = [&](connection&) { said.emplace_back("release"); };
    typename TypeParam::template pool<connection, pooled::function_lifecycle<connection>> pool({}, functions);
    EXPECT_EQ(pool.acquire()->host, "at run time");
    static_cast<void>(pool.acquire());
    EXPECT_EQ(said, (std::vector<std::string>{"create", "acquire", "release", "acquire", "release"}));
}

TYPED_TEST(lifecycle, of_functions_may_leave_any_of_them_empty) {
    typename TypeParam::template pool<int, pooled::function_lifecycle<int>> plain;
    EXPECT_EQ(*plain.acquire(), 0);
    *plain.acquire() = 7;
    EXPECT_EQ(*plain.acquire(), 7) << "released without a function, and yet recycled";
    typename TypeParam::template pool<int, pooled::function_lifecycle<int>> one(
        {}, {.on_release = [](int& n) { ++n; }});
    EXPECT_EQ(*one.acquire(), 0);
    EXPECT_EQ(*one.acquire(), 1);
}

TYPED_TEST(lifecycle, that_creates_elsewhere_ends_the_program_with_a_message) {
    test::start_death_tests_anew();
    static int elsewhere = 0;
    typename TypeParam::template pool<int, pooled::function_lifecycle<int>> pool(
        {}, {.create = [](void*) { return &elsewhere; }});
    EXPECT_DEATH(static_cast<void>(pool.acquire()), "must construct the object at the address passed to it");
    typename TypeParam::template pool<int> by_factory({}, [](void*) { return &elsewhere; });
    EXPECT_DEATH(static_cast<void>(by_factory.acquire()),
                 "must construct the object at the address passed to it");
}

TYPED_TEST(lifecycle, of_functions_may_take_arguments) {
    using functions = pooled::function_lifecycle<std::string, int, char>;
    typename TypeParam::template pool<std::string, functions> pool(
        {}, {.on_acquire = [](std::string& s, int n, char c) { s.assign(static_cast<std::size_t>(n), c); }});
    EXPECT_EQ(*pool.acquire(3, 'z'), "zzz");
}

TYPED_TEST(lifecycle, factory_may_be_movable_only_and_construct_in_place) {
    auto number = std::make_unique<int>(42);
    typename TypeParam::template pool<int> pool(
        {}, [n = std::move(number)](void* where) { ::new (where) int(*n); });
    EXPECT_EQ(*pool.acquire(), 42);
    typename TypeParam::template pool<int> returning({}, [](void* where) { return ::new (where) int(43); });
    EXPECT_EQ(*returning.acquire(), 43);
}

TYPED_TEST(lifecycle, may_clear_the_pool_while_it_releases_an_object) {
    using functions = pooled::function_lifecycle<int>;
    std::function<void()> clear;
    typename TypeParam::template pool<int, functions> pool({}, functions{.on_release = [&](int& n) {
                                                               n = 7;
                                                               clear();
                                                           }});
    clear = [&] { pool.clear(); };
    static_cast<void>(pool.acquire());
    EXPECT_EQ(pool.capacity(), 0U) << "it is of before the clear";
    EXPECT_EQ(*pool.acquire(), 0);
}

struct stateful {
    std::unique_ptr<int> count = std::make_unique<int>(0);
    void on_acquire(int& n) { n = ++*count; }
};

TYPED_TEST(lifecycle, lives_in_the_pool_and_may_be_movable_only) {
    typename TypeParam::template pool<int, stateful> pool({}, stateful{});
    static_cast<void>(pool.acquire());
    EXPECT_EQ(*pool.acquire(), 2);
}

TYPED_TEST(lifecycle, lives_until_the_last_object_was_released) {
    auto const token = std::make_shared<int>(0);
    std::shared_ptr<int> out;
    {
        pooled::function_lifecycle<int> functions;
        functions.on_acquire = [token](int&) {};
        typename TypeParam::template pool<int, pooled::function_lifecycle<int>> pool({}, functions);
        out = pool.acquire();
    }
    EXPECT_EQ(token.use_count(), 2);
    out.reset();
    EXPECT_EQ(token.use_count(), 1) << "destroyed with the pool, which nothing needs any more";
}

TYPED_TEST(lifecycle, is_called_for_objects_that_were_never_used_only_when_they_are) {
    std::vector<std::string> said;
    {
        typename TypeParam::template pool<connection, everything> pool({.initial_objects = 2},
                                                                       {"example", &said});
        EXPECT_EQ(said, (std::vector<std::string>{"create", "create"}));
    }
    EXPECT_EQ(said.size(), 2U);
}

}  // namespace
