// SPDX-License-Identifier: BSL-1.0
#pragma once

// The library's own macros, which no user sets. Part of config.hpp, which sets what they depend on.

#include "pooled/detail/abi_name.hpp"

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
#if POOLED_IS_COMPILED
#define POOLED_TEMPLATE_STATE POOLED_HIDDEN inline constinit
#else
#define POOLED_TEMPLATE_STATE POOLED_EXPORT inline constinit
#endif
#define POOLED_USED __attribute__((used))
#define POOLED_SYMBOL(name) __asm__(name)

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
