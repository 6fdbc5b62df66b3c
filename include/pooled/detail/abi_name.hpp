// SPDX-License-Identifier: BSL-1.0
#pragma once

// Names everything that layouts depend on, so that different builds share no symbol: version, checked mode and its guard size,
// sanitized and hardened builds, tracked builds and their stacks, the gate's barrier, the standard library, its debug mode and
// its string. Code without exceptions has names of its own, because it fails where other code throws. So has code that is compiled
// for libpooled, because it must not be linked to header-only code; these names also contain what the library must have in common
// with its users. Part of config.hpp, which sets what it reads.
//   POOLED_ABI_BUILD      equal where layouts are; also the namespace of what has one name with libpooled and without
//   POOLED_ABI_NAMESPACE  that of everything else
//   POOLED_ABI_LAYOUT, POOLED_ABI_NAME   both as strings
//   POOLED_ABI_TAG        of a class: a function that only returns it has the name in its symbol, too

#if defined(POOLED_BUILDS_LIBRARY) || POOLED_SHARED || POOLED_STATIC
#define POOLED_IS_COMPILED 1
#else
#define POOLED_IS_COMPILED 0
#endif
#if defined(_LIBCPP_VERSION)
#define POOLED_ABI_LIBRARY _libcpp
#elif defined(_GLIBCXX_DEBUG)
#define POOLED_ABI_LIBRARY _debug
#elif defined(__GLIBCXX__) && !_GLIBCXX_USE_CXX11_ABI
#define POOLED_ABI_LIBRARY _oldstring
#else
#define POOLED_ABI_LIBRARY
#endif

// Up to ten words as one. POOLED_ABI_IF(1, yes, no) is `yes`.
#define POOLED_ABI_JOIN(...) POOLED_ABI_JOIN_OF(__VA_ARGS__, , , , , , , , , , )
#define POOLED_ABI_JOIN_OF(a, b, c, d, e, f, g, h, i, j, ...) a##b##c##d##e##f##g##h##i##j
#define POOLED_ABI_IF(condition, yes, no) POOLED_ABI_JOIN(POOLED_ABI_IF_, condition)(yes, no)
#define POOLED_ABI_IF_0(yes, no) no
#define POOLED_ABI_IF_1(yes, no) yes
#define POOLED_ABI_STRING(name) POOLED_ABI_STRING_OF(name)
#define POOLED_ABI_STRING_OF(name) #name

#define POOLED_ABI_VERSION \
    POOLED_ABI_JOIN(v, POOLED_VERSION_MAJOR, _, POOLED_VERSION_MINOR, _, POOLED_VERSION_PATCH)
#define POOLED_ABI_BUILD                                                                                    \
    POOLED_ABI_JOIN(POOLED_ABI_VERSION,                                                                     \
                    POOLED_ABI_IF(POOLED_CHECKED, POOLED_ABI_JOIN(_checked, POOLED_GUARD_BYTES), ),         \
                    POOLED_ABI_IF(POOLED_SANITIZE, _malloc, ), POOLED_ABI_IF(POOLED_HARDENED, _hardened, ), \
                    POOLED_ABI_IF(POOLED_TRACKED, POOLED_ABI_JOIN(_tracked, POOLED_TRACKED_STACKS), ),      \
                    POOLED_ABI_IF(POOLED_HAS_MEMBARRIER, , _fence), POOLED_ABI_LIBRARY)
#define POOLED_ABI_NAMESPACE                                                                              \
    POOLED_ABI_JOIN(POOLED_ABI_BUILD, POOLED_ABI_IF(POOLED_IS_COMPILED, _compiled, ),                     \
                    POOLED_ABI_IF(POOLED_IS_COMPILED, POOLED_ABI_IF(POOLED_THREAD_SANITIZER, _tsan, ), ), \
                    POOLED_ABI_IF(POOLED_HAS_EXCEPTIONS, , _noexcept))
#define POOLED_ABI_NAME POOLED_ABI_STRING(POOLED_ABI_NAMESPACE)
#define POOLED_ABI_LAYOUT POOLED_ABI_STRING(POOLED_ABI_BUILD)
#define POOLED_ABI_TAG __attribute__((abi_tag(POOLED_ABI_NAME)))
