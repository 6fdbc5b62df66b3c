// SPDX-License-Identifier: BSL-1.0
// A pattern of the user's own: bench/poolbench/pattern.hpp is its interface. `poolbench try` writes own_settings.hpp, which
// includes the user's file.
#pragma once

#include "contender/contender.hpp"
#include "own_settings.hpp"
#include "support/measure.hpp"
#include "support/registry.hpp"

#include <memory>
#include <string_view>

namespace bench::own_pattern {

inline constexpr std::uint64_t k_operations = 10'000'000;

template <class C>
concept fits = requires { typename ::pattern<C>; };

// A pattern that copies pointers takes sources whose pointers can be copied.
template <contender C>
std::string_view why_not() {
    return fits<C> ? "" : "the pattern copies pointers, and this one's cannot be copied";
}

template <contender C>
measurement run(const parameters& p) {
    if constexpr (fits<C>) {
        const std::uint64_t operations = scaled(k_operations, p.scale);
        start_and_join_one_thread();
        auto from = std::make_unique<C>();
        auto own = std::make_unique<::pattern<C>>(*from);
        own->run(operations / 10);
        const stopwatch watch;
        own->run(operations);
        return {watch.seconds(), operations, {}};
    } else {
        return {};
    }
}

}  // namespace bench::own_pattern
