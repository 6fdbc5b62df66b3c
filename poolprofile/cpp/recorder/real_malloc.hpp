// SPDX-License-Identifier: BSL-1.0
// The program's own malloc, behind the recorder: found at the first call, which may come before any constructor has run.
// Until then the pointers lead to functions that look; so a call never asks whether they were found.
// A part of recorder.cpp, which alone includes it.
#pragma once

#include "recorder/clock.hpp"

namespace {

// --- the program's own malloc, behind this library

void* first_malloc(std::size_t size);
void* first_calloc(std::size_t count, std::size_t size);
void* first_realloc(void* p, std::size_t size);
void first_free(void* p);
void* first_memalign(std::size_t align, std::size_t size);

void* (*real_malloc)(std::size_t) = first_malloc;
void* (*real_calloc)(std::size_t, std::size_t) = first_calloc;
void* (*real_realloc)(void*, std::size_t) = first_realloc;
void (*real_free)(void*) = first_free;
void* (*real_memalign)(std::size_t, std::size_t) = first_memalign;
std::size_t (*real_usable_size)(void*) = nullptr;
void* (*real_new)(std::size_t) = nullptr;  // reports exhaustion
void (*real_delete)(void*) = nullptr;
bool g_new_is_the_users =
    false;  // operator new is not the standard library's: it may do more than call malloc

// What dlsym allocates while it looks for malloc; never freed.
alignas(16) char g_arena[32 << 10];
std::size_t g_arena_used = 0;
__thread bool t_resolving __attribute__((tls_model("initial-exec"))) = false;

bool in_arena(const void* p) { return p >= g_arena && p < g_arena + sizeof g_arena; }

void send_to_slow_path(const void* p);

void* from_arena(std::size_t size) {
    const std::size_t at =
        __atomic_fetch_add(&g_arena_used, (size + 15) & ~std::size_t{15}, __ATOMIC_RELAXED);
    if (at + size > sizeof g_arena) return nullptr;
    send_to_slow_path(g_arena + at);
    return g_arena + at;
}

template <class Function>
void find_next(Function*& function, const char* name) {
    if (void* found = dlsym(RTLD_NEXT, name))
        __atomic_store_n(&function, reinterpret_cast<Function*>(found), __ATOMIC_RELEASE);
}

RECORDER_SLOW void resolve() {
    t_resolving = true;
    find_next(real_usable_size, "malloc_usable_size");
    find_next(real_new, "_Znwm");
    find_next(real_delete, "_ZdlPv");
    Dl_info where;
    if (real_new && dladdr(reinterpret_cast<void*>(real_new), &where) && where.dli_fname) {
        const char* name = where.dli_fname;
        g_new_is_the_users = !strstr(name, "libstdc++") && !strstr(name, "libc++") && !strstr(name, "malloc");
    }
    find_next(real_calloc, "calloc");
    find_next(real_realloc, "realloc");
    find_next(real_memalign, "memalign");
    find_next(real_free, "free");
    find_next(real_malloc, "malloc");
    t_resolving = false;
}

void* first_malloc(std::size_t size) {
    if (t_resolving) return from_arena(size);
    resolve();
    return real_malloc(size);
}
void* first_calloc(std::size_t count, std::size_t size) {
    if (t_resolving) return from_arena(count * size);  // the arena is zero, and nothing in it is used twice
    resolve();
    return real_calloc(count, size);
}
void* first_realloc(void* p, std::size_t size) {
    if (!t_resolving) resolve();
    return real_realloc == first_realloc ? nullptr : real_realloc(p, size);
}
void first_free(void* p) {
    if (t_resolving) return;
    resolve();
    real_free(p);
}
void* first_memalign(std::size_t align, std::size_t size) {
    if (!t_resolving) resolve();
    return real_memalign == first_memalign ? nullptr : real_memalign(align, size);
}

}  // namespace
