// SPDX-License-Identifier: BSL-1.0

// What the copies of the library's state in one process have in common: the directory, and how a file finds it. The whole,
// with several copies: test/plugins.

#include "pooled/plugins/copies.hpp"

#include "pooled/os/platform.hpp"

#include <gtest/gtest.h>
#include <link.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <dlfcn.h>

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

// A file of two segments, of which the second has a link at its start. `first`: where the file begins in it.
struct file_in_memory {
    static constexpr std::size_t k_page = 4096;
    struct alignas(k_page) page {
        copy_link link;
    };
    std::array<page, 3> pages{};
    std::array<program_header, 2> headers{program_header{.p_type = k_header_load,
                                                         .p_flags = 4,
                                                         .p_offset = 0,
                                                         .p_vaddr = 0,
                                                         .p_paddr = 0,
                                                         .p_filesz = 0,
                                                         .p_memsz = k_page,
                                                         .p_align = k_page},
                                          program_header{.p_type = k_header_load,
                                                         .p_flags = 6,
                                                         .p_offset = 0,
                                                         .p_vaddr = k_page,
                                                         .p_paddr = 0,
                                                         .p_filesz = 0,
                                                         .p_memsz = sizeof(copy_link),
                                                         .p_align = k_page}};

    [[nodiscard]] copy_link* link_at(std::uintptr_t offset) const {
        return pooled::detail::link_at({.dlpi_addr = address_of(pages.data()),
                                        .dlpi_name = "",
                                        .dlpi_phdr = headers.data(),
                                        .dlpi_phnum = static_cast<std::uint16_t>(headers.size())},
                                       offset);
    }
};

TEST(the_link_of_a_file, is_found_by_its_offset_also_after_a_segment_was_put_before_the_first_one) {
    file_in_memory one;
    EXPECT_EQ(one.link_at(file_in_memory::k_page), &one.pages[1].link);
    one.headers[0].p_vaddr -= file_in_memory::k_page;
    EXPECT_EQ(one.link_at(0), &one.pages[1].link);
}

TEST(the_link_of_a_file, is_never_taken_from_where_none_is) {
    file_in_memory one;
    EXPECT_EQ(one.link_at(128), nullptr) << "a segment that is not writable";
    EXPECT_EQ(one.link_at(2 * file_in_memory::k_page), nullptr) << "outside of the file";
    EXPECT_EQ(one.link_at(file_in_memory::k_page + 8), nullptr) << "partly outside of it";
    EXPECT_EQ(one.link_at(~std::uintptr_t{0} - 7), nullptr);
    one.pages[1].link.magic = 0;
    EXPECT_EQ(one.link_at(file_in_memory::k_page), nullptr) << "no magic word";
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

TEST(the_directory_of_copies, gives_each_type_a_number_by_which_it_is_found) {
    auto const all = std::make_unique<copy_directory>();
    block_type const a{};
    block_type const b{};
    EXPECT_EQ(all->add_type(a), 128U);
    EXPECT_EQ(all->add_type(b), 129U);
    EXPECT_EQ(all->type_of(128), &a);
    EXPECT_EQ(all->type_of(129), &b);
    EXPECT_EQ(all->type_of(127), nullptr);
    EXPECT_EQ(all->type_of(130), nullptr);
}

memory_copy copy_with(char const* abi, std::uint64_t (*region_of)(void const*)) {
    memory_copy one;
    one.abi = abi;
    one.region_of = region_of;
    return one;
}

// Copies whose pools lie in one another, in each order in which they may have registered.
TEST(the_directory_of_copies, finds_the_innermost_of_pools_that_lie_in_each_others_blocks) {
    int block = 0;
    for (bool const is_inner_first : {false, true}) {
        auto const all = std::make_unique<copy_directory>();
        memory_copy outer = copy_with("a", [](void const*) -> std::uint64_t { return 7; });
        memory_copy inner = copy_with("b", [](void const*) -> std::uint64_t { return 9; });
        memory_copy self = copy_with("c", [](void const*) -> std::uint64_t { return 11; });
        memory_copy empty = copy_with("d", [](void const*) -> std::uint64_t { return 0; });
        for (memory_copy* one :
             {is_inner_first ? &inner : &outer, is_inner_first ? &outer : &inner, &self, &empty})
            all->add(*one);
        EXPECT_EQ(all->owner_of(&block, self), &inner);
        EXPECT_EQ(all->owner_of(&block, empty), &self);
    }
}

TEST(the_directory_of_copies, finds_no_owner_of_what_only_the_caller_has) {
    auto const all = std::make_unique<copy_directory>();
    memory_copy empty = copy_with("a", [](void const*) -> std::uint64_t { return 0; });
    memory_copy self = copy_with("b", [](void const*) -> std::uint64_t { return 1; });
    for (memory_copy* one : {&empty, &self})
        all->add(*one);
    int block = 0;
    EXPECT_EQ(all->owner_of(&block, self), nullptr);
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

// What the library declares of the dynamic loader's interface is what the system's headers declare.

static_assert(sizeof(program_header) == sizeof(Elf64_Phdr));
static_assert(k_keep == (RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE));
static_assert(offsetof(program_header, p_type) == offsetof(Elf64_Phdr, p_type));
static_assert(offsetof(program_header, p_flags) == offsetof(Elf64_Phdr, p_flags));
static_assert(offsetof(program_header, p_offset) == offsetof(Elf64_Phdr, p_offset));
static_assert(offsetof(program_header, p_vaddr) == offsetof(Elf64_Phdr, p_vaddr));
static_assert(offsetof(program_header, p_paddr) == offsetof(Elf64_Phdr, p_paddr));
static_assert(offsetof(program_header, p_filesz) == offsetof(Elf64_Phdr, p_filesz));
static_assert(offsetof(program_header, p_memsz) == offsetof(Elf64_Phdr, p_memsz));
static_assert(offsetof(program_header, p_align) == offsetof(Elf64_Phdr, p_align));
static_assert(k_header_load == PT_LOAD && k_header_interpreter == PT_INTERP && k_header_note == PT_NOTE &&
              k_header_writable == PF_W);

static_assert(sizeof(loaded_file) <= sizeof(dl_phdr_info));
static_assert(offsetof(loaded_file, dlpi_addr) == offsetof(dl_phdr_info, dlpi_addr));
static_assert(offsetof(loaded_file, dlpi_name) == offsetof(dl_phdr_info, dlpi_name));
static_assert(offsetof(loaded_file, dlpi_phdr) == offsetof(dl_phdr_info, dlpi_phdr));
static_assert(offsetof(loaded_file, dlpi_phnum) == offsetof(dl_phdr_info, dlpi_phnum));

TEST(the_loaded_files, are_those_that_the_system_names) {
#if defined(POOLED_TEST_EMULATED)
    if (platform::page_bytes() != platform::k_page_bytes)
        GTEST_SKIP()
            << "with larger pages qemu 7.2 maps too little of the loader's memory, where the names are";
#endif
    std::vector<std::string> expected;
    ::dl_iterate_phdr(
        [](dl_phdr_info* file, std::size_t, void* names) {
            static_cast<std::vector<std::string>*>(names)->emplace_back(file->dlpi_name);
            return 0;
        },
        &expected);
    std::vector<std::string> found;
    pooled_iterate_files(
        [](loaded_file* file, std::size_t, void* names) {
            static_cast<std::vector<std::string>*>(names)->emplace_back(file->dlpi_name);
            return 0;
        },
        &found);
    EXPECT_EQ(found, expected);
}

}  // namespace
