// SPDX-License-Identifier: BSL-1.0
// After reserve, and where objects are recycled: neither malloc nor a system call, control blocks included. Replaces malloc
// in its own program.

#include "pooled/compat/boost_intrusive_pool.hpp"
#include "pooled/compat/recycle.hpp"
#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/internals.hpp"
#include "support/malloc_counter.hpp"
#include "support/pool_kinds.hpp"
#include "support/sanitizer.hpp"
#include "support/syscall_counter.hpp"
#include "unit/object/kinds.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>

#if POOLED_HAS_STOP_TOKEN
#include <stop_token>
#endif

using namespace std::chrono_literals;

namespace {

struct packet {
    char bytes[48];
};

constexpr std::size_t k_count = 20'000;

// Static: a container of the test's own must not call malloc either.
std::array<std::shared_ptr<packet>, k_count> g_packets;

template <class Pool>
void churn(Pool& pool) {
    for (int round = 0; round < 3; ++round) {
        for (auto& p : g_packets)
            p = pool.template make_shared_for_overwrite<packet>();
        for (std::size_t i = 0; i < k_count; i += 2)
            g_packets[i].reset();
        for (std::size_t i = 0; i < k_count; i += 2)
            g_packets[i] = pool.template make_shared<packet>();
        for (auto& p : g_packets)
            p.reset();
    }
}

template <class Pool>
class after_reserve : public testing::Test {};
TYPED_TEST_SUITE(after_reserve, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(after_reserve, nothing_calls_malloc) {
    TypeParam pool;
    pool.template reserve<packet>(k_count);
    test::expect_no_malloc([&] { churn(pool); });
}

TYPED_TEST(after_reserve, nothing_calls_the_system) {
    std::unique_ptr<TypeParam> pool;
    test::expect_no_syscalls(
        [&] {
            pool = std::make_unique<TypeParam>();
            pool->template reserve<packet>(k_count);
        },
        [&] { churn(*pool); });
}

struct linked {
    std::shared_ptr<linked> next;
};

// Deeper than the stack: the last drops are deferred.
TYPED_TEST(after_reserve, a_long_list_calls_neither_malloc_nor_the_system) {
    constexpr std::size_t k_long = 200'000;
    std::unique_ptr<TypeParam> pool;
    auto const prepare = [&] {
        pool = std::make_unique<TypeParam>();
        pool->template reserve<linked>(k_long);
    };
    auto const use = [&] {
        std::shared_ptr<linked> head;
        for (std::size_t i = 0; i < k_long; ++i)
            head = pool->template make_shared<linked>(std::move(head));
    };
    test::expect_no_syscalls(prepare, use);
    prepare();
    test::expect_no_malloc(use);
}

template <class Pool>
class unique_ptr_that_becomes_counted : public testing::Test {};
TYPED_TEST_SUITE(unique_ptr_that_becomes_counted, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(unique_ptr_that_becomes_counted, calls_neither_malloc_nor_the_pool) {
    constexpr std::size_t k_objects = 1000;
    std::array<pooled::unique_ptr<packet>, k_objects> unique;
    std::array<packet*, k_objects> places{};
    std::array<pooled::rc_ptr<packet>, k_objects / 2> counted;
    std::array<pooled::local_rc_ptr<packet>, k_objects / 2> local;
    TypeParam pool;
    for (std::size_t i = 0; i < k_objects; ++i) {
        unique[i] = pool.template make_unique<packet>();
        places[i] = unique[i].get();
    }
    auto const pool_before = pool.stats();
    test::expect_no_malloc([&] {
        for (std::size_t i = 0; i < k_objects / 2; ++i) {
            counted[i] = std::move(unique[2 * i]);
            local[i] = std::move(unique[2 * i + 1]);
        }
    });
    auto const pool_after = pool.stats();
    EXPECT_EQ(pool_after.in_use, k_objects);
    // A block that was taken meanwhile would be detected here, a returned one by the object's address.
    EXPECT_EQ(pool_after.high_water, pool_before.high_water);
    EXPECT_EQ(pool_after.refills, pool_before.refills);
    for (std::size_t i = 0; i < k_objects / 2; ++i) {
        EXPECT_EQ(counted[i].get(), places[2 * i]);
        EXPECT_EQ(local[i].get(), places[2 * i + 1]);
    }
}

TEST(after_reserve_in_the_default_pool, nothing_calls_malloc_or_the_system) {
    auto const use = [] {
        for (auto& p : g_packets)
            p = pooled::make_shared<packet>();
        for (auto& p : g_packets)
            p.reset();
    };
    pooled::default_pool().reserve<packet>(k_count);
    test::expect_no_malloc(use);
    test::expect_no_syscalls([] {}, use);
}

TEST(after_reserve_in_a_bounded_pool, nothing_calls_the_system_until_exhaustion) {
    std::unique_ptr<pooled::pool> pool;
    test::expect_no_syscalls(
        [&] {
            pool = std::make_unique<pooled::pool>(pooled::pool_options{.max_bytes = 4 << 20});
            pool->reserve<packet>(k_count);
        },
        [&] { churn(*pool); });
}

// A thread's cache of a class has space for the addresses of 2 to 256 blocks, less for larger ones: their arrays are of several sizes.
template <std::size_t Bytes>
void no_object_of_a_size_calls_the_system() {
    constexpr std::size_t k_objects = 400;
    struct object {
        char bytes[Bytes];
    };
    static std::array<std::shared_ptr<object>, k_objects> objects;
    SCOPED_TRACE(Bytes);
    std::unique_ptr<pooled::pool> pool;
    test::expect_no_syscalls(
        [&] {
            pool = std::make_unique<pooled::pool>();
            pool->reserve<object>(k_objects);
        },
        [&] {
            for (auto& p : objects)
                p = pool->make_shared_for_overwrite<object>();
            for (auto& p : objects)
                p.reset();
        });
}

TEST(after_reserve_in_a_pool, objects_of_every_size_do_not_call_the_system) {
    no_object_of_a_size_calls_the_system<1>();
    no_object_of_a_size_calls_the_system<400>();
    no_object_of_a_size_calls_the_system<700>();
    no_object_of_a_size_calls_the_system<1'500>();
    no_object_of_a_size_calls_the_system<3'000>();
    no_object_of_a_size_calls_the_system<9'000>();
    no_object_of_a_size_calls_the_system<30'000>();
    no_object_of_a_size_calls_the_system<50'000>();
}

// Hands 100,000 objects to another thread.
test::syscalls_seen hand_over() {
    // One slot of an object in flight each: a ring without waits in the kernel.
    static std::array<std::shared_ptr<packet>, 64> ring;
    static std::atomic<std::size_t> written{0};
    static std::atomic<std::size_t> read{0};
    static std::atomic<bool> go{false};
    static std::atomic<bool> stop{false};
    std::unique_ptr<pooled::pool> pool;
    std::unique_ptr<std::thread> consumer;
    return test::count_syscalls(
        [&] {
            pool = std::make_unique<pooled::pool>();
            pool->reserve<packet>(k_count);
            consumer = std::make_unique<std::thread>([&] {
                ring[0] = pool->make_shared<packet>();
                ring[0].reset();
                go = true;
                while (!stop) {
                    std::size_t const i = read.load();
                    if (i == written.load()) continue;
                    ring[i % ring.size()].reset();
                    read.store(i + 1);
                }
                go = false;
                for (;;) {  // the process exits under it: ending a thread calls the system
                }
            });
            while (!go) {}
        },
        [&] {
            for (std::size_t i = 0; i < 5 * k_count; ++i) {
                while (i - read.load() == ring.size()) {}
                ring[i % ring.size()] = pool->make_shared<packet>();
                written.store(i + 1);
            }
            while (read.load() != 5 * k_count) {}
            stop = true;
            while (go) {}
        });
}

// A thread that finds a lock taken spins for up to a millisecond before it sleeps. On a busy machine its holder may be preempted for
// longer, so one hand-over of ten without a call suffices.
TEST(after_reserve_in_a_pool, handing_objects_to_another_thread_does_not_call_the_system) {
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "both threads spin";
    test::syscalls_seen seen;
    for (int attempt = 0; attempt < 10 && (attempt == 0 || seen.count != 0); ++attempt) {
        seen = hand_over();
        if (!seen.is_supported) GTEST_SKIP() << "this system or build cannot count system calls";
        EXPECT_TRUE(seen.has_finished);
    }
    EXPECT_EQ(seen.count, 0) << "the first was number " << seen.first;
}

// Deferred objects are recorded in the library's own memory, which is kept for the next time.
struct owner {
    ~owner() { child.reset(); }
    std::shared_ptr<owner> child;
};

TEST(after_reserve_in_a_pool, what_has_been_gathered_once_is_gathered_again_without_malloc_or_the_system) {
    constexpr std::size_t k_owners = 5'000;
    static std::array<std::shared_ptr<owner>, k_owners> owners;
    std::unique_ptr<pooled::pool> pool;
    auto const gather = [&] {
        for (auto& p : owners) {
            p = pool->make_shared<owner>();
            p->child = pool->make_shared<owner>();
        }
        pooled::reclaim_scope const scope;
        for (auto& p : owners)
            p.reset();
    };
    auto const prepare = [&] {
        pool = std::make_unique<pooled::pool>();
        pool->reserve<owner>(2 * k_owners);
        gather();
    };
    auto const again = [&] {
        for (int round = 0; round < 100; ++round)
            gather();
    };
    test::expect_no_syscalls(prepare, again);
    prepare();
    test::expect_no_malloc(again);
}

TEST(an_incremental_pool, takes_the_memory_for_a_first_drop_when_it_is_reserved_or_made) {
    std::unique_ptr<pooled::pool> pool;
    std::shared_ptr<owner> p;
    for (bool const is_made : {false, true})
        test::expect_no_syscalls(
            [&] {
                pool = std::make_unique<pooled::pool>(
                    pooled::pool_options{.teardown = pooled::teardown::incremental});
                if (is_made)
                    p = pool->make_shared<owner>();
                else
                    pool->reserve<owner>(1);
            },
            [&] {
                if (!is_made) p = pool->make_shared<owner>();
                p.reset();
            });
}

// A recycle pool with idle objects calls malloc neither in allocate() nor at a release, the control block of std::shared_ptr
// included. Without memory for its list it destroys objects.

struct shares_itself : std::enable_shared_from_this<shares_itself> {
    std::array<char, 100> bytes{};
};

template <class Pool>
class settled_recycle_pool : public testing::Test {};
using pools =
    testing::Types<recycle::shared_pool<int>, recycle::shared_pool<shares_itself>, recycle::unique_pool<int>>;
TYPED_TEST_SUITE(settled_recycle_pool, pools);

TYPED_TEST(settled_recycle_pool, calls_no_malloc) {
    TypeParam pool;
    std::array<decltype(pool.allocate()), 100> out;
    auto const round = [&] {
        for (auto& p : out)
            p = pool.allocate();
        for (auto& p : out)
            p.reset();
    };
    round();
    test::expect_no_malloc([&] {
        for (int i = 0; i < 100; ++i)
            round();
    });
}

// The list of idle objects needs memory when it grows. It is refused here from a certain length on.
TEST(recycle_without_memory, destroys_what_it_has_no_memory_to_keep) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer does not work with a limit on addresses";
    constexpr std::size_t k_objects = 1U << 17;  // their list takes 2 MiB
    static int destroyed = 0;
    struct tally {
        ~tally() { ++destroyed; }
    };
    tally the_only_one;
    {
        recycle::shared_pool<tally> pool(
            [&] { return std::shared_ptr<tally>(std::shared_ptr<void>(), &the_only_one); });
        std::vector<std::shared_ptr<tally>> out(k_objects);
        for (auto& p : out)
            p = pool.allocate();

        rlimit before{};
        ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
        rlimit const none{1, before.rlim_max};
        ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
        for (auto& p : out)
            p.reset();
        ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);

        EXPECT_GT(pool.unused_resources(), 0U);
        EXPECT_LT(pool.unused_resources(), k_objects);
        EXPECT_NE(pool.allocate(), nullptr);
    }
    EXPECT_EQ(destroyed, 0);
}

// Object pools: acquire and release, and no system call once the pool has settled.

struct buffer : std::enable_shared_from_this<buffer> {
    char bytes[200];
};

constexpr std::size_t k_buffers = 500;
std::array<std::shared_ptr<buffer>, k_buffers> g_shared;

template <class Pool>
void use_and_recycle(Pool& pool) {
    static std::array<pooled::unique_ptr<buffer>, k_buffers> unique;
    static std::array<typename Pool::rc_pointer, k_buffers> counted;
    for (int round = 0; round < 20; ++round) {
        for (auto& p : g_shared)
            p = pool.acquire();
        for (auto& p : unique)
            p = pool.try_acquire_unique();
        for (auto& p : g_shared)
            p.reset();
        for (auto& p : counted)
            p = pool.acquire_rc();
        for (auto& p : counted)
            p.reset();
        for (auto& p : g_shared)
            p = pool.acquire_for(1s);
        for (auto& p : g_shared) {
            std::weak_ptr<buffer> const watcher = p;
            p.reset();
        }
        for (auto& p : unique)
            p.reset();
    }
}

template <class Kind>
class acquire_and_release : public testing::Test {};
TYPED_TEST_SUITE(acquire_and_release, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(acquire_and_release, call_no_malloc_not_even_the_first_time) {
    typename TypeParam::template pool<buffer> pool;
    test::expect_no_malloc([&] { use_and_recycle(pool); });
}

TEST(acquire_and_wait, call_no_malloc) {
    if (!test::k_counts_malloc) GTEST_SKIP() << "this build cannot count mallocs";
    pooled::object_pool<buffer> pool({.max_objects = 1});
    auto const held = pool.acquire();
#if POOLED_HAS_STOP_TOKEN
    std::stop_source source;
    std::atomic<bool> is_started{false};
    std::atomic<bool> is_counted{false};
    std::jthread other([&] {
        is_started = true;
        while (pool.waiting() == 0)
            std::this_thread::yield();
        source.request_stop();
        while (!is_counted)  // a thread that ends frees what its start allocated
            std::this_thread::yield();
    });
    while (!is_started)
        std::this_thread::yield();
#endif
    auto const before = test::malloc_calls_so_far();
    EXPECT_FALSE(pool.acquire_for(0s));
#if POOLED_HAS_STOP_TOKEN
    EXPECT_FALSE(pool.acquire(source.get_token()));
#endif
    EXPECT_FALSE(pool.acquire_until(std::chrono::steady_clock::now() + 1ms));
    EXPECT_EQ(test::malloc_calls_so_far() - before, 0U);
#if POOLED_HAS_STOP_TOKEN
    is_counted = true;
#endif
}

TYPED_TEST(acquire_and_release, call_no_system_once_the_pool_has_settled) {
    std::unique_ptr<typename TypeParam::template pool<buffer>> pool;
    test::expect_no_syscalls(
        [&] {
            pool = std::make_unique<typename TypeParam::template pool<buffer>>(
                pooled::object_pool_options{.initial_objects = 2 * k_buffers});
            test::settle(*pool);
            use_and_recycle(*pool);
        },
        [&] { use_and_recycle(*pool); });
}

// A memorypool with free items, and one that grows: items are blocks of the default pool.

struct pooled_item : memorypool::boost_intrusive_pool_item {
    void init(int n) { number = n; }
    int number = 0;
    std::array<char, 100> bytes{};
};
using items = memorypool::boost_intrusive_pool<pooled_item>;

template <std::size_t Count>
void take_and_drop(items& pool) {
    std::array<boost::intrusive_ptr<pooled_item>, Count> out;
    for (int round = 0; round < 10; ++round) {
        for (auto& p : out) {
            p = pool.allocate_through_init(round);
            ASSERT_NE(p, nullptr);
        }
        for (auto& p : out)
            p.reset();
    }
}

TEST(memorypool_with_free_items, calls_no_malloc) {
    items pool(1024, 64);
    test::expect_no_malloc([&] { take_and_drop<1000>(pool); });
    EXPECT_EQ(pool.enlarge_steps_done(), 1U);
}

TEST(memorypool_with_free_items, calls_no_malloc_on_a_thread_that_uses_it_first) {
    if (!test::k_counts_malloc) GTEST_SKIP() << "this build cannot count mallocs";
    items pool(1024, 64);
    take_and_drop<100>(pool);
    test::malloc_calls calls = 0;
    std::thread([&] {
        auto const before = test::malloc_calls_so_far();
        take_and_drop<100>(pool);
        calls = test::malloc_calls_so_far() - before;
    }).join();
    EXPECT_EQ(calls, 0U);
}

TEST(memorypool_that_grows, calls_no_malloc) {
    items pool(1, 1);
    test::expect_no_malloc([&] { take_and_drop<1000>(pool); });
    EXPECT_EQ(pool.enlarge_steps_done(), pool.capacity());
    EXPECT_GE(pool.capacity(), 1000U);
}

// After reserve<T>(n), any mixture of objects of T needs neither upstream nor malloc, whatever was before and whatever other
// types do meanwhile.

struct word {
    std::size_t value = 1;
};
struct letter {
    char bytes[300];
};
struct frame {
    char bytes[200'000];
};

template <class T, class Pool>
struct mixture {
    std::vector<std::shared_ptr<T>> shared;
    std::vector<pooled::unique_ptr<T>> unique;
    std::vector<decltype(std::declval<Pool&>().template make_rc<T>())> counted;

    explicit mixture(std::size_t count) {
        shared.reserve(count);
        unique.reserve(count);
        counted.reserve(count);
    }
    void make(Pool& pool, std::size_t count, std::size_t kinds) {
        for (std::size_t i = 0; i < count; ++i) {
            if (kinds == 1 || (kinds == 4 && i % 3 == 0))
                shared.push_back(pool.template make_shared<T>());
            else if (kinds == 2 || (kinds == 4 && i % 3 == 1))
                unique.push_back(pool.template make_unique<T>());
            else
                counted.push_back(pool.template make_rc<T>());
        }
    }
    void drop() {
        shared.clear();
        unique.clear();
        counted.clear();
    }
};

template <class Pool>
class reservation : public testing::Test {
protected:
    template <class T>
    void expect_nothing_taken(Pool& pool, std::size_t count) {
        mixture<T, Pool> objects(count);
        for (std::size_t const kinds : {1U, 2U, 3U, 4U}) {
            std::size_t const calls = upstream.allocations();
            auto const mallocs = test::malloc_calls_so_far();
            objects.make(pool, count, kinds);
            EXPECT_TRUE(!test::k_counts_malloc || test::malloc_calls_so_far() == mallocs) << kinds;
            EXPECT_EQ(upstream.allocations(), calls) << "kinds: " << kinds;
            objects.drop();
        }
    }
    test::counting_upstream upstream;
};
TYPED_TEST_SUITE(reservation, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(reservation, serves_any_mixture_of_pointers) {
    TypeParam pool{{.upstream = &this->upstream}};
    pool.template reserve<word>(10'000);
    this->template expect_nothing_taken<word>(pool, 10'000);
    pool.template reserve<letter>(1'000);
    this->template expect_nothing_taken<letter>(pool, 1'000);
    pool.template reserve<frame>(5);
    this->template expect_nothing_taken<frame>(pool, 5);
    EXPECT_TRUE(test::is_valid(pool));
}

// Sizes at which the blocks of the pointers' kinds fall on either side of a region's size.
template <std::size_t Bytes>
struct sized {
    char bytes[Bytes];
};
TYPED_TEST(reservation, serves_any_mixture_of_pointers_to_large_objects_of_any_size) {
    TypeParam pool{{.upstream = &this->upstream}};
    auto const check = [&]<std::size_t Bytes>(sized<Bytes> const*) {
        pool.template reserve<sized<Bytes>>(2);
        this->template expect_nothing_taken<sized<Bytes>>(pool, 2);
        pool.trim();
    };
    check(static_cast<sized<32'740> const*>(nullptr));
    check(static_cast<sized<32'760> const*>(nullptr));
    check(static_cast<sized<45'040> const*>(nullptr));
    check(static_cast<sized<45'050> const*>(nullptr));
    check(static_cast<sized<49'130> const*>(nullptr));
    check(static_cast<sized<49'140> const*>(nullptr));
    check(static_cast<sized<65'520> const*>(nullptr));
    check(static_cast<sized<65'530> const*>(nullptr));
}

TYPED_TEST(reservation, is_kept_from_other_types) {
    TypeParam pool{{.upstream = &this->upstream}};
    pool.template reserve<word>(10'000);
    pool.template reserve<frame>(3);
    test::held_blocks others(pool, 1500);
    test::held_blocks large(pool, 180'000);
    others.take(3'000);
    large.take(5);
    this->template expect_nothing_taken<word>(pool, 10'000);
    this->template expect_nothing_taken<frame>(pool, 3);
}

// Free blocks that were there before count. When the objects among which they lie are dropped, too, their slabs are empty,
// and another type could take them.
TYPED_TEST(reservation, that_counted_free_blocks_is_kept_when_their_slabs_empty) {
    TypeParam pool{{.chunk_bytes = 64 << 10, .upstream = &this->upstream}};
    constexpr std::size_t k_blocks = 20'000;
    constexpr std::size_t k_reserved = 15'000;
    test::held_blocks blocks(pool, 48, 8);
    blocks.take(k_blocks);
    // One block in five hundred stays: nearly all are free, and no slab is.
    for (std::size_t i = 0; i < k_blocks; ++i)
        if (i % 500 != 0) pool.deallocate(blocks[i], 48, 8);
    pool.reserve_bytes(k_reserved, 48, 8);
    for (std::size_t i = 0; i < k_blocks; i += 500)
        pool.deallocate(blocks[i], 48, 8);
    blocks.clear();
    test::held_blocks others(pool, 1500);
    others.take(2'000);
    std::size_t const calls = this->upstream.allocations();
    blocks.take(k_reserved);
    EXPECT_EQ(this->upstream.allocations(), calls);
}

long page_faults() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
}

TYPED_TEST(reservation, that_is_touched_leaves_no_page_fault) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's shadow memory faults, too";
    TypeParam pool{{.touch_reserved = true}};
    constexpr std::size_t k_objects = 100'000;
    pool.template reserve<word>(k_objects);
    pool.template reserve<frame>(10);
    static std::array<std::shared_ptr<word>, k_objects> objects;
    static std::array<std::shared_ptr<frame>, 10> frames;
    for (auto& p : objects)
        p = nullptr;  // the array's own pages
    for (auto& p : frames)
        p = nullptr;
    long const before = page_faults();
    for (auto& p : objects)
        p = pool.template make_shared<word>();
    for (auto& p : frames)
        p = pool.template make_shared<frame>();
    // 100,000 words have 600 pages. The pool's own records may take some; the checked build's two maps have 8 pages each, a bit for 16
    // bytes, and each is read, then written.
    EXPECT_LE(page_faults() - before, POOLED_CHECKED ? 4 + 2 * 8 * 2 : 4);
    for (auto& p : objects)
        p.reset();
    for (auto& p : frames)
        p.reset();
}

}  // namespace
