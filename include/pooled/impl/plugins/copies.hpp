// SPDX-License-Identifier: BSL-1.0
#pragma once

// The copies of the library's state in one process, and how they find each other.
//
// Every executable and shared library that includes the headers defines the state. The dynamic linker merges the definitions
// whose names it sees. It keeps the others separate (an executable without -rdynamic, RTLD_LOCAL, a version script); each of
// those is a copy. Each file has an ELF note, even if names are hidden, and the loader lists the notes of all loaded files:
//
//   .note.pooled ─▶ copy_link ─▶ copy_directory     one per process, in the first copy that makes a pool
//                                  memory_copies     each page map with its pools: whose block is it?
//                                  types             each type by its number: who destroys the object?
//                                  pool_ids          which pool ids are taken
//
// These structures are an interface between builds of the library: they are plain, and are used without a lock, since a fork may
// happen at any moment. Who changes one raises k_copy_interface; copies with another number do not see each other. A file named in the
// directory stays loaded (pin_this_library()).

#include "pooled/config.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/size_class.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

inline constexpr std::uint32_t k_copy_interface = 2;
inline constexpr std::uint64_t k_type_numbers = 16384;
inline constexpr std::uint32_t k_first_type_number = 128;
inline constexpr std::uint32_t k_no_pool_id = 0;
inline constexpr std::uint32_t k_first_claimed_pool_id = 2;  // 1 is the default pool of each copy

// One page map and the pools in it.
struct memory_copy {
    char const* abi = nullptr;    // equal for copies with the same layouts
    memory_copy* next = nullptr;  // the one registered before this one
    // next_region() of the chunk or large block in which a block starts at `p`; 0: none does.
    std::uint64_t (*region_of)(void const* p) = nullptr;
    void (*deallocate)(void* p) = nullptr;  // requires region_of(p) != 0
    void* (*default_core)() = nullptr;  // a pool_core*, for copies of the same `abi`; throws std::bad_alloc
};

// What to do with a block that contains an object: impl/teardown/block_type.hpp. `header` is the block's header word if it is
// counted, else the start of the block.
struct block_type {
    using operation = void (*)(void* header) noexcept;

    operation
        retire;  // the last owner is gone and there is no observer: destroy and free, now or in the teardown in progress
    operation retire_observed;  // the same, while weak pointers remain
    operation finish;           // called by the teardown: destroy and free
    operation finish_observed;  // the same, if weak pointers remained when the object was deferred
    operation free;             // the last observer of a destroyed object is gone
    std::uint32_t object_offset;
    std::uint32_t object_bytes;
};

// All zero in every file; the first copy that needs it makes its own the directory of the process.
struct copy_directory {
    atomic<memory_copy*> memory_copies{nullptr};
    atomic<std::uint64_t> regions{0};  // number of regions that came from upstream so far
    std::array<atomic<std::uint64_t>, k_max_pools / 64> pool_ids{};
    atomic<std::uint32_t> type_count{0};
    std::array<atomic<block_type const*>, k_type_numbers> types{};

    // acquire: pairs with the release in add(); the record is seen.
    [[nodiscard]] memory_copy* first() const noexcept {
        return memory_copies.load(std::memory_order_acquire);
    }
    // The type of a number; null: it was not given. Relaxed, because a thread that has the number received an object, directly or
    // indirectly, from the thread that called add_type().
    [[nodiscard]] block_type const* type_of(std::uint64_t number) const noexcept {
        return types[number].load(std::memory_order_relaxed);
    }

    // The copy, other than `self`, that has a block which starts at `p`; null: none. If a region lies in a block of another
    // copy, because one pool is the other's upstream, it came later than that copy's region.
    [[nodiscard]] memory_copy* owner_of(void const* p, memory_copy const& self) const noexcept {
        memory_copy* innermost = nullptr;
        std::uint64_t latest = 0;
        for (memory_copy* one = first(); one != nullptr; one = one->next) {
            std::uint64_t const region = one == &self ? 0 : one->region_of(p);
            if (region <= latest) continue;
            innermost = one;
            latest = region;
        }
        return innermost;
    }

#if POOLED_HAS_CODE
    // release: pairs with the acquire in first(); the record is seen completely written.
    void add(memory_copy& one) noexcept {
        one.next = memory_copies.load(std::memory_order_relaxed);
        while (!memory_copies.compare_exchange_weak(one.next, &one, std::memory_order_release)) {}
    }

    // The first of the copies with this layout: the others use its default pool. Requires that there is one.
    [[nodiscard]] memory_copy& oldest_of(char const* abi) const noexcept {
        memory_copy* oldest = nullptr;
        for (memory_copy* one = first(); one != nullptr; one = one->next)
            if (__builtin_strcmp(one->abi, abi) == 0) oldest = one;
        return *oldest;
    }

    // The lowest pool id from `lowest` on that is free; k_max_pools: none. O(ids / 64).
    [[nodiscard]] std::uint32_t claim_pool_id(std::uint32_t lowest) noexcept {
        for (std::uint32_t w = lowest / 64; w < pool_ids.size(); ++w) {
            std::uint64_t const below = w == lowest / 64 ? (std::uint64_t{1} << lowest % 64) - 1 : 0;
            std::uint64_t taken = pool_ids[w].load(std::memory_order_relaxed);
            while (~(taken | below) != 0) {
                auto const bit = static_cast<std::uint32_t>(std::countr_one(taken | below));
                // acquire: pairs with the release below; the former pool of this id is gone.
                if (pool_ids[w].compare_exchange_weak(taken, taken | std::uint64_t{1} << bit,
                                                      std::memory_order_acquire, std::memory_order_relaxed))
                    return w * 64 + bit;
            }
        }
        return k_max_pools;
    }
    void release_pool_id(std::uint32_t id) noexcept {
        pool_ids[id / 64].fetch_and(~(std::uint64_t{1} << id % 64), std::memory_order_release);
    }
#endif

    // The number of a type, from now on; 0: all are taken.
    [[nodiscard]] std::uint64_t add_type(block_type const& type) noexcept {
        std::uint32_t count = type_count.load(std::memory_order_relaxed);
        do {
            if (count == k_type_numbers - k_first_type_number) return 0;
        } while (!type_count.compare_exchange_weak(count, count + 1, std::memory_order_relaxed));
        std::uint64_t const number = k_first_type_number + count;
        types[number].store(&type, std::memory_order_relaxed);
        return number;
    }
};

// The note points to this. Null until this file has found the directory.
struct copy_link {
    atomic<copy_directory*> directory{nullptr};
};

// Hidden, so every executable and shared library has its own, whatever else they share.
POOLED_HIDDEN POOLED_USED inline constinit copy_link
    g_copy_link POOLED_SYMBOL("pooled_link_" POOLED_ABI_NAME){};
POOLED_HIDDEN inline constinit copy_directory g_own_directory;
POOLED_HIDDEN inline constinit atomic<std::uint32_t> g_is_pinned{0};

#if defined(__ELF__)

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

// R: --gc-sections keeps the section. The offset needs no relocation when the file is loaded. 2: k_copy_interface.
#define POOLED_COPY_NOTE                                                               \
    ".pushsection .note.pooled,\"aGR\",%note,pooled_note_" POOLED_ABI_NAME ",comdat\n" \
    ".balign 4\n"                                                                      \
    ".long 7, 8, 2\n"                                                                  \
    ".asciz \"pooled\"\n"                                                              \
    ".balign 4\n"                                                                      \
    "1: .quad pooled_link_" POOLED_ABI_NAME " - 1b\n"                                  \
    ".popsection\n"
asm(POOLED_COPY_NOTE);

struct copy_note {
    std::uint32_t name_bytes = 7;
    std::uint32_t content_bytes = 8;
    std::uint32_t type = k_copy_interface;
    std::array<char, 8> name{'p', 'o', 'o', 'l', 'e', 'd'};
};

// Calls visit(copy_link&) for each note of one loaded file. It looks for notes at every multiple of 4, because linkers align
// other notes in different ways.
template <class Visit>
void for_each_link(loaded_file const& file, Visit&& visit) noexcept {
    copy_note const wanted;
    for (int i = 0; i < file.dlpi_phnum; ++i) {
        if (file.dlpi_phdr[i].p_type != k_header_note) continue;
        auto* const notes = reinterpret_cast<std::byte*>(file.dlpi_addr + file.dlpi_phdr[i].p_vaddr);
        for (std::size_t at = 0; at + sizeof(wanted) + 8 <= file.dlpi_phdr[i].p_memsz; at += 4) {
            std::byte* const content = notes + at + sizeof(wanted);
            if (__builtin_memcmp(notes + at, &wanted, sizeof(wanted)) != 0) continue;
            std::ptrdiff_t offset = 0;
            __builtin_memcpy(&offset, content, sizeof(offset));
            visit(*reinterpret_cast<copy_link*>(content + offset));
        }
    }
}

// With the variables of the calling file: the dynamic linker may call another file's search_directory().
struct directory_search {
    bool may_make;  // whether to use the calling file's own directory if no other file has one
    copy_directory& own;
    copy_link& link;
    copy_directory* found = nullptr;
};

// The loader holds its lock during each dl_iterate_phdr (in glibc, where it is recursive), so copies do this one after the
// other. On other systems, files are not unloaded, or do not have separate copies.
inline int search_directory(loaded_file*, std::size_t, void* argument) noexcept {
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

struct file_search {
    void const* address;
    char const* name = nullptr;  // null: the executable, which is never unloaded
};

inline int search_file(loaded_file* file, std::size_t, void* argument) noexcept {
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

// Requires a loaded file. Takes the loader's lock.
[[nodiscard]] inline bool keep_loaded(char const* file) noexcept {
    using dlopen_type = void* (*)(char const*, int);
    auto const open = dlsym_if_any != nullptr
                          ? reinterpret_cast<dlopen_type>(dlsym_if_any(k_all_files, "dlopen"))
                          : nullptr;
    return open != nullptr && open(file, k_keep) != nullptr;
}

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

// Null when no copy has a directory and the calling file may not make one. O(loaded files) at the first call, then one load.
POOLED_HIDDEN POOLED_NOINLINE inline copy_directory* find_directory(bool may_make) noexcept {
    if (copy_directory* const known = g_copy_link.directory.load(std::memory_order_acquire)) return known;
    directory_search search{.may_make = may_make, .own = g_own_directory, .link = g_copy_link};
    pooled_iterate_files(search_directory, &search);
    return search.found;
}

#else

// Without ELF, the copies do not find each other: each works alone.
inline void pin_this_library() noexcept {}
inline copy_directory* find_directory(bool) noexcept { return &g_own_directory; }

#endif

// The number of a region that came from upstream: all copies of the process count in one sequence, from 1 on.
[[nodiscard]] inline std::uint64_t next_region() noexcept {
    return detail::find_directory(true)->regions.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Pins the calling file first, so that its entries in the directory stay valid. Not under a lock of the library. Hidden: where it is
// not inlined, another file's function of that name would pin that file.
[[nodiscard]] POOLED_HIDDEN inline copy_directory& directory() noexcept {
    detail::pin_this_library();
    return *detail::find_directory(true);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
