// SPDX-License-Identifier: BSL-1.0
#pragma once

// Every macro of the library, with its default. Define any of them before the first include, with the same value in every
// translation unit of a program: they change code that the linker merges.
//
//   POOLED_CHECKED            0 | 1   the checked build: verifies each allocation and deallocation. Reports bad deallocations
//                                     at the call; writes after a block's end or after its deallocation when the block is freed
//                                     or used again; see docs/debugging.md
//   POOLED_HARDENED           0 | 1   for production: reports double frees and frees into the wrong pool; see docs/debugging.md
//   POOLED_GUARD_BYTES        n       the checked build: guard bytes after each block, a decimal literal; default 16
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
//   POOLED_HAS_MEMBARRIER 0 | 1 | 2   the platform can run a barrier on every thread of the process (Linux); 2: it may, which each
//                                     process finds out (Windows)
//   POOLED_UNTESTED_PLATFORM  0 | 1   compile for a system other than Linux and Windows, which is untested
//   POOLED_SHARED             0 | 1   the program links to libpooled.so, which contains the slow paths and the state, so sources
//   POOLED_STATIC             0 | 1   do not compile them; or to libpooled-static.a. CMake's pooled::shared and pooled::static define
//                                     the macros: docs/compiled-library.md
//   POOLED_HAS_STOP_TOKEN     0 | 1   the standard library has std::stop_token (libc++ 19: with -fexperimental-library)

#include "pooled/version.hpp"

// An unsupported system gets a message before anything else can fail. os/platform.hpp says what a port consists of.
#if defined(_MSC_VER)
#error \
    "pooled does not support MSVC or its standard library: use MinGW-w64, or GCC 12, Clang 15 or later in WSL"
#elif defined(_WIN32) && !(defined(__MINGW32__) && defined(__x86_64__))
#error \
    "pooled supports Windows on x86-64 alone, with MinGW-w64: its GCC 12 with POSIX threads, or Clang with libc++"
#elif defined(_WIN32) && POOLED_SHARED
#error \
    "pooled: there is no DLL of it, since a DLL has no thread_local variables for others: link pooled::static"
#elif defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ != 8
#error "pooled needs 64-bit addresses: compile without -m32 or -mx32"
#elif !defined(__linux__) && !defined(_WIN32) && !POOLED_UNTESTED_PLATFORM
#error "pooled is tested on Linux and Windows alone: define POOLED_UNTESTED_PLATFORM=1 to try it here"
#elif defined(__clang__) && !defined(__apple_build_version__) && __clang_major__ < 15
#error "pooled needs Clang 15 or later: earlier ones have no std::source_location"
#elif defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#error "pooled needs GCC 12 or later: earlier ones have no std::allocate_shared_for_overwrite"
#elif __cplusplus < 202002L
#error "pooled needs C++20 or later: compile with -std=c++20"
// Ends the compilation, as no #error does: thousands of errors would follow from this one.
#define POOLED_STOP "(because of the error above)"
#include POOLED_STOP
#endif

#include <cstddef>  // this and <cstdint>: for all headers of the library
#include <cstdint>
#include <cstdio>   // fputs, in the default POOLED_FAIL
#include <cstdlib>  // abort, in the default POOLED_FAIL
#include <version>  // __cpp_lib_jthread

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 160000
#error "pooled needs libc++ 16 or later: earlier ones have no <memory_resource>"
#define POOLED_STOP "(because of the error above)"
#include POOLED_STOP
#endif

#ifndef POOLED_CHECKED
#define POOLED_CHECKED 0
#endif

#ifndef POOLED_HARDENED
#define POOLED_HARDENED 0
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
#elif defined(_WIN32)
#define POOLED_HAS_MEMBARRIER 2
#else
#define POOLED_HAS_MEMBARRIER 0
#endif
#endif

#ifndef POOLED_HAS_STOP_TOKEN
#if defined(__cpp_lib_jthread) || \
    (defined(_LIBCPP_VERSION) && !defined(_LIBCPP_HAS_NO_EXPERIMENTAL_STOP_TOKEN) && __has_include(<stop_token>))
#define POOLED_HAS_STOP_TOKEN 1
#else
#define POOLED_HAS_STOP_TOKEN 0
#endif
#endif

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

#ifndef POOLED_FAIL
#define POOLED_FAIL(message) ::pooled::detail::fail(message)
#endif

#ifndef POOLED_THROW
#if POOLED_HAS_EXCEPTIONS
#define POOLED_THROW(exception) throw exception
#else
#define POOLED_THROW(exception) POOLED_FAIL((exception).what())
#endif
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

#include "pooled/base/macros.hpp"
#include "pooled/base/thread_local.hpp"

POOLED_BEGIN_DETAIL

[[noreturn]] POOLED_NOINLINE inline void fail(char const* message) noexcept {
    std::fputs(message, stderr);
    std::fputc('\n', stderr);
    std::abort();
}

// A friend of what inspect/own_record.hpp and others describe to another program, and tests look at: `of` what is described or who looks.
struct record_access {
    template <class T>
    struct of;
};

POOLED_END_DETAIL
