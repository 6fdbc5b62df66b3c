// SPDX-License-Identifier: BSL-1.0
#pragma once

// The malloc that the process would have without this library: libc's, or one that was preloaded after it. Its blocks come here by way of
// files that do not see this library's functions (RTLD_DEEPBIND), or, without malloc.cpp, from malloc. And, where this library is malloc,
// memory for what the pool's own slow path calls malloc for. Part of new_delete.cpp.
//
// Any thread may call. O(1).

#include "pooled/base/bits.hpp"
#include "pooled/config.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/fast_path.hpp"

#include <atomic>
#include <bit>
#include <type_traits>
#include <utility>

// Defined in glibc.
extern "C" {
[[gnu::weak]] void __libc_free(void* p);
[[gnu::weak]] void* __libc_realloc(void* p, std::size_t bytes);
}

namespace {

using namespace pooled;
using namespace pooled::detail;

[[gnu::weakref("dlsym")]] static void* dlsym_if_linked(void* handle, char const* name);

struct next_malloc {
    void (*free)(void*) = nullptr;
    void* (*realloc)(void*, std::size_t) = nullptr;
    std::size_t (*usable_size)(void*) = nullptr;
    int (*trim)(std::size_t) = nullptr;
};
constinit next_malloc g_next;
constinit std::atomic<bool> g_is_next_known{false};

// dlsym() takes the loader's lock, so this runs once, early: at the start, or at the first block that is not the pool's.
POOLED_NOINLINE void find_next_malloc() noexcept {
    auto const find = [](auto*& function, char const* name) noexcept {
        void* const after_this_file =
            reinterpret_cast<void*>(-1L);  // RTLD_NEXT, which <dlfcn.h> has for GNU sources alone
        if (dlsym_if_linked == nullptr) return;
        if (void* const found = dlsym_if_linked(after_this_file, name))
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    next_malloc found{.free = __libc_free, .realloc = __libc_realloc};
    find(found.free, "free");
    find(found.realloc, "realloc");
    find(found.usable_size, "malloc_usable_size");
    find(found.trim, "malloc_trim");
    g_next = found;
    g_is_next_known.store(true, std::memory_order_release);  // pairs with the acquire in the_next_malloc()
}
[[nodiscard]] next_malloc const& the_next_malloc() noexcept {
    if (!g_is_next_known.load(std::memory_order_acquire)) [[unlikely]]
        find_next_malloc();
    return g_next;
}

// This thread is in the pool's slow path.
class inside_pool {
public:
    inside_pool() noexcept : m_was_inside(std::exchange(t_returns_null(), true)) {}
    ~inside_pool() { t_returns_null() = m_was_inside; }
    inside_pool(inside_pool const&) = delete;
    inside_pool& operator=(inside_pool const&) = delete;

private:
    bool m_was_inside;
};

// For what calls malloc there: pthread_setspecific() and pthread_atfork(), at the first calls. A few pieces of static memory, of which those
// that nobody uses take addresses alone.
#if POOLED_REPLACES_MALLOC
class reserve_memory {
public:
    static constexpr std::size_t k_piece = 4096;

    // Null: none is left, or that is too much for a piece.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align) noexcept {
        std::uint64_t taken = m_taken.load(std::memory_order_relaxed);
        while (bytes <= k_piece && align <= k_piece && taken != ~std::uint64_t{0}) {
            auto const i = static_cast<std::size_t>(std::countr_one(taken));
            // acquire: pairs with the release in deallocate().
            if (m_taken.compare_exchange_weak(taken, taken | std::uint64_t{1} << i, std::memory_order_acquire,
                                              std::memory_order_relaxed))
                return m_memory + i * k_piece;
        }
        return nullptr;
    }
    [[nodiscard]] bool contains(void const* p) const noexcept {
        return address_of(p) - address_of(m_memory) < sizeof(m_memory);
    }
    void deallocate(void* p) noexcept {
        std::size_t const i = (address_of(p) - address_of(m_memory)) / k_piece;
        m_taken.fetch_and(~(std::uint64_t{1} << i), std::memory_order_release);
    }

private:
    std::atomic<std::uint64_t> m_taken{0};
    alignas(k_piece) std::byte m_memory[64 * k_piece]{};
};
constinit reserve_memory g_reserve;
#endif

}  // namespace
