// SPDX-License-Identifier: BSL-1.0
#pragma once

// A std::shared_ptr that is dropped once more after its last owner let go: two threads changed one shared_ptr object, its bytes were
// copied, or what holds it was destroyed twice. The library is not called then: the standard library's code changes the counts in
// the freed block. So when make_shared's block is freed, the checked build writes a control block of the class below where the
// object's was, with one owner and one weak reference. Such a drop, of a shared_ptr or of a weak_ptr, calls a function of that
// class, which reports it.
//
// The same is written into an object_pool's slot when its object becomes idle.
//
// A copy that is made and dropped meanwhile is not seen. What else changes the counts is reported when the block or the object is
// used again (impl/instrument/fill.hpp, expect_stale_owner()). Known for libstdc++ and libc++, whose binary interfaces fix where the counts are.
// Empty in other builds.

#include "pooled/config.hpp"
#include "pooled/impl/instrument/fill.hpp"

#include <cstddef>

#if POOLED_CHECKED
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <typeinfo>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The name of the pool that a block is of: the registry knows it.
using name_of_block = char const* (*)(void const* block) noexcept;
POOLED_STATE(name_of_block, g_name_of_block, = nullptr);

[[noreturn]] POOLED_NOINLINE inline void fail_stale_owner(void const* block, char const* what) noexcept {
    std::array<char, 400> message{};
    std::snprintf(
        message.data(), message.size(),
        "pooled: bad drop of a %s to the block at %p of pool '%s': the last one was dropped before, and the "
        "block is free or its object idle; look for one that two threads change, that is copied by its "
        "bytes, or that is destroyed twice",
        what, block, g_name_of_block(block));
    POOLED_FAIL(message.data());
    std::abort();
}

#if defined(_LIBCPP_VERSION)
class stale_owner final : public std::__shared_weak_count {
    void __on_zero_shared() noexcept override { fail_stale_owner(this, "std::shared_ptr"); }
    void __on_zero_shared_weak() noexcept override { fail_stale_owner(this, "std::weak_ptr"); }
};
#elif defined(__GLIBCXX__)
class stale_owner final : public std::_Sp_counted_base<> {
    void _M_dispose() noexcept override { fail_stale_owner(this, "std::shared_ptr"); }
    void _M_destroy() noexcept override { fail_stale_owner(this, "std::weak_ptr"); }
    void* _M_get_deleter(std::type_info const&) noexcept override { return nullptr; }
};
#else
struct stale_owner {};
#endif

// Once, before the first block is freed.
inline void choose_free_head(name_of_block name_of) noexcept {
    g_name_of_block = name_of;
    if constexpr (std::is_polymorphic_v<stale_owner>) {
        static_assert(sizeof(stale_owner) <= fill::free_head::k_most_bytes);
        static_assert(alignof(stale_owner) == sizeof(void*));
        alignas(stale_owner) std::array<std::byte, sizeof(stale_owner)> memory;
        // Its members are a pointer to a table of functions, two counts, and for some processors a mutex that is all zero bytes: a
        // copy of its bytes is another one.
        static_cast<void>(std::construct_at(reinterpret_cast<stale_owner*>(memory.data())));
        std::memcpy(fill::g_free_head.bytes.data(), memory.data(), memory.size());
        fill::g_free_head.count = memory.size();
    }
}

// In a block in use, for a control block that nothing owns: one that reports its drop.
inline void write_stale_owner(void* control) noexcept {
    std::memcpy(control, fill::g_free_head.bytes.data(), fill::g_free_head.count);
}
// Before another control block takes its place: its counts are unchanged. One that another copy of the library wrote has another
// table of functions, and is not verified.
inline void expect_stale_owner(void const* block, void const* control) noexcept {
    auto const* const now = static_cast<std::byte const*>(control);
    auto const& head = fill::g_free_head;
    if (head.count == 0 || std::memcmp(now, head.bytes.data(), sizeof(void*)) != 0) return;
    if (std::memcmp(now, head.bytes.data(), head.count) == 0) [[likely]]
        return;
    std::array<char, 400> message{};
    std::snprintf(
        message.data(), message.size(),
        "pooled: bad copy of a std::shared_ptr or std::weak_ptr to the block at %p of pool '%s': the "
        "last one was dropped before, and the object was idle; look for a pointer that outlived it",
        block, g_name_of_block(block));
    POOLED_FAIL(message.data());
}

// While it lives, its thread frees a block that has a control block so many bytes after its start.
class frees_control_block {
public:
    explicit frees_control_block(std::size_t at) noexcept { fill::t_head_at = at; }
    ~frees_control_block() { fill::t_head_at = fill::k_no_head; }
    frees_control_block(frees_control_block const&) = delete;
    frees_control_block& operator=(frees_control_block const&) = delete;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#else

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {
struct frees_control_block {
    explicit frees_control_block(std::size_t) noexcept {}
};
}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
