// SPDX-License-Identifier: BSL-1.0
// Counts of values by size, for percentiles: fixed log-linear buckets, nothing is allocated while values are added.
//
//   value v < 128          a bucket of its own
//   2^e <= v < 2^(e+1)     64 buckets of 2^(e-6) values each: a percentile is wrong by less than 1/64 of it
//
// After HdrHistogram, by Gil Tene.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace bench {

class histogram {
public:
    void add(std::uint64_t value) {
        ++m_counts[bucket_of(std::min(value, k_largest))];
        m_max = std::max(m_max, value);
        m_sum += value;
        ++m_n;
    }

    std::uint64_t count() const { return m_n; }
    std::uint64_t sum() const { return m_sum; }
    std::uint64_t max() const { return m_max; }

    // The smallest bucket's end that `share` of the values do not exceed; 0 without any value.
    std::uint64_t percentile(double share) const {
        const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(m_n)));
        std::uint64_t seen = 0;
        for (std::size_t bucket = 0; bucket < k_buckets; ++bucket) {
            seen += m_counts[bucket];
            if (seen >= wanted) return std::min(last_of(bucket), m_max);
        }
        return m_max;
    }

    // Public for the sake of the assertions below.
    static constexpr std::size_t bucket_of(std::uint64_t value) {
        const auto width = static_cast<std::size_t>(std::bit_width(value));
        const std::size_t shift = width > k_bits + 1 ? width - k_bits - 1 : 0;
        return (shift << k_bits) + static_cast<std::size_t>(value >> shift);
    }
    static constexpr std::uint64_t last_of(std::size_t bucket) {
        const std::size_t shift = bucket < (std::size_t{2} << k_bits) ? 0 : (bucket >> k_bits) - 1;
        const std::uint64_t first = static_cast<std::uint64_t>(bucket - (shift << k_bits)) << shift;
        return first + (std::uint64_t{1} << shift) - 1;
    }

    static constexpr std::uint64_t k_largest = (std::uint64_t{1} << 40) - 1;  // of some minutes in ticks

private:
    static constexpr std::size_t k_bits = 6;
    static constexpr std::size_t k_buckets = (std::size_t{40 - k_bits + 1}) << k_bits;

    std::array<std::uint64_t, k_buckets> m_counts{};
    std::uint64_t m_max = 0;
    std::uint64_t m_sum = 0;
    std::uint64_t m_n = 0;
};

static_assert(histogram::bucket_of(127) == 127 && histogram::last_of(127) == 127);
static_assert(histogram::bucket_of(128) == 128 && histogram::bucket_of(129) == 128 &&
              histogram::last_of(128) == 129);
static_assert(histogram::bucket_of(histogram::last_of(1000)) == 1000);
static_assert(histogram::bucket_of(histogram::last_of(1000) + 1) == 1001);
static_assert(histogram::last_of(histogram::bucket_of(histogram::k_largest)) == histogram::k_largest);

}  // namespace bench
