// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the library says to a sanitizer's runtime. All of it is empty in a build for none.
//
//   add_root, remove_root   memory of the library that LeakSanitizer is to look for pointers in: it reads none that a program
//                           maps by itself
//   hide_pointer            from here on the one pointer to a malloc block stands in a word that no leak checker can read
//   unpoison                MemorySanitizer is to take these bytes for written ones
//
// LeakSanitizer's functions are weak references, so that one binary works with it, under Valgrind and with neither.
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
