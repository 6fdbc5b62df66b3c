// SPDX-License-Identifier: BSL-1.0
#pragma once

// The functions on the stack, as return addresses. Found by the unwinder that each C++ program has for exceptions: it needs no frame
// pointers and no library, and allocates nothing. Any thread may call, on any stack. O(frames), some 100 ns each.

#include "pooled/config.hpp"

#include <unwind.h>

#include <array>
#include <cstddef>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

template <std::size_t Count>
class callers {
public:
    // Innermost first; null after the outermost one.
    using addresses = std::array<void const*, Count>;

    // Those of `place`, the return address of a function that is being called; none if the unwinder does not find it.
    [[nodiscard]] POOLED_NOINLINE static addresses find([[maybe_unused]] void const* place) noexcept {
        addresses found{};
        if constexpr (Count != 0) {
            walk_state walk{place, &found};
            ::_Unwind_Backtrace(&add, &walk);
        }
        return found;
    }

private:
    struct walk_state {
        void const* place;  // null: it was passed
        addresses* found;
        std::size_t count = 0;
    };

    // Called by code that MemorySanitizer does not see.
    POOLED_UNWATCHED static _Unwind_Reason_Code add(_Unwind_Context* frame, void* into) noexcept {
        auto& walk = *static_cast<walk_state*>(into);
        auto const* const address = reinterpret_cast<void const*>(::_Unwind_GetIP(frame));
        if (address == nullptr) return _URC_END_OF_STACK;
        if (walk.place != nullptr) {
            if (address == walk.place) walk.place = nullptr;
            return _URC_NO_REASON;
        }
        (*walk.found)[walk.count++] = address;
        return walk.count == Count ? _URC_END_OF_STACK : _URC_NO_REASON;
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
