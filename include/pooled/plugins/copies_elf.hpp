// SPDX-License-Identifier: BSL-1.0
#pragma once

// How the copies of plugins/copies.hpp find each other where the dynamic loader loads ELF files: each file has a note, even if
// names are hidden, and the loader lists the notes of all loaded files.
//
//   .note.pooled   name "pooled", type k_copy_interface
//   content        | copy_link - content: 8 | first byte of the file - content: 8 |     by the linker; needs no relocation at the start
//   copy_link      | pointer to the directory, or null: 8 | inspect::k_link_magic: 8 |
//
// The difference of the two words is the offset of the file's copy_link from its first byte, which stays the same when a tool moves the
// note (patchelf, and so auditwheel, conda and Nix) or puts a segment before the first one. So a reader adds it to the start of each
// loaded segment of the file, and has found the link where the result lies in a writable segment and is followed by the magic word.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/inspect/record.hpp"

POOLED_BEGIN_DETAIL

struct copy_directory;

inline constexpr std::uint32_t k_copy_interface = inspect::k_copies_layout;

// The note points to this. Null until this file has found the directory. Hidden, so every executable and shared library has its own,
// whatever else they share.
struct copy_link {
    atomic<copy_directory*> directory{nullptr};
    std::uint64_t magic = inspect::k_link_magic;
};
POOLED_HIDDEN POOLED_USED inline constinit copy_link
    g_copy_link POOLED_SYMBOL("pooled_link_" POOLED_ABI_NAME){};
// 1: it is, or need not be. The files for LD_PRELOAD are linked with -z nodelete, and their first call may be so early that dlopen() would
// run the constructors of all files.
#if defined(POOLED_PRELOADED)
POOLED_HIDDEN inline constinit atomic<std::uint32_t> g_is_pinned{1};
#else
POOLED_HIDDEN inline constinit atomic<std::uint32_t> g_is_pinned{0};
#endif

// The files that the dynamic loader has in memory: dl_iterate_phdr, declared under a name of the library's own. <link.h> would
// include <elf.h>, with 2000 macros and 500 lines, in every user's code, and <dlfcn.h> is 75 lines. These declarations are the
// binary interface of every 64-bit ELF system; test/unit/os/copies.cpp compares them with both headers.

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
inline constexpr std::uint32_t k_header_writable = 2;  // of p_flags

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

// R: --gc-sections keeps the section. 4: k_copy_interface. Linkers define __ehdr_start.
#define POOLED_COPY_NOTE                                                               \
    ".weak __ehdr_start\n"                                                             \
    ".hidden __ehdr_start\n"                                                           \
    ".pushsection .note.pooled,\"aGR\",%note,pooled_note_" POOLED_ABI_NAME ",comdat\n" \
    ".balign 4\n"                                                                      \
    ".long 7, 16, 4\n"                                                                 \
    ".asciz \"pooled\"\n"                                                              \
    ".balign 4\n"                                                                      \
    "1: .quad pooled_link_" POOLED_ABI_NAME " - 1b, __ehdr_start - 1b\n"               \
    ".popsection\n"
asm(POOLED_COPY_NOTE);

struct copy_note {
    std::uint32_t name_bytes = 7;
    std::uint32_t content_bytes = 16;
    std::uint32_t type = k_copy_interface;
    char name[8]{'p', 'o', 'o', 'l', 'e', 'd'};
};

// With the variables of the calling file: the dynamic linker may call another file's search_directory().
struct directory_search {
    bool may_make;  // whether to use the calling file's own directory if no other file has one
    copy_directory& own;
    copy_link& link;
    copy_directory* found = nullptr;
};

struct file_search {
    void const* address;
    char const* name = nullptr;  // null: the executable, which is never unloaded
};

// Visitors. The first one may run a visit of its own, under the loader's lock.
POOLED_API int search_directory(loaded_file*, std::size_t, void* search) noexcept;
POOLED_API int search_file(loaded_file* file, std::size_t, void* search) noexcept;
// Requires a loaded file. Takes the loader's lock.
[[nodiscard]] POOLED_API bool keep_loaded(char const* file) noexcept;

#if POOLED_HAS_CODE

// The link that is `offset` bytes from the first byte of the file. Null: none, as a tool has changed the file in an unknown way.
[[nodiscard]] inline copy_link* link_at(loaded_file const& file, std::uintptr_t offset) noexcept {
    span<program_header const> const headers(file.dlpi_phdr, file.dlpi_phnum);
    for (program_header const& first : headers) {
        if (first.p_type != k_header_load) continue;
        std::uintptr_t const at = round_down(first.p_vaddr, 4096) + offset;
        bool const is_in_file = any_of(headers, [at](program_header const& part) {
            return part.p_type == k_header_load && (part.p_flags & k_header_writable) != 0 &&
                   at - part.p_vaddr < part.p_memsz && at + sizeof(copy_link) - part.p_vaddr <= part.p_memsz;
        });
        auto* const link = reinterpret_cast<copy_link*>(file.dlpi_addr + at);
        if (is_in_file && __builtin_memcmp(&link->magic, &inspect::k_link_magic, sizeof(link->magic)) == 0)
            return link;
    }
    return nullptr;
}

// Calls visit(copy_link&) for each note of one loaded file. It looks for notes at every multiple of 4, because linkers align
// other notes in different ways.
template <class Visit>
void for_each_link(loaded_file const& file, Visit&& visit) noexcept {
    copy_note const wanted;
    for (int i = 0; i < file.dlpi_phnum; ++i) {
        if (file.dlpi_phdr[i].p_type != k_header_note) continue;
        auto const* const notes =
            reinterpret_cast<std::byte const*>(file.dlpi_addr + file.dlpi_phdr[i].p_vaddr);
        std::uintptr_t words[2];
        for (std::size_t at = 0; at + sizeof(wanted) + sizeof(words) <= file.dlpi_phdr[i].p_memsz; at += 4) {
            if (__builtin_memcmp(notes + at, &wanted, sizeof(wanted)) != 0) continue;
            __builtin_memcpy(words, notes + at + sizeof(wanted), sizeof(words));
            if (copy_link* const link = detail::link_at(file, words[0] - words[1])) visit(*link);
        }
    }
}

// The loader holds its lock during each dl_iterate_phdr (in glibc, where it is recursive), so copies do this one after the
// other. On other systems, files are not unloaded, or do not have separate copies.
POOLED_CODE int search_directory(loaded_file*, std::size_t, void* argument) noexcept {
    auto& search = *static_cast<directory_search*>(argument);
    auto const look = [](loaded_file* file, std::size_t, void* result) noexcept {
        // acquire: pairs with the release below; the constructed directory is seen.
        for_each_link(*file, [&](copy_link& link) {
            if (copy_directory* const d = link.directory.load(std::memory_order_acquire))
                static_cast<directory_search*>(result)->found = d;
        });
        return 0;
    };
    pooled_iterate_files(look, &search);
    if (search.found == nullptr && search.may_make) search.found = &search.own;
    if (search.found != nullptr) search.link.directory.store(search.found, std::memory_order_release);
    return 1;
}

POOLED_CODE int search_file(loaded_file* file, std::size_t, void* argument) noexcept {
    auto& search = *static_cast<file_search*>(argument);
    bool is_here = false;
    // The name that musl gives a static executable.
    bool is_executable = file->dlpi_name == nullptr || *file->dlpi_name == '\0' ||
                         __builtin_strcmp(file->dlpi_name, "/proc/self/exe") == 0;
    for (int i = 0; i < file->dlpi_phnum; ++i) {
        auto const& part = file->dlpi_phdr[i];
        is_executable = is_executable || part.p_type == k_header_interpreter;
        is_here = is_here || (part.p_type == k_header_load &&
                              address_of(search.address) - file->dlpi_addr - part.p_vaddr < part.p_memsz);
    }
    if (is_here && !is_executable) search.name = file->dlpi_name;
    return is_here ? 1 : 0;
}

// A weak reference: an executable without libdl has no library to pin. dlsym rather than dlopen, because the linker warns about
// dlopen in a static executable.
[[gnu::weakref("dlsym")]] static void* dlsym_if_any(void* handle, char const* name);

POOLED_CODE bool keep_loaded(char const* file) noexcept {
    using dlopen_type = void* (*)(char const*, int);
    auto const open = dlsym_if_any != nullptr
                          ? reinterpret_cast<dlopen_type>(dlsym_if_any(k_all_files, "dlopen"))
                          : nullptr;
    return open != nullptr && open(file, k_keep) != nullptr;
}

#endif

// From now on, dlclose() does not unload the calling file, because threads that end, other copies and the exit of the process
// call into it. Must not be called under a lock of the library. Reports, once, a file that cannot be pinned.
POOLED_HIDDEN POOLED_NOINLINE inline void pin_this_library() noexcept {
    if (g_is_pinned.load(std::memory_order_relaxed) != 0) return;
    file_search self{.address = &g_is_pinned};
    pooled_iterate_files(search_file, &self);
    bool const is_pinned = self.name == nullptr || detail::keep_loaded(self.name);
    if (g_is_pinned.exchange(1, std::memory_order_relaxed) == 0 && !is_pinned)
        std::fprintf(stderr,
                     "pooled: cannot keep %s loaded (dlopen with RTLD_NODELETE failed): it must not be "
                     "unloaded; link it with -Wl,-z,nodelete\n",
                     self.name);
}

// Null when no copy has a directory and the calling file, whose own one is given, may not make it the process's. O(loaded files) at the
// first call, then one load.
POOLED_HIDDEN POOLED_NOINLINE inline copy_directory* find_directory(copy_directory& own,
                                                                    bool may_make) noexcept {
    if (copy_directory* const known = g_copy_link.directory.load(std::memory_order_acquire)) return known;
    directory_search search{.may_make = may_make, .own = own, .link = g_copy_link};
    pooled_iterate_files(search_directory, &search);
    return search.found;
}

POOLED_END_DETAIL
