// SPDX-License-Identifier: BSL-1.0
// The checked build reports each misuse at the offending call, naming the pool, the address and what is wrong.

#ifndef POOLED_CHECKED
#define POOLED_CHECKED 1
#endif
#undef POOLED_GUARD_BYTES  // the preset `checked` has none

#include "pooled/pooled.hpp"

#include "support/caught_report.hpp"
#include "support/internals.hpp"
#include "support/pool_kinds.hpp"
#include "support/stale_pointer.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

template <class Pool>
class misuse_of : public testing::Test {
protected:
    misuse_of() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
    Pool pool{{.name = "packets"}};

    // The address is not named in what is matched: a death test that starts anew has another.
    static std::string report(char const* kind) {
        return std::string("bad deallocation of 0x[0-9a-f]+ into pool 'packets': .*") + kind;
    }
};
TYPED_TEST_SUITE(misuse_of, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(misuse_of, a_pool_is_a_double_free) {
    EXPECT_DEATH(
        {
            void* const p = this->pool.allocate(48);
            this->pool.deallocate(p, 48);
            this->pool.deallocate(p, 48);
        },
        TestFixture::report("freed before"));
}

TYPED_TEST(misuse_of, a_pool_is_a_block_of_another_pool) {
    EXPECT_DEATH(
        {
            TypeParam other;
            this->pool.deallocate(other.allocate(48), 48);
        },
        TestFixture::report("belongs to another pool"));
}

TYPED_TEST(misuse_of, a_pool_is_a_wrong_size) {
    EXPECT_DEATH(this->pool.deallocate(this->pool.allocate(48), 100),
                 TestFixture::report("size or alignment"));
    EXPECT_DEATH(this->pool.deallocate(this->pool.allocate(48), 100),
                 "freed as a block of 100 bytes, is one of 48");
    EXPECT_DEATH(this->pool.deallocate(this->pool.allocate(100'000), 200'000), TestFixture::report(""));
}

TYPED_TEST(misuse_of, a_pool_is_a_foreign_pointer) {
    EXPECT_DEATH(
        {
            alignas(16) static char foreign[64];
            this->pool.deallocate(foreign, 48);
        },
        TestFixture::report("of no pool; .*\\(freed as a block of 48 bytes\\)"));
}

TYPED_TEST(misuse_of, a_pool_is_a_pointer_into_a_block) {
    EXPECT_DEATH(
        {
            auto* const p = static_cast<std::byte*>(this->pool.allocate(48));
            this->pool.deallocate(p + 16, 48);
        },
        TestFixture::report("points into a block"));
    EXPECT_DEATH(
        {
            auto* const p = static_cast<std::byte*>(this->pool.allocate(100'000));
            this->pool.deallocate(p + 20'480, 100'000);
        },
        TestFixture::report(""));
}

TYPED_TEST(misuse_of, a_pool_is_a_large_block_freed_twice) {
    EXPECT_DEATH(
        {
            void* const p = this->pool.allocate(100'000);
            this->pool.deallocate(p, 100'000);
            this->pool.deallocate(p, 100'000);
        },
        TestFixture::report("freed before"));
}

TYPED_TEST(misuse_of, a_pool_is_a_small_block_freed_as_a_large_one) {
    EXPECT_DEATH(this->pool.deallocate(this->pool.allocate(48), 100'000),
                 TestFixture::report("no large block"));
    EXPECT_DEATH(this->pool.deallocate(this->pool.allocate(100'000), 48),
                 TestFixture::report("size or alignment"));
}

TYPED_TEST(misuse_of, a_pool_is_a_write_to_a_freed_large_block_when_it_returns_to_upstream) {
    EXPECT_DEATH(
        {
            auto* const p = static_cast<std::byte*>(this->pool.allocate(100'000));
            this->pool.deallocate(p, 100'000);
            p[7] = std::byte{1};
            this->pool.trim();
        },
        "of pool 'packets': the byte at offset 7 was written after it was freed");
}

TYPED_TEST(misuse_of, a_pool_is_an_alignment_that_is_no_power_of_two) {
    for (std::size_t const align : {0UL, 3UL, 24UL, 12'345UL}) {
        std::string const report = "bad allocation of 48 bytes from pool 'packets': the alignment " +
                                   std::to_string(align) + " is not a power of two";
        EXPECT_DEATH(static_cast<void>(this->pool.allocate(48, align)), report);
        EXPECT_DEATH(static_cast<void>(this->pool.try_allocate(48, align)), report);
        EXPECT_DEATH(static_cast<void>(this->pool.resource()->allocate(48, align)), report);
        EXPECT_DEATH(this->pool.reserve_bytes(10, 48, align), report);
    }
}

template <class Pool>
Pool& destroyed_pool() {
    auto* const memory = static_cast<Pool*>(::operator new(sizeof(Pool)));
    std::construct_at(memory, pooled::pool_options{.name = "packets"});
    std::destroy_at(memory);
    return *memory;
}

TYPED_TEST(misuse_of, a_pool_is_a_reservation_after_it_was_destroyed) {
    char const* const report = "bad allocation from pool 'packets' at 0x[0-9a-f]+: it was destroyed";
    EXPECT_DEATH(destroyed_pool<TypeParam>().reserve_bytes(10, 48), report);
    EXPECT_DEATH(destroyed_pool<TypeParam>().template reserve<int>(10), report);
}

// The control block of an object that is observed is needed until its deferred destruction.
TYPED_TEST(misuse_of, a_pool_is_a_shared_ptr_to_a_deferred_observed_object_dropped_twice) {
    EXPECT_DEATH(
        {
            auto owner = this->pool.template make_shared<std::string>("text");
            std::weak_ptr<std::string> const observer = owner;
            test::stale<std::shared_ptr<std::string>> second(owner);
            pooled::reclaim_scope const scope;
            owner.reset();
            second.get().reset();
        },
        "bad drop of a std::shared_ptr to the block at 0x[0-9a-f]+ of pool 'packets'");
}

TYPED_TEST(misuse_of, a_pool_is_a_unique_ptr_that_owns_twice) {
    EXPECT_DEATH(
        {
            auto p = this->pool.template make_unique<int>(1);
            pooled::unique_ptr<int> const q(p.get());
            p.reset();
        },
        "freed before .*\\(a block of [0-9]+ bytes\\)");
}

// What lies in front of it is a number, not a header.
template <class Numbers, class Pool>
void owns_a_part(Pool& pool) {
    auto const whole = pool.template make_unique<Numbers>();
    pooled::unique_ptr<std::uint32_t> part(&whole->all[2]);
    part.reset();
}

TYPED_TEST(misuse_of, a_pool_is_a_unique_ptr_into_an_object) {
    struct few {
        std::uint32_t all[3] = {1, 0, 3};
    };
    struct many {
        std::uint32_t all[12] = {1, 0, 3};
    };
    EXPECT_DEATH(owns_a_part<few>(this->pool), "no object starts there");
    EXPECT_DEATH(owns_a_part<many>(this->pool), "no object starts there");
}

TEST(misuse, a_small_object_of_the_default_pool_is_none) {
    struct few {
        std::uint32_t all[2] = {1, 2};
    };
    auto const u = pooled::make_unique<few>();
    auto const r = pooled::make_rc<few>();
    EXPECT_EQ(u->all[0] + r->all[1], 3U);
}

TEST(misuse, of_the_default_pool_is_a_unique_ptr_into_a_small_object) {
    EXPECT_DEATH(
        {
            // A block of the smallest class, with a number where a header would be.
            auto* const numbers = static_cast<std::uint64_t*>(pooled::default_pool().allocate(16));
            numbers[0] = 5;
            pooled::unique_ptr<std::uint64_t> part(&numbers[1]);
            part.reset();
        },
        "no object starts there");
}

TYPED_TEST(misuse_of, a_pool_does_not_happen_in_a_program_that_is_right) {
    std::vector<std::shared_ptr<std::string>> all;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 3000; ++i)
            all.push_back(this->pool.template make_shared<std::string>("text"));
        all.clear();
        this->pool.trim();
    }
    auto const large = this->pool.template make_unique<char[]>(100'000);
    auto const none = this->pool.template make_unique<char[]>(0);
    for (std::size_t align = 1; align <= 1 << 20; align *= 2)
        this->pool.deallocate(this->pool.allocate(0, align), 0, align);
    TypeParam above{{.upstream = this->pool.resource()}};
    for (int i = 0; i < 3; ++i) {
        above.deallocate(above.allocate(48), 48);
        above.deallocate(above.allocate(100'000), 100'000);
        above.trim();
    }
    EXPECT_TRUE(test::is_valid(this->pool));
}

// Pointers that are from no pool. The compiler would see that no header lies in front of the object, and warn.
template <class T>
T* hidden(T* p) {
    asm("" : "+r"(p));
    return p;
}

TEST(misuse, of_what_no_pool_gave_is_a_unique_ptr) {
    char const* const report = "bad deallocation of .*of no pool";
    EXPECT_DEATH({ pooled::unique_ptr<int> p(hidden(new int(1))); }, report);
    EXPECT_DEATH(
        {
            int i = 1;
            pooled::unique_ptr<int> p(hidden(&i));
        },
        report);
    EXPECT_DEATH({ pooled::unique_ptr<int[]> p(hidden(new int[4])); }, "bad deallocation of .*");
}

TEST(misuse, of_a_pool_is_an_allocator_of_another_one) {
    pooled::pool a{{.name = "a"}};
    pooled::pool b{{.name = "b"}};
    pooled::pool_allocator<int> from(a);
    EXPECT_DEATH(pooled::pool_allocator<int>(b).deallocate(from.allocate(3), 3),
                 "into pool 'b': it belongs to another");
    EXPECT_DEATH(pooled::allocator<int>().deallocate(from.allocate(3), 3),
                 "into pool 'default': it belongs to another");
    EXPECT_DEATH(from.deallocate(from.allocate(30), 3), "into pool 'a': the size");
}

}  // namespace
