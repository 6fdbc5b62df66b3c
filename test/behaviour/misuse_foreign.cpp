// SPDX-License-Identifier: BSL-1.0
// Misuse that the checked build reports where no pool is known: large blocks, and pointers that are from no pool.

#ifndef POOLED_CHECKED
#define POOLED_CHECKED 1
#endif
#undef POOLED_GUARD_BYTES  // the preset `checked` has none

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>
namespace {
// The compiler would see that no header lies in front of the object, and warn.
template <class T>
T* hidden(T* p) {
    asm("" : "+r"(p));
    return p;
}

TEST(misuse_of_what_no_pool_gave, pointer_into_a_large_block_is_reported) {
    pooled::pool pool{{.name = "packets"}};
    EXPECT_DEATH(
        {
            auto* p = static_cast<std::byte*>(pool.allocate(100'000));
            pool.deallocate(p + 20'480, 100'000);
        },
        "bad deallocation of .* into pool 'packets'");
}
TEST(misuse_of_what_no_pool_gave, wrong_size_of_a_large_block_is_reported) {
    pooled::pool pool{{.name = "packets"}};
    EXPECT_DEATH(pool.deallocate(pool.allocate(100'000), 200'000),
                 "bad deallocation of .* into pool 'packets'");
}
TEST(misuse_of_what_no_pool_gave, unique_ptr_of_new_is_reported) {
    EXPECT_DEATH({ pooled::unique_ptr<int> p(hidden(new int(1))); }, "bad deallocation of .*of no pool");
}
TEST(misuse_of_what_no_pool_gave, unique_ptr_of_a_stack_object_is_reported) {
    EXPECT_DEATH(
        {
            int i = 1;
            pooled::unique_ptr<int> p(hidden(&i));
        },
        "bad deallocation of .*of no pool");
}
struct large {
    char c[100'000];
};
TEST(misuse_of_what_no_pool_gave, unique_ptr_of_a_large_object_freed_twice_is_reported) {
    pooled::pool pool{{.name = "packets"}};
    EXPECT_DEATH(
        {
            auto p = pool.make_unique<large>();
            pooled::unique_ptr<large> q(p.get());
            p.reset();
        },
        "bad deallocation of .*");
}
TEST(misuse_of_what_no_pool_gave, unique_ptr_array_of_new_is_reported) {
    EXPECT_DEATH({ pooled::unique_ptr<int[]> p(hidden(new int[4])); }, "bad deallocation of .*");
}
TEST(misuse_of_what_no_pool_gave, pool_on_pool_is_no_misuse) {
    pooled::pool below;
    pooled::pool above{{.upstream = below.resource()}};
    for (int i = 0; i < 3; ++i) {
        above.deallocate(above.allocate(48), 48);
        above.deallocate(above.allocate(100'000), 100'000);
        above.trim();
    }
}
TEST(misuse_of_what_no_pool_gave, zero_bytes_at_large_alignment_is_no_misuse) {
    pooled::pool pool;
    for (std::size_t a = 1; a <= 1 << 20; a *= 2)
        pool.deallocate(pool.allocate(0, a), 0, a);
}
TEST(misuse_of_what_no_pool_gave, freed_to_the_pool_by_allocator_of_wrong_pool) {
    pooled::pool a{{.name = "a"}}, b{{.name = "b"}};
    EXPECT_DEATH(
        {
            int* p = pooled::pool_allocator<int>(a).allocate(3);
            pooled::pool_allocator<int>(b).deallocate(p, 3);
        },
        "into pool 'b': it belongs to another");
    EXPECT_DEATH(
        {
            int* p = pooled::pool_allocator<int>(a).allocate(3);
            pooled::allocator<int>().deallocate(p, 3);
        },
        "into pool 'default': it belongs to another");
    EXPECT_DEATH(
        {
            int* p = pooled::pool_allocator<int>(a).allocate(30);
            pooled::pool_allocator<int>(a).deallocate(p, 3);
        },
        "into pool 'a': the size");
}
}  // namespace
