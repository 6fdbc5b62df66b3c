// SPDX-License-Identifier: BSL-1.0
#pragma once

// The common part of the tests of misuse: a pool named "packets", and sizes and choices from a fixed seed. To be included after
// caught_report.hpp and the library.

#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>

namespace test {

// Whether a report names the pool and contains `what`.
[[nodiscard]] inline bool is_report(std::string const& report, char const* what) {
    return report.find("pool 'packets'") != std::string::npos && report.find(what) != std::string::npos;
}

// Makes a mistake `times` times. `reports` returns what was reported, a string or several; each must contain `what`.
template <class Reports>
void expect_each_reported(char const* what, Reports reports, int times = iterations()) {
    int made = 0;
    int found = 0;
    auto const count = [&](std::string const& report) {
        ++made;
        if (is_report(report, what)) ++found;
    };
    for (int i = 0; i < times; ++i) {
        auto const seen = reports(i);
        if constexpr (std::is_convertible_v<decltype(seen), std::string>)
            count(seen);
        else
            for (std::string const& report : seen)
                count(report);
    }
    EXPECT_EQ(found, made) << what;
}

template <class Pool>
class misused_pool : public testing::Test {
protected:
    // From 1 byte to 8 KiB, small ones as often as large ones.
    [[nodiscard]] std::size_t any_size() {
        std::size_t const limit = std::size_t{16} << (m_random() % 10);
        return 1 + m_random() % limit;
    }
    [[nodiscard]] std::uint64_t any() { return m_random(); }

    Pool pool{{.name = "packets"}};

private:
    std::mt19937_64 m_random{42};
};

}  // namespace test
