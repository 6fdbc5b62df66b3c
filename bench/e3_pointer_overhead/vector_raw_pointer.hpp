// SPDX-License-Identifier: BSL-1.0
// Contender `vector_raw_pointer`: a vector of raw pointers from new, filled, summed and emptied.
#pragma once

#include "support/measure.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace bench::e3_pointer_overhead {

struct vector_raw_pointer_contender {
    static void fill_sum_empty(std::uint64_t n) {
        // In vectors of a million, as many as n asks for.
        for (std::uint64_t done = 0; done < n;) {
            const std::uint64_t now = std::min<std::uint64_t>(1'000'000, n - done);
            std::vector<int*> pointers;
            pointers.reserve(now);
            for (std::uint64_t i = 0; i < now; ++i)
                pointers.push_back(new int(1));
            std::uint64_t sum = 0;
            for (const auto& p : pointers)
                sum += static_cast<std::uint64_t>(*p);
            keep_alive(&sum);
            for (int* p : pointers)
                delete p;
            done += now;
        }
    }
};

}  // namespace bench::e3_pointer_overhead
