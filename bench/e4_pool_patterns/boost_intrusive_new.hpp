// SPDX-License-Identifier: BSL-1.0
// Contender `boost_intrusive_new`: new and delete under boost::intrusive_ptr, the count in the item. What the published
// benchmark calls plain malloc.
#pragma once

#include "contender/contender.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

namespace bench {

struct boost_intrusive_new_contender {
    struct item_base : boost::intrusive_ref_counter<item_base> {
        virtual ~item_base() = default;
    };

    static constexpr bool k_counted = true;
    static constexpr bool k_thread_safe = true;
    template <class T>
    using pointer = boost::intrusive_ptr<T>;

    template <class T>
    boost::intrusive_ptr<T> make() {
        return boost::intrusive_ptr<T>(new T);
    }
    template <class T>
    void drop(boost::intrusive_ptr<T>& p) {
        p.reset();
    }
};

}  // namespace bench
