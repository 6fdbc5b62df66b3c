// SPDX-License-Identifier: BSL-1.0
// What the library declares of the dynamic loader's interface is what the system's headers declare.

#include "pooled/impl/os/platform.hpp"
#include "pooled/impl/plugins/copies.hpp"

#include <gtest/gtest.h>
#include <link.h>

#include <cstddef>
#include <string>
#include <vector>

#include <dlfcn.h>

namespace {

using namespace pooled::detail;

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
static_assert(k_header_load == PT_LOAD && k_header_interpreter == PT_INTERP && k_header_note == PT_NOTE);

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
