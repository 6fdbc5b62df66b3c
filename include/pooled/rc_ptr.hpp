// SPDX-License-Identifier: BSL-1.0
#pragma once

// rc_ptr<T>, local_rc_ptr<T>: counted pointers of 8 bytes. The counts lie in 8 bytes in front of the object, so T needs no
// base class, an upcast may go to any accessible base, and T may be incomplete wherever std::shared_ptr allows it.
//
//   rc_ptr         counts atomically; copies may be used and dropped in any thread, as with std::shared_ptr
//   local_rc_ptr   counts without atomics: all pointers to one object stay on one thread
//
// T may be an array, as with std::shared_ptr. A sole owner drops without a locked instruction. There is no aliasing constructor: a
// pointer always keeps the object it points into, so it needs no second address. Created by make_rc or make_local_rc, or from a
// pooled::unique_ptr without an allocation.
//
// One pointer is for one thread at a time; different pointers to one object are for any thread. O(1).

#include "pooled/fwd.hpp"
#include "pooled/smart/counted_object.hpp"
#include "pooled/smart/drop.hpp"
#include "pooled/smart/handle.hpp"
#include "pooled/unique_ptr.hpp"

#include <compare>

POOLED_BEGIN_NAMESPACE

namespace detail {

template <class T, class Counting>
class counted_ptr;
template <class T, class Counting>
class weak_counted_ptr;

template <class T, class Counting>
using weak_rc_ptr_of =
    std::conditional_t<std::is_same_v<Counting, among_threads>, weak_rc_ptr<T>, weak_local_rc_ptr<T>>;

// Access for the library's own make_ functions and casts.
struct rc_access {
    // Takes over an existing count.
    template <class T, class Counting>
    [[nodiscard]] static rc_ptr_of<T, Counting> adopt(handle<std::remove_extent_t<T>> counted) noexcept {
        return rc_ptr_of<T, Counting>(counted);
    }
    // The pointer's count becomes the caller's.
    template <class T, class Counting>
    [[nodiscard]] static handle<std::remove_extent_t<T>> detach(counted_ptr<T, Counting>& p) noexcept {
        return std::exchange(p.m_handle, {});
    }
    // Stores an object's handle in its enable_rc_from_this, `base`.
    template <class T, class Other>
    static void introduce(enable_rc_from_this<Other>* base, T* object) noexcept {
        base->m_self = {static_cast<Other*>(object), object};
    }
    // `p` seen as a T; `seen` is what the cast made of p.get().
    template <class T, class Other, class Counting>
    [[nodiscard]] static rc_ptr_of<T, Counting> cast(counted_ptr<Other, Counting>&& p,
                                                     std::remove_extent_t<T>* seen) noexcept {
        if (seen == nullptr) return {};
        handle<std::remove_extent_t<T>> const h(p.m_handle, seen);
        p.m_handle = {};
        return adopt<T, Counting>(h);
    }
};

// What owners and observers have in common.
template <class T, class Counting>
class counted_base {
public:
    using element_type = std::remove_extent_t<T>;

    // How many pointers own the object; 0 when empty. Exact when no other thread has one.
    [[nodiscard]] long use_count() const noexcept {
        if (m_handle.empty()) return 0;
        return static_cast<long>(
            count_header::owners_in(m_handle.header().word.load(std::memory_order_relaxed)));
    }
    // A strict weak order by object, the same for pointers to different bases of it, owners and observers.
    template <class Other>
    [[nodiscard]] bool owner_before(counted_base<Other, Counting> const& other) const noexcept {
        return m_handle.start() < other.m_handle.start();
    }
    // Whether both refer to one object, or both to none; and a hash that agrees with it. As C++26 has for std::shared_ptr.
    template <class Other>
    [[nodiscard]] bool owner_equal(counted_base<Other, Counting> const& other) const noexcept {
        return m_handle.start() == other.m_handle.start();
    }
    [[nodiscard]] std::size_t owner_hash() const noexcept {
        return std::hash<std::uintptr_t>()(m_handle.start());
    }

private:
    template <class, class>
    friend class counted_base;
    template <class, class>
    friend class counted_ptr;
    template <class, class>
    friend class weak_counted_ptr;
    friend struct rc_access;

    constexpr counted_base() noexcept = default;
    constexpr explicit counted_base(handle<element_type> counted) noexcept : m_handle(counted) {}

    handle<element_type> m_handle;
};

// The base of rc_ptr and local_rc_ptr: everything but the name. Each public pointer is a class of its own, so that compilers' messages show
// `rc_ptr<T>` and templates deduce it.
template <class T, class Counting>
class counted_ptr : public counted_base<T, Counting> {
    using base = counted_base<T, Counting>;
    using base::m_handle;

public:
    using typename base::element_type;
    using weak_type = weak_rc_ptr_of<T, Counting>;

    constexpr counted_ptr() noexcept = default;
    constexpr counted_ptr(std::nullptr_t) noexcept {}  // NOLINT: as std::shared_ptr converts
    template <class Other>
    explicit counted_ptr(Other*) = delete;  // pooled: write make_rc<T>(arguments), not rc_ptr<T>(new T)

    counted_ptr(counted_ptr const& other) noexcept : base(other.m_handle) { add(); }
    counted_ptr(counted_ptr&& other) noexcept : base(std::exchange(other.m_handle, {})) {}

    template <class Other>
        requires std::convertible_to<Other*, T*>
    counted_ptr(counted_ptr<Other, Counting> const& other) noexcept  // NOLINT: upcasts convert
        : base(handle<element_type>(other.m_handle, other.get())) {
        add();
    }
    template <class Other>
        requires std::convertible_to<Other*, T*>
    counted_ptr(counted_ptr<Other, Counting>&& other) noexcept  // NOLINT: upcasts convert
        : base(handle<element_type>(other.m_handle, other.get())) {
        other.m_handle = {};
    }

    // The unique_ptr's block has space for the counts: no allocation.
    template <class Other>
        requires std::convertible_to<Other*, T*> && (!std::is_array_v<Other>)
    counted_ptr(unique_ptr<Other>&& other) noexcept {  // NOLINT: as std::shared_ptr takes one over
        if (other == nullptr) return;
        Other* const object = other.release();
        m_handle = {object, detail::start_of(object)};
        count_header& h = m_handle.header();
        h.word.store(h.word.load(std::memory_order_relaxed) + count_header::k_strong_one,
                     std::memory_order_relaxed);
    }

    // From a pointer that counts in the other way: an object that was made on one thread is shared among threads from now on,
    // or the reverse. Requires that `other` is the object's only pointer, weak ones included; checked.
    template <class Other, class OtherCounting>
        requires std::convertible_to<Other*, T*> && (!std::same_as<Counting, OtherCounting>)
    counted_ptr(counted_ptr<Other, OtherCounting>&& other) {  // NOLINT: a sole owner may change its kind
        if (other.m_handle.empty()) return;
        POOLED_CHECK(count_header::is_sole(other.m_handle.header().word.load(std::memory_order_acquire)),
                     "pooled::rc_ptr: only a sole owner can change between rc_ptr and local_rc_ptr");
        m_handle = {other.m_handle, other.get()};
        other.m_handle = {};
    }

    // The object of `observer`. Throws std::bad_weak_ptr when the object was destroyed.
    template <class Other>
        requires std::convertible_to<Other*, T*>
    explicit counted_ptr(weak_counted_ptr<Other, Counting> const& observer) : counted_ptr(observer.lock()) {
        if (m_handle.empty()) POOLED_THROW(std::bad_weak_ptr());
    }

    POOLED_ALWAYS_INLINE ~counted_ptr() { m_handle.template with_header<drop>(); }

    counted_ptr& operator=(counted_ptr const& other) noexcept {
        counted_ptr(other).swap(*this);
        return *this;
    }
    // Inlined, so that a temporary that was moved from is known to be empty, and has no code that drops it.
    POOLED_INLINE_IF_OPTIMIZED counted_ptr& operator=(counted_ptr&& other) noexcept {
        counted_ptr(std::move(other)).swap(*this);
        return *this;
    }

    void reset() noexcept { counted_ptr().swap(*this); }
    void swap(counted_ptr& other) noexcept { std::swap(m_handle, other.m_handle); }

    [[nodiscard]] element_type* get() const noexcept { return m_handle.get(); }
    [[nodiscard]] T* operator->() const noexcept
        requires(!std::is_array_v<T>)
    {
        POOLED_ASSERT(!m_handle.empty(), "pooled::rc_ptr: -> on an empty pointer");
        return get();
    }
    [[nodiscard]] std::add_lvalue_reference_t<T> operator*() const noexcept
        requires(!std::is_void_v<T> && !std::is_array_v<T>)
    {
        POOLED_ASSERT(!m_handle.empty(), "pooled::rc_ptr: * on an empty pointer");
        return *get();
    }
    // Requires the index of an element. The number of elements is not known here, except for a T[N].
    [[nodiscard]] std::add_lvalue_reference_t<element_type> operator[](std::ptrdiff_t index) const noexcept
        requires(std::is_array_v<T>)
    {
        POOLED_ASSERT(!m_handle.empty(), "pooled::rc_ptr: [] on an empty pointer");
        POOLED_ASSERT(index >= 0 && (std::extent_v<T> == 0 || std::size_t(index) < std::extent_v<T>),
                      "pooled::rc_ptr: [] outside of the array");
        return get()[index];
    }
    [[nodiscard]] explicit operator bool() const noexcept { return !m_handle.empty(); }

private:
    template <class, class>
    friend class counted_ptr;
    template <class, class>
    friend class weak_counted_ptr;
    friend struct rc_access;

    // Takes over one count.
    explicit counted_ptr(handle<element_type> counted) noexcept : base(counted) {}

    void add() const noexcept { m_handle.template with_header<Counting::add_strong>(); }
    POOLED_ALWAYS_INLINE static void drop(count_header& h) noexcept {
        instrument::drop_counted(&h, count_header::is_owned);
        // An array is not plain; pointers to void are of many types.
        constexpr bool is_one_class = !std::is_array_v<T> && !std::is_void_v<T>;
        Counting::release_strong(h, is_one_class ? &g_usual_class<std::remove_cv_t<T>> : nullptr);
    }
};

// Observes an object without keeping it alive; keeps only its memory. Otherwise as rc_ptr.
template <class T, class Counting>
class weak_counted_ptr : public counted_base<T, Counting> {
    using base = counted_base<T, Counting>;
    using base::m_handle;

public:
    using typename base::element_type;

    constexpr weak_counted_ptr() noexcept = default;
    weak_counted_ptr(weak_counted_ptr const& other) noexcept : base(other.m_handle) { add(); }
    weak_counted_ptr(weak_counted_ptr&& other) noexcept : base(std::exchange(other.m_handle, {})) {}

    template <class Other>
        requires std::convertible_to<Other*, T*>
    weak_counted_ptr(counted_ptr<Other, Counting> const& owner) noexcept  // NOLINT: as std::weak_ptr converts
        : base(handle<element_type>(owner.m_handle, owner.get())) {
        add();
    }
    template <class Other>
        requires std::convertible_to<Other*, T*>
    weak_counted_ptr(weak_counted_ptr<Other, Counting> const& other) noexcept  // NOLINT: upcasts convert
        : base(weak_counted_ptr::converted(other)) {
        add();
    }
    template <class Other>
        requires std::convertible_to<Other*, T*>
    weak_counted_ptr(weak_counted_ptr<Other, Counting>&& other) noexcept  // NOLINT: upcasts convert
        : base(weak_counted_ptr::converted(other)) {
        other.m_handle = {};
    }

    ~weak_counted_ptr() { m_handle.template with_header<drop>(); }

    weak_counted_ptr& operator=(weak_counted_ptr other) noexcept {
        swap(other);
        return *this;
    }

    void reset() noexcept { weak_counted_ptr().swap(*this); }
    void swap(weak_counted_ptr& other) noexcept { std::swap(m_handle, other.m_handle); }

    // An owner, or an empty pointer when the object was destroyed.
    [[nodiscard]] rc_ptr_of<T, Counting> lock() const noexcept {
        if (m_handle.empty() || !Counting::try_add_strong(m_handle.header())) return {};
        return rc_access::adopt<T, Counting>(m_handle);
    }
    [[nodiscard]] bool expired() const noexcept { return this->use_count() == 0; }

private:
    template <class, class>
    friend class counted_ptr;
    template <class, class>
    friend class weak_counted_ptr;

    // Under an owner: the conversion to a virtual base needs an object that is alive.
    template <class Other>
    [[nodiscard]] static handle<element_type>
    converted(weak_counted_ptr<Other, Counting> const& other) noexcept {
        auto const owner = other.lock();
        return owner ? handle<element_type>(other.m_handle, owner.get())
                     : handle<element_type>::of_block(other.m_handle);
    }

    void add() const noexcept { m_handle.template with_header<Counting::add_weak>(); }
    static void drop(count_header& h) noexcept {
        instrument::drop_counted(&h, count_header::is_observed);
        h.release_weak();
    }
};

}  // namespace detail

template <class T>
class rc_ptr : public detail::counted_ptr<T, detail::among_threads> {
public:
    using detail::counted_ptr<T, detail::among_threads>::counted_ptr;

    constexpr rc_ptr() noexcept = default;
    rc_ptr(rc_ptr const&) noexcept = default;
    rc_ptr(rc_ptr&&) noexcept = default;
    rc_ptr& operator=(rc_ptr const&) noexcept = default;
    POOLED_INLINE_IF_OPTIMIZED rc_ptr& operator=(rc_ptr&&) noexcept = default;
    POOLED_ALWAYS_INLINE ~rc_ptr() = default;  // GCC would call it
    friend void swap(rc_ptr& a, rc_ptr& b) noexcept { a.swap(b); }
};

template <class T>
class local_rc_ptr : public detail::counted_ptr<T, detail::on_one_thread> {
public:
    using detail::counted_ptr<T, detail::on_one_thread>::counted_ptr;

    constexpr local_rc_ptr() noexcept = default;
    local_rc_ptr(local_rc_ptr const&) noexcept = default;
    local_rc_ptr(local_rc_ptr&&) noexcept = default;
    local_rc_ptr& operator=(local_rc_ptr const&) noexcept = default;
    POOLED_INLINE_IF_OPTIMIZED local_rc_ptr& operator=(local_rc_ptr&&) noexcept = default;
    POOLED_ALWAYS_INLINE ~local_rc_ptr() = default;  // GCC would call it
    friend void swap(local_rc_ptr& a, local_rc_ptr& b) noexcept { a.swap(b); }
};

// Observes an object without keeping it alive; keeps only its memory. Otherwise as rc_ptr; the members are those of
// detail::weak_counted_ptr.
template <class T>
class weak_rc_ptr : public detail::weak_counted_ptr<T, detail::among_threads> {
public:
    using detail::weak_counted_ptr<T, detail::among_threads>::weak_counted_ptr;

    friend void swap(weak_rc_ptr& a, weak_rc_ptr& b) noexcept { a.swap(b); }
};

template <class T>
class weak_local_rc_ptr : public detail::weak_counted_ptr<T, detail::on_one_thread> {
public:
    using detail::weak_counted_ptr<T, detail::on_one_thread>::weak_counted_ptr;

    friend void swap(weak_local_rc_ptr& a, weak_local_rc_ptr& b) noexcept { a.swap(b); }
};

// Deduction as for std::shared_ptr.
template <class T>
rc_ptr(weak_rc_ptr<T>) -> rc_ptr<T>;
template <class T>
rc_ptr(unique_ptr<T>) -> rc_ptr<T>;
template <class T>
local_rc_ptr(weak_local_rc_ptr<T>) -> local_rc_ptr<T>;
template <class T>
local_rc_ptr(unique_ptr<T>) -> local_rc_ptr<T>;
template <class T>
weak_rc_ptr(rc_ptr<T>) -> weak_rc_ptr<T>;
template <class T>
weak_local_rc_ptr(local_rc_ptr<T>) -> weak_local_rc_ptr<T>;

template <class T, class Other, class Counting>
[[nodiscard]] bool operator==(detail::counted_ptr<T, Counting> const& a,
                              detail::counted_ptr<Other, Counting> const& b) noexcept {
    return a.get() == b.get();
}
template <class T, class Other, class Counting>
[[nodiscard]] std::strong_ordering operator<=>(detail::counted_ptr<T, Counting> const& a,
                                               detail::counted_ptr<Other, Counting> const& b) noexcept {
    // libstdc++ compares the addresses of two pointer types as they are: a base at another address than its object differs there.
    using common = std::common_type_t<decltype(a.get()), decltype(b.get())>;
    return std::compare_three_way()(static_cast<common>(a.get()), static_cast<common>(b.get()));
}
template <class T, class Counting>
[[nodiscard]] bool operator==(detail::counted_ptr<T, Counting> const& a, std::nullptr_t) noexcept {
    return !a;
}
template <class T, class Counting>
[[nodiscard]] std::strong_ordering operator<=>(detail::counted_ptr<T, Counting> const& a,
                                               std::nullptr_t) noexcept {
    return std::compare_three_way()(a.get(), static_cast<std::remove_extent_t<T>*>(nullptr));
}

template <class Char, class Traits, class T, class Counting>
std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out,
                                             detail::counted_ptr<T, Counting> const& p) {
    return out << p.get();
}

// The casts of the language, for owners. A moved-from pointer is empty unless the cast fails.
template <class T, class Other, class Counting>
[[nodiscard]] detail::rc_ptr_of<T, Counting>
static_pointer_cast(detail::counted_ptr<Other, Counting> p) noexcept {
    auto* const seen = static_cast<std::remove_extent_t<T>*>(p.get());
    return detail::rc_access::cast<T>(std::move(p), seen);
}
template <class T, class Other, class Counting>
[[nodiscard]] detail::rc_ptr_of<T, Counting>
const_pointer_cast(detail::counted_ptr<Other, Counting> p) noexcept {
    auto* const seen = const_cast<std::remove_extent_t<T>*>(p.get());
    return detail::rc_access::cast<T>(std::move(p), seen);
}
template <class T, class Other, class Counting>
[[nodiscard]] detail::rc_ptr_of<T, Counting>
reinterpret_pointer_cast(detail::counted_ptr<Other, Counting> p) noexcept {
    auto* const seen = reinterpret_cast<std::remove_extent_t<T>*>(p.get());
    return detail::rc_access::cast<T>(std::move(p), seen);
}
template <class T, class Other, class Counting>
[[nodiscard]] detail::rc_ptr_of<T, Counting>
dynamic_pointer_cast(detail::counted_ptr<Other, Counting> const& p) noexcept {
    T* const seen = dynamic_cast<T*>(p.get());
    return seen == nullptr ? nullptr
                           : detail::rc_access::cast<T>(detail::counted_ptr<Other, Counting>(p), seen);
}
template <class T, class Other, class Counting>
[[nodiscard]] detail::rc_ptr_of<T, Counting>
dynamic_pointer_cast(detail::counted_ptr<Other, Counting>&& p) noexcept {
    T* const seen = dynamic_cast<T*>(p.get());
    return detail::rc_access::cast<T>(std::move(p), seen);
}

static_assert(sizeof(rc_ptr<int>) == 8 && sizeof(weak_rc_ptr<int>) == 8 && sizeof(local_rc_ptr<int>) == 8);

POOLED_END_NAMESPACE

template <class T>
struct std::hash<pooled::rc_ptr<T>> {
    [[nodiscard]] std::size_t operator()(pooled::rc_ptr<T> const& p) const noexcept {
        return std::hash<std::remove_extent_t<T>*>()(p.get());
    }
};
template <class T>
struct std::hash<pooled::local_rc_ptr<T>> {
    [[nodiscard]] std::size_t operator()(pooled::local_rc_ptr<T> const& p) const noexcept {
        return std::hash<std::remove_extent_t<T>*>()(p.get());
    }
};
