// SPDX-License-Identifier: BSL-1.0
// Contender `boost_intrusive_free_list`: a minimal pool of the structure that the published one has, written anew. Vectors of
// constructed items, one for each step; a list of free items, linked through them; boost::intrusive_ptr with a plain count in
// the item. For one thread, and no item may outlive the pool. What the published gains are judged on.
#pragma once

#include "contender/contender.hpp"
#include "e4_pool_patterns/workload.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace bench {

class boost_intrusive_free_list_contender {
public:
    class item_base {
    public:
        item_base() = default;
        item_base(const item_base&) = delete;
        item_base& operator=(const item_base&) = delete;
        virtual ~item_base() = default;

        friend void intrusive_ptr_add_ref(item_base* it) { ++it->m_handles; }
        friend void intrusive_ptr_release(item_base* it) { it->remove_handle(); }

    private:
        friend boost_intrusive_free_list_contender;

        void remove_handle() {
            if (--m_handles == 0) m_pool->put_back(this);
        }

        std::size_t m_handles = 0;
        boost_intrusive_free_list_contender* m_pool = nullptr;
        item_base* m_next = nullptr;  // free items alone have one
    };
    using item = e4_pool_patterns::item<item_base>;

    static constexpr bool k_counted = true;
    static constexpr bool k_thread_safe = false;
    template <class T>
    using pointer = boost::intrusive_ptr<T>;

    boost_intrusive_free_list_contender(std::size_t initial, std::size_t step) : m_step(step) {
        grow(initial);
    }
    boost_intrusive_free_list_contender(const boost_intrusive_free_list_contender&) = delete;
    boost_intrusive_free_list_contender& operator=(const boost_intrusive_free_list_contender&) = delete;

    template <class T>
    boost::intrusive_ptr<T> make() {
        item_base* const it = m_free;
        m_free = it->m_next;
        if (m_free == nullptr) grow(m_step);  // when the last free item is taken, as published
        return boost::intrusive_ptr<T>(static_cast<item*>(it));
    }
    template <class T>
    void drop(boost::intrusive_ptr<T>& p) {
        p.reset();
    }

private:
    void put_back(item_base* it) {
        it->m_next = m_free;
        m_free = it;
    }
    void grow(std::size_t count) {
        m_steps.push_back(std::make_unique_for_overwrite<item[]>(count));
        item* const items = m_steps.back().get();
        for (std::size_t i = count; i-- > 0;) {
            items[i].m_pool = this;
            put_back(items + i);
        }
    }

    std::size_t m_step;
    item_base* m_free = nullptr;
    std::vector<std::unique_ptr<item[]>> m_steps;
};

}  // namespace bench
