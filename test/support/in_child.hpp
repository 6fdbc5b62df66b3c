// SPDX-License-Identifier: BSL-1.0
#pragma once

// Runs something in a forked child, for what must work there.
//
//   EXPECT_EQ(test::in_child([&] { return test::is_valid(pool); }), 0);

#include <concepts>

#if !defined(_WIN32)
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace test {

#if defined(_WIN32)
// There is no fork: what a test does in a child, it leaves out.
template <class Function>
[[nodiscard]] int in_child(Function&&, unsigned = 60) {
    return 0;
}
#else

// The exit status of a child; 1000 plus a signal's number if that ended it; -1: there is no child.
[[nodiscard]] inline int status_of(pid_t child) {
    int status = -1;
    if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// The status of a child that ends with the result of `function`: a number, or true for 0 and false for 1. An alarm ends a child
// that hangs.
template <class Function>
[[nodiscard]] int in_child(Function&& function, unsigned seconds = 60) {
    pid_t const child = ::fork();
    if (child == 0) {
        ::alarm(seconds);
        auto const result = function();
        if constexpr (std::same_as<decltype(result), bool const>)
            ::_exit(result ? 0 : 1);
        else
            ::_exit(static_cast<int>(result));
    }
    return status_of(child);
}
#endif

}  // namespace test
