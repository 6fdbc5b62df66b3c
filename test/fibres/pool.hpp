// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <pooled/pooled.hpp>

namespace fibres {

inline pooled::pool& pool() {
    static pooled::pool one;
    return one;
}

}  // namespace fibres
