// SPDX-License-Identifier: BSL-1.0
// Contender `memorypool`: ours, through the drop-in header for boost-intrusive-pool.
#pragma once

#include <pooled/compat/boost_intrusive_pool.hpp>

#include "contender/contender.hpp"
#include "e4_pool_patterns/workload.hpp"

#include <cstddef>

namespace bench {

class memorypool_contender {
public:
    using item_base = memorypool::boost_intrusive_pool_item;

    static constexpr bool k_counted = true;
    static constexpr bool k_thread_safe = true;
    template <class T>
    using pointer = boost::intrusive_ptr<T>;

    memorypool_contender(std::size_t initial, std::size_t step) : m_pool(initial, step) {}

    template <class T>
    boost::intrusive_ptr<T> make() {
        return m_pool.allocate();
    }
    template <class T>
    void drop(boost::intrusive_ptr<T>& p) {
        p.reset();
    }

private:
    memorypool::boost_intrusive_pool<e4_pool_patterns::item<item_base>> m_pool;
};

}  // namespace bench
