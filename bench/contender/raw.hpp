// SPDX-License-Identifier: BSL-1.0
// Contender `raw`: the limit. Raw pointers, no counts, and the smallest possible allocator: for
// each size a last-in-first-out list of free nodes, cut from large blocks; one thread only.
#pragma once

#include "contender/contender.hpp"

#include <array>
#include <cstddef>
#include <new>
#include <vector>

namespace bench {

class raw_contender {
public:
    static constexpr bool k_counted = false;
    static constexpr bool k_thread_safe = false;
    template <class T>
    using pointer = T*;

    raw_contender() = default;
    raw_contender(const raw_contender&) = delete;
    raw_contender& operator=(const raw_contender&) = delete;
    ~raw_contender() {
        for (std::byte* block : m_blocks)
            ::operator delete(block);
    }

    template <class T, class... Args>
    T* make(Args&&... args) {
        return ::new (take<k_class<T>>()) T(std::forward<Args>(args)...);
    }

    template <class T>
    void drop(T*& object) {
        object->~T();
        auto* freed = ::new (static_cast<void*>(object)) free_node{m_free[k_class<T>]};
        m_free[k_class<T>] = freed;
        object = nullptr;
    }

private:
    struct free_node {
        free_node* next;
    };
    static constexpr std::size_t k_granule = 16;
    static constexpr std::size_t k_classes = 4096;  // up to 64 KiB
    static constexpr std::size_t k_block_bytes = std::size_t{1} << 20;

    template <class T>
    static constexpr std::size_t k_class = (sizeof(T) + k_granule - 1) / k_granule;

    template <std::size_t Class>
    void* take() {
        static_assert(Class < k_classes);
        if (free_node* node = m_free[Class]) {
            m_free[Class] = node->next;
            return node;
        }
        if (static_cast<std::size_t>(m_end[Class] - m_fresh[Class]) < Class * k_granule) refill(Class);
        std::byte* node = m_fresh[Class];
        m_fresh[Class] += Class * k_granule;
        return node;
    }

    [[gnu::noinline]] void refill(std::size_t size_class) {
        m_blocks.push_back(static_cast<std::byte*>(::operator new(k_block_bytes)));
        m_fresh[size_class] = m_blocks.back();
        m_end[size_class] = m_blocks.back() + k_block_bytes;
    }

    std::array<free_node*, k_classes> m_free{};
    std::array<std::byte*, k_classes> m_fresh{};
    std::array<std::byte*, k_classes> m_end{};
    std::vector<std::byte*> m_blocks;
};

}  // namespace bench
