// SPDX-License-Identifier: BSL-1.0
// The one line in which the two forms of a program differ: with POOLED its objects come from the pool.
#pragma once

#include <memory>
#include <utility>

#ifdef POOLED
#include <pooled/pooled.hpp>
#endif

template <class T, class... Args>
std::shared_ptr<T> make(Args&&... args) {
#ifdef POOLED
    return pooled::make_shared<T>(std::forward<Args>(args)...);
#else
    return std::make_shared<T>(std::forward<Args>(args)...);
#endif
}
