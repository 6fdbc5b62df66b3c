// SPDX-License-Identifier: BSL-1.0
#pragma once

// The library's own macros, which no user sets. Part of config.hpp, which sets what they depend on.

// Names everything that layouts depend on, so that different builds share no symbol: version, checked mode and its guard size,
// sanitized and hardened builds, the gate's barrier, the standard library, its debug mode and its string. Code without exceptions has names of its own, because it fails where other code throws. So has code that is compiled
// for libpooled, because it must not be linked to header-only code; these names also contain what the library must have in common
// with its users.
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
#define POOLED_ABI_IF_2(yes, no) yes
#define POOLED_ABI_STRING(name) POOLED_ABI_STRING_OF(name)
#define POOLED_ABI_STRING_OF(name) #name

#define POOLED_ABI_VERSION \
    POOLED_ABI_JOIN(v, POOLED_VERSION_MAJOR, _, POOLED_VERSION_MINOR, _, POOLED_VERSION_PATCH)
#define POOLED_ABI_BUILD                                                                                    \
    POOLED_ABI_JOIN(POOLED_ABI_VERSION,                                                                     \
                    POOLED_ABI_IF(POOLED_CHECKED, POOLED_ABI_JOIN(_checked, POOLED_GUARD_BYTES), ),         \
                    POOLED_ABI_IF(POOLED_SANITIZE, _malloc, ), POOLED_ABI_IF(POOLED_HARDENED, _hardened, ), \
                    POOLED_ABI_IF(POOLED_HAS_MEMBARRIER, , _fence), POOLED_ABI_LIBRARY)
#define POOLED_ABI_NAMESPACE                                                                              \
    POOLED_ABI_JOIN(POOLED_ABI_BUILD, POOLED_ABI_IF(POOLED_IS_COMPILED, _compiled, ),                     \
                    POOLED_ABI_IF(POOLED_IS_COMPILED, POOLED_ABI_IF(POOLED_THREAD_SANITIZER, _tsan, ), ), \
                    POOLED_ABI_IF(POOLED_HAS_EXCEPTIONS, , _noexcept))
// Lines of their own, as in fmt: an inline namespace in the opening line hides what follows from ctags and editors.
#define POOLED_BEGIN_NAMESPACE \
    namespace pooled {         \
    inline namespace POOLED_ABI_NAMESPACE {
#define POOLED_BEGIN_BUILD_NAMESPACE \
    namespace pooled {               \
    inline namespace POOLED_ABI_BUILD {
#define POOLED_END_NAMESPACE \
    }                        \
    }
// The same for what is no user's: most headers.
#define POOLED_BEGIN_DETAIL \
    POOLED_BEGIN_NAMESPACE  \
    namespace detail {
#define POOLED_END_DETAIL \
    }                     \
    POOLED_END_NAMESPACE
#define POOLED_ABI_NAME POOLED_ABI_STRING(POOLED_ABI_NAMESPACE)
#define POOLED_ABI_LAYOUT POOLED_ABI_STRING(POOLED_ABI_BUILD)
#define POOLED_ABI_TAG __attribute__((abi_tag(POOLED_ABI_NAME)))

// The state of the process (page map, registry, thread table) is shared between the executable and its shared libraries
// wherever the dynamic linker sees it, also when they are built with -fvisibility=hidden: docs/plugins.md.
#if defined(_WIN32)  // a DLL exports what it says, and shares no state
#define POOLED_EXPORT
#define POOLED_HIDDEN
#define POOLED_PRINTF __attribute__((format(gnu_printf, 1, 2)))
#else
#define POOLED_PRINTF __attribute__((format(printf, 1, 2)))
#define POOLED_EXPORT __attribute__((visibility("default")))
// The opposite: one for each executable and shared library.
#define POOLED_HIDDEN __attribute__((visibility("hidden")))
#endif

// Where the code of the slow paths and the state are: in each source that needs them, or in libpooled, whose one source defines
// POOLED_BUILDS_LIBRARY. POOLED_API declares a function; POOLED_CODE defines it, under #if POOLED_HAS_CODE.
// POOLED_STATE(type, name, initial value) declares a variable, and defines it where the code is.
#if defined(POOLED_BUILDS_LIBRARY)
#define POOLED_HAS_CODE 1
#define POOLED_API POOLED_EXPORT
#define POOLED_CODE
#define POOLED_STATE(type, name, ...) POOLED_EXPORT constinit type name __VA_ARGS__
#elif POOLED_SHARED || POOLED_STATIC
#define POOLED_HAS_CODE 0
#define POOLED_API POOLED_EXPORT
#define POOLED_STATE(type, name, ...) POOLED_EXPORT extern constinit type name
#else
#define POOLED_HAS_CODE 1
#define POOLED_API
#define POOLED_CODE POOLED_NOINLINE inline
#define POOLED_STATE(type, name, ...) POOLED_EXPORT inline constinit type name __VA_ARGS__
#endif
#define POOLED_USED __attribute__((used))
// Whether a source can have code that runs before all constructors: one of an executable. A sanitizer's code must come first.
#if defined(POOLED_STARTS_FIRST)  // a test says no
#elif defined(__ELF__) && (!defined(__PIC__) || defined(__PIE__)) && !POOLED_ADDRESS_SANITIZER && \
    !POOLED_THREAD_SANITIZER && !POOLED_MEMORY_SANITIZER
#define POOLED_STARTS_FIRST 1
#else
#define POOLED_STARTS_FIRST 0
#endif
#define POOLED_SYMBOL(name) __asm__(POOLED_ABI_STRING(__USER_LABEL_PREFIX__) name)

#define POOLED_NOINLINE __attribute__((noinline))
// Of a function with addresses of blocks in vector registers, out of line: they stay there, and wherever these are saved, until something
// else uses them, and poolheap takes them for roots.
#if defined(__x86_64__) || defined(__aarch64__)
#define POOLED_CLEARED __attribute__((noinline, zero_call_used_regs("used")))
#else
#define POOLED_CLEARED POOLED_NOINLINE
#endif
// Out of line, at the start of a cache line: its speed does not depend on where the linker puts it.
#define POOLED_COLD_PART __attribute__((noinline, aligned(64)))
#if !defined(POOLED_ALWAYS_INLINE)  // test/CMakeLists.txt has another one for tests that are not optimized
#define POOLED_ALWAYS_INLINE inline __attribute__((always_inline))
#endif
// Where nothing is optimized, each place that inlines a function has a frame of that function's size, also within nested drops.
#if defined(__OPTIMIZE__)
#define POOLED_INLINE_IF_OPTIMIZED POOLED_ALWAYS_INLINE
#else
#define POOLED_INLINE_IF_OPTIMIZED inline
#endif

// For a function that reads an object's bytes as a prefetcher does, regardless of their meaning and of concurrent writes: no
// sanitizer may instrument it. In other builds such a function is inlined.
#if POOLED_MEMORY_SANITIZER
#define POOLED_UNWATCHED __attribute__((noinline, no_sanitize("memory", "undefined")))
#elif POOLED_ADDRESS_SANITIZER || POOLED_THREAD_SANITIZER
#define POOLED_UNWATCHED __attribute__((noinline, no_sanitize("address", "thread", "undefined")))
#else
#define POOLED_UNWATCHED POOLED_ALWAYS_INLINE
#endif

// Without exceptions, a function that finds no memory returns `failure`, as at the bound, and nothing is caught.
#if POOLED_HAS_EXCEPTIONS
#define POOLED_THROW_OR(exception, failure) POOLED_THROW(exception)
#define POOLED_TRY try
#define POOLED_CATCH(what) catch (what)
#define POOLED_RETHROW throw
#else
#define POOLED_THROW_OR(exception, failure) return failure
#define POOLED_TRY if constexpr (true)
#define POOLED_CATCH(what) if constexpr (false)
#define POOLED_RETHROW static_cast<void>(0)
#endif
