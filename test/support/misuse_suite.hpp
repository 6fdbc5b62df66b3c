// SPDX-License-Identifier: BSL-1.0
#pragma once

// The mistakes that the checked and the hardened build both report at the offending call, and right use, which neither
// reports. To be included after caught_report.hpp and the library, by one program for each build.

#include "pooled/pooled.hpp"

#include "support/internals.hpp"
#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

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

// A pool named "packets", and sizes and choices from a fixed seed.
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

// A pointer that is dropped more often than it owns: its bytes, copied.

template <class Pointer>
class stale {
public:
    explicit stale(Pointer const& p) {
        std::memcpy(m_bytes.data(), static_cast<void const*>(&p), m_bytes.size());
    }
    [[nodiscard]] Pointer& get() { return *reinterpret_cast<Pointer*>(m_bytes.data()); }
    // Of a std::shared_ptr or std::weak_ptr.
    [[nodiscard]] std::byte* control_block() const {
        std::byte* found = nullptr;
        std::memcpy(&found, m_bytes.data() + sizeof(void*), sizeof found);
        return found;
    }
    // Requires that what it pointed to is free or idle, but for a pointer that counts in front of the object.
    [[nodiscard]] std::string report_of_drop() {
        if constexpr (sizeof(Pointer) == sizeof(void*)) {
            return test::report_of([&] { get().reset(); });
        } else {
            std::byte* const control = control_block();
            std::array<std::byte, 24> before{};
            std::memcpy(before.data(), control, before.size());
            std::string report = test::report_of([&] { get().reset(); });
            std::memcpy(control, before.data(), before.size());  // else it is reported again at the next use
            return report;
        }
    }

private:
    alignas(Pointer) std::array<std::byte, sizeof(Pointer)> m_bytes;
};

// `p` is the last pointer to its object: drops it, and then a copy of its bytes.
template <class Pointer>
[[nodiscard]] std::string report_of_stale_drop(Pointer p) {
    stale copy(p);
    p.reset();
    return copy.report_of_drop();
}

}  // namespace test

namespace {

using test::expect_each_reported;
using test::is_report;
using test::iterations;
using test::report_of;
using test::report_of_stale_drop;

template <class Pool>
class misuse_of : public test::misused_pool<Pool> {};
TYPED_TEST_SUITE(misuse_of, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_double_free) {
    expect_each_reported("double free", [&](int) {
        std::size_t const bytes = this->any_size();
        void* const p = this->pool.allocate(bytes);
        this->pool.deallocate(p, bytes);
        return report_of([&] { this->pool.deallocate(p, bytes); });
    });
    EXPECT_TRUE(test::is_valid(this->pool));
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_foreign_pointer) {
    expect_each_reported("of no pool", [&](int) {
        std::size_t const bytes = this->any_size();
        auto const foreign = std::make_unique<std::byte[]>(bytes);
        return report_of([&] { this->pool.deallocate(foreign.get(), bytes); });
    });
    EXPECT_TRUE(test::is_valid(this->pool));
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_block_of_another_pool) {
    TypeParam other{{.name = "other"}};
    expect_each_reported("another pool", [&](int) {
        std::size_t const bytes = this->any_size();
        void* const p = other.allocate(bytes);
        std::string report = report_of([&] { this->pool.deallocate(p, bytes); });
        other.deallocate(p, bytes);
        return report;
    });
    EXPECT_TRUE(test::is_valid(this->pool));
}

template <std::size_t Align>
struct alignas(Align) aligned_text {
    std::string text = "text";
};

// Headers and numbers of elements lie where a mark is, or elsewhere.
TYPED_TEST(misuse_of, a_pool_is_reported_for_every_second_drop_of_a_unique_ptr) {
    expect_each_reported("double free", [&](int i) {
        auto const n = 1 + static_cast<std::size_t>(i % 3);
        return std::array{report_of_stale_drop(this->pool.template make_unique<std::string>("text")),
                          report_of_stale_drop(this->pool.template make_unique<aligned_text<64>>()),
                          report_of_stale_drop(this->pool.template make_unique<std::string[]>(n)),
                          report_of_stale_drop(this->pool.template make_unique<int[]>(n)),
                          report_of_stale_drop(this->pool.template make_unique<aligned_text<32>[]>(n))};
    });
}

// Drops what `p` points to twice, after other owners and an observer came and went.
template <class Pointer>
[[nodiscard]] std::string report_of_stale_drop_of_former_many(Pointer p) {
    {
        Pointer const owner = p;
        typename Pointer::weak_type const observer = p;
    }
    return report_of_stale_drop(std::move(p));
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_drop_of_an_rc_ptr_after_the_last_one) {
    expect_each_reported("double free", [&](int i) {
        auto const n = 1 + static_cast<std::size_t>(i % 3);
        return std::array{
            report_of_stale_drop(this->pool.template make_rc<std::string>("text")),
            report_of_stale_drop(this->pool.template make_rc<int>(i)),
            report_of_stale_drop(this->pool.template make_local_rc<int>(i)),
            report_of_stale_drop(this->pool.template make_rc<std::string[]>(n)),
            report_of_stale_drop(this->pool.template make_rc<int[]>(n)),
            report_of_stale_drop(this->pool.template make_rc<aligned_text<32>[]>(n)),
            report_of_stale_drop_of_former_many(this->pool.template make_rc<int>(i)),
            report_of_stale_drop_of_former_many(this->pool.template make_rc<aligned_text<64>>()),
            report_of_stale_drop_of_former_many(this->pool.template make_rc<int[]>(n)),
            report_of_stale_drop_of_former_many(this->pool.template make_local_rc<std::string>("text"))};
    });
}

template <class Owner>
[[nodiscard]] std::string report_of_stale_observer(Owner owner) {
    typename Owner::weak_type observer = owner;
    owner.reset();
    return report_of_stale_drop(std::move(observer));
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_drop_of_a_weak_rc_ptr_after_the_last_one) {
    expect_each_reported("double free", [&](int i) {
        return std::array{report_of_stale_observer(this->pool.template make_rc<int>(i)),
                          report_of_stale_observer(this->pool.template make_rc<aligned_text<64>>())};
    });
}

struct counts_destructions {
    counts_destructions() = default;
    counts_destructions(counts_destructions const&) = delete;
    counts_destructions& operator=(counts_destructions const&) = delete;
    ~counts_destructions() { ++count; }
    static inline int count = 0;
};

TYPED_TEST(misuse_of, a_pool_is_reported_for_a_second_owner_of_a_large_object_before_its_destructor_runs) {
    struct large {
        counts_destructions one;
        std::array<char, 60'000> bytes{};
    };
    struct alignas(64) aligned : large {};
    counts_destructions::count = 0;
    for (std::string const& report : {report_of_stale_drop(this->pool.template make_unique<large>()),
                                      report_of_stale_drop(this->pool.template make_unique<aligned>()),
                                      report_of_stale_drop(this->pool.template make_rc<large>()),
                                      report_of_stale_drop(this->pool.template make_rc<aligned>()),
                                      report_of_stale_drop(this->pool.template make_unique<large[]>(2)),
                                      report_of_stale_drop(this->pool.template make_unique<aligned[]>(2)),
                                      report_of_stale_drop(this->pool.template make_rc<large[]>(2)),
                                      report_of_stale_drop(this->pool.template make_rc<aligned[]>(2))})
        EXPECT_PRED2(is_report, report, "double free");
    EXPECT_EQ(counts_destructions::count, 4 * 1 + 4 * 2);
    EXPECT_TRUE(test::is_valid(this->pool));
}

template <class Pool>
class misuse_of_objects : public testing::Test {
protected:
    Pool pool{{.name = "packets"}};
};
using object_pools = testing::Types<pooled::object_pool<std::string>, pooled::local_object_pool<std::string>>;
struct object_pool_names {
    template <class Pool>
    static std::string GetName(int) {
        return std::is_same_v<Pool, pooled::object_pool<std::string>> ? "object_pool" : "local_object_pool";
    }
};
TYPED_TEST_SUITE(misuse_of_objects, object_pools, object_pool_names);

TYPED_TEST(misuse_of_objects, of_an_object_pool_is_reported_for_every_second_drop_of_an_idle_one) {
    expect_each_reported("double free", [&](int) {
        return std::array{report_of_stale_drop(this->pool.acquire_unique()),
                          report_of_stale_drop(this->pool.acquire_rc()),
                          report_of_stale_observer(this->pool.acquire_rc())};
    });
    EXPECT_EQ(this->pool.idle(), this->pool.capacity());
    EXPECT_TRUE(test::is_valid(this->pool));
}

// Phases of one size after the other, so that slabs change their class; memory goes back to the system.
TYPED_TEST(misuse_of, a_pool_is_not_reported_where_there_is_none) {
    struct block {
        std::byte* p;
        std::size_t bytes;
    };
    std::vector<block> blocks;
    auto const free_down_to = [&](std::size_t count) {
        for (; blocks.size() > count; blocks.pop_back())
            this->pool.deallocate(blocks.back().p, blocks.back().bytes);
    };
    for (int i = 0; i < 100 * iterations(); ++i) {
        if (this->any() % 2 == 0 || blocks.empty()) {
            std::size_t bytes = this->any_size();
            if (this->any() % 1000 == 0) bytes *= 20;
            auto* const p = static_cast<std::byte*>(this->pool.allocate(bytes));
            std::memset(p, static_cast<int>(this->any() % 256), bytes);
            blocks.push_back({p, bytes});
        } else {
            std::swap(blocks[this->any() % blocks.size()], blocks.back());
            free_down_to(blocks.size() - 1);
        }
        if (i % 20'000 == 0) {
            free_down_to(i % 40'000 == 0 ? 0 : 5);
            this->pool.trim();
        }
    }
    free_down_to(0);
    EXPECT_EQ(this->pool.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(this->pool));
}

TEST(misuse_of_a_shared_pool, is_not_reported_where_there_is_none) {
    pooled::pool pool;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < iterations(); ++i) {
                auto const shared = pool.make_shared<std::string>("text");
                auto const by_default = pooled::make_shared<std::string>("text");
                auto const unique = pool.make_unique<int[]>(static_cast<std::size_t>(i % 100));
                auto const counted = pool.make_rc<std::vector<int>>(10);
                if (i % 1000 == 0) pool.trim();
            }
        });
    for (std::thread& each : threads)
        each.join();
    EXPECT_TRUE(test::is_valid(pool));
}

}  // namespace
