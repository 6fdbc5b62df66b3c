// SPDX-License-Identifier: BSL-1.0

// Plan: a thread has the lock of an object pool's list for long, as one that is preempted there. Others acquire, release, build and wait
// meanwhile: they do without the lock, and the bound stays exact.

#include "pooled/object_pool.hpp"

#include "stress/common.hpp"
#include "support/counting_upstream.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/no_metadata.hpp"
#include "support/preempted_holder.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

POOLED_BEGIN_NAMESPACE
namespace detail {
template <>
struct record_access::of<struct looking_thread> {
    // What a thread does that looks at what was left, and is preempted there.
    template <class Preempted>
    static void look_at_left(pool_core& core, Preempted&& preempted) {
        auto& list = static_cast<recycle_list&>(*core.extension());
        core.caches().as_outsider([&] {
            deferred_blocks* const left = list.m_left.take_all();
            preempted();
            EXPECT_NE(left, nullptr);
            list.m_left.put_back(left);
            core.caches().tell_holder();
        });
    }

    // While it exists, one object more exists than counts: what a thread sees that reads the count of those that exist before another one
    // destroys one without the lock, and that of all afterwards.
    class seen_before_one_is_destroyed {
    public:
        explicit seen_before_one_is_destroyed(pool_core& core)
            : m_list(static_cast<recycle_list&>(*core.extension())) {
            m_list.m_references.fetch_add(1);
        }
        ~seen_before_one_is_destroyed() { m_list.m_references.fetch_sub(1); }
        seen_before_one_is_destroyed(seen_before_one_is_destroyed const&) = delete;
        seen_before_one_is_destroyed& operator=(seen_before_one_is_destroyed const&) = delete;

    private:
        recycle_list& m_list;
    };

    // While it exists, calls work() once: in the calling thread, when that has the lock, found no object in the list, and is about to look
    // into other threads' caches. Requires that no other thread takes the lock before.
    class at_look_elsewhere {
    public:
        at_look_elsewhere(pool_core& core, std::function<void()> work)
            : m_list(static_cast<recycle_list&>(*core.extension())),
              m_caches(core.caches()),
              m_work(std::move(work)) {
            m_caches.add_recycled(
                this, [](void* self) noexcept { static_cast<at_look_elsewhere*>(self)->on_settle(); });
        }
        ~at_look_elsewhere() {
            EXPECT_GE(m_settled, 1);
            scoped_lock const lock(m_caches);
            m_list.add_to_caches();
        }
        at_look_elsewhere(at_look_elsewhere const&) = delete;
        at_look_elsewhere& operator=(at_look_elsewhere const&) = delete;

    private:
        void on_settle() noexcept {
            m_list.settle();
            if (++m_settled == 1) m_work();
        }
        recycle_list& m_list;
        cache_set& m_caches;
        std::function<void()> m_work;
        int m_settled = 0;
    };
};
}  // namespace detail
POOLED_END_NAMESPACE

namespace {

using namespace stress;
using looking = pooled::detail::record_access::of<pooled::detail::looking_thread>;

constexpr auto k_long = std::chrono::milliseconds(12);  // three times as long as a thread waits
constexpr auto k_forever = std::chrono::seconds(20);

// One user at a time; how many exist, and may exist.
struct counted {
    counted() {
        if (g_fails) throw std::runtime_error("a constructor");
        EXPECT_LE(++g_alive, g_most) << "more than the bound";
        if (g_meanwhile) g_meanwhile();
    }
    ~counted() { --g_alive; }
    counted(counted const&) = delete;
    counted& operator=(counted const&) = delete;
    std::atomic<int> users{0};

    static inline std::atomic<std::size_t> g_alive{0};
    static inline std::size_t g_most = 0;
    static inline bool g_fails = false;
    static inline std::function<void()> g_meanwhile;
};
using pool_type = pooled::object_pool<counted>;
using pointer = std::shared_ptr<counted>;

pooled::detail::pool_core& core_of(pool_type const& pool) {
    return pooled::detail::object_pool_access::core(pool);
}
auto& caches_of(pool_type const& pool) { return core_of(pool).caches(); }

// try_acquire() in a thread of its own.
class attempt {
public:
    explicit attempt(pool_type& objects)
        : m_thread([this, &objects] {
              m_result = objects.try_acquire();
              m_has_ended = true;
          }) {}
    bool has_ended() const { return m_has_ended; }
    pointer result() {
        m_thread.join();
        return std::move(m_result);
    }

private:
    std::atomic<bool> m_has_ended{false};
    pointer m_result;
    std::thread m_thread;
};

class locked_list : public testing::Test {
protected:
    locked_list() {
        counted::g_most = ~std::size_t{0};
        counted::g_fails = false;
    }
    ~locked_list() override {
        counted::g_meanwhile = nullptr;
        pool.reset();
        EXPECT_EQ(counted::g_alive, 0U) << "an object was lost";
    }
    pool_type& make(std::size_t most) {
        counted::g_most = most != 0 ? most : ~std::size_t{0};
        return pool.emplace(pooled::object_pool_options{.max_objects = most});
    }
    static std::vector<pointer> acquire(pool_type& from, std::size_t count) {
        std::vector<pointer> all;
        while (all.size() != count && (all.empty() || all.back() != nullptr))
            all.push_back(from.try_acquire());
        return all;
    }
    std::optional<pool_type> pool;
};

TEST_F(locked_list,
       that_is_held_all_the_time_stops_nobody_and_lets_no_pool_grow_that_is_used_again_and_again) {
    constexpr std::size_t k_each = 300;  // more than a thread caches
    pool_type& objects = make(0);
    auto kept = acquire(objects, 10);
    test::preempted_holder holder(caches_of(objects));
    auto const use = [&] {
        for (int round = 0; round < 10; ++round)
            static_cast<void>(acquire(objects, k_each));
    };
    use();
    std::thread(use).join();
    kept.clear();
    EXPECT_LE(objects.stats().capacity, 3 * k_each);
    EXPECT_TRUE(holder.leave());
    EXPECT_LE(counted::g_alive, 3 * k_each);
    EXPECT_EQ(objects.in_use(), 0U);
    EXPECT_EQ(objects.capacity(), counted::g_alive);
    EXPECT_TRUE(test::is_valid(objects));
    EXPECT_EQ(acquire(objects, counted::g_alive).size(), counted::g_alive);
    EXPECT_EQ(objects.stats().built, counted::g_alive) << "what was released is found again";
}

TEST_F(locked_list, that_is_held_all_the_time_lets_a_bounded_pool_build_and_recycle) {
    constexpr std::size_t k_most = 40;
    pool_type& objects = make(k_most);
    auto all = acquire(objects, k_most / 2);
    test::preempted_holder holder(caches_of(objects));
    while (all.size() != k_most)
        all.push_back(objects.acquire());
    for (int round = 0; round < 3; ++round) {
        all.resize(10);
        while (all.size() != k_most)
            all.push_back(objects.acquire_for(std::chrono::hours(1)));
    }
    EXPECT_TRUE(holder.leave());
    EXPECT_EQ(objects.in_use(), k_most);
    EXPECT_EQ(objects.try_acquire(), nullptr);
    EXPECT_EQ(counted::g_alive, k_most);
    EXPECT_TRUE(test::is_valid(objects));
}

TEST_F(locked_list, stops_who_would_report_exhaustion_until_an_object_is_released) {
    pool_type& objects = make(20);
    auto all = acquire(objects, 20);
    for (bool const is_released : {false, true}) {
        test::preempted_holder holder(caches_of(objects));
        attempt other(objects);
        std::this_thread::sleep_for(k_long);
        EXPECT_FALSE(other.has_ended()) << "whether there is one is not known";
        if (is_released) {
            all.pop_back();
            EXPECT_NE(other.result(), nullptr);
            EXPECT_TRUE(holder.leave());
        } else {
            EXPECT_TRUE(holder.leave());
            EXPECT_EQ(other.result(), nullptr);
        }
    }
}

TEST_F(locked_list, makes_no_pool_say_that_it_is_exhausted_while_a_thread_looks_at_what_was_left) {
    pool_type& objects = make(1);
    auto all = acquire(objects, 1);
    std::thread([&] { EXPECT_EQ(objects.try_acquire(), nullptr); }).join();  // now it is in central mode
    test::preempted_holder holder(caches_of(objects));
    all.clear();
    std::promise<void> looks;
    std::promise<void> may_go_on;
    std::thread other_looking([&] {
        looking::look_at_left(core_of(objects), [&] {
            looks.set_value();
            may_go_on.get_future().wait_for(k_forever);
        });
    });
    looks.get_future().wait();
    EXPECT_TRUE(holder.leave());
    attempt other(objects);
    std::this_thread::sleep_for(k_long);
    EXPECT_FALSE(other.has_ended()) << "an object is idle";
    may_go_on.set_value();
    other_looking.join();
    EXPECT_NE(other.result(), nullptr);
}

TEST_F(locked_list, of_a_thread_that_looks_elsewhere_gets_what_is_released_meanwhile) {
    pool_type& objects = make(2);
    auto all = acquire(objects, 2);
    pointer found;
    std::thread([&] {
        objects.reserve(0);
        looking::at_look_elsewhere const meanwhile(core_of(objects),
                                                   [&] { std::thread([&] { all.clear(); }).join(); });
        found = objects.try_acquire();
    }).join();
    EXPECT_NE(found, nullptr);
    EXPECT_EQ(objects.in_use(), 1U);
    EXPECT_TRUE(test::is_valid(objects));
}

TEST_F(locked_list, makes_no_pool_say_that_it_is_exhausted_if_others_build_the_last_one_and_one_is_cached) {
    std::thread([&] { make(2); }).join();  // this thread has no cache
    pool_type& objects = *pool;
    std::promise<void> is_inside;
    std::promise<void> may_leave;
    std::thread preempted([&] {
        static_cast<void>(objects.acquire());  // is idle in its cache now
        auto& own_gate = pooled::detail::t_state().near_caches[core_of(objects).slot()]->gate;
        EXPECT_TRUE(own_gate.enter());
        is_inside.set_value();
        may_leave.get_future().wait_for(k_forever);
        own_gate.leave();
    });
    is_inside.get_future().wait();
    pointer found;
    pointer last;
    std::promise<void> is_last_built;
    std::thread other([&] {
        objects.reserve(0);
        looking::at_look_elsewhere const meanwhile(core_of(objects), [&] {
            std::thread([&] { last = objects.try_acquire(); }).join();
            is_last_built.set_value();
        });
        found = objects.try_acquire();
    });
    is_last_built.get_future().wait();
    std::this_thread::sleep_for(k_long);
    may_leave.set_value();
    preempted.join();
    other.join();
    EXPECT_NE(last, nullptr);
    EXPECT_NE(found, nullptr) << "one was idle";
    EXPECT_TRUE(test::is_valid(objects));
}

TEST_F(locked_list, lets_no_thread_wait_before_releases_are_offered) {
    pointer held;
    std::thread([&] { held = make(1).acquire(); }).join();  // no thread has a cache
    pool_type& objects = *pool;
    pointer found;
    std::promise<void> is_outside;
    std::promise<void> may_leave;
    std::thread outsider;
    std::thread waiting([&] {
        objects.reserve(0);
        looking::at_look_elsewhere const meanwhile(core_of(objects), [&] {
            std::promise<void> is_there;
            outsider = std::thread([&] {
                caches_of(objects).as_outsider([&] {
                    is_there.set_value();
                    may_leave.get_future().wait_for(k_forever);
                });
            });
            is_there.get_future().wait();
            is_outside.set_value();
        });
        found = objects.acquire_for(k_forever);
    });
    is_outside.get_future().wait();
    std::this_thread::sleep_for(k_long);
    may_leave.set_value();
    outsider.join();
    while (objects.waiting() != 1)
        std::this_thread::yield();
    EXPECT_TRUE(test::is_valid(objects));
    held.reset();
    waiting.join();
    EXPECT_NE(found, nullptr) << "the waiter was lost";
}

// Nobody else calls the pool afterwards.
TEST_F(locked_list, that_is_held_when_an_object_is_released_hides_it_from_no_waiter) {
    pool_type& objects = make(2);
    auto all = acquire(objects, 2);
    std::vector<std::thread> waiters;
    std::atomic<int> served{0};
    for (int i = 0; i < 2; ++i)
        waiters.emplace_back([&] {
            pointer const mine = objects.acquire_for(std::chrono::seconds(20));
            served += mine != nullptr ? 1 : 100;  // 100: it was lost, and the other one ends, too
            while (served < 2)
                std::this_thread::yield();
        });
    while (objects.waiting() != 2)
        std::this_thread::yield();
    test::preempted_holder holder(caches_of(objects));
    all.clear();
    EXPECT_TRUE(holder.leave());
    for (std::thread& one : waiters)
        one.join();
    EXPECT_EQ(served, 2);
}

TEST_F(locked_list, that_is_held_lets_a_constructor_fail_and_counts_no_object) {
    pool_type& objects = make(1);
    counted::g_fails = true;
    test::preempted_holder holder(caches_of(objects));
    EXPECT_THROW(static_cast<void>(objects.acquire()), std::runtime_error);
    counted::g_fails = false;
    pointer const one = objects.acquire();
    EXPECT_TRUE(holder.leave());
    EXPECT_EQ(objects.try_acquire(), nullptr);
    EXPECT_EQ(objects.capacity(), 1U);
}

TEST_F(locked_list, that_was_held_when_objects_were_released_lets_clear_destroy_them) {
    pool_type& objects = make(0);
    auto all = acquire(objects, 600);
    pointer const kept = objects.acquire();
    test::preempted_holder holder(caches_of(objects));
    all.clear();
    EXPECT_TRUE(holder.leave());
    EXPECT_EQ(objects.clear(), 600U);
    EXPECT_EQ(counted::g_alive, 1U);
}

TEST_F(locked_list, that_is_held_stops_no_thread_that_first_uses_the_pool_or_ends) {
    pool_type& objects = make(0);
    auto all = acquire(objects, 3);
    test::preempted_holder holder(caches_of(objects));
    std::thread([&] { all.clear(); }).join();
    std::thread([&] { all = acquire(objects, 3); }).join();
    all.clear();
    EXPECT_TRUE(holder.leave());
    EXPECT_EQ(counted::g_alive, 3U);
    EXPECT_EQ(objects.idle(), 3U);
}

TEST_F(locked_list, that_is_held_stops_neither_reserve_nor_trim) {
    pool_type& objects = make(100);
    auto all = acquire(objects, 3);
    std::uint64_t const high_water = objects.stats().high_water;
    test::preempted_holder holder(caches_of(objects));
    objects.reserve(100);
    EXPECT_EQ(counted::g_alive, 100U);
    EXPECT_EQ(objects.trim(), 0U);
    while (all.size() != 50)
        all.push_back(objects.acquire());
    all.resize(3);
    EXPECT_TRUE(holder.leave());
    EXPECT_EQ(objects.stats().built, 100U);
    EXPECT_EQ(objects.in_use(), 3U);
    EXPECT_EQ(objects.idle(), 97U);
    EXPECT_GE(objects.stats().high_water, high_water);
    EXPECT_LE(objects.stats().high_water, 50U) << "the others were never in use";
    EXPECT_TRUE(test::is_valid(objects));
    EXPECT_EQ(acquire(objects, 98).back(), nullptr);
    EXPECT_EQ(objects.trim(), 97U);
}

TEST_F(locked_list, that_is_held_stops_nobody_who_has_built_several) {
    pool_type& objects = pool.emplace(pooled::object_pool_options{.growth = 8});
    counted::g_most = ~std::size_t{0};
    std::optional<test::preempted_holder> holder;
    counted::g_meanwhile = [&] {
        if (!holder.has_value()) holder.emplace(caches_of(objects));
    };
    auto all = acquire(objects, 8);
    EXPECT_TRUE(holder->leave());
    EXPECT_EQ(objects.stats().built, 8U);
    EXPECT_EQ(objects.in_use(), 8U);
    EXPECT_TRUE(test::is_valid(objects));
}

TEST_F(locked_list, that_is_held_stops_no_release_that_destroys_the_object) {
    pool_type& objects = make(3);
    auto all = acquire(objects, 3);
    EXPECT_EQ(objects.clear(), 0U);
    test::preempted_holder holder(caches_of(objects));
    all.clear();
    EXPECT_EQ(counted::g_alive, 0U);
    all = acquire(objects, 3);
    EXPECT_NE(all.back(), nullptr) << "others may be built in their place";
    EXPECT_TRUE(holder.leave());
    EXPECT_EQ(objects.in_use(), 3U);
    EXPECT_EQ(objects.try_acquire(), nullptr);
    EXPECT_TRUE(test::is_valid(objects));
}

// One that counts no more leaves no place for another one.
TEST_F(locked_list, that_is_held_when_a_forgotten_object_is_released_keeps_the_bound) {
    pool_type& objects = make(2);
    counted::g_most = 3;
    auto forgotten = acquire(objects, 1);
    using pooled::detail::recycle_list;
    static_cast<recycle_list&>(*core_of(objects).extension()).discard(recycle_list::in_use::forget);
    auto const all = acquire(objects, 2);
    EXPECT_NE(all.back(), nullptr);
    test::preempted_holder holder(caches_of(objects));
    std::thread([&] { forgotten.clear(); }).join();
    EXPECT_TRUE(holder.leave());
    EXPECT_EQ(objects.try_acquire(), nullptr);
    EXPECT_TRUE(test::is_valid(objects));
}

// Nobody else calls the pool afterwards.
TEST_F(locked_list, that_is_held_when_an_object_is_destroyed_lets_a_waiter_build_one) {
    pool_type& objects = make(1);
    auto all = acquire(objects, 1);
    EXPECT_EQ(objects.clear(), 0U);
    pointer found;
    std::thread waiting([&] { found = objects.acquire_for(k_forever); });
    while (objects.waiting() != 1)
        std::this_thread::yield();
    test::preempted_holder holder(caches_of(objects));
    all.clear();
    EXPECT_TRUE(holder.leave());
    waiting.join();
    EXPECT_NE(found, nullptr);
}

struct never_valid {
    bool validate(counted&) const { return false; }
};

TEST_F(locked_list, that_is_held_stops_nobody_whose_object_is_not_valid_any_more) {
    pooled::object_pool<counted, never_valid> objects{{.max_objects = 2}};
    objects.acquire().reset();
    {
        test::preempted_holder holder(pooled::detail::object_pool_access::core(objects).caches());
        EXPECT_NE(objects.acquire(), nullptr);
        EXPECT_TRUE(holder.leave());
    }
    EXPECT_GE(objects.stats().built, 2U);
    EXPECT_EQ(objects.in_use(), 0U);
    EXPECT_TRUE(test::is_valid(objects));
}

TEST_F(locked_list, of_a_thread_that_clears_keeps_out_who_releases_meanwhile) {
    pool_type& objects = make(0);
    for (int round = 0; round < 8; ++round) {
        pointer one = objects.acquire();
        std::thread releases;
        std::thread holds;  // the next one that has the lock, in some rounds
        {
            looking::at_look_elsewhere const meanwhile(core_of(objects), [&] {
                holds = std::thread([&] {
                    pooled::detail::scoped_lock const held(caches_of(objects));
                    std::this_thread::sleep_for(k_long);
                });
                releases = std::thread([&] { one.reset(); });
                std::this_thread::sleep_for(k_long);
            });
            objects.clear();
            releases.join();
            holds.join();
        }
        EXPECT_EQ(counted::g_alive, 0U) << "an object of before clear() is used again";
        EXPECT_TRUE(test::is_valid(objects));
    }
}

// A thread that ends has announced itself in its gate, which is stopped, as another one is inside.
TEST_F(locked_list, is_given_up_by_who_waits_for_a_thread_that_does_not_run) {
    pool_type& objects = make(0);
    auto& caches = caches_of(objects);
    struct owner {
        pooled::detail::gate* gate = nullptr;
        std::promise<void> may_end;
        std::thread thread;
    };
    std::array<owner, 2> owners;
    for (owner& one : owners) {
        std::promise<void> is_ready;
        one.thread = std::thread([&] {
            static_cast<void>(objects.acquire());
            auto* const cache = pooled::detail::t_state().find(core_of(objects).id());
            one.gate = cache != nullptr ? &cache->gate : nullptr;
            is_ready.set_value();
            one.may_end.get_future().wait();
        });
        is_ready.get_future().wait();
    }
    bool is_free = owners[0].gate == nullptr || !owners[0].gate->enter();  // without caches
    if (!is_free) {
        std::thread clears([&] { objects.clear(); });
        while (owners[1].gate->is_open())
            std::this_thread::yield();
        std::this_thread::sleep_for(k_long);
        owners[1].gate->announce();
        owners[0].gate->leave();
        std::this_thread::sleep_for(k_long);
        auto const end = std::chrono::steady_clock::now() + k_forever;
        while (!is_free && std::chrono::steady_clock::now() < end)
            if ((is_free = caches.try_lock_for_a_moment())) caches.unlock();
        owners[1].gate->leave();
        clears.join();
    }
    EXPECT_TRUE(is_free);
    for (owner& one : owners) {
        one.may_end.set_value();
        one.thread.join();
    }
}

TEST_F(locked_list, of_a_pool_that_has_ended_stops_no_release_but_the_last_one) {
    pool_type& objects = make(4);
    auto all = acquire(objects, 4);
    auto& caches = caches_of(objects);
    pool.reset();
    test::preempted_holder holder(caches);
    for (int i = 0; i < 3; ++i)
        std::thread([one = std::exchange(all[static_cast<std::size_t>(i)], nullptr)]() mutable {
            one.reset();
        }).join();
    EXPECT_EQ(counted::g_alive, 1U);
    EXPECT_TRUE(holder.leave());
}

// Whose lock of a class was held when upstream had no more memory.
TEST_F(locked_list, is_not_needed_for_each_object_of_a_pool_that_once_had_no_memory) {
    struct failing_upstream : std::pmr::memory_resource {
        void* do_allocate(std::size_t bytes, std::size_t align) override {
            if (caches != nullptr && caches->is_at_bound() && !holder) holder.emplace((*caches)[0]);
            if (left == 0) throw std::bad_alloc();
            --left;
            return counting.allocate(bytes, align);
        }
        void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
            counting.deallocate(p, bytes, align);
        }
        [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
            return this == &other;
        }
        test::counting_upstream counting;
        pooled::detail::cache_set* caches = nullptr;
        std::optional<test::preempted_holder> holder;
        int left = 2;
    } upstream;
    pool_type& objects = pool.emplace(pooled::object_pool_options{.upstream = &upstream});
    counted::g_most = ~std::size_t{0};
    upstream.caches = &caches_of(objects);
    std::vector<pointer> all;
    EXPECT_THROW(for (;;) all.push_back(objects.acquire()), std::bad_alloc);
    if (upstream.holder) {
        EXPECT_TRUE(upstream.holder->leave());
    }
    all.clear();
    for (int i = 0; i < 3; ++i)
        static_cast<void>(objects.acquire());
    EXPECT_FALSE(caches_of(objects).is_at_bound());
    pool.reset();
}

TEST_F(locked_list, of_a_pool_that_has_ended_stops_the_last_release_which_returns_all_memory) {
    test::counting_upstream upstream;
    for (bool const is_locked : {false, true}) {
        pool_type& objects =
            pool.emplace(pooled::object_pool_options{.max_objects = 2, .upstream = &upstream});
        counted::g_most = 2;
        auto all = acquire(objects, 2);
        auto& caches = caches_of(objects);
        pool.reset();
        all.pop_back();
        if (is_locked) {
            test::preempted_holder holder(caches);
            std::thread last([&] { all.clear(); });
            std::this_thread::sleep_for(k_long);
            EXPECT_TRUE(holder.leave());
            last.join();
        }
        all.clear();
        EXPECT_EQ(counted::g_alive, 0U);
        EXPECT_EQ(upstream.bytes(), 0U);
    }
}

TEST_F(locked_list, of_a_thread_that_builds_while_another_one_destroys_an_object_keeps_the_bound) {
    pool_type& objects = make(4);
    pointer first;
    {
        looking::seen_before_one_is_destroyed const meanwhile(core_of(objects));
        first = objects.acquire();
    }
    EXPECT_EQ(acquire(objects, 4).size(), 4U) << "three and none";
    EXPECT_TRUE(test::is_valid(objects));
}

#if !defined(_WIN32)
// What is built can be left to the holder only where there is memory for that.
TEST_F(locked_list, that_is_held_by_a_process_without_memory_counts_what_is_built_once) {
    if (test::k_sanitized || !test::can_end_metadata()) GTEST_SKIP() << "a sanitizer needs memory of its own";
    EXPECT_EQ(test::in_child([&] {
                  pool_type& objects = pool.emplace(pooled::object_pool_options{.growth = 8});
                  counted::g_most = ~std::size_t{0};
                  std::thread holds;
                  counted::g_meanwhile = [&] {
                      if (holds.joinable()) return;
                      std::promise<void> has_lock;
                      holds = std::thread([&] {
                          pooled::detail::scoped_lock const held(caches_of(objects));
                          has_lock.set_value();
                          std::this_thread::sleep_for(4 * k_long);
                      });
                      has_lock.get_future().wait();
                      test::end_metadata();
                  };
                  bool const is_served = objects.try_acquire() != nullptr;
                  holds.join();
                  return is_served && objects.capacity() == 8 && objects.stats().built == 8 ? 0 : 1;
              }),
              0);
}

// The child does not know what the thread was about to do: it begins anew.
TEST_F(locked_list, that_is_held_while_a_thread_forks_lets_the_child_keep_the_bound) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own threads do not survive a fork";
    pool_type& mine = make(3);
    counted::g_most = ~std::size_t{0};  // those of the parent exist in the child, too
    auto before = acquire(mine, 2);
    test::preempted_holder holder(caches_of(mine));
    EXPECT_EQ(test::in_child([&] {
                  if (pooled::detail::g_forks_lost == 0) return 2;
                  before.clear();
                  if (mine.in_use() != 0 || mine.capacity() != 0) return 3;
                  auto const all = acquire(mine, 4);
                  if (all.size() != 4 || all.back() != nullptr) return 4;
                  return mine.in_use() == 3 && test::is_valid(mine) ? 0 : 5;
              }),
              0);
    EXPECT_TRUE(holder.leave());
}

TEST_F(locked_list, that_is_held_while_a_constructor_forks_lets_the_child_keep_the_bound) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own threads do not survive a fork";
    pool_type& objects = make(2);
    test::preempted_holder holder(caches_of(objects));
    pid_t child = -1;
    counted::g_meanwhile = [&] { child = ::fork(); };
    pointer const first = objects.acquire();
    counted::g_meanwhile = nullptr;
    if (child == 0) {
        ::alarm(60);
        bool const is_lost = pooled::detail::g_forks_lost != 0;
        ::_exit(is_lost && acquire(objects, 2).back() == nullptr && test::is_valid(objects) ? 0 : 1);
    }
    EXPECT_EQ(test::status_of(child), 0);
    EXPECT_TRUE(holder.leave());
}
#endif

// While it exists, a thread has the lock most of the time.
class lock_holder {
public:
    explicit lock_holder(pool_type& pool)
        : m_one([&caches = caches_of(pool)] {
              {
                  pooled::detail::scoped_lock const held(caches);
                  std::this_thread::sleep_for(k_long);
              }
              std::this_thread::sleep_for(k_long / 4);  // others have it, too
          }) {}

private:
    repeatedly const m_one;
};

void use_alone(pointer const& p) {
    EXPECT_EQ(p->users.fetch_add(1), 0) << "an object had two users";
    p->users.fetch_sub(1);
}

TEST_F(locked_list, that_is_held_for_long_hides_no_idle_object_from_a_bounded_pool) {
    constexpr std::size_t k_threads = 3;
    constexpr std::size_t k_each = 5;
    pool_type& objects = make(k_threads * k_each);
    std::atomic<std::size_t> refused{0};
    {
        lock_holder const holder(objects);
        on_threads(k_threads, [&](std::size_t) {
            for (std::size_t round = 0; round < scaled(20'000, 500); ++round) {
                auto const mine = acquire(objects, k_each);
                if (mine.back() == nullptr) ++refused;
                for (pointer const& p : mine)
                    if (p != nullptr) use_alone(p);
            }
        });
    }
    EXPECT_EQ(refused, 0U) << "there was one for each";
    EXPECT_EQ(objects.in_use(), 0U);
    EXPECT_TRUE(test::is_valid(objects));
}

TEST_F(locked_list, that_is_held_for_long_loses_no_object_and_no_waiter) {
    pool_type& objects = make(3);
    {
        lock_holder const holder(objects);
        std::atomic<std::size_t> turn{0};
        repeatedly const others([&] {
            static_cast<void>(++turn % 2 == 0 ? objects.clear() : objects.trim());
            EXPECT_TRUE(test::is_valid(objects));
            EXPECT_LE(objects.stats().waiting, 6U);
        });
        on_threads(6, [&](std::size_t i) {
            for (std::size_t round = 0; round < scaled(2'000, 60); ++round)
                if (pointer const p = i % 2 == 0 ? objects.acquire_for(std::chrono::minutes(1))
                                                 : objects.acquire_for(std::chrono::microseconds(round * 50));
                    p != nullptr)
                    use_alone(p);
                else
                    EXPECT_EQ(i % 2, 1U) << "a waiter was lost";
        });
    }
    EXPECT_EQ(objects.in_use(), 0U);
    EXPECT_TRUE(test::is_valid(objects));
}

}  // namespace
