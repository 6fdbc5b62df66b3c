// SPDX-License-Identifier: BSL-1.0
// What happens to the process around the pools: a sandbox that closes after first use, children that share memory, threads
// and processes that end in unusual ways. Each test is a process of its own.

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/sanitizer.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>
#include <spawn.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <memory>
#include <memory_resource>
#include <stdexcept>
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

#if POOLED_STATIC || POOLED_SHARED
// Of a static object, before any pool: 0 if the process may use the barrier. With other threads, the kernel would take 12 ms to allow it.
long const g_barrier_at_start = ::syscall(__NR_membarrier, 8, 0, 0);  // MEMBARRIER_CMD_PRIVATE_EXPEDITED

TEST(a_program_with_the_compiled_library, may_use_the_barrier_before_its_first_pool) {
    if (POOLED_HAS_MEMBARRIER == 0) GTEST_SKIP() << "there is none";
    EXPECT_EQ(g_barrier_at_start, 0);
}
#endif

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
        int other_status = 0;
        test::sleeper other;
        other.run([&] {
            for (int i = 0; i < 5000; ++i)  // until the pool is not at its bound any more
                static_cast<void>(bounded.make_shared<node>());
            for (int i = 0; i < 100; ++i) {
                static_cast<void>(incremental.make_shared<node>());
                static_cast<void>(strings.acquire());
            }
            if (count_blocks(bounded) != capacity) other_status = 1;
        });
        if (!refuse_membarrier()) return 77;
        errno = 77;  // a drop may need the barrier
        if (count_blocks(bounded) != capacity) return 2;
        if (!pooled::detail::platform::is_barrier_refused()) return 3;
        if (errno != 77) return 8;
        std::vector<std::shared_ptr<std::string>> all;
        while (auto one = strings.try_acquire())
            all.push_back(std::move(one));
        if (all.size() != 50) return 4;
        all.clear();
        incremental.drain();
        if (incremental.stats().in_use != 0) return 5;
        static_cast<void>(bounded.trim());
        // Its cached blocks were taken: its own calls take the lock.
        other.run([&] {
            for (int i = 0; i < 1000; ++i) {
                static_cast<void>(bounded.make_shared<node>());
                static_cast<void>(strings.acquire());
            }
        });
        other.end();
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

// docs/system-calls.md, and what the C library needs besides: for the thread, malloc and the exit.
[[nodiscard]] bool kill_at_other_calls() {
    constexpr int k_listed[] = {__NR_mmap,
                                __NR_munmap,
                                __NR_madvise,
                                __NR_mincore,
                                __NR_sched_getscheduler,
                                __NR_membarrier,
                                __NR_futex,
                                __NR_sched_yield,
                                __NR_clock_nanosleep,
                                __NR_clock_gettime,
                                __NR_sysinfo,
                                __NR_getrandom,
                                __NR_getcpu,
                                __NR_sched_getaffinity,
                                __NR_openat,
                                __NR_newfstatat,
                                __NR_read,
                                __NR_close,
                                __NR_prlimit64,
                                __NR_process_vm_readv,
                                __NR_write,
                                __NR_brk,
                                __NR_mprotect,
                                __NR_exit,
                                __NR_exit_group,
                                __NR_rt_sigprocmask};
    std::vector<sock_filter> filter{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    for (int const call : k_listed) {
        filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
        filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    sock_fprog const program{static_cast<unsigned short>(filter.size()), filter.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

TEST(a_sandbox, that_kills_a_process_for_any_call_that_the_documentation_does_not_list_never_does) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own threads do not survive a fork";
    int const status = test::in_child([] {
        test::sleeper other;
        other.run([] {});
        if (!kill_at_other_calls()) return 77;
        auto const list = [] {
            std::shared_ptr<node> head;
            for (int i = 0; i < 20'000; ++i) {
                auto next = pooled::make_shared<node>();
                next->next = std::move(head);
                head = std::move(next);
            }
        };
        list();
        other.run(list);
        pooled::pool bounded{{.name = "bounded", .max_bytes = 2U << 20}};
        std::size_t const capacity = count_blocks(bounded);
        other.run([&] { static_cast<void>(bounded.make_shared<node>()); });
        if (count_blocks(bounded) != capacity) return 1;
        pooled::object_pool<std::string> strings{{.name = "strings", .max_objects = 1}};
        auto const kept = strings.acquire();
        if (strings.acquire_for(std::chrono::milliseconds(1)) != nullptr) return 2;
        pooled::pool reserved{{.name = "reserved", .touch_reserved = true}};
        reserved.reserve<node>(100'000);
        bounded.trim();
        pooled::default_pool().deallocate(pooled::default_pool().allocate(300U << 20), 300U << 20);
        pooled::default_pool().trim();
        return 0;
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

// Upstream's allocate() is a cancellation point.
TEST(a_thread, that_is_cancelled_in_an_upstream_call_leaves_the_pool_as_it_was) {
    if (test::k_sanitized) GTEST_SKIP() << "sanitizers do not follow a cancelled thread";
    if (!can_unwind_threads()) GTEST_SKIP() << "this program's two unwinders crash without a pool, too";
    std::atomic<bool> waits{false};
    std::atomic<bool> is_inside{false};
    test::hooked_upstream upstream(*std::pmr::new_delete_resource(), [&](std::size_t) {
        while (waits) {
            is_inside = true;
            ::usleep(100);
            ::pthread_testcancel();
        }
    });
    pooled::pool pool{{.name = "waits", .upstream = &upstream}};
    for (std::size_t const bytes : {std::size_t{48}, std::size_t{300'000}}) {
        auto const before = pool.stats();
        waits = true;
        is_inside = false;
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
        while (!is_inside)
            std::this_thread::yield();
        ASSERT_EQ(::pthread_cancel(thread), 0);
        void* result = nullptr;
        ASSERT_EQ(::pthread_join(thread, &result), 0);
        EXPECT_EQ(result, PTHREAD_CANCELED);
        waits = false;
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
    test::sleeper other;
    other.run([&] {
        far.pool.deallocate(far.pool.allocate(48), 48);
        of_other = t_state().far_caches;
        count = of_other->count;
    });
    // The arena returns the piece that was freed last.
    EXPECT_EQ(
        test::in_child([] { return g_metadata.try_allocate(far_array::bytes(count)) == of_other ? 7 : 8; }),
        7);
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

// The default pool made with other options, and what the environment says about huge pages: each in a child that has made no pool yet.

TEST(configure_default_pool, applies_its_options_to_the_first_use_and_all_later_ones) {
    if (test::k_sanitized) GTEST_SKIP() << "blocks come from the sanitizer's malloc";
    EXPECT_EQ(test::in_child([] {
                  static test::counting_upstream upstream;
                  if (!pooled::configure_default_pool(
                          {.name = "mine", .max_bytes = 1U << 20, .upstream = &upstream}))
                      return 1;
                  std::vector<std::shared_ptr<int[]>> all;
                  try {
                      for (;;)
                          all.push_back(pooled::make_shared<int[]>(250));
                  } catch (pooled::exhausted const&) {}
                  if (all.size() < 500 || all.size() > 1050) return 2;
                  if (upstream.bytes() == 0 || upstream.bytes() > 1U << 20) return 3;
                  return pooled::default_pool().name() == "mine" ? 0 : 4;
              }),
              0);
}

TEST(configure_default_pool, keeps_the_name_when_it_is_given_none) {
    EXPECT_EQ(test::in_child([] {
                  if (!pooled::configure_default_pool({.max_bytes = 1U << 20})) return 1;
                  pooled::pool_stats const stats = pooled::default_pool().stats();
                  return stats.name == "default" && stats.max_bytes == 1U << 20 ? 0 : 2;
              }),
              0);
}

TEST(configure_default_pool, is_refused_from_the_first_use_on) {
    EXPECT_EQ(test::in_child([] {
                  auto const p = pooled::make_shared<int>(1);
                  if (pooled::configure_default_pool({.max_bytes = 1U << 20})) return 1;
                  return pooled::default_pool().stats().max_bytes == 0 ? 0 : 2;
              }),
              0);
    EXPECT_EQ(test::in_child([] {
                  if (!pooled::configure_default_pool({})) return 1;
                  return pooled::configure_default_pool({}) ? 2 : 0;
              }),
              0);
}

TEST(configure_default_pool, works_after_other_pools_were_made) {
    EXPECT_EQ(test::in_child([] {
                  pooled::pool other;
                  auto const p = other.make_shared<int>(1);
                  return pooled::configure_default_pool({.max_bytes = 1U << 20}) ? 0 : 1;
              }),
              0);
}

TEST(configure_default_pool, refuses_options_that_make_no_sense_and_can_be_called_again) {
    EXPECT_EQ(test::in_child([] {
                  int refused = 0;
                  for (pooled::pool_options const& wrong :
                       {pooled::pool_options{.chunk_bytes = ~std::size_t{0}},
                        pooled::pool_options{.teardown = pooled::teardown::incremental},
                        pooled::pool_options{.teardown = pooled::teardown::unordered}}) {
                      try {
                          static_cast<void>(pooled::configure_default_pool(wrong));
                      } catch (std::invalid_argument const&) {
                          ++refused;
                      }
                  }
                  return refused == 3 && pooled::configure_default_pool({.name = "right"}) ? 0 : 1;
              }),
              0);
}

// In a child with POOLED_HUGE_PAGES=value; null: without. In how many MiB of mappings that ask for huge pages some of `blocks` lie, each
// of `bytes`. `out`: what the child wrote to the standard error stream. `is_slow`: a page takes longer than a page fault.
int huge_mib(char const* value, std::string& out, int blocks = 8192, std::size_t bytes = 4096,
             bool is_slow = false) {
    testing::internal::CaptureStderr();
    int const status = test::in_child([=] {
        if (value != nullptr)
            ::setenv("POOLED_HUGE_PAGES", value, 1);
        else
            ::unsetenv("POOLED_HUGE_PAGES");
        pooled::pool pool;
        pooled::pool second;
        for (int i = 0; i < blocks; ++i) {
            *static_cast<char*>(pool.allocate(bytes)) = 1;
            if (is_slow) std::this_thread::sleep_for(std::chrono::microseconds(10));
        }
        static_cast<void>(second.allocate(48));
        int kib = 0;
        std::ifstream maps("/proc/self/smaps");
        for (std::string line, size; std::getline(maps, line);) {
            if (line.starts_with("Size:")) size = line.substr(5);
            if (line.starts_with("VmFlags:") && line.find(" hg") != std::string::npos) kib += std::stoi(size);
        }
        return kib / 1024;
    });
    out = testing::internal::GetCapturedStderr();
    return status;
}

TEST(the_environment, turns_huge_pages_off) {
    if (test::k_sanitized) GTEST_SKIP() << "blocks come from the sanitizer's malloc";
    std::string out;
    if (huge_mib(nullptr, out) == 0) GTEST_SKIP() << "the system has no huge pages";
    EXPECT_EQ(out, "");
    EXPECT_GT(huge_mib("1", out), 0);
    EXPECT_EQ(out, "");
    EXPECT_EQ(huge_mib("0", out), 0);
    EXPECT_EQ(out, "");
    EXPECT_EQ(huge_mib("1", out, 200), 0) << "a pool of less than 1 MiB has small pages";
    EXPECT_EQ(huge_mib("1", out, 900, 4096, true), 0)
        << "so has one of less than 4 MiB, unless it fills quickly";
    EXPECT_EQ(huge_mib("1", out, 1, std::size_t{21} << 19), 10)
        << "not for the end, which the class of 12 MiB adds";
}

TEST(the_environment, is_ignored_with_one_message_when_it_makes_no_sense) {
    for (char const* const value : {"", "2", "no", "00", "0 ", "%s%n"}) {
        std::string out;
        bool const is_huge = huge_mib(value, out) > 0;
        std::string without;
        EXPECT_EQ(is_huge, huge_mib(nullptr, without) > 0);
        EXPECT_EQ(out, "pooled: the environment variable POOLED_HUGE_PAGES is \"" + std::string(value) +
                           "\" and is ignored; 0 turns huge pages off, 1 is the default\n");
        EXPECT_EQ(without, "");
    }
}

}  // namespace
