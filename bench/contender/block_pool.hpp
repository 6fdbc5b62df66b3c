// SPDX-License-Identifier: BSL-1.0
// The pool of experiment E2, written from its description: blocks of one size (payload + 64), with pop and push,
// refilled 1,024 blocks at a time, guarded by a mutex or by a spin lock.
#pragma once

#include "contender/contender.hpp"

#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace bench {

class spin_lock {
public:
    void lock() {
        // acquire: pairs with the release in unlock.
        while (m_taken.exchange(true, std::memory_order_acquire)) {
            // Yield now and then: with more threads than cores the holder may be waiting for this core.
            for (int spins = 0; m_taken.load(std::memory_order_relaxed); ++spins) {
                if (spins == 64) {
                    std::this_thread::yield();
                    spins = 0;
                }
            }
        }
    }
    void unlock() { m_taken.store(false, std::memory_order_release); }

private:
    std::atomic<bool> m_taken{false};
};

// The free blocks' addresses lie in a vector rather than in the blocks: a push does not touch cold payload.
template <class Lock>
class block_pool {
public:
    explicit block_pool(std::size_t block_bytes) : m_block_bytes((block_bytes + 15) / 16 * 16) {}
    block_pool(const block_pool&) = delete;
    block_pool& operator=(const block_pool&) = delete;
    ~block_pool() {
        for (std::byte* slab : m_slabs)
            ::operator delete(slab);
    }

    void* pop() {
        const std::lock_guard guard(m_lock);
        if (m_free.empty()) refill();
        void* block = m_free.back();
        m_free.pop_back();
        return block;
    }

    void push(void* block) {
        const std::lock_guard guard(m_lock);
        m_free.push_back(block);
    }

    void reserve(std::size_t blocks) {
        const std::lock_guard guard(m_lock);
        while (m_free.size() < blocks)
            refill();
    }

private:
    static constexpr std::size_t k_refill_blocks = 1024;

    void refill() {
        auto* slab = static_cast<std::byte*>(::operator new(k_refill_blocks * m_block_bytes));
        m_slabs.push_back(slab);
        for (std::size_t i = k_refill_blocks; i-- > 0;)
            m_free.push_back(slab + i * m_block_bytes);
    }

    Lock m_lock;
    std::size_t m_block_bytes;
    std::vector<void*> m_free;
    std::vector<std::byte*> m_slabs;
};

// One pool for each block size and kind of lock, constructed before main, so that no use checks whether it is initialised.
template <std::size_t BlockBytes, class Lock>
inline block_pool<Lock> block_pool_of{BlockBytes};

inline constexpr std::size_t k_block_headroom = 64;

template <class T, class Lock, std::size_t BlockBytes>
struct block_pool_allocator {
    using value_type = T;
    template <class U>
    struct rebind {
        using other = block_pool_allocator<U, Lock, BlockBytes>;
    };

    block_pool_allocator() = default;
    template <class U>
    block_pool_allocator(const block_pool_allocator<U, Lock, BlockBytes>&) {
    }  // NOLINT: converting, as allocators do

    T* allocate(std::size_t n) {
        static_assert(sizeof(T) <= BlockBytes && alignof(T) <= 16);
        if (n != 1) throw std::bad_alloc();
        return static_cast<T*>(block_pool_of<BlockBytes, Lock>.pop());
    }
    void deallocate(T* p, std::size_t) { block_pool_of<BlockBytes, Lock>.push(p); }

    friend bool operator==(const block_pool_allocator&, const block_pool_allocator&) { return true; }
};

// allocate_shared on the pool.
template <class Lock>
struct block_pool_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        using allocator = block_pool_allocator<T, Lock, sizeof(T) + k_block_headroom>;
        return std::allocate_shared<T>(allocator{}, std::forward<Args>(args)...);
    }
};

}  // namespace bench
