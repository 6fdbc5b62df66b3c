// SPDX-License-Identifier: BSL-1.0
#pragma once

// The layout of an object or array of make_rc or make_unique in its block, and the header word in front of it.
//
//   object             | padding to alignof(T), none up to 8 | header: 8 | object |
//   array of make_rc   | count: 8 | padding to alignof(T) | header: 8 | element 0 | element 1 | …
//   of make_unique     | count: 8 | padding to alignof(T) | element 0 | element 1 | …
//
//   header | strong: 26 | weak: 24 | type: 14 |
//
//   strong   owners that are rc_ptr or local_rc_ptr, less one: -1 while a unique_ptr owns the object, and when it is destroyed
//   weak     weak pointers, and one for all owners together, including a unique_ptr, above a number that few other words have there: a small
//            integer that begins an object is no header to poolheap and live_report()
//
// The sign of the word after an addition to strong says that there are too many owners, and after a subtraction that there is none left:
// no instruction of its own looks for either.
// Overflow of a count ends the process with a message; that is 33 million owners of one object, or 15 million observers.
//
// Elements have no extents: the rows of int[n][4] are 4 n elements. They are destroyed from last to first. An array is never deferred;
// objects that its elements own may be.

#include "pooled/destroy_in_place.hpp"
#include "pooled/inspect/record.hpp"
#include "pooled/instrument/hardened.hpp"
#include "pooled/os/single_threaded.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/teardown/block_type.hpp"
#include "pooled/teardown/deferred_queue.hpp"
#include "pooled/teardown/incremental.hpp"
#include "pooled/teardown/teardown.hpp"

#include <memory>

POOLED_BEGIN_DETAIL

// A guess: the class of the plain objects that pointers to a T, which may be incomplete, have dropped. 0: none yet; from k_second_class on:
// there is no such class. Any thread may write it.
//
// Where a drop puts a block, and the next creation looks for one, follows from the class in the header: in a loop of the two, each waits until the
// header that was just written can be read, 18 cycles in all instead of 9, unless the processor guesses that (AMD EPYC, model 1). So a drop
// compares the class with this one, and goes on with this one.
using usual_class = atomic<class_index>;
inline constexpr class_index k_second_class = 256;
static_assert(k_second_class >= k_plain_numbers);
template <class T>
POOLED_HIDDEN inline constinit usual_class g_usual_class{0};

[[nodiscard]] POOLED_ALWAYS_INLINE class_index expect_usual(class_index c, usual_class& usual) noexcept {
    class_index const known = usual.load(std::memory_order_relaxed);
    class_index compared = known;
    asm("" : "+r"(compared));  // the compiler does not see that both are the same then, and use the wrong one
    if (compared == c) [[likely]]
        return known;
    if (known < k_second_class) [[unlikely]]
        usual.store(known * k_second_class + c, std::memory_order_relaxed);
    return c;
}

struct count_header {
    static constexpr std::uint64_t k_weak_one = k_type_numbers;
    static constexpr unsigned k_strong_shift = k_type_bits + 24;
    static constexpr std::uint64_t k_strong_one = std::uint64_t{1} << k_strong_shift;
    static constexpr std::uint64_t k_weak_mask = k_strong_one - k_weak_one;
    static constexpr std::uint64_t k_no_owner = -k_strong_one;  // one less than an owner
    static constexpr std::uint64_t k_no_weak = inspect::k_no_weak * k_weak_one;
    static constexpr std::uint64_t k_sole = k_no_weak + k_weak_one;  // owned by one pointer, observed by none
    static constexpr std::uint64_t k_unique = k_no_owner | k_sole;   // owned by a unique_ptr

    // Even if several threads pass the limit at the same moment, the count stays below the mask.
    static constexpr std::uint64_t k_weak_limit = k_weak_mask - (std::uint64_t{1} << 20) * k_weak_one;

    atomic<std::uint64_t> word;

    [[nodiscard]] static bool is_sole(std::uint64_t w) noexcept { return w - number_in(w) == k_sole; }
    [[nodiscard]] static std::uint64_t weak_in(std::uint64_t word) noexcept { return word & k_weak_mask; }
    [[nodiscard]] static bool is_observed(std::uint64_t word) noexcept { return weak_in(word) > k_no_weak; }
    [[nodiscard]] static std::int64_t owners_in(std::uint64_t word) noexcept {
        return (static_cast<std::int64_t>(word) >> k_strong_shift) + 1;
    }
    // Whether the number of observers is within its limit, after one more.
    [[nodiscard]] static bool is_within_limit(std::uint64_t w) noexcept { return weak_in(w) <= k_weak_limit; }
    // False also beyond the limit of owners.
    [[nodiscard]] static bool is_owned(std::uint64_t w) noexcept { return static_cast<std::int64_t>(w) >= 0; }

    // Called when the only owner drops an object that may observe itself after its destructor has run.
    void release_owner() noexcept {
        word.store(word.load(std::memory_order_relaxed) | k_no_owner, std::memory_order_relaxed);
    }

    // Called after the last owner is gone: drops the weak count that all owners held together, and frees the block unless it is
    // observed. acq_rel: pairs with the same by other threads; all they did to the block is seen when it is freed.
    void release_weak() noexcept {
        std::uint64_t now = word.load(std::memory_order_acquire);
        if (weak_in(now) != k_sole) {
            hardened::expect_in_use(this);
            if (is_single_threaded()) return word.store(now - k_weak_one, std::memory_order_relaxed);
            now = word.fetch_sub(k_weak_one, std::memory_order_acq_rel);
            if (weak_in(now) != k_sole) return;
        }
        if (is_plain(now)) return detail::deallocate(detail::in_default_pool{}, plain_class(now), this);
        g_block_types[number_in(now)].free(this);
    }

    // An owner drops the object, whose header read `now`. True: `counts` was the only reference, and the object is destroyed or
    // deferred. `usual`: null, or of the pointer's type.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool retires(std::uint64_t now, std::uint64_t counts,
                                                    usual_class* usual = nullptr) noexcept {
        std::uint64_t const number = now - counts;
        // The block of a deferred object is still in use: its header records the drop.
        if (POOLED_CHECKED != 0 && counts == k_sole && number < k_type_numbers)
            word.store(now - k_strong_one, std::memory_order_relaxed);
        if (number < k_plain_numbers) {
            take_line(number);
            auto c = static_cast<class_index>(number);
            if (k_has_cache && usual != nullptr) c = detail::expect_usual(c, *usual);
            detail::deallocate(detail::in_default_pool{}, c, this);
        } else if (number < k_type_numbers) [[likely]] {
            g_block_types[number].retire(this);
        } else {
            return false;
        }
        return true;
    }

    // Called before the block is freed. If another thread made the object, the line moves here by one transfer, and back by one when that
    // thread uses the block again; a line that was only read stays shared, and each write to it waits. The hardened build writes there itself:
    // a mark, which a second drop must find.
    void take_line(std::uint64_t any) noexcept {
        if constexpr (!k_hardened) word.store(any, std::memory_order_relaxed);
    }
};
static_assert(sizeof(count_header) == 8);

[[noreturn]] POOLED_NOINLINE inline void count_overflow() {
    POOLED_FAIL("pooled: more than 33 million rc_ptr, or 15 million weak_rc_ptr, to one object");
    __builtin_unreachable();
}

// After the last of several owners was dropped, or the owner of an observed object.
POOLED_NOINLINE inline void retire_last(count_header& h) noexcept {
    std::uint64_t const word = h.word.load(std::memory_order_relaxed);
    if (word < count_header::k_no_owner) return;  // too many owners, which another thread is about to report
    if (is_plain(word)) return h.release_weak();
    g_block_types[number_in(word)].retire_observed(&h);
}

// The two ways to count: rc_ptr among threads, local_rc_ptr on one. Both use one header format, so a sole pointer of either kind may pass its
// object to the other kind.
template <bool IsAtomic>
struct counting {
    // Requires an owner.
    static void add_strong(count_header& h) noexcept {
        add<count_header::is_owned>(h, count_header::k_strong_one);
    }
    // Requires an owner or an observer.
    static void add_weak(count_header& h) noexcept {
        add<count_header::is_within_limit>(h, count_header::k_weak_one);
    }
    // Requires an observer. False when no owner is left.
    [[nodiscard]] static bool try_add_strong(count_header& h) noexcept {
        std::uint64_t now = h.word.load(std::memory_order_relaxed);
        do {
            if (!count_header::is_owned(now)) return false;
            if (!count_header::is_owned(now + count_header::k_strong_one)) [[unlikely]]
                count_overflow();
            if (!IsAtomic || is_single_threaded()) {
                h.word.store(now + count_header::k_strong_one, std::memory_order_relaxed);
                return true;
            }
            // acquire: pairs with the release of an owner that dropped the object; what that owner did to the object is seen.
        } while (!h.word.compare_exchange_strong(now, now + count_header::k_strong_one,
                                                 std::memory_order_acquire, std::memory_order_relaxed));
        return true;
    }
    // `usual`: as that of retires().
    POOLED_ALWAYS_INLINE static void release_strong(count_header& h, usual_class* usual = nullptr) noexcept {
        // acquire: pairs with the acq_rel below by owners that dropped the object earlier.
        std::uint64_t now = h.word.load(IsAtomic ? std::memory_order_acquire : std::memory_order_relaxed);
        if (now < count_header::k_strong_one) {
            if (h.retires(now, count_header::k_sole, usual)) return;
            asm("" : "+r"(now));  // or there would be a copy of what follows, for one owner
        }
        hardened::expect_in_use(&h);
        if (!IsAtomic || is_single_threaded()) {
            std::uint64_t const left = now - count_header::k_strong_one;
            h.word.store(left, std::memory_order_relaxed);
            if (count_header::is_owned(left)) return;
        } else if (count_header::is_owned(
                       h.word.add_fetch(count_header::k_no_owner, std::memory_order_acq_rel))) {
            return;
        }
        retire_last(h);
    }

private:
    // Requires that the sum IsRight. Each way looks for itself: the flags of the addition say so.
    template <bool (*IsRight)(std::uint64_t word) noexcept>
    POOLED_ALWAYS_INLINE static void add(count_header& h, std::uint64_t counts) noexcept {
        if (!IsAtomic || is_single_threaded()) {
            std::uint64_t const sum = h.word.load(std::memory_order_relaxed) + counts;
            h.word.store(sum, std::memory_order_relaxed);
            if (!IsRight(sum)) [[unlikely]]
                count_overflow();
        } else if (!IsRight(h.word.add_fetch(counts, std::memory_order_relaxed))) [[unlikely]] {
            count_overflow();
        }
    }
};
struct among_threads : counting<true> {};
struct on_one_thread : counting<false> {};

// What enable_rc_from_this derives from.
struct rc_from_this_tag {};
template <class T>
inline constexpr bool k_has_rc_from_this = std::is_base_of_v<rc_from_this_tag, T>;

// cold: GCC then calls a destructor that other functions contain.
template <class T>
[[gnu::cold]] void destroy_object(void* object) noexcept {
    std::destroy_at(static_cast<T*>(object));
}
// Destroys the object, which lies in a block; false: it must be deferred.
[[nodiscard]] inline bool try_destroy_in(void const* block, bool is_immediate,
                                         void (*destroy)(void* object) noexcept, void* object) noexcept {
    if (!is_immediate && detail::is_incremental(block)) return false;
    return detail::run_unless_deferred(!is_immediate, destroy, object);
}
POOLED_ALWAYS_INLINE void defer_object(deferred d, void const* object, std::size_t bytes,
                                       bool is_immediate) noexcept {
    if (is_immediate)
        detail::defer_to_outermost(d, object, bytes);
    else
        detail::defer_or_finish(d, object, bytes);
}

// Returns a block whose object is destroyed, or was not made. One function for all types of a size: for what is rarely called.
template <class Origin, std::size_t Bytes, std::size_t Align>
POOLED_NOINLINE void free_block(void* block) noexcept {
    Origin::template deallocate<Bytes, Align>(block);
}

// Destroys an object whose last owner is gone, or defers it: what retire and retire_observed of a block_type do when it may have to be
// deferred, one function for all types. In each file, by its own tag: the number in the header may be known in the table of another file only.
// Each level of a nested drop has a frame of drop_counted_slow(), which what only deferral needs would make larger.
template <bool IsImmediate, bool IsObserved>
POOLED_HIDDEN POOLED_NOINLINE void defer_counted(count_header& header, block_type const& type,
                                                 atomic<type_tag>& tag) noexcept {
    deferred const d(&header, detail::tag_of(type, tag), IsObserved);
    detail::defer_object(d, reinterpret_cast<std::byte*>(&header) + type.object_offset, type.object_bytes,
                         IsImmediate);
}
template <bool IsImmediate, bool IsObserved>
POOLED_HIDDEN POOLED_NOINLINE void drop_counted_slow(count_header& header, block_type const& type,
                                                     atomic<type_tag>& tag) noexcept {
    void* const object = reinterpret_cast<std::byte*>(&header) + type.object_offset;
    if (!detail::try_destroy_in(&header, IsImmediate, type.destroy, object))
        return detail::defer_counted<IsImmediate, IsObserved>(header, type, tag);
    IsObserved ? header.release_weak() : type.free(&header);
}
// The operation of that name of all their block types. In the hardened build, an object that was deferred twice is not destroyed again.
POOLED_API void finish_counted(block_type const& type, void* header, bool is_observed) noexcept;

#if POOLED_HAS_CODE

POOLED_CODE void finish_counted(block_type const& type, void* header, bool is_observed) noexcept {
    hardened::expect_in_use(header);
    type.destroy(static_cast<std::byte*>(header) + type.object_offset);
    is_observed ? static_cast<count_header*>(header)->release_weak() : type.free(header);
}

#endif

// The element of an array without its extents; the number of them in `rows` elements of T[], k_size_max if that exceeds the address
// space.
template <class T>
using element_of = std::remove_cv_t<std::remove_all_extents_t<T>>;
template <class T, class Element = element_of<T>>
[[nodiscard]] constexpr std::size_t elements_in(auto const& rows) noexcept {
    constexpr std::size_t row_bytes = sizeof(std::remove_extent_t<T>);
    return saturating_multiply(static_cast<std::size_t>(rows), row_bytes / sizeof(Element));
}

// An array in its block. Header: its bytes, or 0.
template <class T, std::size_t Header = 0>
struct counted_array {
    static constexpr std::size_t k_offset = detail::larger(alignof(T), sizeof(std::size_t) + Header);
    static constexpr std::size_t k_align = detail::larger(alignof(T), alignof(std::size_t));

    [[nodiscard]] static T* first_in(void* block) noexcept {
        return reinterpret_cast<T*>(static_cast<std::byte*>(block) + k_offset);
    }
    [[nodiscard]] static void* block_of(void* p) noexcept { return static_cast<std::byte*>(p) - k_offset; }
    // Requires a block in use whose count was written.
    [[nodiscard]] static std::size_t count_in(void* block) noexcept {
        hardened::expect_in_use(block);
        return *static_cast<std::size_t const*>(block);
    }

    POOLED_ALWAYS_INLINE static void destroy(T* first, std::size_t count) noexcept {
        if constexpr (!std::is_trivially_destructible_v<T>)
            for (std::size_t i = count; i-- != 0;)
                std::destroy_at(first + i);
    }
};

// Initial values of elements, besides copies of a row.
struct by_value {};
struct for_overwrite {};

// Constructs elements in ascending order, from what a Row, which may itself be an array, is initialised with. If that throws, destroys the
// elements before it from last to first, as std::make_shared does; libstdc++'s own algorithms destroy from first to last.
template <class Row, class T, class Initial>
void construct_rows(T* first, std::size_t count, Initial const& initial) {
    struct constructed {
        T* first;
        std::size_t count = 0;
        ~constructed() { counted_array<T>::destroy(first, count); }
    } made{first};
    for (; made.count != count; ++made.count) {
        // Not std::uninitialized_value_construct_n: libstdc++'s finds functions of the element's namespace by its argument.
        void* const place = first + made.count;
        if constexpr (std::is_same_v<Initial, by_value>)
            ::new (place) T();
        else if constexpr (std::is_same_v<Initial, for_overwrite>)
            ::new (place) T;
        else
            std::construct_at(static_cast<T*>(place), reinterpret_cast<T const*>(std::addressof(
                                                          initial))[made.count % (sizeof(Row) / sizeof(T))]);
    }
    made.count = 0;
}

// A block in the default pool, for the control block or the counted object of a type with a destructor, of which a program has hundreds. Only
// the allocation of a block that lies above the array's floor is inlined, because a call takes a nanosecond (Intel Xeon). One function for all
// types does the rest, and is told the class by a constant. Like operator new, they use the array without the hot block: which of a program's
// calls find one, no processor predicts. Others, which are messages and numbers, have all of it inlined.
template <std::size_t Bytes, std::size_t Align>
inline constexpr bool k_has_shared_code = k_has_cache && !k_hardened && k_class_for<Bytes, Align> != k_large;

// What an allocation asks for, as one constant: | bytes: 19 | class: 7 | log2(alignment): 6 |.
template <std::size_t Bytes, std::size_t Align>
[[nodiscard]] consteval std::uint32_t packed_request() noexcept {
    static_assert(k_max_inlined_bytes < 1U << 19 && k_inlined_classes <= 128 && std::has_single_bit(Align));
    return static_cast<std::uint32_t>(Bytes << 13 | k_class_for<Bytes, Align> << 6) | std::countr_zero(Align);
}

// No templates, so that a compiler reads them once. `c`: the class of the request.
//
// The array's top is at its floor, or the gate is closed; the thread leaves it. Other code may have left a hot block.
[[nodiscard]] POOLED_API void* allocate_shared_slow(gate& own, std::uint32_t packed);
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_shared(class_index c, std::uint32_t packed) {
    gate& own = in_default_pool::own_gate();
    if (own.enter_or_stay()) [[likely]] {
        void* const block = detail::cache_of(own).classes[c].pop_above_floor();
        if (block != nullptr) [[likely]] {
            own.leave();
            return block;
        }
    }
    return detail::allocate_shared_slow(own, packed);
}

// The control block's destructor ran.
POOLED_API void defer_shared_block(void* block, bool is_immediate) noexcept;

// The array's top is at its stop, or the gate is closed; the thread leaves it.
POOLED_API void deallocate_shared_slow(void* block, class_index c, gate& own) noexcept;
// Frees a block, or defers that of a control block whose object was deferred (is_block_awaited).
// One for each class: with its place as a parameter, a drop takes two instructions more.
template <class_index C>
POOLED_COLD_PART void deallocate_shared(void* block) noexcept {
    gate& own = in_default_pool::own_gate();
    if (!own.enter_or_stay() || !detail::cache_of(own).classes[C].push_below_stop(block)) [[unlikely]]
        return detail::deallocate_shared_slow(block, C, own);
    own.leave();
}

#if POOLED_HAS_CODE

POOLED_COLD_PART POOLED_CODE void* allocate_shared_slow(gate& own, std::uint32_t packed) {
    class_index const c = packed >> 6 & 127;
    void* const block = own.is_open() ? detail::cache_of(own).classes[c].pop() : nullptr;
    own.leave();
    if (block != nullptr) return block;
    return allocate_slow_or_throw(nullptr, c, packed >> 13, std::size_t{1} << (packed & 63));
}
// A thread whose arrays have their full size may have none of the class: then a hot block is better than a lock.
POOLED_CODE void deallocate_shared_slow(void* block, class_index c, gate& own) noexcept {
    class_cache* const one = own.is_open() ? &detail::cache_of(own).classes[c] : nullptr;
    bool const is_pushed = one != nullptr && (one->push_array(block) || one->push_hot(block));
    own.leave();
    if (is_pushed) return;
    is_block_awaited() ? detail::defer_shared_block(block, true)
                       : detail::deallocate_past_cache(block, c, k_default_pool_id);
}

#endif

// free of the block types of a size, whose objects lie `Offset` bytes into their blocks. inline: a part of retire() where that is optimized.
// Elsewhere it is called, because its frame would be one of each level of a nested drop.
template <class Origin, std::size_t Bytes, std::size_t Align, std::size_t Offset>
inline void free_counted(void* header) noexcept {
    if constexpr (Offset != sizeof(count_header)) hardened::mark_header(header);
    void* const block = static_cast<std::byte*>(header) + sizeof(count_header) - Offset;
    if constexpr (Origin::k_is_default && k_has_shared_code<Bytes, Align>)
        detail::deallocate_shared<k_class_for<Bytes, Align>>(block);
    else
        Origin::template deallocate<Bytes, Align>(block);
}

// T is the object's type; U[] for an array of make_rc.
template <class T, class Origin>
class counted_object {
    using object = std::remove_extent_t<T>;  // or the first element
    using array = counted_array<object, sizeof(count_header)>;

public:
    static constexpr std::size_t k_offset =
        std::is_array_v<T> ? array::k_offset : detail::larger(alignof(object), sizeof(count_header));
    static constexpr std::size_t k_align = detail::larger(alignof(object), alignof(count_header));
    static constexpr std::size_t k_bytes = k_offset + sizeof(object);
    static constexpr class_index k_class = k_class_for<k_bytes, k_align>;
    // There is nothing to destroy, and the header is at the start of the block.
    static constexpr bool k_is_plain = Origin::k_is_default && std::is_trivially_destructible_v<T> &&
                                       !k_has_rc_from_this<T> && k_class != k_large &&
                                       k_offset == sizeof(count_header);

    // What make_rc and make_unique need before they allocate. Throws std::length_error.
    [[nodiscard]] POOLED_ALWAYS_INLINE static type_tag tag() {
        if constexpr (k_is_plain)
            return k_class;
        else
            return detail::tag_of<true>(k_type, g_tag_of<k_type>);
    }

    // Requires what was just constructed so many bytes into its block. `counts`: k_sole or k_unique.
    static void set_header(object* made, type_tag type, std::uint64_t counts) noexcept {
        ::new (static_cast<void*>(reinterpret_cast<std::byte*>(made) - sizeof(count_header)))
            count_header{counts | type};
    }

private:
    static constexpr bool k_is_recycled = requires(object* made) { Origin::retire(made); };
    static constexpr bool k_may_be_deferred =
        !std::is_array_v<T> && !k_is_recycled && k_is_deferrable_type<T>;

    static count_header& header_at(void* header) noexcept { return *static_cast<count_header*>(header); }
    static object* object_of(void* header) noexcept {
        return std::launder(
            reinterpret_cast<object*>(static_cast<std::byte*>(header) + sizeof(count_header)));
    }
    static void* block_of(void* header) noexcept {
        return static_cast<std::byte*>(header) + sizeof(count_header) - k_offset;
    }
    static void destroy(void* header) noexcept {
        if constexpr (std::is_array_v<T>)
            array::destroy(object_of(header), array::count_in(block_of(header)));
        else if constexpr (k_is_recycled)
            Origin::retire(object_of(header));
        else
            std::destroy_at(object_of(header));
    }

    static void retire(void* header) noexcept {
        if constexpr (k_has_rc_from_this<T>) {
            header_at(header).release_owner();
            return retire_observed(header);
        } else {
            if constexpr (k_may_be_deferred)
                if (!Origin::k_is_immediate || !detail::may_recurse()) [[unlikely]]
                    return drop_slow<false>(header);
            destroy(header);
            if constexpr (!k_is_recycled) header_at(header).take_line(0);
            free_counted<Origin, k_bytes, k_align, k_offset>(header);
        }
    }

    static void retire_observed(void* header) noexcept {
        if constexpr (k_may_be_deferred) {
            drop_slow<true>(header);
        } else {
            destroy(header);
            header_at(header).release_weak();
        }
    }

    template <bool IsObserved>
    static void drop_slow(void* header) noexcept {
        detail::drop_counted_slow<Origin::k_is_immediate, IsObserved>(header_at(header), k_type,
                                                                      g_tag_of<k_type>);
    }

    static constexpr block_type k_type{.retire = retire,
                                       .retire_observed = retire_observed,
                                       .free = free_counted<Origin, k_bytes, k_align, k_offset>,
                                       .finish = k_may_be_deferred ? finish_counted : nullptr,
                                       .object_offset = sizeof(count_header),
                                       .object_bytes = sizeof(object),
                                       .name = name_of_type<T>(),
                                       .destroy = k_may_be_deferred ? destroy_object<object> : nullptr};
};

POOLED_END_DETAIL
