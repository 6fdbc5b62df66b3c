// SPDX-License-Identifier: BSL-1.0
// Objects are built once, stay constructed while idle, and are acquired again; one thread.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"
#include "support/possible_alignment.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

template <class Kind>
class recycled : public test::object_pool_test<Kind> {};
TYPED_TEST_SUITE(recycled, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(recycled, object_is_built_once_and_acquired_again) {
    typename TypeParam::template pool<test::counted<>> pool;
    test::counted<>* const first = pool.acquire().get();
    for (int i = 0; i < test::k_settling; ++i)
        EXPECT_EQ(pool.acquire().get(), first);
    EXPECT_EQ(this->log.constructed(), 1);
    EXPECT_EQ(this->log.destroyed(), 0);
}

TYPED_TEST(recycled, object_keeps_its_state_while_idle) {
    typename TypeParam::template pool<std::string> pool;
    pool.acquire()->assign(1000, 'x');
    EXPECT_EQ(*pool.acquire(), std::string(1000, 'x'));
    auto const u = pool.acquire_unique();
    EXPECT_EQ(*u, std::string(1000, 'x'));
}

TYPED_TEST(recycled, object_released_last_is_acquired_first) {
    typename TypeParam::template pool<int> pool;
    test::settle(pool);
    auto a = pool.acquire();
    auto b = pool.acquire();
    int const* const last = a.get();
    b.reset();
    a.reset();
    EXPECT_EQ(pool.acquire().get(), last);
}

TYPED_TEST(recycled, objects_in_use_are_distinct) {
    typename TypeParam::template pool<int> pool;
    for (int round = 0; round < 3; ++round) {
        std::vector<std::shared_ptr<int>> held;
        std::set<int*> distinct;
        for (int i = 0; i < 1000; ++i) {
            held.push_back(pool.acquire());
            distinct.insert(held.back().get());
            *held.back() = i;
        }
        EXPECT_EQ(distinct.size(), 1000U);
        for (int i = 0; i < 1000; ++i)
            EXPECT_EQ(*held[static_cast<std::size_t>(i)], i);
        EXPECT_EQ(pool.capacity(), 1000U);
        EXPECT_TRUE(test::is_valid(pool));
    }
}

TYPED_TEST(recycled, object_may_be_acquired_by_any_handle_in_turn) {
    typename TypeParam::template pool<test::counted<>> pool({.max_objects = 1});
    for (int i = 0; i < 1000; ++i) {
        EXPECT_TRUE(pool.acquire());
        EXPECT_TRUE(pool.acquire_unique());
        EXPECT_TRUE(pool.try_acquire());
        EXPECT_TRUE(pool.try_acquire_unique());
        EXPECT_TRUE(pool.acquire_for(1s));
        EXPECT_TRUE(pool.acquire_unique_for(1s));
        EXPECT_TRUE(pool.acquire_rc());
        EXPECT_TRUE(pool.try_acquire_rc());
        EXPECT_TRUE(pool.acquire_rc_for(1s));
        EXPECT_TRUE(pool.acquire_rc_until(std::chrono::steady_clock::now()));
        EXPECT_TRUE(pool.acquire_until(std::chrono::steady_clock::now()));
        EXPECT_TRUE(pool.acquire_unique_until(std::chrono::system_clock::now()));
        auto const counted = pool.acquire_rc();
        typename std::remove_const_t<decltype(counted)>::weak_type const observer = counted;
        EXPECT_EQ(counted.use_count(), 1);
    }
    EXPECT_EQ(this->log.constructed(), 1);
    EXPECT_TRUE(test::is_valid(pool));
}

struct pinned {
    explicit pinned(int n) : number(n) {}
    pinned(pinned const&) = delete;
    pinned& operator=(pinned const&) = delete;
    int number;
};

TYPED_TEST(recycled, object_need_be_neither_movable_nor_default_constructible) {
    int built = 0;
    typename TypeParam::template pool<pinned> pool({}, [&] { return pinned(++built); });
    auto a = pool.acquire();
    auto b = pool.acquire();
    EXPECT_EQ(a->number, 1);
    EXPECT_EQ(b->number, 2);
    a.reset();
    EXPECT_EQ(pool.acquire()->number, 1);
}

TYPED_TEST(recycled, object_is_released_by_a_pointer_to_its_base_or_to_void) {
    struct base {
        int a;
    };
    struct second_base {
        int b;
    };
    struct derived : base, second_base {
        std::string text;
    };
    typename TypeParam::template pool<derived> pool;
    std::shared_ptr<second_base> as_base = pool.acquire();
    as_base.reset();
    std::shared_ptr<void const> as_void = pool.acquire();
    as_void.reset();
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_EQ(pool.idle(), 1U);
}

// Sizes within the size classes and beyond them; alignments from less than a slot's to more than a page.
template <std::size_t Bytes, std::size_t Align>
struct alignas(Align) shaped {
    shaped() { std::memset(bytes.data(), 0x5a, bytes.size()); }
    std::array<unsigned char, Bytes> bytes;
};

template <class Kind, std::size_t Bytes, std::size_t Align>
void use_shape() {
    using object = shaped<Bytes, Align>;
    typename Kind::template pool<object> pool;
    std::vector<std::shared_ptr<object>> shared;
    std::vector<pooled::unique_ptr<object>> unique;
    std::vector<typename Kind::template pool<object>::rc_pointer> counted;
    for (int i = 0; i < 5; ++i) {
        shared.push_back(pool.acquire());
        unique.push_back(pool.acquire_unique());
        counted.push_back(pool.acquire_rc());
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shared.back().get()) % Align, 0U);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(unique.back().get()) % Align, 0U);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(counted.back().get()) % Align, 0U);
        shared.back()->bytes.fill(static_cast<unsigned char>(i));
    }
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(shared[static_cast<std::size_t>(i)]->bytes[Bytes - 1], i);
    for (auto const& u : unique)
        EXPECT_EQ(u->bytes[0], 0x5a);
    shared.clear();
    unique.clear();
    counted.clear();
    EXPECT_TRUE(test::is_valid(pool));
    EXPECT_EQ(pool.trim(), 15U);
}

TYPED_TEST(recycled, object_may_have_any_size_and_alignment) {
    use_shape<TypeParam, 1, 1>();
    use_shape<TypeParam, 8, 8>();
    use_shape<TypeParam, 17, 16>();
    use_shape<TypeParam, 64, 64>();
    use_shape<TypeParam, 100, 128>();
    use_shape<TypeParam, 1500, 8>();
    use_shape<TypeParam, 5000, 4096>();
    use_shape<TypeParam, 32 * 1024 - 64, 8>();
    use_shape<TypeParam, 64 * 1024, 16>();
    use_shape<TypeParam, 200'000, test::possible_alignment(16384)>();
}

TYPED_TEST(recycled, objects_of_many_pools_do_not_mix) {
    // More than the entries of a thread's table.
    using pool = typename TypeParam::template pool<int>;
    std::vector<std::unique_ptr<pool>> pools;
    for (int i = 0; i < 70; ++i)
        pools.push_back(std::make_unique<pool>());
    for (int i = 0; i < 70; ++i)
        *pools[static_cast<std::size_t>(i)]->acquire() = i;
    for (auto const& p : pools)
        test::settle(*p);
    for (int i = 0; i < 70; ++i) {
        EXPECT_EQ(*pools[static_cast<std::size_t>(i)]->acquire(), i);
        EXPECT_EQ(pools[static_cast<std::size_t>(i)]->capacity(), 1U);
    }
}

TYPED_TEST(recycled, object_may_use_its_own_pool_in_its_destructor) {
    struct node;
    using node_pool = typename TypeParam::template pool<node>;
    struct node {
        node_pool* pool = nullptr;
        bool acquires = false;
        ~node() {
            if (acquires) static_cast<void>(pool->try_acquire());
        }
    };
    node_pool pool({.max_objects = 4});
    auto n = pool.acquire();
    n->pool = &pool;
    n->acquires = true;
    n.reset();
    EXPECT_EQ(pool.trim(), 1U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(recycled, objects_in_use_are_counted_by_the_live_report) {
    typename TypeParam::template pool<std::string> pool{{.name = "texts", .initial_objects = 3}};
    auto const one = pool.acquire();
    std::ostringstream out;
    pool.live_report(out);
    EXPECT_EQ(out.str(), "object_pool 'texts': 1 objects in use, 2 idle\n");
}

// Recycled objects behind unique_ptr and rc_ptr: the same handle types as for other pools, with weak pointers and
// conversions.

using int_pool = pooled::object_pool<int>;
static_assert(std::same_as<decltype(std::declval<int_pool&>().acquire()), std::shared_ptr<int>>);
static_assert(std::same_as<decltype(std::declval<int_pool&>().acquire_unique()), pooled::unique_ptr<int>>);
static_assert(std::same_as<decltype(std::declval<int_pool&>().acquire_rc()), pooled::rc_ptr<int>>);
static_assert(std::same_as<decltype(std::declval<pooled::local_object_pool<int>&>().acquire_rc()),
                           pooled::local_rc_ptr<int>>);
static_assert(sizeof(pooled::unique_ptr<int>) == 8);

template <class Kind>
class handle : public test::object_pool_test<Kind> {};
TYPED_TEST_SUITE(handle, test::object_pool_kinds, test::object_pool_kind_names);

struct shape {
    virtual ~shape() = default;
    int a = 1;
};
struct named {
    virtual ~named() = default;
    std::string name = "nobody";
};
struct circle : shape, named {
    int radius = 3;
};

TYPED_TEST(handle, unique_ptr_converts_to_a_base_and_recycles) {
    typename TypeParam::template pool<circle> pool;
    pooled::unique_ptr<named> second = pool.acquire_unique();
    second->name = "kept";
    second.reset();
    pooled::unique_ptr<shape> first = pool.acquire_unique();
    EXPECT_EQ(static_cast<circle&>(*first).name, "kept");
    first.reset();
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_EQ(pool.idle(), 1U);
}

TYPED_TEST(handle, unique_ptr_turns_into_an_rc_ptr) {
    typename TypeParam::template pool<test::counted<>> pool;
    auto unique = pool.acquire_unique();
    test::counted<>* const where = unique.get();
    typename TypeParam::template pool<test::counted<>>::rc_pointer counted = std::move(unique);
    EXPECT_EQ(counted.get(), where);
    EXPECT_EQ(counted.use_count(), 1);
    auto const copy = counted;
    counted.reset();
    EXPECT_EQ(pool.in_use(), 1U);
}

// shared_ptr and rc_ptr, of both kinds of pool.

template <class Kind>
class counted_handle : public test::object_pool_test<Kind> {};
TYPED_TEST_SUITE(counted_handle, test::counted_kinds, test::counted_kind_names);

TYPED_TEST(counted_handle, recycles_its_object_when_the_last_owner_goes) {
    typename TestFixture::pool_type pool;
    auto a = TypeParam::acquire(pool);
    auto* const where = a.get();
    auto b = a;
    EXPECT_EQ(a.use_count(), 2);
    a.reset();
    EXPECT_EQ(pool.in_use(), 1U);
    b.reset();
    EXPECT_EQ(pool.idle(), 1U);
    EXPECT_EQ(TypeParam::acquire(pool).get(), where);
}

TYPED_TEST(counted_handle, keeps_its_object_from_the_next_user_while_weak_pointers_watch_it) {
    typename TestFixture::pool_type pool({.max_objects = 2});
    test::settle(pool);
    auto a = TypeParam::acquire(pool);
    auto const* const address = a.get();
    typename decltype(a)::weak_type first = a;
    typename decltype(a)::weak_type second = first;
    EXPECT_TRUE(first.lock());
    a.reset();
    EXPECT_TRUE(first.expired());
    EXPECT_EQ(pool.in_use(), 1U);
    {
        auto const b = TypeParam::acquire(pool);
        EXPECT_NE(b.get(), address);
        EXPECT_FALSE(TypeParam::try_acquire(pool));
    }
    first.reset();
    EXPECT_EQ(pool.in_use(), 1U);
    second.reset();
    EXPECT_EQ(pool.in_use(), 0U);
    EXPECT_EQ(TypeParam::acquire(pool).get(), address);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(counted_handle, and_weak_pointers_outlive_the_pool) {
    std::optional<typename TestFixture::pool_type> pool{std::in_place};
    test::settle(*pool);
    auto owner = TypeParam::acquire(*pool);
    typename decltype(owner)::weak_type observer = owner;
    auto watched = TypeParam::acquire(*pool);
    typename decltype(owner)::weak_type last = watched;
    auto unique = pool->acquire_unique();
    static_cast<void>(TypeParam::acquire(*pool));
    watched.reset();
    EXPECT_EQ(this->log.alive(), 4);
    pool.reset();
    EXPECT_EQ(this->log.alive(), 3) << "one was idle; one was released already, and is observed still";
    auto copy = owner;
    owner.reset();
    EXPECT_EQ(this->log.alive(), 3);
    copy.reset();
    EXPECT_EQ(this->log.alive(), 2) << "weak pointers do not delay the destruction";
    EXPECT_EQ(observer.lock(), nullptr);
    unique.reset();
    last.reset();
    EXPECT_EQ(this->log.alive(), 0);
    observer.reset();
}

struct throwing {
    bool* throws;
    void on_release(test::counted<>&) const {
        if (*throws) throw std::runtime_error("broken");
    }
};

struct aware : pooled::enable_rc_from_this<aware> {
    int n = 0;
};
struct asks_on_release {
    bool* got_one;
    void on_release(aware& object) const { *got_one = !object.weak_rc_from_this().expired(); }
};

TYPED_TEST(counted_handle, whose_on_release_throws_lets_another_be_built_only_after_the_last_weak_pointer) {
    bool throws = false;
    typename TypeParam::template pool<test::counted<>, throwing> pool({.max_objects = 1}, {&throws});
    auto owner = TypeParam::acquire(pool);
    typename decltype(owner)::weak_type observer = owner;
    throws = true;
    owner.reset();
    throws = false;
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_TRUE(observer.expired());
    EXPECT_FALSE(TypeParam::try_acquire(pool));
    observer.reset();
    EXPECT_TRUE(TypeParam::try_acquire(pool));
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(handle, rc_from_this_of_a_recycled_object_knows_its_owner_only_while_there_is_one) {
    bool got_one = false;
    typename TypeParam::template pool<aware, asks_on_release> pool({.max_objects = 1}, {&got_one});
    for (int i = 0; i < 100; ++i) {
        {
            auto const owner = pool.acquire_rc();
            if constexpr (std::is_same_v<TypeParam, test::shared_kind>)
                EXPECT_EQ(owner->rc_from_this(), owner);
            else
                EXPECT_EQ(owner->local_rc_from_this(), owner);
        }
        EXPECT_FALSE(got_one);
        auto const shared = pool.acquire();
        EXPECT_THROW(static_cast<void>(shared->rc_from_this()), std::bad_weak_ptr);
    }
    EXPECT_EQ(pool.idle(), 1U);
}

TEST(rc_handle, of_an_object_pool_goes_from_thread_to_thread) {
    pooled::object_pool<int> pool({.max_objects = 50});
    std::vector<pooled::rc_ptr<int>> all;
    while (auto p = pool.try_acquire_rc())
        all.push_back(std::move(p));
    auto copies = all;
    std::thread other([&] { copies.clear(); });
    all.clear();
    other.join();
    EXPECT_EQ(pool.idle(), 50U);
    EXPECT_TRUE(test::is_valid(pool));
}

}  // namespace
