// SPDX-License-Identifier: BSL-1.0
#pragma once

// What each system provides to os/platform.hpp. One file a system does so: platform_linux.hpp, platform_posix.hpp, platform_windows.hpp.

#include "pooled/os/platform.hpp"

#include <concepts>

POOLED_BEGIN_DETAIL

#if POOLED_HAS_CODE
// What a system provides. No function throws, and none uses malloc unless noted. Those that a drop may call leave errno as it is.
template <class System>
concept operating_system = requires(std::byte* p, std::size_t bytes, std::uintptr_t word, std::uint64_t bits,
                                    std::int64_t ns, bool& flag, atomic<std::uint32_t>& state,
                                    char const* name, void (*function)(), void (*hook)(void*)) {
    // Flags.
    { System::k_map_unit } -> std::convertible_to<std::size_t>;   // mappings begin at multiples of it
    { System::k_discards_to_zero } -> std::convertible_to<bool>;  // a discarded page reads as zero
    { System::k_has_fork } -> std::convertible_to<bool>;          // a process can get a child with its memory

    // Pages.
    //
    // A power of two, at least 4096: the unit of discard_pages() and populate_pages().
    { System::page_bytes() } noexcept -> std::same_as<std::size_t>;
    // Maps `bytes` of zero, untouched pages at a multiple of the second argument, a power of two. Null: the system has no more. The system
    // may make mappings that touch one, but not those that differ in the flag, where it can tell them apart.
    { System::map_pages(bytes, bytes, flag) } noexcept -> std::same_as<void*>;
    // Requires a result of map_pages() with the same `bytes`. False: the system did not take them back; their contents may be lost.
    { System::unmap_pages(p, bytes) } noexcept -> std::same_as<bool>;
    // Require whole pages of one mapping. discard_pages(): the system may have the memory, the contents are lost, and the next use needs
    // no call; false: nothing changed. populate_pages(): the first use causes no page fault, contents are kept; false: not supported.
    { System::discard_pages(p, bytes) } noexcept -> std::same_as<bool>;
    { System::populate_pages(p, bytes) } noexcept -> std::same_as<bool>;
    // Requires whole pages of two ranges that do not overlap. Exchanges the memory behind them: the contents of the first are then in the
    // second, and the first is as from map_pages(). False: not supported, and nothing changed.
    { System::move_pages(p, p, bytes) } noexcept -> std::same_as<bool>;
    // False: the machine, with its swap, is too small for as many.
    { System::may_hold(bytes) } noexcept -> std::same_as<bool>;
    // Of whole pages. 0, too: not known, some are not mapped, or there are more than 512.
    { System::resident_bytes(p, bytes) } noexcept -> std::same_as<std::size_t>;
    // Requires fresh pages from a multiple of 2 MiB on. Asks for huge ones, if they are worth their price, and touches the first page.
    { System::take_huge_pages(p, bytes) } noexcept -> std::same_as<void>;
    // may_collapse(): the system has provided a huge page before. collapse_page(): replaces the small pages of 2 MiB in use by a huge one,
    // if nearly all are resident, and says whether it did. Returns the time that this took, in nanoseconds.
    { System::may_collapse() } noexcept -> std::same_as<bool>;
    { System::collapse_page(p, bytes, flag) } noexcept -> std::same_as<std::int64_t>;

    // Barrier, where POOLED_HAS_MEMBARRIER is not 0. After enable_barrier() has returned true, in this process, run_barrier() makes each
    // running thread execute a full barrier before it returns. False: the system does not allow it.
    { System::enable_barrier() } noexcept -> std::same_as<bool>;
    { System::run_barrier() } noexcept -> std::same_as<bool>;

    // Threads and processes.
    //
    // For each thread in which the argument was set to one that is not null, hook(argument) runs on the thread when it ends, after
    // the destructors of its thread_local objects if the system can do that. False: not supported. Not a thread_local object, for whose
    // destructor libc calls malloc: with glibc, a thread's control block contains its first 32 keys.
    { System::make_exit_key(word, hook) } noexcept -> std::same_as<bool>;
    { System::set_exit_argument(word, p) } noexcept -> std::same_as<bool>;
    // The bounds of the calling thread's own stack, low and high; they stay as they are where the system does not say. May use malloc.
    { System::find_stack(word, word) } noexcept -> std::same_as<void>;
    // Requires that the first leaves every lock of the library held, and that the other two release them. True: they run before a fork,
    // and after it in the parent and in the child. False: no memory.
    { System::at_fork(function, function, function) } noexcept -> std::same_as<bool>;
    // Keeps other threads from the list of all streams, which a fork needs. False: it is not known, or there is no other thread.
    { System::lock_streams() } noexcept -> std::same_as<bool>;
    { System::unlock_streams() } noexcept -> std::same_as<void>;
    // Differs between a process and its children.
    { System::process() } noexcept -> std::same_as<std::uint64_t>;

    // Waiting.
    //
    // Sleeps while `state` is the value, for at most `ns` under 10^9 times 2^31; negative: without an end. May return early.
    { System::wait_while(state, std::uint32_t{}, ns) } noexcept -> std::same_as<void>;
    { System::wake_one(state) } noexcept -> std::same_as<void>;
    { System::wake_all(state) } noexcept -> std::same_as<void>;
    { System::yield() } noexcept -> std::same_as<void>;
    // Requires under 10^9. May return early; no cancellation point if the system can do that, since the caller may hold a lock.
    { System::sleep(ns) } noexcept -> std::same_as<void>;
    // Nanoseconds since an unspecified moment; coarse_time() is cheap, with a resolution of some milliseconds.
    { System::time() } noexcept -> std::same_as<std::int64_t>;
    { System::coarse_time() } noexcept -> std::same_as<std::int64_t>;
    // The number of the processor that runs the thread, which may change at any moment. Not exact where the system does not tell.
    { System::processor() } noexcept -> std::same_as<std::size_t>;

    // The program.
    //
    // A variable of the environment, for use before main, too; null in a program that has more rights than its user.
    { System::trusted_variable(name) } noexcept -> std::same_as<char const*>;
    // Reads memory of this process that may not be mapped any more: the number of bytes, which ends at the first hole.
    { System::read_own_memory(p, p, bytes) } noexcept -> std::same_as<std::size_t>;
    // Numbers that a program's input does not predict, not for cryptography. False: the system has none now.
    { System::random(bits) } noexcept -> std::same_as<bool>;
};
static_assert(operating_system<system_platform>);
#endif

POOLED_END_DETAIL
