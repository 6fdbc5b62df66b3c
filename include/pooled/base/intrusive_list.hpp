// SPDX-License-Identifier: BSL-1.0
#pragma once

// A list of elements that contain their links: adding one allocates nothing. A list owns no element, and is empty when all its bytes
// are zero. One thread at a time. O(1).

#include "pooled/config.hpp"

POOLED_BEGIN_DETAIL

// `Pointer`: T*, or what a model checker has in its place.
template <class T, class Pointer = T*>
struct list_links {
    Pointer next = nullptr;
    Pointer previous = nullptr;
};

// The member that a list uses. T may be incomplete where the list is declared.
template <class T>
struct links_of {
    static constexpr auto k_member = &T::links;
};

template <class T, class Pointer = T*, class Links = links_of<T>>
class intrusive_list {
public:
    [[nodiscard]] bool empty() const noexcept { return m_first == nullptr; }
    [[nodiscard]] T* first() const noexcept { return m_first; }
    [[nodiscard]] T* last() const noexcept { return m_last; }
    [[nodiscard]] static T* after(T& one) noexcept { return (one.*Links::k_member).next; }
    [[nodiscard]] static T* before(T& one) noexcept { return (one.*Links::k_member).previous; }

    void push_front(T& one) noexcept {
        one.*Links::k_member = {m_first, nullptr};
        previous_of(m_first) = &one;
        m_first = &one;
    }
    void push_back(T& one) noexcept {
        one.*Links::k_member = {nullptr, m_last};
        next_of(m_last) = &one;
        m_last = &one;
    }
    // Requires an element of this list.
    void remove(T& one) noexcept {
        list_links<T, Pointer>& links = one.*Links::k_member;
        next_of(links.previous) = links.next;
        previous_of(links.next) = links.previous;
        links = {};
    }
    // Null: none.
    T* pop_front() noexcept {
        T* const one = m_first;
        if (one != nullptr) remove(*one);
        return one;
    }

    // For a loop over the elements, which may remove the one that it visits.
    class iterator {
    public:
        explicit iterator(T* at) noexcept { *this = at; }
        [[nodiscard]] T& operator*() const noexcept { return *m_at; }
        iterator& operator++() noexcept { return *this = m_next; }
        [[nodiscard]] bool operator==(std::nullptr_t) const noexcept { return m_at == nullptr; }

    private:
        iterator& operator=(T* at) noexcept {
            m_at = at;
            m_next = at != nullptr ? after(*at) : nullptr;
            return *this;
        }
        T* m_at;
        T* m_next;
    };
    [[nodiscard]] iterator begin() const noexcept { return iterator(m_first); }
    [[nodiscard]] std::nullptr_t end() const noexcept { return nullptr; }

private:
    [[nodiscard]] Pointer& next_of(T* one) noexcept {
        return one != nullptr ? (one->*Links::k_member).next : m_first;
    }
    [[nodiscard]] Pointer& previous_of(T* one) noexcept {
        return one != nullptr ? (one->*Links::k_member).previous : m_last;
    }

    friend record_access;
    Pointer m_first = nullptr;
    Pointer m_last = nullptr;
};

POOLED_END_DETAIL
