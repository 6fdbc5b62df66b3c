// SPDX-License-Identifier: BSL-1.0
#pragma once

// The bounds of the calling thread's own stack, from the operating system. Takes microseconds, allocates, and for the main thread
// reads /proc/self/maps: call it once per thread, and only when needed. Any thread may call, on any stack.

#include "pooled/config.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <pthread.h>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct stack_bounds {
    std::uintptr_t low = 0;
    std::uintptr_t high = 0;
    [[nodiscard]] bool contains(std::uintptr_t address) const noexcept { return address - low < high - low; }
    [[nodiscard]] std::uintptr_t bytes() const noexcept { return high - low; }
};

#if POOLED_HAS_CODE
// Empty where the system does not say.
[[nodiscard]] POOLED_NOINLINE inline stack_bounds find_stack_bounds() noexcept {
    stack_bounds found;
#if defined(__linux__)
    int const kept = errno;
    pthread_attr_t attributes;
    if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
        void* low = nullptr;
        std::size_t bytes = 0;
        std::size_t guard = 0;
        if (::pthread_attr_getstack(&attributes, &low, &bytes) == 0 &&
            ::pthread_attr_getguardsize(&attributes, &guard) == 0 && bytes > guard) {
            auto const first = reinterpret_cast<std::uintptr_t>(low);
            found = {first + guard, first + bytes};
        }
        ::pthread_attr_destroy(&attributes);
    }
    errno = kept;
#elif defined(__APPLE__)
    auto const high = reinterpret_cast<std::uintptr_t>(::pthread_get_stackaddr_np(::pthread_self()));
    found = {high - ::pthread_get_stacksize_np(::pthread_self()), high};
#endif
    return found;
}
#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
