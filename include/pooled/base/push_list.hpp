// SPDX-License-Identifier: BSL-1.0
#pragma once

// A list to which any thread adds an element, and of which one takes all: for what a thread leaves to another one.
//
// Any thread may call, without a lock, and waits for none. O(1) unless noted. An element's `next` is the list's until the element is taken.

#include "pooled/base/atomics.hpp"

#include <utility>

POOLED_BEGIN_DETAIL

// `NextOf` returns a reference to the element's pointer to the next one.
template <class T, T*& (*NextOf)(T&) noexcept>
class push_list {
public:
    [[nodiscard]] bool empty() const noexcept { return m_first.load(std::memory_order_relaxed) == nullptr; }
    // release: pairs with the acquire in take_all().
    void push(T& one) noexcept {
        T* first = m_first.load(std::memory_order_relaxed);
        do
            NextOf(one) = first;
        while (!m_first.compare_exchange_strong(first, &one, std::memory_order_release));
    }
    // With all that follow it, if the list is empty. release: pairs with the acquire in take_all().
    [[nodiscard]] bool push_first(T& one) noexcept {
        T* none = nullptr;
        return m_first.compare_exchange_strong(none, &one, std::memory_order_release);
    }
    // The last one first; null: none. acquire: pairs with the release in push().
    [[nodiscard]] T* take_all() noexcept {
        return empty() ? nullptr : m_first.exchange(nullptr, std::memory_order_acquire);
    }
    // The first one among the `most` that were pushed last for which `suits` is true; null: none. Meanwhile, the list is empty to others.
    // O(most + elements that were pushed meanwhile).
    template <class Suits>
    [[nodiscard]] T* take_one(unsigned most, Suits&& suits) noexcept {
        T* first = take_all();
        T* found = nullptr;
        for (T** at = &first; most != 0 && *at != nullptr && found == nullptr; --most)
            suits(**at) ? static_cast<void>(*at = NextOf(*(found = *at)))
                        : static_cast<void>(at = &NextOf(**at));
        while (first != nullptr && !push_first(*first))
            for_each(take_all(), [&first](T& one) { NextOf(one) = std::exchange(first, &one); });
        return found;
    }
    // Visits those that take_all() returned. `visit` may do with an element what it likes.
    template <class Visit>
    static void for_each(T* taken, Visit&& visit) noexcept {
        while (taken != nullptr)
            visit(*std::exchange(taken, NextOf(*taken)));
    }

private:
    friend record_access;
    std_atomics::atomic<T*> m_first{nullptr};
};

POOLED_END_DETAIL
