// SPDX-License-Identifier: BSL-1.0
// What the copies of the library's state in one process have in common: the directory, and how a file finds it. The whole,
// with several copies: test/plugins.

#include "pooled/impl/plugins/copies.hpp"

#include <gtest/gtest.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>

namespace {

using namespace pooled::detail;

TEST(the_directory_of_copies, is_one_for_each_call) {
    copy_directory* const made = &directory();
    EXPECT_EQ(find_directory(false), made);
}

TEST(the_directory_of_copies, is_found_by_the_note_of_this_file) {
    copy_directory* const own = &directory();
    std::set<copy_directory*> found;
    auto const look = [](loaded_file* file, std::size_t, void* result) {
        for_each_link(*file, [&](copy_link& link) {
            static_cast<std::set<copy_directory*>*>(result)->insert(link.directory.load());
        });
        return 0;
    };
    pooled_iterate_files(look, &found);
    EXPECT_EQ(found, std::set<copy_directory*>{own});
}

TEST(the_directory_of_copies, gives_the_lowest_pool_id_that_is_free) {
    auto const all = std::make_unique<copy_directory>();
    for (std::uint32_t id = 2; id < 200; ++id)
        ASSERT_EQ(all->claim_pool_id(2), id);
    all->release_pool_id(64);
    all->release_pool_id(130);
    EXPECT_EQ(all->claim_pool_id(65), 130U);
    EXPECT_EQ(all->claim_pool_id(2), 64U);
    EXPECT_EQ(all->claim_pool_id(1000), 1000U);
}

TEST(the_directory_of_copies, says_when_there_is_no_pool_id_left) {
    auto const all = std::make_unique<copy_directory>();
    for (std::uint32_t id = k_max_pools - 3; id < k_max_pools; ++id)
        EXPECT_EQ(all->claim_pool_id(k_max_pools - 3), id);
    EXPECT_EQ(all->claim_pool_id(k_max_pools - 3), k_max_pools);
}

TEST(the_directory_of_copies, knows_who_has_a_run_of_type_numbers) {
    auto const all = std::make_unique<copy_directory>();
    type_copy const a;
    type_copy const b;
    EXPECT_EQ(all->claim_types(a, 128), 128U);
    EXPECT_EQ(all->claim_types(b, 128), 192U);
    EXPECT_EQ(all->owner_of_type(128 + 63), &a);
    EXPECT_EQ(all->owner_of_type(192), &b);
    EXPECT_EQ(all->owner_of_type(127), nullptr);
    EXPECT_EQ(all->owner_of_type(256), nullptr);
    all->release_types(128);
    EXPECT_EQ(all->claim_types(b, 128), 128U);
}

memory_copy copy_with(char const* abi, int (*find)(void const*)) {
    memory_copy one;
    one.abi = abi;
    one.find = find;
    return one;
}

TEST(the_directory_of_copies, tells_a_pool_from_the_pool_that_is_its_upstream) {
    auto const all = std::make_unique<copy_directory>();
    memory_copy slabs = copy_with("a", [](void const*) -> int { return memory_copy::slab_block; });
    memory_copy large = copy_with("b", [](void const*) -> int { return memory_copy::large_block; });
    memory_copy empty = copy_with("b", [](void const*) -> int { return memory_copy::none; });
    for (memory_copy* one : {&slabs, &large, &empty})
        all->add(*one);
    int block = 0;
    EXPECT_EQ(all->owner_of(&block, empty), &slabs);
    EXPECT_EQ(all->owner_of(&block, slabs), &large);
}

// Copies whose pools lie in one another, in each order in which they may have registered.
TEST(the_directory_of_copies, finds_the_innermost_of_pools_that_lie_in_each_others_blocks) {
    auto const kind = [](void const*) -> int { return memory_copy::large_block; };
    int block = 0;
    for (bool const is_inner_first : {false, true}) {
        auto const all = std::make_unique<copy_directory>();
        memory_copy outer = copy_with("a", kind);
        memory_copy inner = copy_with("b", kind);
        memory_copy self = copy_with("c", kind);
        outer.bytes = inner.bytes = self.bytes = sizeof(memory_copy);
        outer.region_of = [](void const*) -> std::uint64_t { return 7; };
        inner.region_of = [](void const*) -> std::uint64_t { return 9; };
        self.region_of = [](void const*) -> std::uint64_t { return 11; };
        for (memory_copy* one : {is_inner_first ? &inner : &outer, is_inner_first ? &outer : &inner, &self})
            all->add(*one);
        EXPECT_EQ(all->owner_of(&block, self), &inner);
    }
}

TEST(the_directory_of_copies, asks_an_older_copy_for_no_more_than_it_knows) {
    auto const all = std::make_unique<copy_directory>();
    memory_copy older = copy_with("a", [](void const*) -> int { return memory_copy::slab_block; });
    older.bytes = sizeof(memory_copy) - sizeof(older.region_of);
    older.region_of = [](void const*) -> std::uint64_t {
        ADD_FAILURE();
        return 1;
    };
    memory_copy newer = copy_with("b", [](void const*) -> int { return memory_copy::large_block; });
    newer.bytes = sizeof(memory_copy);
    newer.region_of = [](void const*) -> std::uint64_t { return 9; };
    memory_copy const self = copy_with("c", nullptr);
    all->add(older);
    all->add(newer);
    int block = 0;
    EXPECT_EQ(all->owner_of(&block, self), &older);
}

TEST(the_directory_of_copies, numbers_regions_in_the_order_in_which_they_came) {
    std::uint64_t const before = next_region();
    EXPECT_NE(before, 0U);
    EXPECT_GT(next_region(), before);
}

TEST(the_directory_of_copies, has_one_default_pool_for_each_layout) {
    auto const all = std::make_unique<copy_directory>();
    memory_copy first = copy_with("a", nullptr);
    memory_copy other = copy_with("b", nullptr);
    memory_copy second = copy_with("a", nullptr);
    for (memory_copy* one : {&first, &other, &second})
        all->add(*one);
    EXPECT_EQ(&all->oldest_of("a"), &first);
    EXPECT_EQ(&all->oldest_of("b"), &other);
}

}  // namespace
