// SPDX-License-Identifier: BSL-1.0
#pragma once

// How an object of make_shared takes part in a teardown. std::shared_ptr destroys it through the allocator and, when no
// weak pointer is left, deallocates its block right after; to put it off is to answer both calls with a promise.
//
//   nobody observes   destroy: remember the type; deallocate, which follows at once: the whole block waits
//   observed          destroy: take a weak reference, so that the block cannot go before the object; the object waits,
//                     and the reference is dropped when it is destroyed, by whichever rule the standard library has
//
// An object that derives from std::enable_shared_from_this observes itself.

#include "pooled/config.hpp"
#include "pooled/smart/standard_control_block.hpp"
#include "pooled/teardown/block_type.hpp"
#include "pooled/teardown/incremental.hpp"
#include "pooled/teardown/teardown.hpp"
#include "pooled/teardown/waiting.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace pooled::detail {

template <class T, class Origin>
class shared_object {
    using control = standard_control_block;

public:
    static constexpr bool k_is_deferrable = k_may_cascade<T> && control::k_is_known;

    // The last owner let go.
    POOLED_ALWAYS_INLINE static void drop(T* object) noexcept {
        if (!Origin::k_is_incremental && t_teardown.may_recurse()) [[likely]]
            return std::destroy_at(object);
        drop_slow(object);
    }

    // Whether the block stays, since its object waits. Must be asked before the block of a T is deallocated.
    [[nodiscard]] POOLED_ALWAYS_INLINE static bool keeps(void* block) noexcept {
        teardown_state& state = t_teardown;
        if (state.awaited == k_no_type) [[likely]]
            return false;
        waiting const w(block, std::exchange(state.awaited, k_no_type), false);
        wait(w, object_in(block));
        return true;
    }

private:
    POOLED_NOINLINE static void drop_slow(T* object) noexcept {
        if (Origin::k_is_incremental || !try_destroy(object)) put_off(object);
    }

    POOLED_NOINLINE static void put_off(T* object) noexcept {
        type_tag const type = tag_of<k_type>();
        if (type == k_no_type) [[unlikely]]
            return std::destroy_at(object);  // 16256 types on, it recurses as the standard's own
        void* const block = reinterpret_cast<std::byte*>(object) - control::k_object_offset<T>;
        if (!control::is_observed(block)) {
            t_teardown.awaited = type;
            return;
        }
        control::add_weak(block);
        wait(waiting(block, type, true), object);
    }

    POOLED_ALWAYS_INLINE static void wait(waiting w, T const* object) noexcept {
        if constexpr (Origin::k_is_incremental) {
            if (!detail::put_off(w, object, sizeof(T))) tear_down_now(w);
        } else {
            t_teardown.push(w, object, sizeof(T));
        }
    }

    static T* object_in(void* block) noexcept {
        return std::launder(
            reinterpret_cast<T*>(static_cast<std::byte*>(block) + control::k_object_offset<T>));
    }

    static void finish(void* block) noexcept {
        std::destroy_at(object_in(block));
        Origin::deallocate_block(block, control::k_bytes<T>, control::k_align<T>);
    }
    static void finish_observed(void* block) noexcept {
        std::destroy_at(object_in(block));
        control::release_weak(block);
    }

    static constexpr block_type k_type{.retire = nullptr,
                                       .retire_observed = nullptr,
                                       .finish = finish,
                                       .finish_observed = finish_observed,
                                       .free = nullptr,
                                       .object_offset = control::k_object_offset<T>,
                                       .object_bytes = sizeof(T)};
};

}  // namespace pooled::detail
