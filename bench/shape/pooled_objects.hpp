// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_objects`: ours, an object_pool: objects stay constructed and are reused in the state in which they were left.
#pragma once

#include <pooled/pooled.hpp>

#include "shape/workload.hpp"

#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace bench::shape {

template <class Packets>
struct pools_of;
template <std::size_t... Bytes>
struct pools_of<packets<Bytes...>> {
    using type = std::tuple<pooled::object_pool<packet<Bytes>>...>;
    template <class T>
    static constexpr bool k_has = (std::is_same_v<T, packet<Bytes>> || ...);
};

struct pooled_objects_contender : shared_contender {
    // A list's nodes are not among its types.
    static constexpr bool takes(std::string_view pattern) { return pattern != "list"; }

    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        if constexpr (pools_of<objects>::k_has<T> && sizeof...(Args) == 0)
            return std::get<pooled::object_pool<T>>(m_pools).acquire();
        else
            return std::make_shared<T>(std::forward<Args>(args)...);
    }

private:
    typename pools_of<objects>::type m_pools;
};

}  // namespace bench::shape
