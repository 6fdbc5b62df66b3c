// SPDX-License-Identifier: BSL-1.0
#pragma once

// pending: deferred objects of an incremental pool, taken out of the pool so that another thread can destroy them.
//
//   latency-critical thread            cleaner thread
//     cache.clear();                     while (auto work = queue.pop()) work.drain();
//     queue.push(packets.take_pending());
//
// Moved, not copied. One thread at a time. Destroys what is left when it is itself destroyed; may outlive the pool.

#include "pooled/pool.hpp"
#include "pooled/teardown/incremental.hpp"

POOLED_BEGIN_NAMESPACE

class [[nodiscard]] pending {
public:
    pending() noexcept = default;
    pending(pending&& other) noexcept : m_list(std::exchange(other.m_list, nullptr)) {}
    pending& operator=(pending&& other) noexcept {
        pending(std::move(other)).swap(*this);
        return *this;
    }
    ~pending() { drain(); }

    void swap(pending& other) noexcept { std::swap(m_list, other.m_list); }
    friend void swap(pending& a, pending& b) noexcept { a.swap(b); }

    // Whether no object is left.
    [[nodiscard]] bool empty() const noexcept { return m_list == nullptr; }

    // Destroys up to `budget` objects, including those that they alone kept alive. Returns their number.
    std::size_t drain(std::size_t budget = ~std::size_t{0}) noexcept {
        return detail::finish_queues(m_list, budget);
    }

private:
    template <detail::sharing Sharing>
    friend class detail::basic_pool;

    explicit pending(detail::deferred_queue* list) noexcept : m_list(list) {}

    detail::deferred_queue* m_list = nullptr;
};

namespace detail {

template <sharing Sharing>
pending basic_pool<Sharing>::take_pending() noexcept {
    POOLED_CHECK(
        !detail::is_foreign(*m_core),
        "pooled: take_pending() of a pool that another shared library made; call it there, or drain()");
    pool_extension* const above = m_core->extension();
    return pending(above != nullptr ? above->take_deferred() : nullptr);
}

}  // namespace detail

POOLED_END_NAMESPACE
