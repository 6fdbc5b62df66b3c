// SPDX-License-Identifier: BSL-1.0
#pragma once

// The files that the dynamic loader has in memory: dl_iterate_phdr, declared under a name of the library's own. <link.h> would
// include <elf.h>, with 2000 macros and 500 lines, in every user's code, and <dlfcn.h> is 75 lines. These declarations are the
// binary interface of every 64-bit ELF system; test/unit/os/loaded_files.cpp compares them with both headers.

#include "pooled/config.hpp"

#include <cstddef>
#include <cstdint>

#if defined(__ELF__)

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Elf64_Phdr.
struct program_header {
    std::uint32_t p_type;
    std::uint32_t p_flags;
    std::uint64_t p_offset;
    std::uint64_t p_vaddr;
    std::uint64_t p_paddr;
    std::uint64_t p_filesz;
    std::uint64_t p_memsz;
    std::uint64_t p_align;
};
inline constexpr std::uint32_t k_header_load = 1;
inline constexpr std::uint32_t k_header_interpreter = 3;
inline constexpr std::uint32_t k_header_note = 4;

// The first members of dl_phdr_info; more follow.
struct loaded_file {
    std::uint64_t dlpi_addr;
    char const* dlpi_name;
    program_header const* dlpi_phdr;
    std::uint16_t dlpi_phnum;
};

// RTLD_DEFAULT, and RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE.
inline constexpr void* k_all_files = nullptr;
inline constexpr int k_keep = 0x1006;

// Calls visit for each file, under the loader's lock, until it returns a value other than 0.
extern "C" int pooled_iterate_files(int (*visit)(loaded_file*, std::size_t, void*),
                                    void* argument) __asm__("dl_iterate_phdr");

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
