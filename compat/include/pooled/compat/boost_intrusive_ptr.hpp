// SPDX-License-Identifier: BSL-1.0
#pragma once

// boost::intrusive_ptr to objects of the pools: the two functions that it finds by argument-dependent lookup. They count where
// rc_ptr counts, in the 8 bytes in front of the object. T needs no count of its own, and pointers of both kinds may own one
// object together.
//
//   struct Session : pooled::enable_intrusive_ptr { … };        // an empty base, or
//
//   namespace app {                                             // for all classes of a namespace that cannot be changed
//   using pooled::intrusive_ptr_add_ref;
//   using pooled::intrusive_ptr_release;
//   }
//
//   boost::intrusive_ptr<Session> a = pooled::make_intrusive<Session>(arguments...);
//   boost::intrusive_ptr<Session> b = pooled::to_intrusive(sessions.make_rc<Session>(arguments...));   // from a given pool
//   boost::intrusive_ptr<Session> c(this);                      // in a member function
//   pooled::weak_rc_ptr<Session> w = pooled::to_rc(a);
//
// Requires objects of make_rc, make_unique, make_intrusive or object_pool::acquire_rc; not of make_shared, which counts
// elsewhere. A base whose pointers hold derived objects must have a virtual function, or be their first base: a pointer of
// one word must find the object's start. Any thread may copy and drop. O(1), no allocation.

#include "pooled/config.hpp"
#include "pooled/make_shared.hpp"
#include "pooled/rc_ptr.hpp"
#include "pooled/smart/counted_object.hpp"
#include "pooled/unique_ptr.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

POOLED_BEGIN_NAMESPACE

// Associates this namespace with derived classes, for argument-dependent lookup.
struct enable_intrusive_ptr {};

namespace detail {

// Only what argument-dependent lookup finds: the declaration hides the enclosing namespaces.
namespace found_by_argument {
void intrusive_ptr_release() = delete;
template <class T>
concept intrusive = requires(T* object) { intrusive_ptr_release(object); };
}  // namespace found_by_argument

template <class T>
constexpr void require_intrusive() noexcept {
    static_assert(
        found_by_argument::intrusive<T>,
        "pooled: boost::intrusive_ptr does not find intrusive_ptr_add_ref and intrusive_ptr_release for this "
        "class: derive it from pooled::enable_intrusive_ptr, or declare in its namespace "
        "`using pooled::intrusive_ptr_add_ref; using pooled::intrusive_ptr_release;`");
}

template <class T>
[[nodiscard]] POOLED_ALWAYS_INLINE count_header& header_of(T* object) noexcept {
    void* const header = static_cast<std::byte*>(detail::start_of(object)) - sizeof(count_header);
    instrument::drop(header);
    return *static_cast<count_header*>(header);
}

}  // namespace detail

// Adds an owner. Also takes over an object that a pooled::unique_ptr has released.
template <class T>
POOLED_ALWAYS_INLINE void intrusive_ptr_add_ref(T* object) noexcept {
    detail::among_threads::add_strong(detail::header_of(object));
}

// Removes an owner; the last one destroys the object and frees its block, or returns it to its object_pool.
template <class T>
POOLED_ALWAYS_INLINE void intrusive_ptr_release(T* object) noexcept {
    detail::among_threads::release_strong(detail::header_of(object));
}

// The object of `p`, owned by the other kind of pointer.
template <class T>
[[nodiscard]] boost::intrusive_ptr<T> to_intrusive(rc_ptr<T> p) noexcept {
    detail::require_intrusive<T>();
    detail::handle<T> const counted = detail::rc_access::detach(p);
    if (counted.empty()) return nullptr;
    POOLED_CHECK(
        reinterpret_cast<std::uintptr_t>(detail::start_of(counted.get())) == counted.start(),
        "pooled::to_intrusive: a base without a virtual function that does not lie at the object's start; "
        "hold the object by its own class");
    return boost::intrusive_ptr<T>(counted.get(), false);
}
template <class T>
[[nodiscard]] boost::intrusive_ptr<T> to_intrusive(unique_ptr<T> p) noexcept {
    detail::require_intrusive<T>();
    return boost::intrusive_ptr<T>(p.release());
}
template <class T>
[[nodiscard]] rc_ptr<T> to_rc(boost::intrusive_ptr<T> p) noexcept {
    T* const object = p.detach();
    if (object == nullptr) return nullptr;
    return detail::rc_access::adopt<T, detail::among_threads>(
        detail::handle<T>(object, detail::start_of(object)));
}

// A new object from the default pool; for other pools see the top. Throws what make_rc throws.
template <class T, class... Args>
    requires(!std::is_array_v<T>)
[[nodiscard]] boost::intrusive_ptr<T> make_intrusive(Args&&... args) {
    detail::require_intrusive<T>();
    return pooled::to_intrusive(pooled::make_rc<T>(std::forward<Args>(args)...));
}

POOLED_END_NAMESPACE
