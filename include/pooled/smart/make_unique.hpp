// SPDX-License-Identifier: BSL-1.0
#pragma once

// make_unique, from the default pool and from a given one.

#include "pooled/core/bits.hpp"
#include "pooled/core/size_class.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/default_pool.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/pool.hpp"
#include "pooled/smart/allocator.hpp"
#include "pooled/smart/deleter.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace pooled {

namespace detail {

// A block that goes back unless it is released: for as long as a constructor may throw.
template <sharing Sharing>
class held_block {
public:
    held_block(pool_core& core, std::size_t bytes, std::size_t align, void* block) noexcept
        : m_core(core), m_bytes(bytes), m_align(align), m_block(block) {}
    ~held_block() {
        if (m_block != nullptr) deallocate_bytes<Sharing>(m_core, m_block, m_bytes, m_align);
    }
    held_block(held_block const&) = delete;
    held_block& operator=(held_block const&) = delete;

    [[nodiscard]] void* get() const noexcept { return m_block; }
    void release() noexcept { m_block = nullptr; }

private:
    pool_core& m_core;
    std::size_t m_bytes;
    std::size_t m_align;
    void* m_block;
};

template <class T, sharing Sharing, class... Args>
[[nodiscard]] unique_ptr<T> make_unique_in(pool_core& core, void* memory, Args&&... args) {
    held_block<Sharing> block(core, sizeof(T), alignof(T), memory);
    T* const object = ::new (block.get()) T(std::forward<Args>(args)...);
    block.release();
    return unique_ptr<T>(object);
}

// What an array of `count` takes, its length included. Throws std::bad_array_new_length.
template <class T>
[[nodiscard]] constexpr std::size_t counted_array_bytes(std::size_t count) {
    std::size_t const bytes =
        saturating_add(array_bytes<std::remove_extent_t<T>>(count), deleter<T>::k_offset);
    if (bytes == k_size_max) throw std::bad_array_new_length();
    return bytes;
}

template <class T, sharing Sharing>
[[nodiscard]] unique_ptr<T> make_unique_array_in(pool_core& core, void* memory, std::size_t count) {
    using element = std::remove_extent_t<T>;
    held_block<Sharing> block(core, counted_array_bytes<T>(count), deleter<T>::k_align, memory);
    auto* const first = reinterpret_cast<element*>(static_cast<std::byte*>(memory) + deleter<T>::k_offset);
    std::uninitialized_value_construct_n(first, count);
    ::new (memory) std::size_t(count);
    block.release();
    return unique_ptr<T>(first);
}

template <sharing Sharing>
template <not_array T, class... Args>
unique_ptr<T> basic_pool<Sharing>::make_unique(Args&&... args) {
    void* const memory = allocate_bytes_or_throw<Sharing>(*m_core, sizeof(T), alignof(T));
    return make_unique_in<T, Sharing>(*m_core, memory, std::forward<Args>(args)...);
}

template <sharing Sharing>
template <not_array T, class... Args>
unique_ptr<T> basic_pool<Sharing>::try_make_unique(Args&&... args) {
    void* const memory = try_allocate_bytes<Sharing>(*m_core, sizeof(T), alignof(T));
    if (memory == nullptr) return {};
    return make_unique_in<T, Sharing>(*m_core, memory, std::forward<Args>(args)...);
}

template <sharing Sharing>
template <unbounded_array T>
unique_ptr<T> basic_pool<Sharing>::make_unique(std::size_t count) {
    void* const memory =
        allocate_bytes_or_throw<Sharing>(*m_core, counted_array_bytes<T>(count), deleter<T>::k_align);
    return make_unique_array_in<T, Sharing>(*m_core, memory, count);
}

template <sharing Sharing>
template <unbounded_array T>
unique_ptr<T> basic_pool<Sharing>::try_make_unique(std::size_t count) {
    if (count > (k_size_max - deleter<T>::k_offset) / sizeof(std::remove_extent_t<T>)) return {};
    void* const memory =
        try_allocate_bytes<Sharing>(*m_core, counted_array_bytes<T>(count), deleter<T>::k_align);
    if (memory == nullptr) return {};
    return make_unique_array_in<T, Sharing>(*m_core, memory, count);
}

}  // namespace detail

// From the default pool. Throws std::bad_alloc, and what the constructor throws.
template <detail::not_array T, class... Args>
[[nodiscard]] unique_ptr<T> make_unique(Args&&... args) {
    return default_pool().make_unique<T>(std::forward<Args>(args)...);
}
template <detail::unbounded_array T>
[[nodiscard]] unique_ptr<T> make_unique(std::size_t count) {
    return default_pool().make_unique<T>(count);
}

}  // namespace pooled
