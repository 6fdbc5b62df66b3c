// SPDX-License-Identifier: BSL-1.0
// What happens to the process around the pools: a sandbox that closes after first use, children that share memory, threads
// and processes that end in unusual ways. Each test is a process of its own.

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>
#include <spawn.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <latch>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct node {
    std::shared_ptr<node> next;
    char bytes[40];
};

std::size_t count_blocks(pooled::pool& bounded) { return test::held_blocks(bounded, 1024).take_all(); }

#if defined(_LIBCPP_VERSION)
constexpr bool k_has_libcpp = true;
#else
constexpr bool k_has_libcpp = false;
#endif

// Whether a thread can end by pthread_exit() in a frame with a destructor, without any pool. The C library unwinds by libgcc_s; a
// program that also has LLVM's libunwind, which Debian's libc++ needs, ends there with SIGSEGV.
[[nodiscard]] bool can_unwind_threads() {
    return !k_has_libcpp || test::in_child([] {
                                struct frame {
                                    ~frame() { ::sched_yield(); }
                                };
                                pthread_t thread{};
                                auto const run = [](void*) -> void* {
                                    frame const unwound;
                                    ::pthread_exit(nullptr);
                                };
                                if (::pthread_create(&thread, nullptr, run, nullptr) != 0) return 1;
                                return ::pthread_join(thread, nullptr) == 0 ? 7 : 1;
                            }) == 7;
}

// From here on, in all threads.
[[nodiscard]] bool refuse_membarrier() {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog const program{static_cast<unsigned short>(std::size(filter)), filter};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

TEST(a_sandbox, that_refuses_membarrier_after_first_use_costs_the_caches_and_nothing_else) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own threads do not survive a fork";
    int const status = test::in_child([] {
        pooled::pool bounded{{.name = "bounded", .max_bytes = 2U << 20}};
        pooled::pool incremental{{.name = "later", .teardown = pooled::teardown::incremental}};
        pooled::object_pool<std::string> strings{{.name = "strings", .max_objects = 50}};
        std::size_t const capacity = count_blocks(bounded);
        std::latch has_cached(2);
        std::latch may_go_on(1);
        int other_status = 0;
        std::thread other([&] {
            for (int i = 0; i < 5000; ++i)  // until the pool is not at its bound any more
                static_cast<void>(bounded.make_shared<node>());
            for (int i = 0; i < 100; ++i) {
                static_cast<void>(incremental.make_shared<node>());
                static_cast<void>(strings.acquire());
            }
            if (count_blocks(bounded) != capacity) other_status = 1;
            has_cached.arrive_and_wait();
            may_go_on.wait();
            // Its cached blocks were taken: its own calls take the lock.
            for (int i = 0; i < 1000; ++i) {
                static_cast<void>(bounded.make_shared<node>());
                static_cast<void>(strings.acquire());
            }
        });
        has_cached.arrive_and_wait();
        if (!refuse_membarrier()) return 77;
        if (count_blocks(bounded) != capacity) return 2;
        if (!pooled::detail::platform::is_barrier_refused()) return 3;
        std::vector<std::shared_ptr<std::string>> all;
        while (auto one = strings.try_acquire())
            all.push_back(std::move(one));
        if (all.size() != 50) return 4;
        all.clear();
        incremental.drain();
        if (incremental.stats().in_use != 0) return 5;
        static_cast<void>(bounded.trim());
        may_go_on.count_down();
        other.join();
        std::thread([&] { static_cast<void>(bounded.make_shared<node>()); }).join();
        if (count_blocks(bounded) != capacity) return 6;
        auto survivor = [] {
            pooled::pool ends{{.name = "ends"}};
            return ends.make_shared<node>();
        }();
        survivor.reset();
        return test::is_valid(bounded) && test::is_valid(incremental) ? other_status : 7;
    });
    if (status == 77) GTEST_SKIP() << "seccomp is not available";
    EXPECT_EQ(status, 0);
}

[[gnu::noinline]] pid_t vfork_and_exit(int status) {
    pid_t const child = ::vfork();
    if (child == 0) ::_exit(status);
    return child;
}

TEST(a_child, of_vfork_or_posix_spawn_leaves_the_pools_of_its_parent_as_they_were) {
    pooled::pool pool{{.name = "parent's"}};
    auto const kept = pool.make_shared<int>(7);
    for (int i = 0; i < 20; ++i) {
        pid_t const vforked = vfork_and_exit(3);
        int status = 0;
        ASSERT_EQ(::waitpid(vforked, &status, 0), vforked);
        EXPECT_EQ(WEXITSTATUS(status), 3);

        char name[] = "true";
        char* const arguments[] = {name, nullptr};
        pid_t spawned = 0;
        ASSERT_EQ(::posix_spawnp(&spawned, "true", nullptr, nullptr, arguments, environ), 0);
        ASSERT_EQ(::waitpid(spawned, &status, 0), spawned);
        EXPECT_EQ(status, 0);
        std::thread([&] { static_cast<void>(pool.make_shared<node>()); }).join();
        static_cast<void>(pool.make_shared<node>());
    }
    EXPECT_EQ(*kept, 7);
    EXPECT_TRUE(test::is_valid(pool));
}

// Its allocate() is a cancellation point.
class waiting_upstream : public std::pmr::memory_resource {
public:
    std::atomic<bool> waits{false};
    std::atomic<bool> is_inside{false};

private:
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        while (waits) {
            is_inside = true;
            ::usleep(100);
            ::pthread_testcancel();
        }
        return ::operator new(bytes, std::align_val_t{align});
    }
    void do_deallocate(void* p, std::size_t, std::size_t align) override {
        ::operator delete(p, std::align_val_t{align});
    }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }
};

TEST(a_thread, that_is_cancelled_in_an_upstream_call_leaves_the_pool_as_it_was) {
    if (test::k_sanitized) GTEST_SKIP() << "sanitizers do not follow a cancelled thread";
    if (!can_unwind_threads()) GTEST_SKIP() << "this program's two unwinders crash without a pool, too";
    waiting_upstream upstream;
    pooled::pool pool{{.name = "waits", .upstream = &upstream}};
    for (std::size_t const bytes : {std::size_t{48}, std::size_t{300'000}}) {
        auto const before = pool.stats();
        upstream.waits = true;
        upstream.is_inside = false;
        std::pair<pooled::pool*, std::size_t> asked{&pool, bytes};
        pthread_t thread{};
        ASSERT_EQ(::pthread_create(
                      &thread, nullptr,
                      [](void* argument) -> void* {
                          auto const& [from, size] =
                              *static_cast<std::pair<pooled::pool*, std::size_t>*>(argument);
                          return from->allocate(size);
                      },
                      &asked),
                  0);
        while (!upstream.is_inside)
            std::this_thread::yield();
        ASSERT_EQ(::pthread_cancel(thread), 0);
        void* result = nullptr;
        ASSERT_EQ(::pthread_join(thread, &result), 0);
        EXPECT_EQ(result, PTHREAD_CANCELED);
        upstream.waits = false;
        EXPECT_EQ(pool.stats().upstream_bytes, before.upstream_bytes);
        EXPECT_EQ(pool.stats().in_use, 0U);
        void* const p = pool.allocate(bytes);
        pool.deallocate(p, bytes);
        EXPECT_TRUE(test::is_valid(pool));
    }
}

// A pool beyond the near slots, for which a thread has a far cache.
struct far_pool {
    pooled::pool pool{{.name = "far", .teardown = pooled::teardown::incremental}};
};

// What asynchronous cancellation may leave: a thread that ends within the gate of its cache.
TEST(a_thread, that_ends_within_its_gate_does_not_stop_another_one_from_closing_the_pool) {
    using namespace pooled::detail;
    auto pool = std::make_unique<pooled::pool>();
    pool_core& core = test::core_of(*pool);
    void* const kept = pool->allocate(48);  // the core lives on
    std::latch is_inside(1);
    std::thread inside([&] {
        pool->deallocate(pool->allocate(48), 48);
        ASSERT_TRUE(t_state().find(core.id())->gate.enter());
        is_inside.count_down();
        while (!core.is_closed())  // from here on, the other thread waits for this one
            std::this_thread::yield();
    });
    is_inside.wait();
    pool.reset();
    inside.join();
    EXPECT_TRUE(core.is_closed());
    pooled::detail::deallocate_found(kept);
}

TEST(a_thread, that_ends_within_its_far_gate_does_not_stop_a_fork) {
    using namespace pooled::detail;
    if (test::k_sanitized) GTEST_SKIP() << "the sanitizers fork with locks of their own";
    far_pool far;
    std::latch is_inside(1);
    std::thread inside([&] {
        far.pool.deallocate(far.pool.allocate(48), 48);
        ASSERT_TRUE(t_state().far_gate.enter());
        is_inside.count_down();
        while (!t_state().far_gate.is_stopped_for_fork())
            std::this_thread::yield();
    });
    is_inside.wait();
    EXPECT_EQ(test::in_child([] { return 7; }), 7);
    inside.join();
}

TEST(a_child, of_fork_frees_what_threads_that_it_does_not_have_kept_of_far_pools) {
    using namespace pooled::detail;
    if (test::k_sanitized) GTEST_SKIP() << "the sanitizers fork with locks of their own";
    far_pool far;
    static far_array* of_other = nullptr;
    static std::uint32_t count = 0;
    std::latch is_ready(1);
    std::latch is_over(1);
    std::thread other([&] {
        far.pool.deallocate(far.pool.allocate(48), 48);
        of_other = t_state().far_caches;
        count = of_other->count;
        is_ready.count_down();
        is_over.wait();
    });
    is_ready.wait();
    // The arena returns the piece that was freed last.
    EXPECT_EQ(
        test::in_child([] { return g_metadata.try_allocate(far_array::bytes(count)) == of_other ? 7 : 8; }),
        7);
    is_over.count_down();
    other.join();
}

TEST(a_thread, that_calls_pthread_exit_returns_what_it_has_cached) {
    if (test::k_sanitized) GTEST_SKIP() << "sanitizers do not follow pthread_exit through destructors";
    if (!can_unwind_threads()) GTEST_SKIP() << "this program's two unwinders crash without a pool, too";
    pooled::pool bounded{{.name = "bounded", .max_bytes = 1U << 20}};
    std::size_t const capacity = count_blocks(bounded);
    pthread_t thread{};
    ASSERT_EQ(::pthread_create(
                  &thread, nullptr,
                  [](void* pool) -> void* {
                      auto& mine = *static_cast<pooled::pool*>(pool);
                      static_cast<void>(count_blocks(mine));
                      auto const held = mine.make_shared<node>();  // destroyed while the thread unwinds
                      ::pthread_exit(held.get());
                  },
                  &bounded),
              0);
    ASSERT_EQ(::pthread_join(thread, nullptr), 0);
    EXPECT_EQ(bounded.stats().in_use, 0U);
    EXPECT_EQ(bounded.stats().threads, 1U);
    EXPECT_EQ(count_blocks(bounded), capacity);
}

TEST(a_process_DeathTest, that_calls_quick_exit_ends_with_threads_in_its_pools) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own threads do not survive a fork";
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            pooled::pool pool{{.name = "quick"}};
            static auto kept = pool.make_shared<node>();
            std::thread([&] {
                for (;;)
                    static_cast<void>(pool.make_shared<node>());
            }).detach();
            static_cast<void>(std::at_quick_exit([] { static_cast<void>(pooled::make_shared<node>()); }));
            std::quick_exit(42);
        },
        testing::ExitedWithCode(42), "");
}

}  // namespace
