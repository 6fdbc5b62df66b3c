// SPDX-License-Identifier: BSL-1.0
#pragma once

// pending: objects of an incremental pool that lost their last owner and are not destroyed yet, taken out of the pool so
// that another thread can do it.
//
//   latency-critical thread            cleaner thread
//     cache.clear();                     while (auto work = queue.pop()) work.drain();
//     queue.push(packets.take_pending());
//
// Moved, not copied. One thread at a time. Destroys what is left when it is itself destroyed; may outlive the pool.

#include "pooled/os/metadata.hpp"
#include "pooled/teardown/teardown.hpp"
#include "pooled/teardown/waiting.hpp"

#include <cstddef>
#include <utility>

namespace pooled {

class [[nodiscard]] pending {
public:
    pending() noexcept = default;
    explicit pending(detail::waiting_batch* list) noexcept : m_list(list) {}  // for the pool
    pending(pending&& other) noexcept : m_list(std::exchange(other.m_list, nullptr)) {}
    pending& operator=(pending&& other) noexcept {
        pending(std::move(other)).swap(*this);
        return *this;
    }
    ~pending() { detail::tear_down(m_list); }

    void swap(pending& other) noexcept { std::swap(m_list, other.m_list); }
    friend void swap(pending& a, pending& b) noexcept { a.swap(b); }

    // Whether nothing waits.
    [[nodiscard]] bool empty() const noexcept { return m_list == nullptr; }

    // Destroys up to `budget` objects, and so many of those that they let go of. Returns how many.
    std::size_t drain(std::size_t budget = ~std::size_t{0}) noexcept {
        std::size_t done = 0;
        while (m_list != nullptr && done != budget) {
            done += detail::t_teardown.take_some(m_list->queue, budget - done);
            if (!m_list->queue.empty()) break;
            detail::waiting_batch* const empty = std::exchange(m_list, m_list->next);
            detail::g_metadata.deallocate(empty, sizeof(detail::waiting_batch));
        }
        return done;
    }

private:
    detail::waiting_batch* m_list = nullptr;
};

}  // namespace pooled
