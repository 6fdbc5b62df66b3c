// SPDX-License-Identifier: BSL-1.0
#pragma once

// The options of an object_pool: an aggregate for designated initialisers, {.max_objects = 64}.
//
//   growing   {}                                           as many objects as are in use at once
//   bounded   {.max_objects = 64}                          built when needed, never more than 64 alive
//   fixed     {.initial_objects = 64, .growth = 0}         built with the pool, never more
//   doubling  {.growth_factor = 2}                         few and large steps, as a std::vector grows

#include "pooled/config.hpp"

#include <cstddef>
#include <limits>
#include <memory_resource>
#include <string_view>

namespace pooled::inline POOLED_ABI_NAMESPACE {

struct object_pool_options {
    // Shown in errors; cut to 47 characters.
    std::string_view name = "object_pool";

    // Objects built with the pool.
    std::size_t initial_objects = 0;

    // How many are built when one is needed and none is idle: one for the caller, the others idle. 0: never more than
    // initial_objects.
    std::size_t growth = 1;

    // Hard bound on the objects alive; 0: none.
    std::size_t max_objects = 0;

    // The factor by which the number of objects grows when one is needed and none is idle, if that is more than `growth`. At least
    // 1, which means `growth` alone.
    double growth_factor = 1;

    // The source of the objects' memory, in chunks of 64 KiB and more; null: pages of the operating system. It must outlive the
    // pool and the last of its objects. If it is the resource() of a pool, that pool need only outlive the last call that may
    // build an object: its memory lives until the last block is returned. Called like pool_options::upstream.
    std::pmr::memory_resource* upstream = nullptr;
};

namespace detail {

[[nodiscard]] constexpr std::size_t bound_of(object_pool_options const& options) noexcept {
    std::size_t const bound = options.growth == 0 ? options.initial_objects : options.max_objects;
    return bound != 0 ? bound : (std::numeric_limits<std::size_t>::max)();
}

}  // namespace detail

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
