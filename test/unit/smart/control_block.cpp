// SPDX-License-Identifier: BSL-1.0

// Plan: blocks of make_shared, make_rc and make_unique of types with destructors, in the default pool, where the cache's inlined code does
// not serve them.
//   - each stop, a full array, no array: the block is free once, and the gate is left
//   - what another type's drop left in the cache is found

#include "pooled/smart/control_block.hpp"

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

namespace detail = pooled::detail;

constexpr std::size_t k_bytes = 232;
struct plain {
    std::byte bytes[k_bytes];
};
struct destroyed {
    destroyed() noexcept : bytes{} {}
    ~destroyed() { bytes[0] = std::byte{1}; }
    std::byte bytes[k_bytes];
};
struct large {
    large() noexcept {}
    ~large() { first = 1; }
    char first = 0;
    std::byte bytes[200'000];
};

[[nodiscard]] detail::gate& own_gate() { return detail::in_default_pool::own_gate(); }
[[nodiscard]] std::uint64_t in_use() { return pooled::default_pool().stats().in_use; }

TEST(shared_blocks, of_another_thread_are_free_at_each_stop_and_when_the_array_is_full) {
    std::uint64_t const before = in_use();
    std::vector<std::shared_ptr<destroyed>> all(3000);
    for (auto& one : all)
        one = pooled::make_shared<destroyed>();
    EXPECT_EQ(in_use(), before + all.size());
    std::thread([&] {
        for (auto& one : all) {
            one.reset();
            ASSERT_TRUE(own_gate().is_idle());
        }
        EXPECT_EQ(in_use(), before);
        for (auto& one : all) {
            one = pooled::make_shared<destroyed>();
            ASSERT_TRUE(own_gate().is_idle());
        }
        EXPECT_EQ(in_use(), before + all.size());
        all.clear();
    }).join();
    EXPECT_EQ(in_use(), before);
}

TEST(shared_blocks, that_another_type_dropped_are_found) {
    if (!detail::k_has_cache) GTEST_SKIP() << "this build has no caches";
    std::thread([] {
        std::vector<std::shared_ptr<plain>> others(300);
        for (auto& one : others)
            one = pooled::make_shared<plain>();
        pooled::default_pool().trim();
        std::vector<std::shared_ptr<destroyed>> mine;
        for (auto& one : others) {
            void const* const block = one.get();
            one.reset();
            mine.push_back(pooled::make_shared<destroyed>());
            ASSERT_EQ(mine.back().get(), block);
        }
    }).join();
}

// `make` gives a pointer to an object whose block is of class `c`.
void expect_the_array_alone(detail::class_index c, auto make) {
    std::vector<decltype(make())> all(400);
    for (int i = 0; i < 5; ++i)
        for (auto& one : all)
            one = make();  // the array gets its size
    detail::class_cache const& own = detail::cache_of(own_gate()).classes[c];
    for (auto& one : all) {
        std::uint32_t const size = own.size();
        if (size == own.capacity()) break;
        one.reset();
        ASSERT_EQ(own.size(), size + 1);
    }
    EXPECT_GT(own.size(), 129U) << "it passed a stop";
    while (own.size() != 0) {
        std::uint32_t const size = own.size();
        all.push_back(make());
        ASSERT_EQ(own.size(), size - 1);
        ASSERT_TRUE(own_gate().is_idle());
    }
}

TEST(shared_blocks, are_put_into_the_array_and_taken_from_it) {
    if (!detail::k_has_cache || detail::k_hardened) GTEST_SKIP() << "this build has no such code";
    using control = detail::standard_control_block;
    constexpr auto c = detail::k_class_for<control::k_bytes<destroyed>, control::k_align<destroyed>>;
    std::thread([] { expect_the_array_alone(c, [] { return pooled::make_shared<destroyed>(); }); }).join();
}

TEST(shared_blocks, of_counted_objects_are_put_into_the_array_and_taken_from_it) {
    if (!detail::k_has_cache || detail::k_hardened) GTEST_SKIP() << "this build has no such code";
    constexpr auto c = detail::counted_object<destroyed, detail::from_default>::k_class;
    std::thread([] {
        expect_the_array_alone(c, [] { return pooled::make_rc<destroyed>(); });
        expect_the_array_alone(c, [] { return pooled::make_unique<destroyed>(); });
    }).join();
}

TEST(shared_blocks, of_counted_objects_whose_constructor_throws_are_free) {
    struct throwing : destroyed {
        explicit throwing(bool throws) {
            if (throws) throw std::runtime_error("no object");
        }
    };
    std::thread([] {
        std::vector<pooled::rc_ptr<throwing>> all;
        for (int i = 0; i < 300; ++i) {
            std::uint64_t const before = in_use();
            EXPECT_THROW(static_cast<void>(pooled::make_rc<throwing>(true)), std::runtime_error);
            EXPECT_THROW(static_cast<void>(pooled::make_unique<throwing>(true)), std::runtime_error);
            ASSERT_EQ(in_use(), before);
            ASSERT_TRUE(own_gate().is_idle());
            all.push_back(pooled::make_rc<throwing>(false));
        }
    }).join();
}

TEST(shared_blocks, of_a_thread_whose_arrays_have_their_full_size_need_no_lock) {
    if (!detail::k_has_cache || detail::k_hardened) GTEST_SKIP() << "this build has no such code";
    std::thread([] {
        static_cast<void>(pooled::make_shared<destroyed>());
        detail::thread_cache& cache = detail::cache_of(own_gate());
        cache.array_bytes += detail::thread_cache::k_most_bytes;
        static_cast<void>(pooled::make_shared<large>());
        std::uint32_t const calls = cache.slow_calls;
        for (int i = 0; i < 100; ++i)
            static_cast<void>(pooled::make_shared<large>());
        EXPECT_EQ(cache.slow_calls, calls);
        cache.array_bytes -= detail::thread_cache::k_most_bytes;
    }).join();
}

}  // namespace
