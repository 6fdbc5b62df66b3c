// SPDX-License-Identifier: BSL-1.0
#pragma once

// How the checked build recognizes a destroyed pool by the address of its core, which a pool_allocator or a dangling reference may
// still hold. It keeps the memory of the last cores, so that no new pool has such an address soon:
//
//   open     the pool's handle exists          ─▶ a bit at the core's address
//   closed   blocks are still in use           ─▶ a bit at the next unit of 16 bytes
//   dead     only the name is left             ─▶ a bit at the third
//
// A std::pmr container may still hold it as a memory_resource, too: what is left of a dead pool is one, which reports its use.
//
// Any thread may call; O(1). Not compiled in other builds.

#include "pooled/config.hpp"
#include "pooled/impl/heap/misuse.hpp"
#include "pooled/impl/instrument/live_map.hpp"
#include "pooled/impl/os/metadata.hpp"
#include "pooled/impl/os/mutex.hpp"
#include "pooled/impl/os/platform.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

#if POOLED_CHECKED && POOLED_HAS_CODE
#include <cstdio>
#include <cstdlib>
#include <memory_resource>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

[[noreturn]] POOLED_NOINLINE inline void fail_dead_pool(char const* name, void const* core) noexcept(false) {
    std::array<char, 320> message{};
    std::snprintf(message.data(), message.size(),
                  "pooled: bad allocation from pool '%s' at %p: it was destroyed; a pool must outlive the "
                  "allocators and references that allocate from it",
                  name, core);
    POOLED_FAIL(message.data());
    std::abort();
}

class dead_pools {
public:
    static constexpr std::size_t k_name_bytes = 48;

    // False when there is no memory.
    [[nodiscard]] bool on_open(void* core) noexcept {
        if (!g_live_map.prepare(core, 3 * k_min_block_bytes)) return false;
        mark(core, 0, true);
        return true;
    }
    void on_close(void* core) noexcept {
        mark(core, 0, false);
        mark(core, 1, true);
    }
    // The core was destroyed; its memory is freed later.
    void on_destroy(void* core, std::size_t bytes, std::array<char, k_name_bytes> const& name) noexcept {
        mark(core, 0, false);
        mark(core, 1, false);
        mark(core, 2, true);
        dead_pool* const fresh = ::new (core) dead_pool(name, bytes);
        platform::release_pages(static_cast<std::byte*>(core) + sizeof(dead_pool), bytes - sizeof(dead_pool));
        dead_pool* evicted = nullptr;
        {
            scoped_lock const lock(m_mutex);
            evicted = m_dead[m_next];
            m_dead[m_next] = fresh;
            m_next = (m_next + 1) % k_kept;
        }
        if (evicted == nullptr) return;
        mark(evicted, 2, false);
        g_metadata.deallocate(evicted, evicted->bytes);
    }

    [[nodiscard]] bool is_open(void const* core) noexcept { return is_marked(core, 0); }
    [[nodiscard]] bool is_closed(void const* core) noexcept { return is_marked(core, 1); }
    // Requires a pool that is neither open nor closed.
    [[nodiscard]] char const* name_of(void const* core) noexcept {
        return is_marked(core, 2) ? std::launder(static_cast<dead_pool const*>(core))->name.data() : "?";
    }

    // Whether this copy of the library made the pool at this address.
    [[nodiscard]] bool is_known(void const* core) noexcept {
        return is_open(core) || is_closed(core) || is_marked(core, 2);
    }

private:
    static constexpr std::size_t k_kept = 256;
    struct dead_pool final : std::pmr::memory_resource {
        std::array<char, k_name_bytes> name;
        std::size_t bytes;

        dead_pool(std::array<char, k_name_bytes> const& of, std::size_t size) noexcept
            : name(of), bytes(size) {}
        void* do_allocate(std::size_t, std::size_t) override { fail_dead_pool(name.data(), this); }
        void do_deallocate(void* p, std::size_t, std::size_t) override {
            detail::fail_deallocation(name.data(), p,
                                      "it was freed before (double free), as all of this destroyed pool");
        }
        [[nodiscard]] bool do_is_equal(memory_resource const& other) const noexcept override {
            return this == &other;
        }
    };

    static void mark(void* core, std::size_t unit, bool is_set) noexcept {
        static_cast<void>(g_live_map.set(static_cast<std::byte*>(core) + unit * k_min_block_bytes, is_set));
    }
    [[nodiscard]] static bool is_marked(void const* core, std::size_t unit) noexcept {
        return g_live_map.test(static_cast<std::byte const*>(core) + unit * k_min_block_bytes);
    }

    detail::mutex m_mutex;
    std::size_t m_next = 0;
    std::array<dead_pool*, k_kept> m_dead{};
};

POOLED_STATE(dead_pools, g_dead_pools);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
