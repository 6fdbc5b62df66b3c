// SPDX-License-Identifier: BSL-1.0
#pragma once

// The library's calls into a sanitizer's runtime. All of them are empty in a build without a sanitizer.
//
//   add_root, remove_root   library memory that LeakSanitizer must search for pointers; by itself it ignores memory that a
//                           program maps
//   hide_pointer            the only pointer to a malloc block moves to a word that no leak checker can read
//   unpoison                MemorySanitizer must treat these bytes as initialized
//
// LeakSanitizer's functions are weak references, so one binary works with it, under Valgrind, and without either.
// Any thread may call.

#include "pooled/config.hpp"

#include <cstddef>

#if POOLED_SANITIZE
extern "C" {
__attribute__((weak)) void __lsan_register_root_region(void const* p, std::size_t bytes);
__attribute__((weak)) void __lsan_unregister_root_region(void const* p, std::size_t bytes);
__attribute__((weak)) void __lsan_ignore_object(void const* p);
}
#endif
#if POOLED_MEMORY_SANITIZER
extern "C" void __msan_unpoison(void const volatile* p, std::size_t bytes);
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::sanitizer {

#if POOLED_SANITIZE

inline void add_root(void const* p, std::size_t bytes) noexcept {
    if (p != nullptr && __lsan_register_root_region != nullptr) __lsan_register_root_region(p, bytes);
}
inline void remove_root(void const* p, std::size_t bytes) noexcept {
    if (__lsan_unregister_root_region != nullptr) __lsan_unregister_root_region(p, bytes);
}
// The block is then reported by no leak check; what it points to counts as reachable.
inline void hide_pointer(void const volatile* p) noexcept {
    if (__lsan_ignore_object != nullptr) __lsan_ignore_object(const_cast<void const*>(p));
}

#else

POOLED_ALWAYS_INLINE void add_root(void const*, std::size_t) noexcept {}
POOLED_ALWAYS_INLINE void remove_root(void const*, std::size_t) noexcept {}
POOLED_ALWAYS_INLINE void hide_pointer(void const volatile*) noexcept {}

#endif

#if POOLED_MEMORY_SANITIZER
inline void unpoison(void const* p, std::size_t bytes) noexcept { __msan_unpoison(p, bytes); }
#else
POOLED_ALWAYS_INLINE void unpoison(void const*, std::size_t) noexcept {}
#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::sanitizer
