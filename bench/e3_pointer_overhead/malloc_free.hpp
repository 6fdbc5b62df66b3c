// SPDX-License-Identifier: BSL-1.0
// Contender `malloc_free`: malloc and free, without C++.
#pragma once

#include "support/measure.hpp"

#include <cstdint>
#include <cstdlib>
#include <new>

namespace bench::e3_pointer_overhead {

struct malloc_free_contender {
    using pointer = int*;

    static void create_and_drop(std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            auto* p = static_cast<int*>(std::malloc(sizeof(int)));
            if (p == nullptr) throw std::bad_alloc();
            *p = static_cast<int>(i);
            keep_alive(p);
            std::free(p);
        }
    }

    static pointer make(int value) { return new_int(value); }
    static void drop(pointer& p) { std::free(p); }

private:
    static int* new_int(int value) {
        auto* p = static_cast<int*>(std::malloc(sizeof(int)));
        if (p == nullptr) throw std::bad_alloc();
        *p = value;
        return p;
    }
};

}  // namespace bench::e3_pointer_overhead
