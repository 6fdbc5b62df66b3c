// SPDX-License-Identifier: BSL-1.0
#pragma once

// Variables of each thread. Part of config.hpp.
//
//   POOLED_THREAD_STATE(type, name, initial value)   declares or defines one, as POOLED_STATE; name() refers to that of the calling thread
//   POOLED_HOT_THREAD_STATE(the same)                for what inlined code uses, which then has in one instruction each:
//     POOLED_THREAD_GET(name, member)                  the value of a member of 8 bytes
//     POOLED_THREAD_GET_AT(name, member, index)        an element of a member that is an array of pointers
//     POOLED_THREAD_SET(name, member, value)           a member of 4 or 8 bytes
//     POOLED_THREAD_EQUALS(name, member, value)        the same
//     POOLED_THREAD_SPANS(name, low, bytes, address)   address - low < bytes, of two members
//
// A fibre may continue on another thread after any call of foreign code, and compilers take the address of a thread_local variable for a
// constant of the function (docs/teardown.md). So each use here reads the thread pointer by volatile assembly, which no compiler merges
// with another one or moves across a call; the variable's distance from it is the same in each thread, and compilers may keep it.
//
//   executables                  assembly with the variable's symbol, as many instructions as compilers make; so does a library that is
//                                loaded with its program (POOLED_INITIAL_EXEC)
//   shared libraries (-fPIC)     a call of a function that is not inlined: a plugin's variables lie at another distance in each thread,
//                                and the space for those that do not is small (glibc: 1.6 KiB)
//   other systems, processors    the same
//
// A reference that name() returned must not be used after a call of foreign code. The macros are no accesses to memory for the compiler:
// what a function writes to such a member by a reference, it reads by the reference, or after a call that is not inlined.

#include <type_traits>

#if defined(_WIN32) && !defined(__clang__)
#define POOLED_THREAD_ACCESS_WINDOWS 1
#elif defined(__linux__) && !defined(__ANDROID__) && defined(__LP64__) && \
    (defined(__x86_64__) || defined(__aarch64__) || defined(__riscv)) &&  \
    (!defined(__PIC__) || defined(__PIE__) || defined(POOLED_INITIAL_EXEC))
#define POOLED_THREAD_ACCESS_ELF 1
#endif

// There is one symbol for all, as an executable and its shared libraries share the variable.
#define POOLED_THREAD_SYMBOL(name) "pooled_" #name "_" POOLED_ABI_NAME

#if defined(POOLED_THREAD_ACCESS_WINDOWS) || defined(POOLED_THREAD_ACCESS_ELF)
#if POOLED_HAS_CODE
#define POOLED_DEFINED POOLED_USED  // the compiler does not see its use
#else
#define POOLED_DEFINED
#endif
#endif

// GCC for Windows emulates thread_local: the first use calls malloc, and a key's destructor frees the variables before other code of the
// thread has ended. So they are laid out as the system's loader wants it, in the section that it copies for each thread, and found
// at their offset in the copy.
#if defined(POOLED_THREAD_ACCESS_WINDOWS)
#define POOLED_THREAD_STATE(type, name, ...)                                            \
    POOLED_DEFINED __attribute__((section(".tls$POOLED_" #name))) POOLED_STATE(         \
        type, name##_of_thread POOLED_SYMBOL(POOLED_THREAD_SYMBOL(name)), __VA_ARGS__); \
    [[nodiscard]] POOLED_ALWAYS_INLINE type& name() noexcept {                          \
        void** files = nullptr;                                                         \
        type* found = nullptr;                                                          \
        asm volatile("movq %%gs:0x58, %0" : "=r"(files));                               \
        asm("leaq " POOLED_THREAD_SYMBOL(name) "@SECREL32(%1), %0"                      \
            : "=r"(found)                                                               \
            : "r"(files[pooled_tls_index]));                                            \
        return *found;                                                                  \
    }                                                                                   \
    static_assert(true)
extern "C" unsigned pooled_tls_index POOLED_SYMBOL("_tls_index");

#elif defined(POOLED_THREAD_ACCESS_ELF)
// The linker knows the distance of an executable's variable. That of another file's variable is in the global offset table: %[base].
// %[at] is a member's offset. ATT and INTEL are the two syntaxes of x86-64.
#if POOLED_HAS_CODE && !defined(POOLED_INITIAL_EXEC)
#define POOLED_THREAD_LOAD_BASE(symbol) static_cast<void>(0)
#define POOLED_THREAD_BASE
#define POOLED_THREAD_AND_BASE
#if defined(__x86_64__)
#define POOLED_THREAD_ADDRESS(symbol)                                                                       \
    "{movq %%fs:0, %0|mov %0, QWORD PTR fs:0}\n\t{leaq " symbol "@tpoff(%0), %0|lea %0, " symbol "@tpoff[%" \
    "0]}"
#define POOLED_THREAD_MEMBER_ATT(symbol, at) "%%fs:" symbol "@tpoff+%c[" at "]"
#define POOLED_THREAD_MEMBER_INTEL(symbol, at) "fs:" symbol "@tpoff+%c[" at "]"
#define POOLED_THREAD_ELEMENT_ATT(symbol) "%%fs:" symbol "@tpoff+%c[at](,%[index],8)"
#define POOLED_THREAD_ELEMENT_INTEL(symbol) "fs:" symbol "@tpoff[%[index]*8+%c[at]]"
#elif defined(__aarch64__)
#define POOLED_THREAD_ADDRESS(symbol)                                   \
    "mrs %0, tpidr_el0\n\tadd %0, %0, #:tprel_hi12:" symbol ", lsl #12" \
    "\n\tadd %0, %0, #:tprel_lo12_nc:" symbol
#else
#define POOLED_THREAD_ADDRESS(symbol)                                           \
    "lui %0, %%tprel_hi(" symbol ")\n\tadd %0, %0, tp, %%tprel_add(" symbol ")" \
    "\n\taddi %0, %0, %%tprel_lo(" symbol ")"
#endif
#else
#define POOLED_THREAD_LOAD_BASE(symbol) \
    std::size_t base = 0;               \
    asm(POOLED_THREAD_FIND_BASE(symbol) : "=r"(base))
#define POOLED_THREAD_BASE [base] "r"(base)
#define POOLED_THREAD_AND_BASE , [base] "r"(base)
#if defined(__x86_64__)
#define POOLED_THREAD_FIND_BASE(symbol) \
    "{movq " symbol "@gottpoff(%%rip), %0|mov %0, QWORD PTR " symbol "@gottpoff[rip]}"
#define POOLED_THREAD_ADDRESS(symbol) \
    "{movq %%fs:0, %0|mov %0, QWORD PTR fs:0}\n\t{addq %[base], %0|add %0, %[base]}"
#define POOLED_THREAD_MEMBER_ATT(symbol, at) "%%fs:%c[" at "](%[base])"
#define POOLED_THREAD_MEMBER_INTEL(symbol, at) "fs:%c[" at "][%[base]]"
#define POOLED_THREAD_ELEMENT_ATT(symbol) "%%fs:%c[at](%[base],%[index],8)"
#define POOLED_THREAD_ELEMENT_INTEL(symbol) "fs:%c[at][%[base]+%[index]*8]"
#elif defined(__aarch64__)
#define POOLED_THREAD_FIND_BASE(symbol) \
    "adrp %0, :gottprel:" symbol "\n\tldr %0, [%0, #:gottprel_lo12:" symbol "]"
#define POOLED_THREAD_ADDRESS(symbol) "mrs %0, tpidr_el0\n\tadd %0, %0, %[base]"
#else
#define POOLED_THREAD_FIND_BASE(symbol) "la.tls.ie %0, " symbol
#define POOLED_THREAD_ADDRESS(symbol) "add %0, tp, %[base]"
#endif
#endif

#define POOLED_THREAD_STATE(type, name, ...)                                                                 \
    POOLED_DEFINED POOLED_STATE(thread_local type,                                                           \
                                name##_of_thread POOLED_SYMBOL(POOLED_THREAD_SYMBOL(name)), __VA_ARGS__);    \
    [[nodiscard]] POOLED_ALWAYS_INLINE type& name() noexcept {                                               \
        POOLED_THREAD_LOAD_BASE(POOLED_THREAD_SYMBOL(name));                                                 \
        type* found = nullptr;                                                                               \
        asm volatile(POOLED_THREAD_ADDRESS(POOLED_THREAD_SYMBOL(name)) : "=&r"(found) : POOLED_THREAD_BASE); \
        return *found;                                                                                       \
    }                                                                                                        \
    static_assert(true)

#else
#if defined(__clang__)
#define POOLED_OPAQUE POOLED_NOINLINE
#else
#define POOLED_OPAQUE __attribute__((noipa))
#endif
#define POOLED_THREAD_STATE(type, name, ...)                                                    \
    POOLED_STATE(thread_local type, name##_of_thread POOLED_SYMBOL(POOLED_THREAD_SYMBOL(name)), \
                 __VA_ARGS__);                                                                  \
    [[nodiscard]] POOLED_OPAQUE POOLED_HIDDEN inline type& name() noexcept {                    \
        asm volatile("");                                                                       \
        return name##_of_thread;                                                                \
    }                                                                                           \
    static_assert(true)
#endif

#if POOLED_THREAD_ACCESS_ELF && defined(__x86_64__)
#define POOLED_HOT_THREAD_STATE(type, name, ...)  \
    POOLED_THREAD_STATE(type, name, __VA_ARGS__); \
    POOLED_THREAD_ACCESS(type, name##_access, POOLED_THREAD_SYMBOL(name))
// The two syntaxes of an instruction whose second operand is %0 or %[value]. A value may be a constant, so a comparison needs a size.
#define POOLED_THREAD_READ(what, att, intel) "{" what " " att ", %0|" what " %0, " intel "}"
#define POOLED_THREAD_READ_MEMBER(what, symbol, at) \
    POOLED_THREAD_READ(what, POOLED_THREAD_MEMBER_ATT(symbol, at), POOLED_THREAD_MEMBER_INTEL(symbol, at))
#define POOLED_THREAD_WITH_VALUE(att, intel, symbol)                                                       \
    "{" att " %[value], " POOLED_THREAD_MEMBER_ATT(symbol, "at") "|" intel " " POOLED_THREAD_MEMBER_INTEL( \
        symbol, "at") ", %[value]}"
#define POOLED_THREAD_ACCESS(variable, name, symbol)                                                        \
    struct name {                                                                                           \
        using type = variable;                                                                              \
        template <class T, std::size_t At>                                                                  \
        [[nodiscard]] POOLED_ALWAYS_INLINE static T get() noexcept {                                        \
            static_assert(sizeof(T) == 8);                                                                  \
            POOLED_THREAD_LOAD_BASE(symbol);                                                                \
            T value{};                                                                                      \
            asm volatile(POOLED_THREAD_READ_MEMBER("mov", symbol, "at")                                     \
                         : "=r"(value)                                                                      \
                         : [at] "i"(At)POOLED_THREAD_AND_BASE);                                             \
            return value;                                                                                   \
        }                                                                                                   \
        template <class T, std::size_t At>                                                                  \
        [[nodiscard]] POOLED_ALWAYS_INLINE static std::remove_extent_t<T> get(std::size_t index) noexcept { \
            static_assert(sizeof(std::remove_extent_t<T>) == 8);                                            \
            POOLED_THREAD_LOAD_BASE(symbol);                                                                \
            std::remove_extent_t<T> value{};                                                                \
            asm volatile(POOLED_THREAD_READ("mov", POOLED_THREAD_ELEMENT_ATT(symbol),                       \
                                            POOLED_THREAD_ELEMENT_INTEL(symbol))                            \
                         : "=r"(value)                                                                      \
                         : [at] "i"(At), [index] "r"(index)POOLED_THREAD_AND_BASE);                         \
            return value;                                                                                   \
        }                                                                                                   \
        template <class T, std::size_t At>                                                                  \
        POOLED_ALWAYS_INLINE static void set(std::type_identity_t<T> value) noexcept {                      \
            POOLED_THREAD_LOAD_BASE(symbol);                                                                \
            asm volatile(POOLED_THREAD_WITH_VALUE("mov", "mov", symbol)                                     \
                         :                                                                                  \
                         : [at] "i"(At), [value] "r"(value)POOLED_THREAD_AND_BASE);                         \
        }                                                                                                   \
        template <class T, std::size_t At>                                                                  \
        [[nodiscard]] POOLED_ALWAYS_INLINE static bool equals(std::type_identity_t<T> value) noexcept {     \
            POOLED_THREAD_LOAD_BASE(symbol);                                                                \
            bool result = false;                                                                            \
            if constexpr (sizeof(T) == 4)                                                                   \
                asm volatile(POOLED_THREAD_WITH_VALUE("cmpl", "cmp DWORD PTR", symbol)                      \
                             : "=@cce"(result)                                                              \
                             : [at] "i"(At), [value] "er"(value)POOLED_THREAD_AND_BASE);                    \
            else                                                                                            \
                asm volatile(POOLED_THREAD_WITH_VALUE("cmpq", "cmp QWORD PTR", symbol)                      \
                             : "=@cce"(result)                                                              \
                             : [at] "i"(At), [value] "er"(value)POOLED_THREAD_AND_BASE);                    \
            return result;                                                                                  \
        }                                                                                                   \
        template <std::size_t Low, std::size_t Bytes>                                                       \
        [[nodiscard]] POOLED_ALWAYS_INLINE static bool spans(std::size_t address) noexcept {                \
            POOLED_THREAD_LOAD_BASE(symbol);                                                                \
            bool result = false;                                                                            \
            asm volatile(POOLED_THREAD_READ_MEMBER("sub", symbol, "low") "\n\t" POOLED_THREAD_READ_MEMBER(  \
                             "cmp", symbol, "bytes")                                                        \
                         : "+r"(address), "=@ccb"(result)                                                   \
                         : [low] "i"(Low), [bytes] "i"(Bytes)POOLED_THREAD_AND_BASE);                       \
            return result;                                                                                  \
        }                                                                                                   \
    };                                                                                                      \
    static_assert(true)
#define POOLED_THREAD_MEMBER(name, member) \
    decltype(name##_access::type::member), offsetof(name##_access::type, member)
#define POOLED_THREAD_GET(name, member) name##_access::get<POOLED_THREAD_MEMBER(name, member)>()
#define POOLED_THREAD_GET_AT(name, member, index) \
    name##_access::get<POOLED_THREAD_MEMBER(name, member)>(index)
#define POOLED_THREAD_SET(name, member, value) name##_access::set<POOLED_THREAD_MEMBER(name, member)>(value)
#define POOLED_THREAD_EQUALS(name, member, value) \
    name##_access::equals<POOLED_THREAD_MEMBER(name, member)>(value)
#define POOLED_THREAD_SPANS(name, low, bytes, address) \
    name##_access::spans<offsetof(name##_access::type, low), offsetof(name##_access::type, bytes)>(address)
#else
#define POOLED_HOT_THREAD_STATE POOLED_THREAD_STATE
#define POOLED_THREAD_GET(name, member) (name().member)
#define POOLED_THREAD_GET_AT(name, member, index) (name().member[index])
#define POOLED_THREAD_SET(name, member, value) static_cast<void>(name().member = (value))
#define POOLED_THREAD_EQUALS(name, member, value) (name().member == (value))
#define POOLED_THREAD_SPANS(name, low, bytes, address) \
    [at = (address)](auto const& of) { return at - of.low < of.bytes; }(name())
#endif
