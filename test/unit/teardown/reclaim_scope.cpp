// SPDX-License-Identifier: BSL-1.0

// Plan: what a scope gathers stays intact, and its memory in use, until the scope ends, and is destroyed then.
//   - every kind of pointer and pool, alone, in chains, in numbers beyond the window (16) and the segments behind it (510)
//   - what may be seen meanwhile: weak pointers, use counts, memory in use
//   - where a scope stands: in another, in a destructor, beside one of another thread, under an exception
//   - what is not gathered: what has other owners, trivial types, arrays, objects of other allocators
//   - what happens in it: allocations, pools that are destroyed, destructors that create and drop more

#include "pooled/reclaim_scope.hpp"

#include "pooled/pooled.hpp"

#include "support/counting_upstream.hpp"
#include "support/handle_kinds.hpp"
#include "support/makers.hpp"
#include "support/sleeper.hpp"
#include "support/starting_line.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

// Which pointer, and to objects of which pool.
struct in_default_pool {
    static constexpr char const* k_name = "the_default_pool";
    pooled::pool& pool = pooled::default_pool();
};
template <class Pool>
struct in_own_pool {
    static constexpr char const* k_name = std::is_same_v<Pool, pooled::pool> ? "a_pool" : "a_local_pool";
    Pool pool;
};
// Of a pool that any thread may use.
struct by_local_rc_ptr {
    static constexpr char const* k_name = "local_rc_ptr";
    template <class, class T>
    using ptr_of = pooled::local_rc_ptr<T>;
    template <class T>
    [[nodiscard]] static auto make(auto& pool, auto&&... args) {
        return pool.template make_local_rc<T>(std::forward<decltype(args)>(args)...);
    }
};
template <class Handle, class Place>
struct maker_of : Place {
    template <class T>
    using ptr = typename Handle::template ptr_of<std::remove_reference_t<decltype(Place::pool)>, T>;
    template <class T, class... Args>
    ptr<T> make(Args&&... args) {
        if constexpr (std::is_same_v<Place, in_default_pool>)
            return Handle::template make_by_default<T>(std::forward<Args>(args)...);
        else
            return Handle::template make<T>(this->pool, std::forward<Args>(args)...);
    }
    [[nodiscard]] static std::string name() { return std::string(Handle::k_name) + "_of_" + Place::k_name; }
};

using own = in_own_pool<pooled::pool>;
using own_local = in_own_pool<pooled::local_pool>;
using makers =
    testing::Types<maker_of<test::by_shared_ptr, in_default_pool>, maker_of<test::by_shared_ptr, own>,
                   maker_of<test::by_shared_ptr, own_local>, maker_of<test::by_rc_ptr, in_default_pool>,
                   maker_of<test::by_rc_ptr, own>, maker_of<by_local_rc_ptr, own>,
                   maker_of<test::by_rc_ptr, own_local>, maker_of<test::by_unique_ptr, in_default_pool>,
                   maker_of<test::by_unique_ptr, own>, maker_of<test::by_unique_ptr, own_local>>;
struct maker_names {
    template <class Maker>
    static std::string GetName(int) {
        return Maker::name();
    }
};

template <class Maker>
class any_pointer : public testing::Test {
protected:
    Maker maker;
    test::life_log log;
    std::uint64_t const in_use_before = maker.pool.stats().in_use;

    ~any_pointer() override {
        EXPECT_EQ(in_use(), 0U);
        EXPECT_EQ(log.alive(), 0);
        EXPECT_TRUE(test::is_valid(maker.pool));
    }
    [[nodiscard]] std::uint64_t in_use() const { return maker.pool.stats().in_use - in_use_before; }
};
TYPED_TEST_SUITE(any_pointer, makers, maker_names);

using item = test::counted<>;

// Detects that it outlives an object that it must not outlive.
template <class Maker>
struct link : item {
    using item::item;
    typename Maker::template ptr<link> next;
};

template <class Maker>
[[nodiscard]] auto chain_of(std::size_t length, Maker& maker, test::life_log& log) {
    typename Maker::template ptr<link<Maker>> head;
    for (std::size_t i = 0; i < length; ++i) {
        auto node = maker.template make<link<Maker>>(log);
        node->next = std::move(head);
        head = std::move(node);
    }
    return head;
}

// At the edges of the window and of the segments behind it, and beyond.
TYPED_TEST(any_pointer, is_gathered_in_any_number) {
    for (std::size_t const count :
         {1U, 15U, 16U, 17U, 32U, 525U, 526U, 527U, 528U, 1035U, 1036U, 1037U, 2000U, 5000U}) {
        std::int64_t const before = this->log.destroyed();
        std::vector<typename TypeParam::template ptr<item>> all(count);
        for (auto& p : all)
            p = this->maker.template make<item>(this->log);
        {
            pooled::reclaim_scope const scope;
            all.clear();
            EXPECT_EQ(this->log.destroyed(), before) << count;
            EXPECT_EQ(this->in_use(), count);
        }
        EXPECT_EQ(this->log.destroyed() - before, static_cast<std::int64_t>(count));
        EXPECT_EQ(this->in_use(), 0U) << count;
    }
}

TYPED_TEST(any_pointer, to_a_trivial_type_goes_at_once) {
    struct trivial {
        std::uint64_t words[4];
    };
    pooled::reclaim_scope const scope;
    auto p = this->maker.template make<trivial>();
    EXPECT_EQ(this->in_use(), 1U);
    p.reset();
    EXPECT_EQ(this->in_use(), 0U);
}

TYPED_TEST(any_pointer, to_an_object_of_any_shape_or_to_a_base_is_gathered) {
    struct derived : item {
        using item::item;
        std::uint64_t more[5] = {1, 2, 3, 4, 5};
    };
    auto large = this->maker.template make<test::counted<100'000>>(this->log);
    auto aligned = this->maker.template make<test::counted<8, 256>>(this->log);
    typename TypeParam::template ptr<item> base = this->maker.template make<derived>(this->log);
    {
        pooled::reclaim_scope const scope;
        large.reset();
        aligned.reset();
        base.reset();
        EXPECT_EQ(this->log.destroyed(), 0);
    }
    EXPECT_EQ(this->log.destroyed(), 3);
}

// Its destructor creates objects of the same kind, and drops them.
template <class Maker>
struct fertile : item {
    fertile(Maker& m, test::life_log& l, unsigned g) : item(l), maker(m), log(l), generations(g) {}
    ~fertile() override {
        if (generations == 0) return;
        auto const child = maker.template make<fertile>(maker, log, generations - 1);
        static_cast<void>(maker.template make<fertile>(maker, log, generations - 1));
    }

    Maker& maker;
    test::life_log& log;
    unsigned generations;
};

TYPED_TEST(any_pointer, whose_object_makes_more_of_its_kind_is_followed_to_the_end) {
    auto p = this->maker.template make<fertile<TypeParam>>(this->maker, this->log, 8U);
    {
        pooled::reclaim_scope const scope;
        p.reset();
        EXPECT_EQ(this->log.constructed(), 1);
    }
    EXPECT_EQ(this->log.constructed(), 511);
    EXPECT_EQ(this->log.destroyed(), 511);
}

TYPED_TEST(any_pointer, is_left_to_the_outermost_scope) {
    auto a = this->maker.template make<item>(this->log);
    auto b = chain_of(10, this->maker, this->log);
    auto c = this->maker.template make<item>(this->log);
    {
        pooled::reclaim_scope const outer;
        a.reset();
        {
            pooled::reclaim_scope const inner;
            b.reset();
            { pooled::reclaim_scope const innermost; }
            EXPECT_EQ(this->log.destroyed(), 0);
        }
        EXPECT_EQ(this->log.destroyed(), 0) << "an inner scope did the work of the outer one";
        c.reset();
        EXPECT_EQ(this->log.destroyed(), 0) << "an inner scope ended the outer one";
    }
    EXPECT_EQ(this->log.destroyed(), 12);
}

TYPED_TEST(any_pointer, is_gone_when_an_exception_has_left_the_scope) {
    auto p = chain_of(50, this->maker, this->log);
    try {
        pooled::reclaim_scope const scope;
        auto const dropped_by_the_exception = this->maker.template make<item>(this->log);
        p.reset();
        EXPECT_EQ(this->log.destroyed(), 0);
        throw std::runtime_error("out of here");
    } catch (std::runtime_error const&) {
        EXPECT_EQ(this->log.destroyed(), 51);
    }
    auto q = this->maker.template make<item>(this->log);
    q.reset();
    EXPECT_EQ(this->log.destroyed(), 52) << "the scope goes on after its end";
}

// A destructor that gathers what it drops, within a teardown or not.
template <class Maker>
struct gatherer {
    gatherer(Maker& m, test::life_log& l, std::size_t n) : log(l) {
        for (std::size_t i = 0; i < n; ++i)
            owned.push_back(m.template make<item>(l));
        inner = m.template make<item>(l);
    }
    gatherer(gatherer const&) = delete;
    gatherer& operator=(gatherer const&) = delete;
    ~gatherer() {
        std::int64_t const before = log.destroyed();
        {
            pooled::reclaim_scope const scope;
            owned.clear();
            {
                pooled::reclaim_scope const nested;
                inner.reset();
            }
            destroyed_in_scope += log.destroyed() - before;
        }
    }

    static inline std::int64_t destroyed_in_scope = 0;
    test::life_log& log;
    std::vector<typename Maker::template ptr<item>> owned;
    typename Maker::template ptr<item> inner;
};

TYPED_TEST(any_pointer, is_gathered_within_a_destructor_and_gone_when_the_outermost_drop_returns) {
    gatherer<TypeParam>::destroyed_in_scope = 0;
    auto p = this->maker.template make<gatherer<TypeParam>>(this->maker, this->log, 700U);
    p.reset();
    EXPECT_EQ(gatherer<TypeParam>::destroyed_in_scope, 0) << "destroyed before the end of the scope";
    EXPECT_EQ(this->log.destroyed(), 701);

    std::vector<typename TypeParam::template ptr<gatherer<TypeParam>>> many;
    for (std::size_t i = 0; i < 40; ++i)
        many.push_back(this->maker.template make<gatherer<TypeParam>>(this->maker, this->log, i));
    {
        pooled::reclaim_scope const scope;
        many.clear();
        EXPECT_EQ(this->log.destroyed(), 701);
    }
    EXPECT_EQ(gatherer<TypeParam>::destroyed_in_scope, 0);
    EXPECT_EQ(this->log.alive(), 0);
}

TYPED_TEST(any_pointer, goes_at_once_in_a_destructor_after_the_scope_there) {
    struct owner {
        ~owner() {
            {
                pooled::reclaim_scope const scope;
                first.reset();
            }
            after_scope = log.destroyed();
        }
        test::life_log& log;
        std::int64_t& after_scope;
        typename TypeParam::template ptr<item> first;
    };
    std::int64_t after_scope = -1;
    { owner const automatic{this->log, after_scope, this->maker.template make<item>(this->log)}; }
    EXPECT_EQ(after_scope, 1) << "not part of a teardown: this scope is the outermost";
}

class reclaim_scope_test : public test::handles_test<test::counted_among_threads> {};

template <class T>
concept on_the_heap = requires { new T; } || requires { new T[2]; };

TEST_F(reclaim_scope_test, is_an_automatic_variable_neither_copied_nor_moved) {
    static_assert(!on_the_heap<pooled::reclaim_scope>);
    static_assert(!std::is_copy_constructible_v<pooled::reclaim_scope>);
    static_assert(!std::is_move_constructible_v<pooled::reclaim_scope>);
    static_assert(!std::is_copy_assignable_v<pooled::reclaim_scope>);
    static_assert(!std::is_move_assignable_v<pooled::reclaim_scope>);
}

TEST_F(reclaim_scope_test, leaves_alone_what_has_another_owner) {
    auto const kept = pool.make_shared<item>(log);
    auto const kept_rc = pool.make_rc<item>(log);
    {
        pooled::reclaim_scope const scope;
        auto copy = kept;
        auto copy_rc = kept_rc;
        copy.reset();
        copy_rc.reset();
        EXPECT_EQ(kept.use_count(), 1);
    }
    EXPECT_EQ(log.destroyed(), 0);
}

TEST_F(reclaim_scope_test, weak_pointers_give_nothing_as_soon_as_the_last_owner_is_gone) {
    auto p = pool.make_rc<item>(log);
    auto q = pool.make_local_rc<item>(log);
    auto r = pool.make_shared<item>(log);
    std::weak_ptr<item> standard_observer = r;
    pooled::weak_rc_ptr<item> const observer = p;
    pooled::weak_local_rc_ptr<item> const local_observer = q;
    {
        pooled::reclaim_scope const scope;
        p.reset();
        q.reset();
        r.reset();
        EXPECT_TRUE(observer.expired());
        EXPECT_FALSE(observer.lock());
        EXPECT_FALSE(local_observer.lock());
        EXPECT_THROW(std::shared_ptr<item>{standard_observer}, std::bad_weak_ptr);
        test::sleeper().run([&] { standard_observer.reset(); });
        EXPECT_EQ(log.destroyed(), 0);
    }
    EXPECT_EQ(log.destroyed(), 3);
    EXPECT_FALSE(observer.lock());
    EXPECT_EQ(pool.stats().in_use, 2U) << "the weak pointers still need their counts";
}

TEST_F(reclaim_scope_test, arrays_go_at_once_and_what_their_elements_own_waits) {
    struct element {
        ~element() {
            if (log != nullptr) log->on_destroy();
        }
        test::life_log* log = nullptr;
        std::shared_ptr<item> owned;
    };
    test::life_log elements;
    auto const fill = [&](element* all) {
        for (std::size_t i = 0; i < 3; ++i) {
            elements.on_construct();
            all[i].log = &elements;
            all[i].owned = pool.make_shared<item>(log);
        }
    };
    auto shared = pool.make_shared<element[]>(3);
    auto unique = pool.make_unique<element[]>(3);
    fill(shared.get());
    fill(unique.get());
    {
        pooled::reclaim_scope const scope;
        shared.reset();
        unique.reset();
        EXPECT_EQ(elements.destroyed(), 6);
        EXPECT_EQ(log.destroyed(), 0);
    }
    EXPECT_EQ(log.destroyed(), 6);
}

TEST_F(reclaim_scope_test, objects_of_other_allocators_go_at_once_and_what_they_own_waits) {
    test::life_log others;
    struct other : item {
        using item::item;
        std::shared_ptr<item> owned;
    };
    auto standard = std::make_shared<other>(others);
    standard->owned = pool.make_shared<item>(log);
    auto by_allocator = std::allocate_shared<other>(pooled::pool_allocator<other>(pool), others);
    by_allocator->owned = pool.make_shared<item>(log);
    {
        pooled::reclaim_scope const scope;
        standard.reset();
        by_allocator.reset();
        EXPECT_EQ(others.destroyed(), 2);
        EXPECT_EQ(log.destroyed(), 0);
    }
    EXPECT_EQ(log.destroyed(), 2);
}

TEST_F(reclaim_scope_test, pools_may_die_while_their_objects_wait) {
    test::counting_upstream memory;
    test::counting_upstream local_memory;
    {
        std::optional<pooled::pool> shared(std::in_place, pooled::pool_options{.upstream = &memory});
        std::optional<pooled::local_pool> local(std::in_place,
                                                pooled::pool_options{.upstream = &local_memory});
        std::vector<std::shared_ptr<void>> all;
        std::vector<pooled::local_rc_ptr<item>> counted;
        auto const fill = [&](auto& from) {
            for (std::size_t i = 0; i < 600; ++i) {
                all.push_back(from.template make_shared<item>(log));
                all.push_back(from.template make_unique<item>(log));
                counted.push_back(from.template make_local_rc<item>(log));
            }
        };
        fill(*shared);
        fill(*local);
        std::weak_ptr<void> const observer = all[2];
        {
            pooled::reclaim_scope const scope;
            all.clear();
            counted.clear();
            shared.reset();
            local.reset();
            EXPECT_EQ(log.destroyed(), 0);
            EXPECT_NE(memory.bytes(), 0U);
            EXPECT_NE(local_memory.bytes(), 0U);
            EXPECT_EQ(observer.lock(), nullptr);
        }
        EXPECT_EQ(log.alive(), 0);
        EXPECT_NE(local_memory.bytes() + memory.bytes(), 0U) << "the weak pointer's block is out";
    }
    EXPECT_EQ(memory.bytes(), 0U);
    EXPECT_EQ(local_memory.bytes(), 0U);
}

// A pool that is owned by a deferred object is destroyed during the teardown, before or after its own objects.
TEST_F(reclaim_scope_test, pools_may_die_with_the_objects_that_own_them) {
    struct owner : item {
        explicit owner(test::life_log& l) : item(l) {
            for (std::size_t i = 0; i < 40; ++i)
                objects.push_back(mine->make_shared<item>(l));
        }
        std::vector<std::shared_ptr<item>> objects;
        std::unique_ptr<pooled::pool> mine = std::make_unique<pooled::pool>();
    };
    std::vector<std::shared_ptr<owner>> owners;
    for (std::size_t i = 0; i < 20; ++i)
        owners.push_back(pool.make_shared<owner>(log));
    {
        pooled::reclaim_scope const scope;
        owners.clear();
    }
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(reclaim_scope_test, within_a_destructor_that_a_drain_runs_ends_with_nothing_left) {
    pooled::pool slow{{.teardown = pooled::teardown::incremental}};
    struct owner : item {
        using item::item;
        ~owner() override {
            pooled::reclaim_scope const scope;
            owned.clear();
        }
        std::vector<std::shared_ptr<item>> owned;
    };
    auto p = slow.make_shared<owner>(log);
    for (std::size_t i = 0; i < 40; ++i)
        p->owned.push_back(pool.make_shared<item>(log));
    p.reset();
    EXPECT_EQ(slow.drain(1), 1U);
    EXPECT_EQ(log.destroyed(), 41);
    EXPECT_EQ(slow.drain(), 0U);
}

TEST_F(reclaim_scope_test, scopes_of_two_threads_have_nothing_to_do_with_each_other) {
    constexpr std::size_t k_turns = 200;
    test::starting_line meeting(2);
    std::array<test::life_log, 2> logs;
    auto const work = [&](std::size_t me) {
        for (std::size_t turn = 0; turn < k_turns; ++turn) {
            std::vector<std::shared_ptr<item>> mine;
            for (std::size_t i = 0; i < 40; ++i)
                mine.push_back(pool.make_shared<item>(logs[me]));
            std::int64_t const before = logs[me].destroyed();
            {
                pooled::reclaim_scope const scope;
                mine.clear();
                meeting.arrive_and_wait();  // both have a scope now
                EXPECT_EQ(logs[me].destroyed(), before);
                if (me == 1) meeting.arrive_and_wait();
            }
            EXPECT_EQ(logs[me].destroyed(), before + 40);
            if (me == 0) meeting.arrive_and_wait();  // the first one's has ended, the second one's has not
        }
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    EXPECT_EQ(logs[0].alive() + logs[1].alive(), 0);
}

TEST_F(reclaim_scope_test, drops_on_another_thread_are_not_gathered) {
    test::sleeper other;
    auto p = pool.make_shared<item>(log);
    auto q = pool.make_shared<item>(log);
    pooled::reclaim_scope const scope;
    other.run([&] {
        p.reset();
        EXPECT_EQ(log.destroyed(), 1);
    });
    q.reset();
    EXPECT_EQ(log.destroyed(), 1);
}

}  // namespace
