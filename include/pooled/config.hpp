// SPDX-License-Identifier: BSL-1.0
#pragma once

// Every macro of the library, with its default. Define any of them before the first include, with the same value in every
// translation unit of a program: they change code that the linker merges.
//
//   POOLED_CHECKED            0 | 1   the checked build: verifies each allocation and deallocation. Reports bad deallocations
//                                     at the call; writes behind a block or after its deallocation when the block is freed
//                                     or used again; see docs/debugging.md
//   POOLED_HARDENED           0 | 1   for production: reports double frees and frees into the wrong pool, and randomizes the
//                                     order of addresses within a word of a bitmap; see docs/debugging.md
//   POOLED_TRACKED            0 | 1   each block in use records its type, when and where it was acquired, for
//                                     pool::live_report(); see docs/debugging.md
//   POOLED_TRACKED_STACKS     n       the tracked build records this many callers of each acquisition (a decimal literal); default 0
//   POOLED_GUARD_BYTES        n       the checked build: guard bytes behind each block, a decimal literal; default 16
//   POOLED_SANITIZE           0 | 1   takes each block from malloc, so that tools which intercept malloc see pooled objects:
//                                     AddressSanitizer, LeakSanitizer, MemorySanitizer, Valgrind. Default 1 if the compiler
//                                     defines a macro for its sanitizer, else 0; see docs/debugging.md
//   POOLED_ASSERT(c, m)               internal consistency; only when NDEBUG is not defined
//   POOLED_CHECK(c, m)                cheap checks of the caller's arguments; always on, never on the fast path
//   POOLED_EXPENSIVE_CHECK(c, m)      walks structures; only when POOLED_CHECKED is 1
//   POOLED_HAS_EXCEPTIONS     0 | 1   0 with -fno-exceptions: the try_ forms work unchanged; functions that would throw fail
//   POOLED_THROW(exception)           how an exception leaves the library; must not return. Without exceptions it calls
//                                     POOLED_FAIL with the exception's what(): the one place for a program to hook into
//   POOLED_FAIL(message)              what a failed check calls; must not return. Tests make it throw
//   POOLED_HAS_MEMBARRIER     0 | 1   the platform can run a barrier on every thread of the process (Linux)
//   POOLED_UNTESTED_PLATFORM  0 | 1   compile for a system other than Linux, which is untested
//   POOLED_SHARED             0 | 1   the program links to libpooled.so, which contains the slow paths and the state, so sources
//   POOLED_STATIC             0 | 1   do not compile them; or to libpooled.a. CMake's pooled::shared and pooled::static define
//                                     the macros: docs/compiled-library.md
//   POOLED_HAS_STOP_TOKEN     0 | 1   the standard library has std::stop_token (libc++ 19: with -fexperimental-library)

#include "pooled/version.hpp"

// An unsupported system gets a message before anything else can fail. os/platform.hpp is the one file to port.
#if defined(_MSC_VER) && !defined(__clang__)
#error "pooled does not support MSVC: use GCC 12, Clang 15 or later for Linux, for example in WSL"
#elif defined(_WIN32)
#error "pooled does not support Windows: compile for Linux, for example in WSL"
#elif defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ != 8
#error "pooled needs 64-bit addresses: compile without -m32 or -mx32"
#elif !defined(__linux__) && !POOLED_UNTESTED_PLATFORM
#error "pooled is tested on Linux alone: define POOLED_UNTESTED_PLATFORM=1 to try it here"
#elif defined(__clang__) && !defined(__apple_build_version__) && __clang_major__ < 15
#error "pooled needs Clang 15 or later: earlier ones have no std::source_location"
#elif defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#error "pooled needs GCC 12 or later: earlier ones have no std::allocate_shared_for_overwrite"
#elif __cplusplus < 202002L
#error "pooled needs C++20 or later: compile with -std=c++20"
#endif

#include <cstdio>   // fputs, in the default POOLED_FAIL
#include <cstdlib>  // abort, in the default POOLED_FAIL
#include <version>  // __cpp_lib_jthread

#ifndef POOLED_CHECKED
#define POOLED_CHECKED 0
#endif

#ifndef POOLED_HARDENED
#define POOLED_HARDENED 0
#endif

#ifndef POOLED_TRACKED
#define POOLED_TRACKED 0
#endif

#ifndef POOLED_TRACKED_STACKS
#define POOLED_TRACKED_STACKS 0
#elif POOLED_TRACKED_STACKS != 0 && !POOLED_TRACKED
#error "pooled: POOLED_TRACKED_STACKS has no effect without POOLED_TRACKED=1: define both"
#endif

#ifndef POOLED_SHARED
#define POOLED_SHARED 0
#endif

#ifndef POOLED_STATIC
#define POOLED_STATIC 0
#endif

#ifndef POOLED_HAS_MEMBARRIER
#if defined(__linux__)
#define POOLED_HAS_MEMBARRIER 1
#else
#define POOLED_HAS_MEMBARRIER 0
#endif
#endif

#ifndef POOLED_HAS_STOP_TOKEN
#if defined(__cpp_lib_jthread) || \
    (defined(_LIBCPP_VERSION) && !defined(_LIBCPP_HAS_NO_EXPERIMENTAL_STOP_TOKEN))
#define POOLED_HAS_STOP_TOKEN 1
#else
#define POOLED_HAS_STOP_TOKEN 0
#endif
#endif

// The state of the process (page map, registry, thread table) is shared between the executable and its shared libraries
// wherever the dynamic linker sees it, also when they are built with -fvisibility=hidden: docs/plugins.md.
#define POOLED_EXPORT __attribute__((visibility("default")))
// The opposite: one for each executable and shared library.
#define POOLED_HIDDEN __attribute__((visibility("hidden")))

// Where the code of the slow paths and the state are: in each source that needs them, or in libpooled, whose one source defines
// POOLED_BUILDS_LIBRARY. POOLED_API declares a function; POOLED_CODE defines it, under #if POOLED_HAS_CODE. POOLED_VIRTUAL declares
// one that is virtual: in a source of its own, it must be inline there already, or each source compiles the whole class.
// POOLED_STATE(type, name, initial value) declares a variable, and defines it where the code is.
#if defined(POOLED_BUILDS_LIBRARY)
#define POOLED_HAS_CODE 1
#define POOLED_API POOLED_EXPORT
#define POOLED_VIRTUAL POOLED_EXPORT
#define POOLED_CODE
#define POOLED_STATE(type, name, ...) POOLED_EXPORT constinit type name __VA_ARGS__
#elif POOLED_SHARED || POOLED_STATIC
#define POOLED_HAS_CODE 0
#define POOLED_API POOLED_EXPORT
#define POOLED_VIRTUAL POOLED_EXPORT
#define POOLED_STATE(type, name, ...) POOLED_EXPORT extern constinit type name
#else
#define POOLED_HAS_CODE 1
#define POOLED_API
#define POOLED_VIRTUAL inline
#define POOLED_CODE POOLED_NOINLINE inline
#define POOLED_STATE(type, name, ...) POOLED_EXPORT inline constinit type name __VA_ARGS__
#endif
// State of a template, which each file of a program has for itself where libpooled has all other state: its tables are of one
// libpooled, and the dynamic linker may share such a variable between the users of two.
#if defined(POOLED_BUILDS_LIBRARY) || POOLED_SHARED || POOLED_STATIC
#define POOLED_TEMPLATE_STATE POOLED_HIDDEN inline constinit
#else
#define POOLED_TEMPLATE_STATE POOLED_EXPORT inline constinit
#endif
#define POOLED_USED __attribute__((used))
#define POOLED_SYMBOL(name) __asm__(name)

// Which sanitizer the compiler works for, by the names that GCC and Clang have for it.
#if defined(__has_feature)
#define POOLED_HAS_FEATURE(name) __has_feature(name)
#else
#define POOLED_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || POOLED_HAS_FEATURE(address_sanitizer)
#define POOLED_ADDRESS_SANITIZER 1
#else
#define POOLED_ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__) || POOLED_HAS_FEATURE(thread_sanitizer)
#define POOLED_THREAD_SANITIZER 1
#else
#define POOLED_THREAD_SANITIZER 0
#endif
#define POOLED_MEMORY_SANITIZER POOLED_HAS_FEATURE(memory_sanitizer)

#ifndef POOLED_SANITIZE
#if POOLED_ADDRESS_SANITIZER || POOLED_MEMORY_SANITIZER || POOLED_HAS_FEATURE(leak_sanitizer)
#define POOLED_SANITIZE 1
#else
#define POOLED_SANITIZE 0
#endif
#endif

#ifndef POOLED_GUARD_BYTES
#define POOLED_GUARD_BYTES 16
#endif

#ifndef POOLED_HAS_EXCEPTIONS
#if defined(__cpp_exceptions)
#define POOLED_HAS_EXCEPTIONS 1
#else
#define POOLED_HAS_EXCEPTIONS 0
#endif
#endif

// Names everything that layouts depend on, so that different builds share no symbol: version, checked mode and its guard size,
// sanitized and hardened builds, tracked builds and their stacks, the gate's barrier, the standard library, its debug mode and
// its string. Code without exceptions has names of its own, because it fails where other code throws. So has code that is compiled
// for libpooled, because it must not be linked to header-only code; these names also contain what the library must have in common
// with its users.
//   POOLED_ABI_BUILD      equal where layouts are; also the namespace of what has one name with libpooled and without
//   POOLED_ABI_NAMESPACE  that of everything else
//   POOLED_ABI_LAYOUT, POOLED_ABI_NAME   both as strings
#if POOLED_CHECKED
#define POOLED_ABI_CHECKED POOLED_ABI_GUARDED(POOLED_GUARD_BYTES)
#define POOLED_ABI_GUARDED(bytes) POOLED_ABI_GUARDED_OF(bytes)
#define POOLED_ABI_GUARDED_OF(bytes) _checked##bytes
#else
#define POOLED_ABI_CHECKED
#endif
#if POOLED_SANITIZE
#define POOLED_ABI_BLOCKS _malloc
#else
#define POOLED_ABI_BLOCKS
#endif
#if POOLED_HARDENED
#define POOLED_ABI_HARDENED _hardened
#else
#define POOLED_ABI_HARDENED
#endif
#if POOLED_TRACKED
#define POOLED_ABI_TRACKED POOLED_ABI_WITH_STACKS(POOLED_TRACKED_STACKS)
#define POOLED_ABI_WITH_STACKS(callers) POOLED_ABI_WITH_STACKS_OF(callers)
#define POOLED_ABI_WITH_STACKS_OF(callers) _tracked##callers
#else
#define POOLED_ABI_TRACKED
#endif
#if POOLED_HAS_MEMBARRIER
#define POOLED_ABI_BARRIER
#else
#define POOLED_ABI_BARRIER _fence
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
#if defined(POOLED_BUILDS_LIBRARY) || POOLED_SHARED || POOLED_STATIC
#define POOLED_ABI_COMPILED _compiled
#if POOLED_THREAD_SANITIZER
#define POOLED_ABI_RACES _tsan
#else
#define POOLED_ABI_RACES
#endif
#else
#define POOLED_ABI_COMPILED
#define POOLED_ABI_RACES
#endif
#if POOLED_HAS_EXCEPTIONS
#define POOLED_ABI_FAILURE
#else
#define POOLED_ABI_FAILURE _noexcept
#endif
#define POOLED_ABI_JOIN(major, minor, patch, checked, blocks, hardened, tracked, barrier, library) \
    v##major##_##minor##_##patch##checked##blocks##hardened##tracked##barrier##library
#define POOLED_ABI_EXPAND(major, minor, patch, checked, blocks, hardened, tracked, barrier, library) \
    POOLED_ABI_JOIN(major, minor, patch, checked, blocks, hardened, tracked, barrier, library)
#define POOLED_ABI_BUILD                                                                                    \
    POOLED_ABI_EXPAND(POOLED_VERSION_MAJOR, POOLED_VERSION_MINOR, POOLED_VERSION_PATCH, POOLED_ABI_CHECKED, \
                      POOLED_ABI_BLOCKS, POOLED_ABI_HARDENED, POOLED_ABI_TRACKED, POOLED_ABI_BARRIER,       \
                      POOLED_ABI_LIBRARY)
#define POOLED_ABI_APPEND_TO(build, compiled, races, failure) build##compiled##races##failure
#define POOLED_ABI_APPEND(build, compiled, races, failure) \
    POOLED_ABI_APPEND_TO(build, compiled, races, failure)
#define POOLED_ABI_NAMESPACE \
    POOLED_ABI_APPEND(POOLED_ABI_BUILD, POOLED_ABI_COMPILED, POOLED_ABI_RACES, POOLED_ABI_FAILURE)
#define POOLED_ABI_QUOTE(name) #name
#define POOLED_ABI_STRING(name) POOLED_ABI_QUOTE(name)
#define POOLED_ABI_NAME POOLED_ABI_STRING(POOLED_ABI_NAMESPACE)
#define POOLED_ABI_LAYOUT POOLED_ABI_STRING(POOLED_ABI_BUILD)

#define POOLED_NOINLINE __attribute__((noinline))
// Out of line, at the start of a cache line: its speed does not depend on where the linker puts it.
#define POOLED_COLD_PART __attribute__((noinline, aligned(64)))
#define POOLED_ALWAYS_INLINE inline __attribute__((always_inline))

// For functions that make an object. The tracked build does not inline them: their return address is the place of acquisition.
#if POOLED_TRACKED
#include <source_location>  // POOLED_CALLER
#define POOLED_INLINE_ENTRY POOLED_NOINLINE
#define POOLED_TRACKED_ENTRY POOLED_NOINLINE
#define POOLED_ACQUISITION(...)                                \
    ::pooled::detail::tracking::acquisition const acquisition( \
        {.type = ::pooled::detail::tracking::type_name<T>(),   \
         .address = __builtin_return_address(0),               \
         .is_only_weak = __VA_ARGS__})
#define POOLED_CALLER                                    \
    , ::pooled::detail::tracking::caller const& caller = \
          ::pooled::detail::tracking::caller(std::source_location::current())
#define POOLED_ACQUISITION_AT_CALLER                           \
    ::pooled::detail::tracking::acquisition const acquisition( \
        {.source = caller.source, .address = __builtin_return_address(0)})
#define POOLED_ACQUISITION_OF_MEMORY \
    ::pooled::detail::tracking::acquisition const acquisition({.address = __builtin_return_address(0)})
#else
#define POOLED_CALLER
#define POOLED_ACQUISITION_AT_CALLER static_cast<void>(0)
#define POOLED_ACQUISITION_OF_MEMORY static_cast<void>(0)
#define POOLED_INLINE_ENTRY POOLED_ALWAYS_INLINE
#define POOLED_TRACKED_ENTRY
#define POOLED_ACQUISITION(...) static_cast<void>(0)
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

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

[[noreturn]] POOLED_NOINLINE inline void fail(char const* message) noexcept {
    std::fputs(message, stderr);
    std::fputc('\n', stderr);
    std::abort();
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#ifndef POOLED_FAIL
#define POOLED_FAIL(message) ::pooled::detail::fail(message)
#endif

// Without exceptions, a function that finds no memory returns `failure`, as at the bound, and nothing is caught.
#if POOLED_HAS_EXCEPTIONS
#ifndef POOLED_THROW
#define POOLED_THROW(exception) throw exception
#endif
#define POOLED_THROW_OR(exception, failure) POOLED_THROW(exception)
#define POOLED_TRY try
#define POOLED_CATCH(what) catch (what)
#define POOLED_RETHROW throw
#else
#ifndef POOLED_THROW
#define POOLED_THROW(exception) POOLED_FAIL((exception).what())
#endif
#define POOLED_THROW_OR(exception, failure) return failure
#define POOLED_TRY if constexpr (true)
#define POOLED_CATCH(what) if constexpr (false)
#define POOLED_RETHROW static_cast<void>(0)
#endif

#ifndef POOLED_CHECK
#define POOLED_CHECK(condition, message) \
    do {                                 \
        if (!(condition)) [[unlikely]]   \
            POOLED_FAIL(message);        \
    } while (false)
#endif

#ifndef POOLED_ASSERT
#ifdef NDEBUG
#define POOLED_ASSERT(condition, message) static_cast<void>(0)
#else
#define POOLED_ASSERT(condition, message) POOLED_CHECK(condition, message)
#endif
#endif

#ifndef POOLED_EXPENSIVE_CHECK
#if POOLED_CHECKED
#define POOLED_EXPENSIVE_CHECK(condition, message) POOLED_CHECK(condition, message)
#else
#define POOLED_EXPENSIVE_CHECK(condition, message) static_cast<void>(0)
#endif
#endif
