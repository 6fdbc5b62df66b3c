// SPDX-License-Identifier: BSL-1.0
#pragma once

// Reports of misuse, caught by leaving the library with longjmp: one process then sees many. Include it before any
// header of the library, with POOLED_FAIL(message) defined as ::test::on_report(message) behind it.

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace test {

inline thread_local std::jmp_buf* t_on_report = nullptr;
inline thread_local std::string t_report;

[[noreturn]] inline void on_report(char const* message) noexcept {
    t_report = message;
    if (t_on_report == nullptr) {
        std::fputs(message, stderr);
        std::abort();
    }
    std::longjmp(*t_on_report, 1);
}

// What is reported while `action` runs; empty if nothing is. Nothing in `action` may need a destructor.
template <class Action>
[[nodiscard]] std::string report_of(Action&& action) {
    std::jmp_buf here;
    t_on_report = &here;
    t_report.clear();
    if (setjmp(here) == 0) action();
    t_on_report = nullptr;
    return t_report;
}

// POOLED_TEST_ITERATIONS says how many mistakes of each kind are made; 100,000 are run by hand.
[[nodiscard]] inline int iterations() {
    char const* const asked = std::getenv("POOLED_TEST_ITERATIONS");
    return asked != nullptr ? std::atoi(asked) : 3000;
}

}  // namespace test
