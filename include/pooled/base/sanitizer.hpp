// SPDX-License-Identifier: BSL-1.0
#pragma once

// The library's calls into a sanitizer's runtime, empty in a build without one. LeakSanitizer's functions are weak references, so one
// binary works with it, under Valgrind, and without either. Any thread may call.

#include "pooled/config.hpp"

extern "C" {
__attribute__((weak)) void __lsan_register_root_region(void const* p, std::size_t bytes);
__attribute__((weak)) void __lsan_unregister_root_region(void const* p, std::size_t bytes);
__attribute__((weak)) void __lsan_ignore_object(void const* p);
void __msan_unpoison(void const volatile* p, std::size_t bytes);
}

POOLED_BEGIN_NAMESPACE
namespace detail::sanitizer {

// Library memory that LeakSanitizer must search for pointers; by itself it ignores memory that a program maps.
inline void add_root([[maybe_unused]] void const* p, [[maybe_unused]] std::size_t bytes) noexcept {
    if constexpr (POOLED_SANITIZE != 0)
        if (p != nullptr && __lsan_register_root_region != nullptr) __lsan_register_root_region(p, bytes);
}
inline void remove_root([[maybe_unused]] void const* p, [[maybe_unused]] std::size_t bytes) noexcept {
    if constexpr (POOLED_SANITIZE != 0)
        if (__lsan_unregister_root_region != nullptr) __lsan_unregister_root_region(p, bytes);
}
// The only pointer to a malloc block moves to a word that no leak checker can read: the block is then reported by none, and what it points
// to counts as reachable.
inline void hide_pointer([[maybe_unused]] void const volatile* p) noexcept {
    if constexpr (POOLED_SANITIZE != 0)
        if (__lsan_ignore_object != nullptr) __lsan_ignore_object(const_cast<void const*>(p));
}
// MemorySanitizer must treat these bytes as initialized.
inline void unpoison([[maybe_unused]] void const* p, [[maybe_unused]] std::size_t bytes) noexcept {
#if POOLED_MEMORY_SANITIZER
    __msan_unpoison(p, bytes);
#endif
}

}  // namespace detail::sanitizer
POOLED_END_NAMESPACE
