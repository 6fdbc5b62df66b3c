// SPDX-License-Identifier: BSL-1.0
#pragma once

// An extension that lies in a block of the core it extends: the core and its id last until the extension is destroyed. If the core
// is closed by then, freeing that block destroys it.

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/impl/instrument/tracked.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/options.hpp"

#include <memory>
#include <new>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

template <sharing Sharing>
struct own_core {
    // An Extension(core, arguments...), which must not throw. Throws std::bad_alloc, and what the options' upstream throws.
    template <class Extension, class... Arguments>
    [[nodiscard]] static Extension& make(pool_options const& options, Arguments&&... arguments) {
        pool_core& core = g_registry.make(options, Sharing);
        [[maybe_unused]] tracking::for_itself const block{};
        void* const memory =
            detail::try_allocate_bytes(in_pool<Sharing>(core), sizeof(Extension), alignof(Extension));
        if (memory == nullptr) {
            core.close();
            POOLED_THROW(std::bad_alloc());
        }
        auto& made = *::new (memory) Extension(core, std::forward<Arguments>(arguments)...);
        core.exchange_extension(nullptr, std::addressof(made));
        return made;
    }

    // Requires that no other thread can refer to it.
    template <class Extension>
    static void destroy(Extension& one, pool_core& core) noexcept {
        core.exchange_extension(std::addressof(one), nullptr);
        one.~Extension();
        detail::deallocate_bytes(in_pool<Sharing>(core), std::addressof(one), sizeof(Extension),
                                 alignof(Extension));
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
