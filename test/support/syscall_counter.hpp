// SPDX-License-Identifier: BSL-1.0
#pragma once

// Counts system calls, all of them, in a forked child. The kernel counts them (a seccomp filter that traps), so wrappers
// in the C library cannot hide one. A call made while counting fails with ENOSYS, is counted, and its number remembered.
//
//   test::expect_no_syscalls([] { ...prepare, threads included...; }, [] { ...counted... });
//
// The threads that `prepare` starts are counted too. While counting, no thread may wait in the kernel: spin.
// Sanitizers call the system by themselves: is_supported is then false.

#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <new>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#define POOLED_TEST_COUNTS_SYSCALLS 1
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#else
#define POOLED_TEST_COUNTS_SYSCALLS 0
#endif

namespace test {

struct syscalls_seen {
    bool is_supported = false;
    bool has_finished = false;  // false: the child died before the counted part had ended
    long count = 0;
    long first = -1;  // number of the first one
};

namespace detail {

struct shared_syscall_counts {
    std::atomic<long> count{0};
    std::atomic<long> first{-1};
    std::atomic<bool> is_filtered{false};
    std::atomic<bool> has_finished{false};
};

inline shared_syscall_counts* g_syscall_counts = nullptr;

#if POOLED_TEST_COUNTS_SYSCALLS
// Only what ends the child and what returns from the handler passes.
inline bool trap_all_syscalls() {
    struct sigaction action = {};
    action.sa_sigaction = [](int, siginfo_t* info, void*) {
        long expected = -1;
        g_syscall_counts->first.compare_exchange_strong(expected, info->si_syscall);
        ++g_syscall_counts->count;
    };
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (::sigaction(SIGSYS, &action, nullptr) != 0) return false;

    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_rt_sigreturn, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    sock_fprog const program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    return ::syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}
#endif

}  // namespace detail

template <class Prepare, class Counted>
[[nodiscard]] syscalls_seen count_syscalls(Prepare&& prepare, Counted&& counted) {
    syscalls_seen seen;
#if POOLED_TEST_COUNTS_SYSCALLS
    if constexpr (!k_sanitized) {
        void* const shared = ::mmap(nullptr, sizeof(detail::shared_syscall_counts), PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED) return seen;
        auto* const counts = detail::g_syscall_counts = ::new (shared) detail::shared_syscall_counts;
        pid_t const child = ::fork();
        if (child == 0) {
            prepare();
            counts->is_filtered = detail::trap_all_syscalls();
            if (counts->is_filtered) {
                counted();
                counts->has_finished = true;
            }
            ::_exit(0);
        }
        int status = 0;
        if (child > 0) ::waitpid(child, &status, 0);
        seen = {counts->is_filtered, counts->has_finished, counts->count, counts->first};
        ::munmap(shared, sizeof(detail::shared_syscall_counts));
    }
#else
    static_cast<void>(prepare);
    static_cast<void>(counted);
#endif
    return seen;
}

// Skips the test where calls cannot be counted.
inline void expect_none(syscalls_seen const& seen) {
    if (!seen.is_supported) GTEST_SKIP() << "this system or build cannot count system calls";
    EXPECT_EQ(seen.count, 0) << "the first was number " << seen.first;
    EXPECT_TRUE(seen.has_finished);
}
template <class Prepare, class Counted>
void expect_no_syscalls(Prepare&& prepare, Counted&& counted) {
    expect_none(count_syscalls(prepare, counted));
}

}  // namespace test
