// SPDX-License-Identifier: BSL-1.0
#pragma once

// The contract (platform_contract.hpp) by Windows 8 and later, on x86-64.
//
// <windows.h> defines thousands of macros, so its functions are declared here, under names of the library's own:
// test/unit/os/platform_windows.cpp compares them. Those of Windows 10, or of libraries that a program does not link to, are looked up
// by name.

#include "pooled/config.hpp"

#if POOLED_HAS_CODE
#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"

#include <array>
#include <utility>

POOLED_BEGIN_DETAIL

extern "C" {
void* pooled_virtual_alloc(void* at, std::size_t bytes, std::uint32_t type, std::uint32_t protection)
    POOLED_SYMBOL("VirtualAlloc");
int pooled_virtual_free(void* p, std::size_t bytes, std::uint32_t type) POOLED_SYMBOL("VirtualFree");
int pooled_virtual_unlock(void* p, std::size_t bytes) POOLED_SYMBOL("VirtualUnlock");
int pooled_memory_status(void* status) POOLED_SYMBOL("GlobalMemoryStatusEx");
void pooled_flush_write_buffers() POOLED_SYMBOL("FlushProcessWriteBuffers");
void pooled_stack_limits(std::uintptr_t* low, std::uintptr_t* high)
    POOLED_SYMBOL("GetCurrentThreadStackLimits");
void pooled_sleep(std::uint32_t milliseconds) POOLED_SYMBOL("Sleep");
int pooled_yield() POOLED_SYMBOL("SwitchToThread");
int pooled_ticks(std::int64_t* ticks) POOLED_SYMBOL("QueryPerformanceCounter");
int pooled_ticks_per_second(std::int64_t* ticks) POOLED_SYMBOL("QueryPerformanceFrequency");
std::uint64_t pooled_coarse_milliseconds() POOLED_SYMBOL("GetTickCount64");
std::uint32_t pooled_processor() POOLED_SYMBOL("GetCurrentProcessorNumber");
int pooled_random(std::uint32_t* bits) POOLED_SYMBOL("rand_s");
int pooled_read_memory(void* process, void const* from, void* to, std::size_t bytes, std::size_t* read)
    POOLED_SYMBOL("ReadProcessMemory");
void* pooled_module(char const* name) POOLED_SYMBOL("GetModuleHandleA");
void* pooled_function(void* module, char const* name) POOLED_SYMBOL("GetProcAddress");
}

// What VirtualAlloc2() takes: MEM_ADDRESS_REQUIREMENTS, in a MEM_EXTENDED_PARAMETER.
struct windows_alignment {
    void* lowest = nullptr;
    void* highest = nullptr;
    std::size_t align;
};
struct windows_parameter {
    std::uint64_t type = 1;  // MemExtendedParameterAddressRequirements
    void* value;
};

// Functions looked up by name; null: this Windows has none. Called before a thread can wait for a lock of the library while it
// holds the loader's: the first time by the first pool.
struct windows_functions {
    using allocate_type = void*(void* process, void* at, std::size_t bytes, std::uint32_t type,
                                std::uint32_t protection, windows_parameter* parameters, std::uint32_t count);
    using wait_type = int(void volatile* at, void const* value, std::size_t bytes,
                          std::uint32_t milliseconds);
    using wake_type = void(void* at);

    atomic<allocate_type*> allocate_aligned{nullptr};
    atomic<wait_type*> wait{nullptr};
    atomic<wake_type*> wake_one{nullptr};
    atomic<wake_type*> wake_all{nullptr};
    atomic<bool> is_wine{false};
    atomic<bool> is_ready{false};

    windows_functions& find() noexcept {
        if (is_ready.load(std::memory_order_acquire)) return *this;  // pairs with the release below
        void* const base = pooled_module("kernelbase.dll");
        store(allocate_aligned, base, "VirtualAlloc2");
        store(wait, base, "WaitOnAddress");
        store(wake_one, base, "WakeByAddressSingle");
        store(wake_all, base, "WakeByAddressAll");
        is_wine.store(pooled_function(pooled_module("ntdll.dll"), "wine_get_version") != nullptr,
                      std::memory_order_relaxed);
        is_ready.store(true, std::memory_order_release);
        return *this;
    }

private:
    template <class Function>
    static void store(atomic<Function*>& to, void* library, char const* name) noexcept {
        to.store(reinterpret_cast<Function*>(pooled_function(library, name)), std::memory_order_relaxed);
    }
};
POOLED_STATE(windows_functions, g_windows, {});

// A hook at the end of a thread: a callback of the file's thread-local storage. It runs after the destructors of thread_local objects,
// also on threads that CreateThread() made, and the variables of POOLED_THREAD_STATE still exist. A callback of FlsAlloc() would
// also run when another thread deletes a fibre; a pthread key's would run after GCC's thread_local variables were freed.
inline constexpr std::size_t k_exit_keys = 8;
POOLED_STATE(atomic<std::uint32_t>, g_exit_keys, {0});
using exit_hook = void (*)(void*);
POOLED_STATE(atomic<exit_hook>, g_exit_hooks[k_exit_keys], {});
struct exit_arguments {
    std::array<void*, k_exit_keys> of_key{};
};
POOLED_THREAD_STATE(exit_arguments, t_exit_arguments, {});

inline void on_thread_event(void*, std::uint32_t reason, void*) noexcept {
    constexpr std::uint32_t k_thread_detach = 3;
    for (std::size_t key = 0; reason == k_thread_detach && key < k_exit_keys; ++key)
        if (void* const argument = std::exchange(t_exit_arguments().of_key[key], nullptr))
            g_exit_hooks[key].load(std::memory_order_relaxed)(argument);
}
// The linker sorts the callbacks: after those of the compiler's library, up to XLF.
POOLED_USED __attribute__((section(".CRT$XLY"))) POOLED_STATE(auto*, g_on_thread_event, = &on_thread_event);

struct windows_platform {
    static constexpr std::size_t k_map_unit = 65536;
    static constexpr bool k_discards_to_zero = false;
    static constexpr bool k_has_fork = false;

    [[nodiscard]] static bool at_fork(void (*)(), void (*)(), void (*)()) noexcept { return true; }
    [[nodiscard]] static bool lock_streams() noexcept { return false; }
    static void unlock_streams() noexcept {}
    [[nodiscard]] static std::uint64_t process() noexcept { return 0; }
    static constexpr std::uint32_t k_commit = 0x1000;
    static constexpr std::uint32_t k_reserve = 0x2000;
    static constexpr std::uint32_t k_release = 0x8000;
    static constexpr std::uint32_t k_reset = 0x80000;
    static constexpr std::uint32_t k_read_write = 4;
    struct memory_status {  // MEMORYSTATUSEX
        std::uint32_t bytes = sizeof(memory_status);
        std::uint32_t load = 0;
        std::uint64_t ram = 0;
        std::uint64_t free_ram = 0;
        std::uint64_t commit_limit = 0;
        std::uint64_t rest[4]{};
    };

    [[nodiscard]] static std::size_t page_bytes() noexcept { return 4096; }

    // VirtualAlloc2() aligns, since Windows 10. Before that, a larger reservation finds an address, which another thread may take first.
    [[nodiscard]] static void* map_pages(std::size_t bytes, std::size_t align, bool = false) noexcept {
        auto const map = [&](void* at, std::size_t length, std::uint32_t type) noexcept {
            return pooled_virtual_alloc(at, length, type, k_read_write);
        };
        if (align <= k_map_unit) return map(nullptr, bytes, k_reserve | k_commit);
        if (auto* const allocate = g_windows.find().allocate_aligned.load(std::memory_order_relaxed)) {
            windows_alignment with{.align = align};
            windows_parameter parameter{.value = &with};
            void* const this_process = reinterpret_cast<void*>(~std::uintptr_t{0});
            if (void* const p =
                    allocate(this_process, nullptr, bytes, k_reserve | k_commit, k_read_write, &parameter, 1))
                return p;
        }
        for (int attempt = 0; attempt < 16; ++attempt) {
            void* const wide = map(nullptr, saturating_add(bytes, align), k_reserve);
            if (wide == nullptr) return nullptr;
            pooled_virtual_free(wide, 0, k_release);
            auto* const at = reinterpret_cast<void*>(round_up(address_of(wide), align));
            if (void* const p = map(at, bytes, k_reserve | k_commit)) return p;
        }
        return nullptr;
    }
    static bool unmap_pages(void* p, std::size_t) noexcept {
        return pooled_virtual_free(p, 0, k_release) != 0;
    }

    // The pages stay committed, so their next use cannot fail. Unlocking pages that are not locked takes them out of the working set.
    static bool discard_pages(std::byte* p, std::size_t bytes) noexcept {
        if (pooled_virtual_alloc(p, bytes, k_reset, k_read_write) == nullptr) return false;
        pooled_virtual_unlock(p, bytes);
        return true;
    }
    static bool populate_pages(std::byte*, std::size_t) noexcept { return false; }
    static bool move_pages(void*, void*, std::size_t) noexcept { return false; }
    [[nodiscard]] static bool may_hold(std::size_t bytes) noexcept {
        memory_status status;
        return pooled_memory_status(&status) == 0 || bytes <= status.commit_limit;
    }

    [[nodiscard]] static std::size_t resident_bytes(void*, std::size_t) noexcept { return 0; }
    static void take_huge_pages(void*, std::size_t) noexcept {}
    [[nodiscard]] static bool may_collapse() noexcept { return false; }
    static std::int64_t collapse_page(void*, std::size_t, bool&) noexcept { return 0; }

    // Wine's function returns at once: it is a stub. A test whether it works would sometimes say so by mistake, as a fence that is
    // missing is seldom noticed; the name says it for certain.
    [[nodiscard]] static bool enable_barrier() noexcept {
        return !g_windows.find().is_wine.load(std::memory_order_relaxed);
    }
    static bool run_barrier() noexcept {
        pooled_flush_write_buffers();
        return true;
    }

    [[nodiscard]] static bool make_exit_key(std::uintptr_t& key, void (*hook)(void*)) noexcept {
        key = g_exit_keys.fetch_add(1, std::memory_order_relaxed);
        if (key >= k_exit_keys) return false;
        g_exit_hooks[key].store(hook, std::memory_order_relaxed);
        return true;
    }
    [[nodiscard]] static bool set_exit_argument(std::uintptr_t key, void* argument) noexcept {
        t_exit_arguments().of_key[key] = argument;
        return true;
    }
    static void find_stack(std::uintptr_t& low, std::uintptr_t& high) noexcept {
        pooled_stack_limits(&low, &high);
    }

    static void wait_while(atomic<std::uint32_t>& state, std::uint32_t value,
                           std::int64_t nanoseconds) noexcept {
        constexpr std::uint32_t k_forever = ~std::uint32_t{0};
        auto const milliseconds =
            nanoseconds < 0 ? k_forever : static_cast<std::uint32_t>((nanoseconds + 999'999) / 1'000'000);
        if (auto* const wait = g_windows.find().wait.load(std::memory_order_relaxed))
            wait(&state, &value, sizeof(value), milliseconds);
        else if (state.load(std::memory_order_relaxed) == value)
            pooled_sleep(1);
    }
    static void wake_one(atomic<std::uint32_t>& state) noexcept {
        if (auto* const wake = g_windows.find().wake_one.load(std::memory_order_relaxed)) wake(&state);
    }
    static void wake_all(atomic<std::uint32_t>& state) noexcept {
        if (auto* const wake = g_windows.find().wake_all.load(std::memory_order_relaxed)) wake(&state);
    }
    static void yield() noexcept { pooled_yield(); }
    static void sleep(std::int64_t nanoseconds) noexcept {
        pooled_sleep(static_cast<std::uint32_t>((nanoseconds + 999'999) / 1'000'000));
    }

    [[nodiscard]] static std::int64_t time() noexcept {
        std::int64_t ticks = 0;
        std::int64_t second = 1;
        pooled_ticks(&ticks);
        pooled_ticks_per_second(&second);
        return ticks / second * 1'000'000'000 + ticks % second * 1'000'000'000 / second;
    }
    [[nodiscard]] static std::int64_t coarse_time() noexcept {
        return static_cast<std::int64_t>(pooled_coarse_milliseconds() * 1'000'000);
    }
    [[nodiscard]] static std::size_t processor() noexcept { return pooled_processor(); }

    [[nodiscard]] static char const* trusted_variable(char const* name) noexcept { return std::getenv(name); }
    [[nodiscard]] static bool random(std::uint64_t& bits) noexcept {
        std::uint32_t half[2]{};
        bool const has = pooled_random(&half[0]) == 0 && pooled_random(&half[1]) == 0;
        bits = std::uint64_t{half[1]} << 32 | half[0];
        return has;
    }
    [[nodiscard]] static std::size_t read_own_memory(void const* from, void* to, std::size_t bytes) noexcept {
        std::size_t read = 0;
        auto* const this_process = reinterpret_cast<void*>(~std::uintptr_t{0});
        return pooled_read_memory(this_process, from, to, bytes, &read) != 0 ? bytes : 0;
    }
};

POOLED_END_DETAIL

#endif
