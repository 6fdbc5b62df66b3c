// SPDX-License-Identifier: BSL-1.0
#pragma once

// The upstream resource of a pool resource. One thread at a time calls it, as in the standard libraries, so a
// monotonic_buffer_resource can serve a synchronized pool. Records the pieces that the pool resource itself requests, so that
// release() finds them:
//
//   piece   | the caller's bytes | padding | previous, next, bytes, align |
//
// The core of the pool allocates through the memory_resource interface and records its chunks itself.
// O(1), besides what upstream takes; release(): O(pieces).

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/impl/os/mutex.hpp"

#include <bit>
#include <cstddef>
#include <memory_resource>
#include <mutex>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail {

class upstream_memory final : public std::pmr::memory_resource {
public:
    // Requires a resource that outlives this one.
    upstream_memory(std::pmr::memory_resource* upstream, bool is_shared) noexcept
        : m_upstream(upstream), m_mutex(is_shared) {}
    upstream_memory(upstream_memory const&) = delete;
    upstream_memory& operator=(upstream_memory const&) = delete;

    [[nodiscard]] std::pmr::memory_resource* upstream() const noexcept { return m_upstream; }

    // Throws what upstream throws.
    [[nodiscard]] void* allocate_piece(std::size_t bytes, std::size_t align) {
        if (bytes > pooled::detail::k_size_max - 2 * sizeof(node)) refuse();
        std::size_t const node_at = node_offset(bytes);
        std::size_t const piece_align = pooled::detail::larger(align, alignof(node));
        std::scoped_lock const lock(m_mutex);
        auto* const p = static_cast<std::byte*>(m_upstream->allocate(node_at + sizeof(node), piece_align));
        node* const n = ::new (p + node_at) node{nullptr, m_first, bytes, piece_align};
        if (m_first != nullptr) m_first->previous = n;
        m_first = n;
        return p;
    }

    // Requires a result of allocate_piece with as many bytes.
    void deallocate_piece(void* p, std::size_t bytes) noexcept {
        std::scoped_lock const lock(m_mutex);
        give_back(*std::launder(reinterpret_cast<node*>(static_cast<std::byte*>(p) + node_offset(bytes))));
    }

    // All pieces.
    void release() noexcept {
        std::scoped_lock const lock(m_mutex);
        while (m_first != nullptr)
            give_back(*m_first);
    }

private:
    struct node {
        node* previous;
        node* next;
        std::size_t bytes;
        std::size_t align;
    };
    [[nodiscard]] static constexpr std::size_t node_offset(std::size_t bytes) noexcept {
        return pooled::detail::round_up(bytes, alignof(node));
    }

    // A piece would exceed the address space. The standard lets a pool resource throw only what upstream throws, so upstream refuses
    // it: the largest size at the largest alignment, as libstdc++ asks.
    [[noreturn]] void refuse() {
        std::size_t bytes = pooled::detail::k_size_max;
        std::size_t align = std::bit_floor(bytes);
        asm("" : "+r"(bytes), "+r"(align));  // compilers warn of such constants
        std::scoped_lock const lock(m_mutex);
        void* const p = m_upstream->allocate(bytes, align);
        m_upstream->deallocate(p, bytes, align);
        POOLED_THROW(std::bad_alloc());
    }

    // Requires the lock.
    void give_back(node& n) noexcept {
        (n.previous != nullptr ? n.previous->next : m_first) = n.next;
        if (n.next != nullptr) n.next->previous = n.previous;
        std::size_t const node_at = node_offset(n.bytes);
        std::size_t const align = n.align;
        m_upstream->deallocate(reinterpret_cast<std::byte*>(&n) - node_at, node_at + sizeof(node), align);
    }

    void* do_allocate(std::size_t bytes, std::size_t align) override {
        std::scoped_lock const lock(m_mutex);
        return m_upstream->allocate(bytes, align);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        std::scoped_lock const lock(m_mutex);
        m_upstream->deallocate(p, bytes, align);
    }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

    std::pmr::memory_resource* m_upstream;
    pooled::detail::optional_mutex m_mutex;
    node* m_first = nullptr;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail
