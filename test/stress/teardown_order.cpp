// SPDX-License-Identifier: BSL-1.0
// The default order of destruction is the standard's: random structures of every handle are built twice, once with
// std::make_shared and std::make_unique and once with ours, dropped in the same way, and what their destructors saw is
// compared: which object, whether its owner and its siblings were alive, when a reset() and a scope within a destructor
// ended. On threads of several stack sizes, while other threads keep the processors busy.
// POOLED_TEST_OBJECTS says how many objects; 10,000,000 is run by hand.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/sanitizer.hpp"
#include "support/small_stack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

// What destructors saw, in order: events of 64 bits.
using log = std::vector<std::uint64_t>;

enum class event : std::uint64_t {
    destroyed = 1,
    owner_alive,
    sibling_alive,
    reset_returned,
    guard,
    scope_left,
    element
};

struct standard {
    template <class T>
    using unique = std::unique_ptr<T>;
    template <class T>
    using rc = std::shared_ptr<T>;
    template <class T>
    using weak_rc = std::weak_ptr<T>;
    template <class T, class... Args>
    static std::shared_ptr<T> make_shared(Args&&... args) {
        return std::make_shared<T>(std::forward<Args>(args)...);
    }
    template <class T, class... Args>
    static rc<T> make_rc(Args&&... args) {
        return std::make_shared<T>(std::forward<Args>(args)...);
    }
    template <class T, class... Args>
    static unique<T> make_unique(Args&&... args) {
        return std::make_unique<T>(std::forward<Args>(args)...);
    }
};

pooled::pool* g_pool = nullptr;  // null: the default pool

struct ours {
    template <class T>
    using unique = pooled::unique_ptr<T>;
    template <class T>
    using rc = pooled::rc_ptr<T>;
    template <class T>
    using weak_rc = pooled::weak_rc_ptr<T>;
    template <class T, class... Args>
    static std::shared_ptr<T> make_shared(Args&&... args) {
        return g_pool != nullptr ? g_pool->make_shared<T>(std::forward<Args>(args)...)
                                 : pooled::make_shared<T>(std::forward<Args>(args)...);
    }
    template <class T, class... Args>
    static rc<T> make_rc(Args&&... args) {
        return g_pool != nullptr ? g_pool->make_rc<T>(std::forward<Args>(args)...)
                                 : pooled::make_rc<T>(std::forward<Args>(args)...);
    }
    template <class T, class... Args>
    static unique<T> make_unique(Args&&... args) {
        return g_pool != nullptr ? g_pool->make_unique<T>(std::forward<Args>(args)...)
                                 : pooled::make_unique<T>(std::forward<Args>(args)...);
    }
};

thread_local log* t_log = nullptr;
void note(event what, std::uint64_t of) { t_log->push_back(static_cast<std::uint64_t>(what) << 56 | of); }

struct guard {
    explicit guard(std::uint64_t of) noexcept : number(of) {}
    guard(guard const&) = delete;
    guard& operator=(guard const&) = delete;
    ~guard() { note(event::guard, number); }
    std::uint64_t number;
};

template <class Family>
struct node {
    struct element {
        element() = default;
        element(element const&) = default;
        element& operator=(element const&) = default;
        ~element() {
            if (number != 0) note(event::element, number);
        }
        std::uint64_t number = 0;
        std::shared_ptr<node> owned;
    };

    node(std::uint64_t n, std::vector<char>& all) : number(n), alive(&all) { all[n] = 1; }
    node(node const&) = delete;
    node& operator=(node const&) = delete;
    ~node() {
        (*alive)[number] = 0;
        note(event::destroyed, number);
        note(event::owner_alive, static_cast<std::uint64_t>((*alive)[owner]));
        note(event::sibling_alive, sibling.expired() ? 0 : 1);
        note(event::sibling_alive, counted_sibling.expired() ? 0 : 1);
        if (number % 3 == 0) {
            shared[1].reset();
            note(event::reset_returned, number);
        }
        if (number % 5 == 0 && number != 0) {
            counted = Family::template make_rc<node>(0, *alive);
            note(event::reset_returned, number);
        }
        if (number % 4 == 0) {
            auto const local = Family::template make_unique<guard>(number);
            auto const other = Family::template make_shared<guard>(number);
            shared[0] = nullptr;
        }
        note(event::scope_left, number);
    }

    std::uint64_t number;
    std::vector<char>* alive;
    std::uint64_t owner = 0;
    std::array<std::shared_ptr<node>, 3> shared;
    typename Family::template unique<node> unique;
    typename Family::template rc<node> counted;
    std::optional<std::shared_ptr<node>> optional;
    std::vector<typename Family::template rc<node>> many;
    typename Family::template unique<element[]> unique_elements;
    std::shared_ptr<element[]> shared_elements;
    std::weak_ptr<node> sibling;
    typename Family::template weak_rc<node> counted_sibling;
};

// A random structure: each node is given to one of those made before, chosen among the last `window`; some are given to a
// second owner. A small window makes it deep: at most 26 levels, which without optimisation take 40 KiB of stack, less than
// the half of the smallest one.
template <class Family>
log destroy_random(std::uint64_t seed, std::size_t count, std::size_t window) {
    using one = node<Family>;
    stress::dice random(seed);
    std::vector<char> alive(count + 1);
    log seen;
    t_log = &seen;
    std::shared_ptr<one> root = Family::template make_shared<one>(1, alive);
    std::vector<one*> made{root.get()};
    std::vector<std::size_t> depth{0};
    for (std::size_t n = 2; n <= count; ++n) {
        std::size_t const reach = std::min(window, made.size());
        std::size_t at = made.size() - 1 - random.below(reach);
        if (depth[at] > 25) at = random.below(std::min<std::size_t>(made.size(), 4));
        one& owner = *made[at];
        one* fresh = nullptr;
        std::size_t deepest = depth[at];  // of its owners
        std::size_t const kind = random.below(9);
        if (kind < 3 && (owner.shared[kind] == nullptr || !owner.optional.has_value())) {
            auto p = Family::template make_shared<one>(n, alive);
            fresh = p.get();
            fresh->sibling = owner.shared[(kind + 1) % 3];
            std::size_t const at_second = random.below(at + 1);
            one& second = *made[at_second];
            if (random.below(8) == 0 && &second != &owner && second.shared[2] == nullptr) {
                second.shared[2] = p;
                deepest = std::max(deepest, depth[at_second]);
            }
            if (owner.shared[kind] == nullptr)
                owner.shared[kind] = std::move(p);
            else
                owner.optional = std::move(p);
        } else if (kind == 3 && owner.unique == nullptr) {
            owner.unique = Family::template make_unique<one>(n, alive);
            fresh = owner.unique.get();
        } else if (kind == 4 && owner.counted == nullptr) {
            owner.counted = Family::template make_rc<one>(n, alive);
            fresh = owner.counted.get();
        } else if (kind == 5 && owner.unique_elements == nullptr) {
            owner.unique_elements = Family::template make_unique<typename one::element[]>(3U);
            for (std::size_t i = 0; i < 3; ++i)
                owner.unique_elements[i].number = n * 4 + i;
            owner.unique_elements[1].owned = Family::template make_shared<one>(n, alive);
            fresh = owner.unique_elements[1].owned.get();
        } else if (kind == 6 && owner.shared_elements == nullptr) {
            owner.shared_elements = Family::template make_shared<typename one::element[]>(2U);
            owner.shared_elements[0].number = n * 4;
            owner.shared_elements[0].owned = Family::template make_shared<one>(n, alive);
            fresh = owner.shared_elements[0].owned.get();
        } else {
            owner.many.push_back(Family::template make_rc<one>(n, alive));
            fresh = owner.many.back().get();
            if (owner.many.size() > 1) fresh->counted_sibling = owner.many.front();
        }
        fresh->owner = owner.number;
        made.push_back(fresh);
        depth.push_back(deepest + 1);
    }
    root.reset();
    t_log = nullptr;
    return seen;
}

class teardown_order : public testing::TestWithParam<std::size_t> {};

[[nodiscard]] std::size_t objects() {
    char const* const asked = std::getenv("POOLED_TEST_OBJECTS");
    return asked != nullptr ? std::strtoull(asked, nullptr, 10) : stress::scaled(300'000, 20'000);
}

TEST_P(teardown_order, is_the_standards) {
    stress::repeatedly const busy([] {
        auto const p = pooled::make_shared<std::array<int, 20>>();
        static_cast<void>(p);
    });
    pooled::pool pool;
    std::size_t differing = 0;
    std::size_t events = 0;
    // AddressSanitizer's frames at -O0 are about twice as large: 26 levels of them exceed half of 128 KiB, where deferring begins.
    std::size_t const kib = GetParam() * (test::k_address_sanitized ? 2 : 1);
    test::on_stack_of(kib << 10, [&] {
        std::uint64_t seed = 1;
        for (std::size_t done = 0; done < objects(); ++seed) {
            std::size_t const count = 20 + seed * 7919 % 700;
            std::size_t const window = 1 + seed % 40;
            g_pool = seed % 2 == 0 ? &pool : nullptr;
            log const expected = destroy_random<standard>(seed, count, window);
            log const seen = destroy_random<ours>(seed, count, window);
            if (seen != expected) ++differing;
            events += seen.size();
            done += count;
        }
    });
    g_pool = nullptr;
    EXPECT_EQ(differing, 0U);
    EXPECT_GT(events, objects());
    EXPECT_EQ(pool.stats().in_use, 0U);
}

INSTANTIATE_TEST_SUITE_P(on_a_stack_of_KiB, teardown_order, testing::Values(128, 256, 8192),
                         [](auto const& one) { return std::to_string(one.param); });

}  // namespace
