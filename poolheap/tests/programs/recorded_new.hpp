// SPDX-License-Identifier: BSL-1.0
// Global operators that record the blocks in use, so that a test knows them without a pool: "block-0 0x…" and "bytes-0 0x…" for each.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <unistd.h>

inline struct {
    void* begin;
    std::size_t bytes;
} g_blocks[4096];
inline std::size_t g_block_count = 0;

inline void* record(std::size_t bytes, std::size_t align = 16) {
    bytes = (bytes + 15) / 16 * 16;
    void* const p = std::aligned_alloc(align, (bytes + align - 1) / align * align);
    if (p == nullptr || g_block_count == 4096) std::abort();
    g_blocks[g_block_count++] = {p, bytes};
    return p;
}
inline void forget(void* p) {
    for (std::size_t i = 0; i < g_block_count; ++i)
        if (g_blocks[i].begin == p && p != nullptr) g_blocks[i] = g_blocks[--g_block_count];
    std::free(p);
}
void* operator new(std::size_t bytes) { return record(bytes); }
void* operator new(std::size_t bytes, std::align_val_t align) { return record(bytes, std::size_t(align)); }
void operator delete(void* p) noexcept { forget(p); }
void operator delete(void* p, std::size_t) noexcept { forget(p); }
void operator delete(void* p, std::align_val_t) noexcept { forget(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { forget(p); }

template <class T>
void say(char const* name, T const* object) {
    std::printf("%s %p\n", name, static_cast<void const*>(object));
}
[[noreturn]] inline void say_ready() {
    std::size_t const count = g_block_count;
    for (std::size_t i = 0; i < count; ++i)
        std::printf("block-%zu %p\nbytes-%zu %zx\n", i, g_blocks[i].begin, i, g_blocks[i].bytes);
    std::printf("ready\n");
    std::fflush(stdout);
    for (;;)
        ::pause();
}
