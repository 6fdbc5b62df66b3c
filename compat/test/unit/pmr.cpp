// SPDX-License-Identifier: BSL-1.0
// The standard's sentences about pool resources, [mem.res.pool], as tests of its own classes and of ours; then what they leave
// to the implementation, and what ours alone promise.

#include "pooled/compat/pmr.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/in_child.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory_resource>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t k_most = std::numeric_limits<std::size_t>::max();

struct default_resource {
    explicit default_resource(std::pmr::memory_resource& r) : m_before(std::pmr::set_default_resource(&r)) {}
    ~default_resource() { std::pmr::set_default_resource(m_before); }
    default_resource(default_resource const&) = delete;
    default_resource& operator=(default_resource const&) = delete;

private:
    std::pmr::memory_resource* m_before;
};

template <class Resource>
class pool_resource : public testing::Test {
protected:
    test::counting_upstream upstream;
};
// libstdc++'s and libc++'s classes depart from the standard here and there; a test says where it leaves them out.
template <class Resource>
constexpr bool k_is_std = std::is_same_v<Resource, std::pmr::synchronized_pool_resource> ||
                          std::is_same_v<Resource, std::pmr::unsynchronized_pool_resource>;

using resources =
    testing::Types<std::pmr::synchronized_pool_resource, std::pmr::unsynchronized_pool_resource,
                   pooled::compat::synchronized_pool_resource, pooled::compat::unsynchronized_pool_resource>;
struct resource_names {
    template <class Resource>
    static std::string GetName(int index) {
        static constexpr std::array k_names{"std_synchronized", "std_unsynchronized", "synchronized",
                                            "unsynchronized"};
        return k_names[static_cast<std::size_t>(index)];
    }
};
TYPED_TEST_SUITE(pool_resource, resources, resource_names);

// [mem.res.pool.overview]

TYPED_TEST(pool_resource, has_the_interface_of_the_standard) {
    static_assert(std::is_base_of_v<std::pmr::memory_resource, TypeParam>);
    static_assert(
        std::is_constructible_v<TypeParam, std::pmr::pool_options const&, std::pmr::memory_resource*>);
    static_assert(std::is_default_constructible_v<TypeParam>);
    static_assert(std::is_constructible_v<TypeParam, std::pmr::memory_resource*>);
    static_assert(std::is_constructible_v<TypeParam, std::pmr::pool_options const&>);
    static_assert(!std::is_convertible_v<std::pmr::memory_resource*, TypeParam>, "explicit");
    static_assert(!std::is_convertible_v<std::pmr::pool_options const&, TypeParam>, "explicit");
    static_assert(!std::is_copy_constructible_v<TypeParam> && !std::is_move_constructible_v<TypeParam>);
    static_assert(!std::is_copy_assignable_v<TypeParam> && !std::is_move_assignable_v<TypeParam>);
    static_assert(std::has_virtual_destructor_v<TypeParam> && !std::is_final_v<TypeParam>);
    static_assert(std::is_same_v<decltype(std::declval<TypeParam&>().release()), void>);
    static_assert(std::is_same_v<decltype(std::declval<TypeParam const&>().upstream_resource()),
                                 std::pmr::memory_resource*>);
    static_assert(
        std::is_same_v<decltype(std::declval<TypeParam const&>().options()), std::pmr::pool_options>);
}

TYPED_TEST(pool_resource, may_be_derived_from_as_its_functions_are_protected) {
    struct counting : TypeParam {
        using TypeParam::TypeParam;
        int calls = 0;
        void* do_allocate(std::size_t bytes, std::size_t align) override {
            ++calls;
            return TypeParam::do_allocate(bytes, align);
        }
        void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
            --calls;
            TypeParam::do_deallocate(p, bytes, align);
        }
        bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
            return TypeParam::do_is_equal(other);
        }
    };
    counting resource(&this->upstream);
    void* const p = resource.allocate(8);
    EXPECT_EQ(resource.calls, 1);
    resource.deallocate(p, 8);
    EXPECT_EQ(resource.calls, 0);
    EXPECT_TRUE(resource.is_equal(resource));
}

TYPED_TEST(pool_resource, serves_from_its_upstream_alone_and_frees_at_its_end_even_what_is_not_deallocated) {
    {
        TypeParam resource(&this->upstream);
        for (std::size_t bytes = 1; bytes < 4'000'000; bytes = bytes * 3 / 2 + 1)
            for (int i = 0; i < 3; ++i) {
                auto* const p = static_cast<std::byte*>(resource.allocate(bytes));
                EXPECT_TRUE(this->upstream.contains(p) && this->upstream.contains(p + bytes - 1)) << bytes;
                std::memset(p, 1, bytes);
            }
        EXPECT_NE(this->upstream.bytes(), 0U);
    }
    EXPECT_EQ(this->upstream.bytes(), 0U);
    EXPECT_EQ(this->upstream.errors(), 0U);
}

TYPED_TEST(pool_resource, gives_blocks_that_are_aligned_and_do_not_overlap) {
    TypeParam resource(&this->upstream);
    if (k_is_std<TypeParam>) GTEST_SKIP() << "libstdc++ 12 gives 100 bytes at 64 an address that is not";
    std::map<std::uintptr_t, std::size_t> out;
    for (int round = 0; round < 3; ++round)
        for (std::size_t bytes : {0UL, 1UL, 7UL, 24UL, 100UL, 1000UL, 5000UL, 40'000UL, 3'000'000UL})
            for (std::size_t align = 1; align <= 16'384; align *= 4) {
                auto const p = reinterpret_cast<std::uintptr_t>(resource.allocate(bytes, align));
                EXPECT_EQ(p % align, 0U) << bytes << " at " << align;
                EXPECT_TRUE(out.emplace(p, bytes).second);
            }
    for (auto one = out.begin(), next = std::next(one); next != out.end(); one = next++)
        EXPECT_LE(one->first + one->second, next->first);
}

TYPED_TEST(pool_resource, asks_upstream_for_many_blocks_at_a_time) {
    TypeParam resource(&this->upstream);
    for (int i = 0; i < 10'000; ++i)
        static_cast<void>(resource.allocate(64));
    EXPECT_LT(this->upstream.allocations(), 500U);
}

// [mem.res.pool.options]

TYPED_TEST(pool_resource, asks_upstream_for_at_most_max_blocks_per_chunk_blocks_at_a_time) {
    if (k_is_std<TypeParam>) GTEST_SKIP() << "libstdc++ 12 asks for more than so few";
    for (std::size_t const most : {1UL, 2UL, 16UL, 100UL, 5000UL}) {
        for (std::size_t const bytes : {16UL, 64UL, 512UL}) {
            TypeParam resource({.max_blocks_per_chunk = most, .largest_required_pool_block = 512},
                               &this->upstream);
            resource.deallocate(resource.allocate(bytes), bytes);  // what it needs for itself
            std::size_t const calls = this->upstream.allocations();
            std::size_t const blocks = 4 * most + 64;
            for (std::size_t i = 0; i < blocks; ++i)
                static_cast<void>(resource.allocate(bytes));
            EXPECT_GE(this->upstream.allocations() - calls, (blocks - 1) / most - 1)
                << most << " of " << bytes;
        }
    }
}

TYPED_TEST(pool_resource, serves_what_is_larger_than_largest_required_pool_block_from_upstream_directly) {
    TypeParam resource({.max_blocks_per_chunk = 0, .largest_required_pool_block = 256}, &this->upstream);
    std::size_t const threshold = resource.options().largest_required_pool_block;
    EXPECT_GE(threshold, 256U);
    std::size_t const large = threshold + 1;
    static_cast<void>(resource.allocate(large));
    for (int i = 0; i < 5; ++i) {
        std::size_t const blocks = this->upstream.blocks();
        void* const p = resource.allocate(large);
        EXPECT_GT(this->upstream.blocks(), blocks);
        std::size_t const bytes = this->upstream.bytes();
        resource.deallocate(p, large);
        EXPECT_LE(this->upstream.bytes() + large, bytes) << "and gives it back at once";
    }
}

TYPED_TEST(pool_resource, pools_what_is_not_larger_than_largest_required_pool_block) {
    TypeParam resource({.max_blocks_per_chunk = 0, .largest_required_pool_block = 2000}, &this->upstream);
    for (std::size_t const bytes : {1UL, 100UL, 1000UL, 2000UL}) {
        if (k_is_std<TypeParam> && bytes > 100) break;  // libc++ asks upstream
        resource.deallocate(resource.allocate(bytes), bytes);
        std::size_t const calls = this->upstream.allocations();
        resource.deallocate(resource.allocate(bytes), bytes);
        EXPECT_EQ(this->upstream.allocations(), calls) << bytes;
    }
}

// [mem.res.pool.ctor]

TYPED_TEST(pool_resource, takes_its_upstream_and_its_options_from_its_constructor) {
    std::pmr::pool_options const options{.max_blocks_per_chunk = 16, .largest_required_pool_block = 512};
    default_resource const by_default(this->upstream);
    TypeParam const a;
    EXPECT_EQ(a.upstream_resource(), &this->upstream);
    TypeParam const b(options);
    EXPECT_EQ(b.upstream_resource(), &this->upstream);
    EXPECT_EQ(b.options().largest_required_pool_block, 512U);
    TypeParam const c(std::pmr::new_delete_resource());
    EXPECT_EQ(c.upstream_resource(), std::pmr::new_delete_resource());
    EXPECT_EQ(c.options().max_blocks_per_chunk, a.options().max_blocks_per_chunk);
    TypeParam const d(options, std::pmr::new_delete_resource());
    EXPECT_EQ(d.upstream_resource(), std::pmr::new_delete_resource());
    EXPECT_EQ(d.options().max_blocks_per_chunk, 16U);
}

// [mem.res.pool.mem]

TYPED_TEST(pool_resource, release_frees_everything_even_what_is_not_deallocated_and_it_may_be_used_again) {
    TypeParam resource(&this->upstream);
    std::size_t const own = this->upstream.bytes();
    for (int round = 0; round < 4; ++round) {
        for (std::size_t bytes = 1; bytes < 200'000; bytes = bytes * 3 / 2 + 1) {
            void* const kept = resource.allocate(bytes);
            std::memset(kept, round, bytes);
            resource.deallocate(resource.allocate(bytes), bytes);
        }
        EXPECT_GT(this->upstream.bytes(), own);
        resource.release();
        EXPECT_LE(this->upstream.bytes(), own + (k_is_std<TypeParam> ? 4096 : 0))
            << "libstdc++ keeps its list of pools";
    }
    EXPECT_EQ(this->upstream.errors(), 0U);
}

TYPED_TEST(pool_resource, release_of_nothing_is_allowed) {
    TypeParam resource(&this->upstream);
    resource.release();
    resource.release();
    EXPECT_NE(resource.allocate(1), nullptr);
}

TYPED_TEST(pool_resource, that_cannot_get_memory_throws_what_upstream_throws_and_stays_usable) {
    test::failing_upstream failing(this->upstream);
    TypeParam resource(&failing);
    void* const before = resource.allocate(48);
    failing.fail_always(true);
    EXPECT_THROW(static_cast<void>(resource.allocate(1 << 20)), test::injected_failure);
    EXPECT_THROW(for (;;) static_cast<void>(resource.allocate(48)), test::injected_failure);
    EXPECT_THROW(static_cast<void>(resource.allocate(30'000)), std::bad_alloc);
    failing.fail_always(false);
    EXPECT_NE(resource.allocate(1 << 20), nullptr);
    EXPECT_NE(resource.allocate(30'000), nullptr);
    EXPECT_NE(resource.allocate(48), nullptr);
    resource.deallocate(before, 48);
}

TYPED_TEST(pool_resource, passes_on_an_exception_of_upstream_that_is_no_bad_alloc) {
    test::hooked_upstream unusual(this->upstream, [](std::size_t) { throw 42; });
    // libstdc++ asks for its list of pools in the constructor.
    EXPECT_THROW(static_cast<void>(TypeParam(&unusual).allocate(8)), int);
    EXPECT_THROW(static_cast<void>(TypeParam(&unusual).allocate(1 << 20)), int);
}

TYPED_TEST(pool_resource, is_equal_to_itself_alone) {
    TypeParam const a(&this->upstream);
    TypeParam const b(&this->upstream);
    EXPECT_TRUE(a.is_equal(a));
    EXPECT_FALSE(a.is_equal(b));
    EXPECT_FALSE(a.is_equal(*std::pmr::new_delete_resource()));
    EXPECT_TRUE(a == a);
    EXPECT_TRUE(a != b);
}

// As programs use it.

TYPED_TEST(pool_resource, serves_containers) {
    TypeParam resource(&this->upstream);
    std::pmr::map<int, std::pmr::string> m(&resource);
    for (int i = 0; i < 3000; ++i)
        m[i * 7919 % 3000] = std::pmr::string(static_cast<std::size_t>(i % 100), 'x', &resource);
    for (int i = 0; i < 3000; i += 2)
        m.erase(i);
    EXPECT_EQ(m.size(), 1500U);
    std::pmr::vector<int> v(&resource);
    for (int i = 0; i < 100'000; ++i)
        v.push_back(i);
    EXPECT_EQ(v.back(), 99'999);
}

TYPED_TEST(pool_resource, serves_a_buffer_of_sixteen_kilobytes) {
    alignas(std::max_align_t) std::array<std::byte, 16 << 10> buffer;
    std::pmr::monotonic_buffer_resource small(buffer.data(), buffer.size(), std::pmr::null_memory_resource());
    TypeParam resource(&small);
    std::vector<void*> out;
    for (int i = 0; i < 20; ++i)
        out.push_back(resource.allocate(40));
    for (void* const p : out) {
        EXPECT_LT(reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(buffer.data()),
                  buffer.size());
        resource.deallocate(p, 40);
    }
    for (int i = 0; i < 10'000; ++i)
        resource.deallocate(resource.allocate(40), 40);
}

// A pool resource for several threads.

template <class Resource>
class synchronized : public testing::Test {};
using synchronized_resources =
    testing::Types<std::pmr::synchronized_pool_resource, pooled::compat::synchronized_pool_resource>;
struct synchronized_names {
    template <class Resource>
    static std::string GetName(int index) {
        return index == 0 ? "std" : "pooled";
    }
};
TYPED_TEST_SUITE(synchronized, synchronized_resources, synchronized_names);

TYPED_TEST(synchronized, pool_resource_may_be_used_by_several_threads_without_locks) {
    test::counting_upstream upstream;
    for (std::size_t const most : {0UL, 8UL}) {
        TypeParam resource({.max_blocks_per_chunk = most, .largest_required_pool_block = 4096}, &upstream);
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                std::vector<std::pair<unsigned char*, std::size_t>> held;
                for (std::size_t i = 0; i < 3000; ++i) {
                    std::size_t const bytes = 1 + i * 37 % 5000;
                    auto* const p = static_cast<unsigned char*>(resource.allocate(bytes));
                    std::memset(p, t, bytes);
                    held.emplace_back(p, bytes);
                    if (held.size() < 40) continue;
                    auto const [q, n] = held[i % held.size()];
                    held.erase(held.begin() + static_cast<std::ptrdiff_t>(i % held.size()));
                    EXPECT_TRUE(std::all_of(q, q + n, [&](unsigned char c) { return c == t; }));
                    resource.deallocate(q, n);
                }
                for (auto const& [q, n] : held)
                    resource.deallocate(q, n);
            });
        for (std::thread& one : threads)
            one.join();
    }
    EXPECT_EQ(upstream.bytes(), 0U);
    EXPECT_EQ(upstream.errors(), 0U);
}

TYPED_TEST(synchronized, pool_resource_takes_a_block_back_on_any_thread_and_after_its_thread_ended) {
    test::counting_upstream upstream;
    TypeParam resource(&upstream);
    std::vector<void*> out;
    std::thread([&] {
        for (int i = 0; i < 5000; ++i)
            out.push_back(resource.allocate(72));
    }).join();
    for (void* const p : out)
        resource.deallocate(p, 72);
    std::size_t const calls = upstream.allocations();
    for (int i = 0; i < 100; ++i)
        static_cast<void>(resource.allocate(72));
    EXPECT_LE(upstream.allocations(), calls + 8);
}

TYPED_TEST(synchronized, pool_resource_may_be_released_while_other_threads_allocate) {
    test::counting_upstream upstream;
    TypeParam resource(&upstream);
    std::thread allocating([&] {
        for (int i = 0; i < 20'000; ++i)
            static_cast<void>(resource.allocate(static_cast<std::size_t>(1 + i % 300)));
    });
    for (int i = 0; i < 50; ++i)
        resource.release();
    allocating.join();
    resource.release();
    EXPECT_LE(upstream.bytes(), 4096U * 4);
}

// What ours promise beyond the standard, and what it leaves open.

template <class Resource>
class own_resource : public testing::Test {
protected:
    test::counting_upstream upstream;
};
using own_resources =
    testing::Types<pooled::compat::synchronized_pool_resource, pooled::compat::unsynchronized_pool_resource>;
struct own_names {
    template <class Resource>
    static std::string GetName(int index) {
        return index == 0 ? "synchronized" : "unsynchronized";
    }
};
TYPED_TEST_SUITE(own_resource, own_resources, own_names);

TYPED_TEST(own_resource, takes_nothing_from_upstream_before_the_first_allocation) {
    TypeParam const resource(&this->upstream);
    EXPECT_EQ(this->upstream.allocations(), 0U);
}

TYPED_TEST(own_resource, release_forgets_what_was_deallocated) {
    TypeParam resource(&this->upstream);
    std::vector<void*> out;
    for (int i = 0; i < 5000; ++i)
        out.push_back(resource.allocate(64));
    for (void* const p : out)
        resource.deallocate(p, 64);
    resource.release();
    EXPECT_EQ(this->upstream.bytes(), 0U);
    std::set<void*> again;
    for (int i = 0; i < 5000; ++i) {
        void* const p = resource.allocate(64);
        EXPECT_TRUE(this->upstream.contains(p));
        EXPECT_TRUE(again.insert(p).second) << "handed out twice";
    }
}

TYPED_TEST(own_resource, max_blocks_per_chunk_bounds_the_bytes_of_every_request_to_upstream) {
    // 96 bytes and more are what a chunk needs besides its blocks.
    for (std::size_t const most : {1UL, 3UL, 50UL, 1000UL, 4096UL, 10'000UL})
        for (std::size_t const bytes : {16UL, 48UL, 1024UL, 32'768UL}) {
            test::frugal_upstream source(this->upstream, std::max(most * bytes, std::size_t{1}) + 96);
            TypeParam resource({.max_blocks_per_chunk = most, .largest_required_pool_block = 0}, &source);
            std::size_t const blocks = std::min<std::size_t>(3 * most, 300);
            for (std::size_t i = 0; i < blocks; ++i)
                ASSERT_NO_THROW(static_cast<void>(resource.allocate(bytes))) << most << " of " << bytes;
        }
}

TYPED_TEST(own_resource, options_replace_zero_by_the_limits) {
    TypeParam const limits({.max_blocks_per_chunk = k_most, .largest_required_pool_block = k_most},
                           &this->upstream);
    TypeParam const zeros({.max_blocks_per_chunk = 0, .largest_required_pool_block = 0}, &this->upstream);
    EXPECT_EQ(limits.options().max_blocks_per_chunk, zeros.options().max_blocks_per_chunk);
    EXPECT_LT(limits.options().max_blocks_per_chunk, k_most);
    EXPECT_NE(zeros.options().max_blocks_per_chunk, 0U);
    EXPECT_EQ(limits.options().largest_required_pool_block, 32'768U);
    EXPECT_EQ(zeros.options().largest_required_pool_block, 32'768U);
}

TYPED_TEST(own_resource, options_round_the_largest_block_up_to_a_block) {
    TypeParam const resource({.max_blocks_per_chunk = 0, .largest_required_pool_block = 1000},
                             &this->upstream);
    EXPECT_EQ(resource.options().largest_required_pool_block, 1024U);
}

TYPED_TEST(own_resource, aligned_to_more_than_16_kib_comes_from_upstream) {
    TypeParam resource(&this->upstream);
    void* const p = resource.allocate(64, 32'768);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 32'768, 0U);
    EXPECT_EQ(this->upstream.blocks(), 1U);
    resource.deallocate(p, 64, 32'768);
    EXPECT_EQ(this->upstream.blocks(), 0U);
}

TYPED_TEST(own_resource, of_a_size_that_no_memory_has_throws_what_upstream_throws) {
    struct refused : std::bad_alloc {
        std::size_t bytes = 0;
    };
    test::hooked_upstream source(this->upstream, [](std::size_t bytes) {
        refused error;
        error.bytes = bytes;
        throw error;
    });
    TypeParam resource(&source);
    for (std::size_t less = 0; less <= 128; ++less) {
        try {
            static_cast<void>(resource.allocate(k_most - less, 1024));
            FAIL() << "memory of no size";
        } catch (refused const& error) {
            EXPECT_GE(error.bytes, k_most - less);
        }
    }
    std::size_t const volatile half = k_most / 2 + 1;  // not known to the compiler, which warns
    EXPECT_THROW(static_cast<void>(resource.allocate(half)), refused);
}

TYPED_TEST(own_resource, refuses_sizes_that_its_upstream_would_grant_because_they_wrap) {
#if defined(POOLED_TEST_SANITIZER_ADDRESS) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "the sanitizer notices that such an upstream does not look at the alignment, either";
#endif
    // Adds what it needs itself, without a look at the sum.
    struct wrapping final : std::pmr::memory_resource {
        alignas(64) std::array<std::byte, 256> memory{};
        int out = 0;
        void* do_allocate(std::size_t bytes, std::size_t align) override {
            if ((bytes + align - 1) / align * align + 128 > memory.size()) throw std::bad_alloc();
            ++out;
            return memory.data() + 128;
        }
        void do_deallocate(void*, std::size_t, std::size_t) override { --out; }
        [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
            return this == &other;
        }
    } source;
    TypeParam resource(&source);
    for (std::size_t const align : {16U, 4096U, 65536U})
        for (std::size_t const less : {std::size_t{0}, std::size_t{1}, align, 2 * align, k_most / 2}) {
            std::size_t const volatile most = k_most - less;  // not known to the compiler, which warns
            EXPECT_THROW(static_cast<void>(resource.allocate(most, align)), std::bad_alloc)
                << less << " at " << align;
            EXPECT_EQ(source.out, 0) << "what upstream granted is not given back";
        }
}

TYPED_TEST(own_resource, whose_upstream_refuses_slabs_serves_single_blocks_until_that_fails_too) {
    test::frugal_upstream source(this->upstream, 200);
    TypeParam resource(&source);
    std::vector<void*> out;
    for (int i = 0; i < 1000; ++i)
        out.push_back(resource.allocate(100));
    EXPECT_THROW(static_cast<void>(resource.allocate(200)), std::bad_alloc);
    source.set_most(0);
    for (void* const p : out)
        resource.deallocate(p, 100);
    for (int i = 0; i < 1000; ++i)
        ASSERT_NO_THROW(static_cast<void>(resource.allocate(100))) << "free blocks serve";
    EXPECT_THROW(static_cast<void>(resource.allocate(100)), std::bad_alloc);
}

TYPED_TEST(own_resource, whose_upstream_refuses_for_a_while_uses_slabs_and_small_chunks_together) {
    test::frugal_upstream source(this->upstream, k_most);
    TypeParam resource(&source);
    std::vector<void*> out;
    for (int i = 0; i < 100; ++i)
        out.push_back(resource.allocate(512));
    source.set_most(1000);
    for (int i = 0; i < 2000; ++i)
        out.push_back(resource.allocate(512));
    for (void* const p : out)
        resource.deallocate(p, 512);
    std::set<void*> const before(out.begin(), out.end());
    source.set_most(0);
    std::set<void*> again;
    for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_TRUE(again.insert(resource.allocate(512)).second);
    for (void* const p : out)
        EXPECT_TRUE(again.contains(p)) << "blocks of both kinds are used again";
    source.set_most(k_most);
    resource.release();
    EXPECT_EQ(this->upstream.bytes(), 0U);
    EXPECT_NE(resource.allocate(512), nullptr);
    EXPECT_GE(this->upstream.bytes(), 65'536U) << "after release() it asks for slabs again";
}

TYPED_TEST(own_resource, does_not_write_free_blocks_of_slabs_after_upstream_refused_one) {
    if (POOLED_CHECKED != 0 || POOLED_HARDENED != 0) GTEST_SKIP() << "this build writes to free blocks";
    test::frugal_upstream source(this->upstream, k_most);
    TypeParam resource(&source);
    auto* const of_slab = static_cast<unsigned char*>(resource.allocate(512));
    std::fill_n(of_slab, 512, static_cast<unsigned char>(7));
    source.set_most(1000);
    for (int i = 0; i < 2000; ++i)
        static_cast<void>(resource.allocate(512));
    resource.deallocate(of_slab, 512);
    EXPECT_TRUE(std::all_of(of_slab, of_slab + 512, [](unsigned char c) { return c == 7; }));
    EXPECT_EQ(resource.allocate(512), of_slab) << "and uses them first";
}

TYPED_TEST(own_resource, loses_nothing_wherever_upstream_fails) {
    for (std::size_t n = 1;; ++n) {
        test::failing_upstream failing(this->upstream, n);
        {
            TypeParam resource(&failing);
            std::vector<std::pair<void*, std::size_t>> out;
            for (std::size_t bytes = 16; bytes < 100'000; bytes = bytes * 3 / 2)
                for (int i = 0; i < 5; ++i)
                    try {
                        out.emplace_back(resource.allocate(bytes), bytes);
                    } catch (test::injected_failure const&) {}
            for (auto const& [p, bytes] : out)
                resource.deallocate(p, bytes);
        }
        EXPECT_EQ(this->upstream.bytes(), 0U);
        if (!failing.has_failed()) break;
    }
}

TYPED_TEST(own_resource, may_be_the_upstream_of_another) {
    TypeParam outer(&this->upstream);
    TypeParam inner(&outer);
    TypeParam small({.max_blocks_per_chunk = 4, .largest_required_pool_block = 0}, &inner);
    for (std::size_t bytes = 1; bytes < 100'000; bytes = bytes * 2 + 1) {
        small.deallocate(small.allocate(bytes), bytes);
        inner.deallocate(inner.allocate(bytes), bytes);
        static_cast<void>(small.allocate(bytes));
    }
    small.release();
    inner.release();
    outer.release();
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(own_resource, serves_a_forked_child) {
    TypeParam resource(&this->upstream);
    void* const kept = resource.allocate(100);
    auto const use = [&] {
        resource.deallocate(kept, 100);
        for (int i = 0; i < 3000; ++i)
            static_cast<void>(resource.allocate(static_cast<std::size_t>(i)));
        resource.release();
        return this->upstream.bytes() == 0;
    };
    EXPECT_EQ(test::in_child(use), 0);
}

// Upstream is called by one thread at a time: a resource for one thread serves.
// A guard, or the rounding of the option, makes a request larger than the pool's largest block: it goes to upstream.
TEST(own_unsynchronized, resource_serves_sizes_around_its_largest_block) {
    pooled::compat::unsynchronized_pool_resource resource;
    EXPECT_EQ(resource.options().largest_required_pool_block, 32'768U);
    std::vector<std::pair<void*, std::size_t>> blocks;
    for (std::size_t const bytes :
         {32'000U, 32'752U, 32'753U, 32'760U, 32'768U, 32'769U, 49'136U, 49'152U, 262'144U})
        for (int i = 0; i < 40; ++i) {
            blocks.emplace_back(resource.allocate(bytes), bytes);
            std::memset(blocks.back().first, 1, bytes);
        }
    for (auto const& [p, bytes] : blocks)
        resource.deallocate(p, bytes);
}

TEST(own_synchronized, resource_works_on_an_upstream_for_one_thread) {
    std::pmr::monotonic_buffer_resource for_one_thread;
    pooled::compat::synchronized_pool_resource resource(&for_one_thread);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (std::size_t i = 0; i < 2000; ++i)
                static_cast<void>(resource.allocate(1 + i * 53 % 40'000));
        });
    for (std::thread& one : threads)
        one.join();
}

TEST(own_synchronized, resource_releases_what_other_threads_have_cached) {
    test::counting_upstream upstream;
    pooled::compat::synchronized_pool_resource resource(&upstream);
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    std::atomic<bool> released{false};
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&] {
            std::vector<void*> out;
            for (int i = 0; i < 500; ++i)
                out.push_back(resource.allocate(64));
            for (void* const p : out)
                resource.deallocate(p, 64);
            ++ready;
            while (!released)
                std::this_thread::yield();
            EXPECT_TRUE(upstream.contains(resource.allocate(64))) << "not a block that was released";
        });
    while (ready != 3)
        std::this_thread::yield();
    resource.release();
    EXPECT_EQ(upstream.bytes(), 0U);
    released = true;
    for (std::thread& one : threads)
        one.join();
}

}  // namespace
