// SPDX-License-Identifier: BSL-1.0
#pragma once

// rc_ptr<T>, local_rc_ptr<T>: counted pointers of 8 bytes. The counts lie in 8 bytes in front of the object, so T needs no
// base class, an upcast may go to any accessible base, and T may be incomplete wherever std::shared_ptr allows it.
//
//   rc_ptr         counts atomically; copies may be used and dropped in any thread, as with std::shared_ptr
//   local_rc_ptr   counts without atomics: all pointers to one object stay on one thread
//
// A sole owner lets go without a locked instruction. There is no aliasing: a pointer always keeps the object it points
// into, so it needs no second address. Made by make_rc, make_local_rc, or out of a pooled::unique_ptr, without an allocation.
//
// One pointer is for one thread at a time, pointers to one object for any. O(1).

#include "pooled/config.hpp"
#include "pooled/fwd.hpp"
#include "pooled/smart/counted_object.hpp"
#include "pooled/smart/counting.hpp"
#include "pooled/smart/deleter.hpp"
#include "pooled/smart/handle.hpp"

#include <compare>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE {

namespace detail {
struct rc_access;
}

template <class T, class Counting>
class basic_rc_ptr {
public:
    using element_type = T;
    using weak_type = basic_weak_rc_ptr<T, Counting>;

    constexpr basic_rc_ptr() noexcept = default;
    constexpr basic_rc_ptr(std::nullptr_t) noexcept {}  // NOLINT: as std::shared_ptr converts

    basic_rc_ptr(basic_rc_ptr const& other) noexcept : m_handle(other.m_handle) { add(); }
    basic_rc_ptr(basic_rc_ptr&& other) noexcept : m_handle(std::exchange(other.m_handle, {})) {}

    template <class U>
        requires std::convertible_to<U*, T*>
    basic_rc_ptr(basic_rc_ptr<U, Counting> const& other) noexcept  // NOLINT: upcasts convert
        : m_handle(other.m_handle, other.get()) {
        add();
    }
    template <class U>
        requires std::convertible_to<U*, T*>
    basic_rc_ptr(basic_rc_ptr<U, Counting>&& other) noexcept  // NOLINT: upcasts convert
        : m_handle(other.m_handle, other.get()) {
        other.m_handle = {};
    }

    // The unique_ptr's block has room for the counts: no allocation.
    template <class U>
        requires std::convertible_to<U*, T*> && (!std::is_array_v<U>)
    basic_rc_ptr(unique_ptr<U>&& other) noexcept {  // NOLINT: as std::shared_ptr takes one over
        if (other == nullptr) return;
        U* const object = other.release();
        m_handle = {object, detail::start_of(object)};
        detail::count_header& h = m_handle.header();
        h.word.store(h.word.load(std::memory_order_relaxed) + detail::count_header::k_strong_one,
                     std::memory_order_relaxed);
    }

    // From the other way of counting: what was made on one thread goes out to all, or is kept by one from here on. Requires
    // that `other` is the object's only pointer, weak ones included; checked.
    template <class U, class OtherCounting>
        requires std::convertible_to<U*, T*> && (!std::same_as<Counting, OtherCounting>)
    basic_rc_ptr(basic_rc_ptr<U, OtherCounting>&& other) {  // NOLINT: a sole owner may change its kind
        if (other == nullptr) return;
        POOLED_CHECK(
            detail::count_header::is_sole(other.m_handle.header().word.load(std::memory_order_acquire)),
            "pooled::rc_ptr: only a sole owner can change between rc_ptr and local_rc_ptr");
        m_handle = {other.m_handle, other.get()};
        other.m_handle = {};
    }

    // The object of `observer`. Throws std::bad_weak_ptr when it is gone.
    template <class U>
        requires std::convertible_to<U*, T*>
    explicit basic_rc_ptr(basic_weak_rc_ptr<U, Counting> const& observer) : basic_rc_ptr(observer.lock()) {
        if (m_handle.empty()) POOLED_THROW(std::bad_weak_ptr());
    }

    POOLED_ALWAYS_INLINE ~basic_rc_ptr() {
        if (!m_handle.empty()) Counting::release_strong(m_handle.header());
    }

    basic_rc_ptr& operator=(basic_rc_ptr const& other) noexcept {
        basic_rc_ptr(other).swap(*this);
        return *this;
    }
    basic_rc_ptr& operator=(basic_rc_ptr&& other) noexcept {
        basic_rc_ptr(std::move(other)).swap(*this);
        return *this;
    }
    template <class Other>
        requires std::convertible_to<Other&&, basic_rc_ptr>
    basic_rc_ptr& operator=(Other&& other) noexcept(std::is_nothrow_constructible_v<basic_rc_ptr, Other>) {
        basic_rc_ptr(std::forward<Other>(other)).swap(*this);
        return *this;
    }

    void reset() noexcept { basic_rc_ptr().swap(*this); }
    void swap(basic_rc_ptr& other) noexcept { std::swap(m_handle, other.m_handle); }
    friend void swap(basic_rc_ptr& a, basic_rc_ptr& b) noexcept { a.swap(b); }

    [[nodiscard]] T* get() const noexcept { return m_handle.get(); }
    [[nodiscard]] T* operator->() const noexcept {
        POOLED_ASSERT(!m_handle.empty(), "pooled::rc_ptr: -> on an empty pointer");
        return get();
    }
    [[nodiscard]] std::add_lvalue_reference_t<T> operator*() const noexcept
        requires(!std::is_void_v<T>)
    {
        POOLED_ASSERT(!m_handle.empty(), "pooled::rc_ptr: * on an empty pointer");
        return *get();
    }
    [[nodiscard]] explicit operator bool() const noexcept { return !m_handle.empty(); }

    // How many pointers own the object; 0 when empty. Exact when no other thread has one.
    [[nodiscard]] long use_count() const noexcept {
        return m_handle.empty() ? 0
                                : static_cast<long>(detail::count_header::strong_in(
                                      m_handle.header().word.load(std::memory_order_relaxed)));
    }

    // A strict weak order by object, the same for pointers to different bases of it.
    template <class U>
    [[nodiscard]] bool owner_before(basic_rc_ptr<U, Counting> const& other) const noexcept {
        return m_handle.start() < other.m_handle.start();
    }
    template <class U>
    [[nodiscard]] bool owner_before(basic_weak_rc_ptr<U, Counting> const& other) const noexcept {
        return m_handle.start() < other.m_handle.start();
    }

private:
    template <class, class>
    friend class basic_rc_ptr;
    template <class, class>
    friend class basic_weak_rc_ptr;
    friend struct detail::rc_access;

    // Takes over one count.
    explicit basic_rc_ptr(detail::handle<T> counted) noexcept : m_handle(counted) {}

    void add() const noexcept {
        if (!m_handle.empty()) Counting::add_strong(m_handle.header());
    }

    detail::handle<T> m_handle;
};

// A view of an object that does not keep it alive, only its memory. As rc_ptr otherwise.
template <class T, class Counting>
class basic_weak_rc_ptr {
public:
    using element_type = T;

    constexpr basic_weak_rc_ptr() noexcept = default;
    basic_weak_rc_ptr(basic_weak_rc_ptr const& other) noexcept : m_handle(other.m_handle) { add(); }
    basic_weak_rc_ptr(basic_weak_rc_ptr&& other) noexcept : m_handle(std::exchange(other.m_handle, {})) {}

    template <class U>
        requires std::convertible_to<U*, T*>
    basic_weak_rc_ptr(basic_rc_ptr<U, Counting> const& owner) noexcept  // NOLINT: as std::weak_ptr converts
        : m_handle(owner.m_handle, owner.get()) {
        add();
    }
    // By way of an owner: the address of a virtual base can be asked only of an object that is alive.
    template <class U>
        requires std::convertible_to<U*, T*>
    basic_weak_rc_ptr(basic_weak_rc_ptr<U, Counting> const& other) noexcept  // NOLINT: upcasts convert
        : basic_weak_rc_ptr(other.lock()) {}

    ~basic_weak_rc_ptr() {
        if (!m_handle.empty()) m_handle.header().release_weak();
    }

    basic_weak_rc_ptr& operator=(basic_weak_rc_ptr const& other) noexcept {
        basic_weak_rc_ptr(other).swap(*this);
        return *this;
    }
    basic_weak_rc_ptr& operator=(basic_weak_rc_ptr&& other) noexcept {
        basic_weak_rc_ptr(std::move(other)).swap(*this);
        return *this;
    }
    template <class Other>
        requires std::convertible_to<Other&&, basic_weak_rc_ptr>
    basic_weak_rc_ptr&
    operator=(Other&& other) noexcept(std::is_nothrow_constructible_v<basic_weak_rc_ptr, Other>) {
        basic_weak_rc_ptr(std::forward<Other>(other)).swap(*this);
        return *this;
    }

    void reset() noexcept { basic_weak_rc_ptr().swap(*this); }
    void swap(basic_weak_rc_ptr& other) noexcept { std::swap(m_handle, other.m_handle); }
    friend void swap(basic_weak_rc_ptr& a, basic_weak_rc_ptr& b) noexcept { a.swap(b); }

    // An owner, or an empty pointer when the object is gone.
    [[nodiscard]] basic_rc_ptr<T, Counting> lock() const noexcept {
        if (m_handle.empty() || !Counting::try_add_strong(m_handle.header())) return {};
        return basic_rc_ptr<T, Counting>(m_handle);
    }
    [[nodiscard]] bool expired() const noexcept { return use_count() == 0; }
    [[nodiscard]] long use_count() const noexcept {
        return m_handle.empty() ? 0
                                : static_cast<long>(detail::count_header::strong_in(
                                      m_handle.header().word.load(std::memory_order_relaxed)));
    }

    template <class U>
    [[nodiscard]] bool owner_before(basic_rc_ptr<U, Counting> const& other) const noexcept {
        return m_handle.start() < other.m_handle.start();
    }
    template <class U>
    [[nodiscard]] bool owner_before(basic_weak_rc_ptr<U, Counting> const& other) const noexcept {
        return m_handle.start() < other.m_handle.start();
    }

private:
    template <class, class>
    friend class basic_rc_ptr;
    template <class, class>
    friend class basic_weak_rc_ptr;

    void add() const noexcept {
        if (!m_handle.empty()) Counting::add_weak(m_handle.header());
    }

    detail::handle<T> m_handle;
};

template <class T, class U, class Counting>
[[nodiscard]] bool operator==(basic_rc_ptr<T, Counting> const& a,
                              basic_rc_ptr<U, Counting> const& b) noexcept {
    return a.get() == b.get();
}
template <class T, class U, class Counting>
[[nodiscard]] std::strong_ordering operator<=>(basic_rc_ptr<T, Counting> const& a,
                                               basic_rc_ptr<U, Counting> const& b) noexcept {
    return std::compare_three_way()(a.get(), b.get());
}
template <class T, class Counting>
[[nodiscard]] bool operator==(basic_rc_ptr<T, Counting> const& a, std::nullptr_t) noexcept {
    return !a;
}
template <class T, class Counting>
[[nodiscard]] std::strong_ordering operator<=>(basic_rc_ptr<T, Counting> const& a, std::nullptr_t) noexcept {
    return std::compare_three_way()(a.get(), static_cast<T*>(nullptr));
}

template <class Char, class Traits, class T, class Counting>
std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out,
                                             basic_rc_ptr<T, Counting> const& p) {
    return out << p.get();
}

namespace detail {

struct rc_access {
    // Takes over one count that is already there.
    template <class Counting, class T>
    [[nodiscard]] static basic_rc_ptr<T, Counting> adopt(handle<T> counted) noexcept {
        return basic_rc_ptr<T, Counting>(counted);
    }
    // The pointer's count becomes the caller's.
    template <class T, class Counting>
    [[nodiscard]] static handle<T> detach(basic_rc_ptr<T, Counting>& p) noexcept {
        return std::exchange(p.m_handle, {});
    }
    // Tells an object where it is; `base` is its enable_rc_from_this.
    template <class T, class U>
    static void introduce(enable_rc_from_this<U>* base, T* object) noexcept {
        base->m_self = {static_cast<U*>(object), object};
    }
    // `p` seen as a T; `seen` is what the cast made of p.get().
    template <class T, class U, class Counting>
    [[nodiscard]] static basic_rc_ptr<T, Counting> cast(basic_rc_ptr<U, Counting>&& p, T* seen) noexcept {
        if (seen == nullptr) return {};
        handle<T> const h(p.m_handle, seen);
        p.m_handle = {};
        return basic_rc_ptr<T, Counting>(h);
    }
};

}  // namespace detail

// The casts of the language, for owners. A moved-from pointer is empty unless the cast fails.
template <class T, class U, class Counting>
[[nodiscard]] basic_rc_ptr<T, Counting> static_pointer_cast(basic_rc_ptr<U, Counting> p) noexcept {
    T* const seen = static_cast<T*>(p.get());
    return detail::rc_access::cast<T>(std::move(p), seen);
}
template <class T, class U, class Counting>
[[nodiscard]] basic_rc_ptr<T, Counting> const_pointer_cast(basic_rc_ptr<U, Counting> p) noexcept {
    T* const seen = const_cast<T*>(p.get());
    return detail::rc_access::cast<T>(std::move(p), seen);
}
template <class T, class U, class Counting>
[[nodiscard]] basic_rc_ptr<T, Counting> dynamic_pointer_cast(basic_rc_ptr<U, Counting> const& p) noexcept {
    T* const seen = dynamic_cast<T*>(p.get());
    return seen == nullptr ? nullptr : detail::rc_access::cast<T>(basic_rc_ptr<U, Counting>(p), seen);
}
template <class T, class U, class Counting>
[[nodiscard]] basic_rc_ptr<T, Counting> dynamic_pointer_cast(basic_rc_ptr<U, Counting>&& p) noexcept {
    T* const seen = dynamic_cast<T*>(p.get());
    return detail::rc_access::cast<T>(std::move(p), seen);
}

static_assert(sizeof(rc_ptr<int>) == 8 && sizeof(weak_rc_ptr<int>) == 8 && sizeof(local_rc_ptr<int>) == 8);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE

template <class T, class Counting>
struct std::hash<pooled::basic_rc_ptr<T, Counting>> {
    [[nodiscard]] std::size_t operator()(pooled::basic_rc_ptr<T, Counting> const& p) const noexcept {
        return std::hash<T*>()(p.get());
    }
};
