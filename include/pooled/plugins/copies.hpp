// SPDX-License-Identifier: BSL-1.0
#pragma once

// The copies of the library's state in one process, and how they find each other.
//
// Every executable and shared library that includes the headers defines the state. The dynamic linker merges the definitions whose names
// it sees; each other one is a copy (an executable without -rdynamic, RTLD_LOCAL, a version script). plugins/copies_elf.hpp has the notes:
//
//   .note.pooled ─▶ copy_link ─▶ copy_directory     one per process, in the first copy that makes a pool
//                                  memory_copies     each page map with its pools: whose block is it?
//                                  types             each type by its number: who destroys the object?
//                                  pool_ids          which pool ids are taken
//
// These structures are an interface between builds of the library: they are plain, and are used without a lock, since a fork may
// happen at any moment. Who changes one raises k_copy_interface; copies with another number do not see each other. A file named in the
// directory stays loaded (pin_this_library()).

#include "pooled/base/atomics.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/inspect/record.hpp"
#if defined(__ELF__)
#include "pooled/plugins/copies_elf.hpp"
#endif

POOLED_BEGIN_DETAIL

inline constexpr std::uint64_t k_type_numbers = 16384;
inline constexpr std::uint32_t k_first_type_number = 128;
inline constexpr std::uint32_t k_no_pool_id = 0;
inline constexpr std::uint32_t k_first_claimed_pool_id = 2;  // 1 is the default pool of each copy

// A copy of the library's state: one page map and the pools in it.
struct memory_copy {
    char const* abi = nullptr;    // equal for copies with the same layouts
    memory_copy* next = nullptr;  // the one registered before this one
    inspect::record const* heap = nullptr;
    // next_region() of the chunk or large block in which a block starts at `p`; 0: none does.
    std::uint64_t (*region_of)(void const* p) = nullptr;
    void (*deallocate)(void* p) = nullptr;  // requires region_of(p) != 0
    void* (*default_core)() = nullptr;  // a pool_core*, for copies of the same `abi`; throws std::bad_alloc
};

// inspect/record.hpp describes it, like the directory's first member.
static_assert(offsetof(memory_copy, next) == offsetof(inspect::copy_head, next) &&
              offsetof(memory_copy, heap) == offsetof(inspect::copy_head, heap));

// What to do with a block that contains an object: teardown/block_type.hpp. `header` is the block's header word if it is
// counted, else the start of the block.
struct block_type {
    using operation = void (*)(void* header) noexcept;

    operation
        retire;  // the last owner is gone and there is no observer: destroy and free, now or in the teardown in progress
    operation retire_observed;  // the same, while weak pointers remain
    operation free;             // the last observer of a destroyed object is gone
    // Called by the teardown: destroy and free. Whether weak pointers remained when the object was deferred.
    void (*finish)(block_type const& type, void* header, bool is_observed) noexcept;
    std::uint32_t object_offset;
    std::uint32_t object_bytes;
    char const* name = nullptr;  // as name_of_type() says

    // A finish that serves many types calls it.
    void (*destroy)(void* object) noexcept = nullptr;
};

// "… [with T = name]" or "… [T = name]": for reports, also without RTTI.
template <class T>
[[nodiscard]] consteval char const* name_of_type() noexcept {
    return __PRETTY_FUNCTION__;
}

// All zero in every file; the first copy that needs it makes its own the directory of the process.
struct copy_directory {
    atomic<memory_copy*> memory_copies{nullptr};
    atomic<std::uint64_t> regions{0};  // number of regions that came from upstream so far
    atomic<std::uint64_t> pool_ids[k_max_pools / 64]{};
    atomic<std::uint32_t> type_count{0};
    atomic<block_type const*> types[k_type_numbers]{};

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
        while (!memory_copies.compare_exchange_strong(one.next, &one, std::memory_order_release)) {}
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
        for (std::uint32_t w = lowest / 64; w < k_max_pools / 64; ++w) {
            std::uint64_t const below = w == lowest / 64 ? (std::uint64_t{1} << lowest % 64) - 1 : 0;
            std::uint64_t taken = pool_ids[w].load(std::memory_order_relaxed);
            while (~(taken | below) != 0) {
                auto const bit = static_cast<std::uint32_t>(std::countr_one(taken | below));
                // acquire: pairs with the release below; the former pool of this id is gone.
                if (pool_ids[w].compare_exchange_strong(taken, taken | std::uint64_t{1} << bit,
                                                        std::memory_order_acquire))
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
        } while (!type_count.compare_exchange_strong(count, count + 1, std::memory_order_relaxed));
        std::uint64_t const number = k_first_type_number + count;
        types[number].store(&type, std::memory_order_relaxed);
        return number;
    }
};

#if !defined(__ELF__)  // the copies cannot find each other: each works alone
inline void pin_this_library() noexcept {}
[[nodiscard]] inline copy_directory* find_directory(copy_directory& own, bool) noexcept { return &own; }
#endif

// Hidden, so every executable and shared library has its own, whatever else they share.
POOLED_HIDDEN inline constinit copy_directory g_own_directory;

// Null when no copy has a directory and the calling file may not make one.
[[nodiscard]] POOLED_HIDDEN inline copy_directory* find_directory(bool may_make) noexcept {
    return detail::find_directory(g_own_directory, may_make);
}

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

POOLED_END_DETAIL
