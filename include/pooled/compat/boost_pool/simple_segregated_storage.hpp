// SPDX-License-Identifier: BSL-1.0
#pragma once

// simple_segregated_storage: a list of free chunks in memory that the caller provides. As in Boost, each free chunk contains the
// address of the next one, so this class, unlike all others of the library, writes to free chunks and reads them. A list is ordered
// if the addresses ascend; the ordered_ functions keep it so.
//
// `chunk_bytes` is a multiple of sizeof(void*), and blocks are aligned for a pointer. For one thread. O(1), but: segregate, add_block
// and free_n O(chunks of the block); the ordered_ functions also, and malloc_n, O(free chunks). Nothing throws.

#include "pooled/config.hpp"

#include <cstddef>
#include <functional>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat {

template <class SizeType = std::size_t>
class simple_segregated_storage {
public:
    using size_type = SizeType;

    simple_segregated_storage() = default;
    simple_segregated_storage(simple_segregated_storage const&) = delete;
    simple_segregated_storage& operator=(simple_segregated_storage const&) = delete;

    // Links the chunks of a block of `bytes`, the last one to `end`; a rest that is no whole chunk stays unused. Returns the block.
    // Requires bytes >= chunk_bytes.
    static void* segregate(void* block, size_type bytes, size_type chunk_bytes, void* end = nullptr) {
        for (size_type i = bytes / chunk_bytes; i-- != 0;) {
            void* const chunk = static_cast<std::byte*>(block) + i * chunk_bytes;
            nextof(chunk) = end;
            end = chunk;
        }
        return end;
    }

    // The block's chunks are used next; or each at its place in the order. The same is required as for segregate.
    void add_block(void* block, size_type bytes, size_type chunk_bytes) {
        first = segregate(block, bytes, chunk_bytes, first);
    }
    void add_ordered_block(void* block, size_type bytes, size_type chunk_bytes) {
        void*& link = link_to(block);
        link = segregate(block, bytes, chunk_bytes, link);
    }

    bool empty() const { return first == nullptr; }

    // Requires that the list is not empty.
    void*(malloc)() {
        void* const chunk = first;
        first = nextof(chunk);
        return chunk;
    }
    void(free)(void* chunk) {
        nextof(chunk) = first;
        first = chunk;
    }
    void ordered_free(void* chunk) {
        void*& link = link_to(chunk);
        nextof(chunk) = link;
        link = chunk;
    }

    // The first `n` chunks of the list that follow each other in it as in memory; null if there are none, and for n = 0.
    void* malloc_n(size_type n, size_type chunk_bytes) {
        if (n == 0) return nullptr;
        for (void** link = &first; *link != nullptr;) {
            void* const row = *link;
            void* last = row;
            size_type found = 1;
            for (; found != n && nextof(last) == static_cast<std::byte*>(last) + chunk_bytes; ++found)
                last = nextof(last);
            if (found == n) {
                *link = nextof(last);
                return row;
            }
            link = &nextof(last);
        }
        return nullptr;
    }
    // Nothing for n = 0.
    void free_n(void* chunks, size_type n, size_type chunk_bytes) {
        if (n != 0) add_block(chunks, n * chunk_bytes, chunk_bytes);
    }
    void ordered_free_n(void* chunks, size_type n, size_type chunk_bytes) {
        if (n != 0) add_ordered_block(chunks, n * chunk_bytes, chunk_bytes);
    }

protected:
    // Of the free chunks that are before `p` in an ordered list, the last; null if there is none.
    void* find_prev(void* p) {
        void* before = nullptr;
        for (void* at = first; at != nullptr && !std::greater<void*>()(at, p); at = nextof(at))
            before = at;
        return before;
    }
    static void*& nextof(void* chunk) { return *static_cast<void**>(chunk); }

    void* first = nullptr;  // of the list; null if that is empty. The name is Boost's

private:
    void*& link_to(void* p) {
        void* const before = find_prev(p);
        return before != nullptr ? nextof(before) : first;
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat
