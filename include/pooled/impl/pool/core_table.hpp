// SPDX-License-Identifier: BSL-1.0
#pragma once

// The cores of pools by id.
//
// find(): any thread, one load. Other functions require the registry's lock, and are O(1) except for_each().

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/size_class.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class core_table {
public:
    constexpr core_table() noexcept = default;
    core_table(core_table const&) = delete;
    core_table& operator=(core_table const&) = delete;

    // acquire: pairs with the release in add(); the constructed core is seen.
    [[nodiscard]] pool_core* find(std::uint32_t id) const noexcept {
        return m_cores[id].load(std::memory_order_acquire);
    }

    void add(std::uint32_t id, pool_core& core) noexcept {
        m_cores[id].store(&core, std::memory_order_release);  // release: pairs with the acquire in find()
        m_end = detail::larger(m_end, id + 1);
    }
    // The id stays taken until remove(); for_each() skips it.
    void begin_destroy(std::uint32_t id) noexcept {
        m_cores[id].store(destroyed(), std::memory_order_relaxed);
    }
    void remove(std::uint32_t id) noexcept { m_cores[id].store(nullptr, std::memory_order_relaxed); }

    // O(highest id ever used).
    template <class Function>
    void for_each(Function&& function) const noexcept {
        for (std::uint32_t id = 0; id < m_end; ++id) {
            pool_core* const core = m_cores[id].load(std::memory_order_relaxed);
            if (core != nullptr && core != destroyed()) function(*core);
        }
    }

private:
    // A value that is not the address of a core.
    [[nodiscard]] static pool_core* destroyed() noexcept {
        return reinterpret_cast<pool_core*>(alignof(pool_core));
    }

    // All zero until used, so it takes no space in a program's file.
    std::uint32_t m_end = 0;
    std::array<std::atomic<pool_core*>, k_max_pools> m_cores{};
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
