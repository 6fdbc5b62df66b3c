// SPDX-License-Identifier: BSL-1.0
#pragma once

// enable_rc_from_this<T>: a base for those T that need an rc_ptr to themselves in their own members, as
// std::enable_shared_from_this is for std::shared_ptr. It takes 8 bytes, and is not copied with the object.

#include "pooled/fwd.hpp"
#include "pooled/rc_ptr.hpp"
#include "pooled/smart/counted_object.hpp"

POOLED_BEGIN_NAMESPACE

template <class T>
class enable_rc_from_this : public detail::rc_from_this_tag {
public:
    // Another owner. Throws std::bad_weak_ptr if no rc_ptr owns the object: on the stack, in a std::shared_ptr or a unique_ptr,
    // in its own constructor or destructor.
    [[nodiscard]] rc_ptr<T> rc_from_this() { return own<detail::among_threads, T>(); }
    [[nodiscard]] rc_ptr<T const> rc_from_this() const { return own<detail::among_threads, T const>(); }

    // Does what rc_from_this() does, for an object that local_rc_ptr owns.
    [[nodiscard]] local_rc_ptr<T> local_rc_from_this() { return own<detail::on_one_thread, T>(); }
    [[nodiscard]] local_rc_ptr<T const> local_rc_from_this() const {
        return own<detail::on_one_thread, T const>();
    }

    // Another observer, or an empty pointer.
    [[nodiscard]] weak_rc_ptr<T> weak_rc_from_this() noexcept { return find<detail::among_threads, T>(); }
    [[nodiscard]] weak_rc_ptr<T const> weak_rc_from_this() const noexcept {
        return find<detail::among_threads, T const>();
    }

protected:
    // A class may derive from the enable_rc_from_this of a base of its own, so they are protected.
    // NOLINTBEGIN(bugprone-crtp-constructor-accessibility)
    enable_rc_from_this() noexcept = default;
    enable_rc_from_this(enable_rc_from_this const&) noexcept {}  // another object has other owners
    // NOLINTEND(bugprone-crtp-constructor-accessibility)
    enable_rc_from_this& operator=(enable_rc_from_this const&) noexcept { return *this; }
    ~enable_rc_from_this() = default;

private:
    friend struct detail::rc_access;

    template <class Counting, class Other>
    [[nodiscard]] detail::rc_ptr_of<Other, Counting> own() const {
        auto owner = find<Counting, Other>();
        if (owner == nullptr) POOLED_THROW(std::bad_weak_ptr());
        return owner;
    }
    // Empty if no pointer owns the object.
    template <class Counting, class Other>
    [[nodiscard]] detail::rc_ptr_of<Other, Counting> find() const noexcept {
        if (m_self.empty() || !Counting::try_add_strong(m_self.header())) return {};
        return detail::rc_access::adopt<Other, Counting>(detail::handle<Other>(m_self, m_self.get()));
    }

    detail::handle<T> m_self;
};

namespace detail {

// Stores the handle of an object that was just made in a counted block.
template <class T>
POOLED_ALWAYS_INLINE void introduce(T* object) noexcept {
    if constexpr (k_has_rc_from_this<T>) {
        static_assert(
            requires { rc_access::introduce(object, object); },
            "pooled::enable_rc_from_this: T must have just one of them among its bases, and a public one");
        rc_access::introduce(object, object);
    }
}

}  // namespace detail

POOLED_END_NAMESPACE
