// SPDX-License-Identifier: BSL-1.0
#pragma once

// A class that an executable and a plugin both make objects of, and the number of its type as the file that asks has it.

#include "pooled/pooled.hpp"

#include <cstdint>

namespace plugins {

struct common {
    common() = default;
    ~common() { value = 0; }
    long value = 1;
};

[[nodiscard]] inline std::uint64_t number_of_common() {
    auto const one = pooled::make_rc<common>();
    void const* const object = one.get();
    return (static_cast<pooled::detail::count_header const*>(object) - 1)->word.load() >>
           pooled::detail::k_type_shift;
}

}  // namespace plugins
