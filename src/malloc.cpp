// SPDX-License-Identifier: BSL-1.0

// malloc and its relatives on the default pool, with the operators of new_delete.cpp: pooled::malloc for a program to link, and
// libpooled-malloc.so for LD_PRELOAD. docs/malloc.md says what that means for a program.
//
//   malloc, calloc                  the path of operator new; memory that is new from the system is not cleared
//   free, realloc, …                new_delete.cpp: the paths of operator delete
//   memalign and its relatives      the whole path, as operator new with an alignment
//
// The loader calls these first, before any constructor; then a thread's state is as the file says (initial-exec), and the first block
// makes the pool. What it calls on the way may call malloc again, which a few static pages serve (reserve_memory).
//
// Any thread may call, except in a signal handler. O(1), besides the copy and the clearing.

#define POOLED_REPLACES_MALLOC 1
#include "new_delete.cpp"  // its code inlined here, and one state

#if !defined(__ELF__)
#error "pooled: malloc.cpp is for systems whose loader lets a program replace malloc by its name"
#endif

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace {

[[nodiscard]] void* fail(int error) noexcept {
    errno = error;
    return nullptr;
}

// `align` is a power of two.
[[nodiscard]] void* allocate_aligned(std::size_t bytes, std::size_t align) noexcept {
    return align <= k_new_align ? allocate_new<failure::returns_null>(bytes)
                                : allocate_slow_new<failure::returns_null>(bytes, align);
}

// Whether nobody has written to the block since its memory came from the system. Requires a block that was allocated just now.
[[nodiscard]] bool is_zero(void* p, std::size_t bytes) noexcept {
    if constexpr (!k_has_hot_path) return false;  // instruments write to blocks
    return bytes > k_max_inlined_bytes && g_page_map.find(p).slab_at()->is_zero();
}

// The statistics take 10 KiB, which the thread's stack may not have.
template <class Info>
[[nodiscard]] Info usage_as() noexcept {
    using number = decltype(Info::arena);
    Info info{};
    void* const place = allocate_new<failure::returns_null>(sizeof(pool_stats));
    if (place == nullptr) return info;
    POOLED_TRY {
        auto const* const stats = new (place) pool_stats(default_pool().stats());
        std::uint64_t const in_use =
            saturating_subtract(stats->bytes_in_use, std::uint64_t{own_bytes(place)});
        info.arena = static_cast<number>(stats->upstream_bytes);
        info.uordblks = static_cast<number>(in_use);
        info.fordblks = static_cast<number>(saturating_subtract(stats->upstream_bytes, in_use));
        stats->~pool_stats();
    }
    POOLED_CATCH(std::exception const&) {}
    deallocate_unsized(place);
    return info;
}

}  // namespace

extern "C" {
void* pooled_malloc(std::size_t bytes) noexcept POOLED_C_FUNCTION(malloc);
void* pooled_calloc(std::size_t count, std::size_t each) noexcept POOLED_C_FUNCTION(calloc);
void* pooled_reallocarray(void* p, std::size_t count, std::size_t each) noexcept
    POOLED_C_FUNCTION(reallocarray);
void* pooled_memalign(std::size_t align, std::size_t bytes) noexcept POOLED_C_FUNCTION(memalign);
void* pooled_aligned_alloc(std::size_t align, std::size_t bytes) noexcept POOLED_C_FUNCTION(aligned_alloc);
int pooled_posix_memalign(void** p, std::size_t align, std::size_t bytes) noexcept
    POOLED_C_FUNCTION(posix_memalign);
void* pooled_valloc(std::size_t bytes) noexcept POOLED_C_FUNCTION(valloc);
void* pooled_pvalloc(std::size_t bytes) noexcept POOLED_C_FUNCTION(pvalloc);
void pooled_free_sized(void* p, std::size_t bytes) noexcept POOLED_C_FUNCTION(free_sized);
void pooled_free_aligned_sized(void* p, std::size_t align, std::size_t bytes) noexcept
    POOLED_C_FUNCTION(free_aligned_sized);
#if defined(__GLIBC__)
struct mallinfo pooled_mallinfo() noexcept POOLED_C_FUNCTION(mallinfo);
#if __GLIBC_PREREQ(2, 33)
struct mallinfo2 pooled_mallinfo2() noexcept POOLED_C_FUNCTION(mallinfo2);
#endif
int pooled_mallopt(int parameter, int value) noexcept POOLED_C_FUNCTION(mallopt);
#endif
}

void* pooled_malloc(std::size_t bytes) noexcept { return allocate_new<failure::returns_null>(bytes); }

void* pooled_calloc(std::size_t count, std::size_t each) noexcept {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(count, each, &bytes)) return fail(ENOMEM);
    void* const p = allocate_new<failure::returns_null>(bytes);
    return p == nullptr || is_zero(p, bytes) ? p : std::memset(p, 0, bytes);
}

void* pooled_reallocarray(void* p, std::size_t count, std::size_t each) noexcept {
    std::size_t bytes = 0;
    return __builtin_mul_overflow(count, each, &bytes) ? fail(ENOMEM) : pooled_realloc(p, bytes);
}

void* pooled_aligned_alloc(std::size_t align, std::size_t bytes) noexcept {
    return std::has_single_bit(align) ? allocate_aligned(bytes, align) : fail(EINVAL);
}
// glibc takes the next power of two.
void* pooled_memalign(std::size_t align, std::size_t bytes) noexcept {
    constexpr std::size_t k_most = std::size_t{1} << 63;
    return align <= k_most ? allocate_aligned(bytes, std::bit_ceil(align)) : fail(EINVAL);
}
int pooled_posix_memalign(void** p, std::size_t align, std::size_t bytes) noexcept {
    if (!std::has_single_bit(align) || align % sizeof(void*) != 0) return EINVAL;
    kept_errno const kept;
    void* const block = allocate_aligned(bytes, align);
    if (block == nullptr) return ENOMEM;
    *p = block;
    return 0;
}
void* pooled_valloc(std::size_t bytes) noexcept { return allocate_aligned(bytes, page_bytes()); }
void* pooled_pvalloc(std::size_t bytes) noexcept {
    std::size_t const page = page_bytes();
    if (bytes > k_size_max - page) return fail(ENOMEM);
    return allocate_aligned(larger(round_up(bytes, page), page), page);
}

// C23. The size and the alignment are those of the request. A block that realloc() has kept may be of a longer class than its size says,
// so the size is used in the checked build alone, where realloc() keeps none.
void pooled_free_sized(void* p, [[maybe_unused]] std::size_t bytes) noexcept {
    if constexpr (k_guard_bytes != 0)
        deallocate_sized_slow(p, bytes, k_new_align);
    else
        deallocate_unsized(p);
}
void pooled_free_aligned_sized(void* p, std::size_t align, std::size_t bytes) noexcept {
    deallocate_sized_slow(p, bytes, larger(align, k_new_align));
}

#if defined(__GLIBC__)
struct mallinfo pooled_mallinfo() noexcept { return usage_as<struct mallinfo>(); }
#if __GLIBC_PREREQ(2, 33)
struct mallinfo2 pooled_mallinfo2() noexcept { return usage_as<struct mallinfo2>(); }
#endif
// glibc's parameters mean nothing here. In a static executable, its definition would bring glibc's malloc.
int pooled_mallopt(int, int) noexcept { return 1; }
#endif
