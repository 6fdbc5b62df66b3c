// SPDX-License-Identifier: BSL-1.0
#pragma once

// Numbers that a program's input does not predict: for marks and the order of addresses, not for cryptography. Any thread may
// call.

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/duration.hpp"

#include <cstdint>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::platform {

// A bijection on 64 bits in which each input bit affects all output bits (the finaliser of SplitMix64).
[[nodiscard]] constexpr std::uint64_t scatter(std::uint64_t x) noexcept {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

// From the operating system; where it has none, or refuses, from the clock and the addresses of this process.
[[nodiscard]] inline std::uint64_t random_bits() noexcept {
    std::uint64_t bits = 0;
#if defined(__linux__)
    constexpr unsigned k_do_not_wait = 1;  // GRND_NONBLOCK: does not wait for entropy early in the boot
    if (::syscall(SYS_getrandom, &bits, sizeof(bits), k_do_not_wait) == long{sizeof(bits)}) return bits;
#endif
    auto const now = std::chrono::steady_clock::now().time_since_epoch().count();
    return scatter(static_cast<std::uint64_t>(now) ^ scatter(address_of(&bits)));
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::platform
