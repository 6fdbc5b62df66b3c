// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a recycle_list does where no thread's cache serves: its critical sections, and how it grows.

#include "pooled/config.hpp"

#if POOLED_HAS_CODE
#include "pooled/inspect/own_record.hpp"
#include "pooled/object/recycle_list.hpp"

POOLED_BEGIN_DETAIL

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
template <>
struct record_access::of<recycle_list> {
    static constexpr inspect::recycle_layout k_layout{.bytes =
                                                          static_cast<std::uint32_t>(sizeof(recycle_list)),
                                                      .idle = POOLED_OFFSET(recycle_list, m_idle),
                                                      .fresh = POOLED_OFFSET(recycle_list, m_fresh),
                                                      .stack_size = POOLED_OFFSET(recycle_stack, m_size),
                                                      .stack_tops = POOLED_OFFSET(recycle_stack, m_tops),
                                                      .ways = recycle_stack::k_ways,
                                                      .tag = recycle_node::k_linked};
};
#pragma GCC diagnostic pop

// These are called in a section.

inline void recycle_list::flush(class_cache& cache, std::uint32_t n) noexcept {
    auto const oldest = cache.oldest(n);
    for (void* const one : oldest)
        m_idle.push(node_of(one));
    cache.drop_oldest(static_cast<std::uint32_t>(oldest.size()));
}

inline void recycle_list::collect(class_cache& cache) noexcept {
    flush(cache, cache.capacity());
    if (void* const hot = cache.pop_hot()) m_idle.push(node_of(hot));
    if (!detail::is_foreign(m_core) && cache.capacity() > cache_capacity(k_cache_share, k_max_cached))
        cache.release();
}

inline void recycle_list::refill(thread_cache& mine) noexcept {
    class_cache& cache = mine.recycled;
    if (cache.capacity() == 0) grow(mine);
    if (cache.capacity() <= 2) return;
    auto const count = static_cast<std::uint32_t>(
        detail::smaller<std::size_t>(detail::smaller(cache.capacity(), k_max_cached) / 2 - 1, m_idle.size()));
    void** const array = cache.fill(count);
    std::uint32_t const generation = m_generation;
    std::size_t const front = detail::smaller(m_limits.object_bytes, 3 * k_cache_line);
    for (std::uint32_t i = count; i-- != 0;) {
        recycle_node* const n = m_idle.pop();
        n->set(m_limits.idle_count, generation);
        array[i] = object_of(n);
        // Another thread wrote it last, and whoever acquires it waits for what it reads there: a packet's pointer to its bytes.
        for (std::size_t line = k_cache_line; line < front; line += k_cache_line)
            __builtin_prefetch(static_cast<std::byte*>(array[i]) + line, 1);
    }
}

inline void recycle_list::push_idle(void* p, thread_cache* mine) noexcept {
    if (mine != nullptr && !is_central()) {
        class_cache& cache = mine->recycled;
        if (cache.push(p)) return;
        if (!grow(*mine)) flush(cache, cache.capacity() / 2);
        if (cache.push(p)) return;
    }
    m_idle.push(node_of(p));
}

inline void recycle_list::try_central_mode() noexcept {
    m_core.caches().settle();
    if (m_core.caches().stop()) {
        m_cacheable = k_none;
        m_hits = 0;
    }
    collect_all();
    m_core.caches().resume();
}

inline void recycle_list::settle() noexcept {
    deferred_list::for_each(m_left.take_all(), [this](deferred_blocks& one) {
        m_left_size.fetch_sub(one.count, std::memory_order_relaxed);
        while (one.count != 0) {
            recycle_node& n = node_of(one.blocks()[--one.count]);
            (n.is_linked() ? m_fresh : m_idle).push(n);
        }
        one.free();
    });
    note_high_water();
    while (m_waiters.is_due(available()))
        waiter::wake(m_waiters.offer(available()));
}

POOLED_ALWAYS_INLINE void* recycle_list::pop_idle(thread_cache* mine) noexcept {
    bool const caches = mine != nullptr && !is_central();
    if (caches)
        if (void* const cached = mine->recycled.pop()) return cached;
    void* const p = taken(m_idle.pop());
    if (p == nullptr) return nullptr;
    if (caches && m_idle.size() != 0) refill(*mine);
    return p;
}

POOLED_ALWAYS_INLINE recycle_list::grant recycle_list::take_locked(thread_cache* mine,
                                                                   waiter const* self) noexcept {
    bool const others_wait = !m_waiters.empty();
    if (others_wait && !m_waiters.admit(self, available())) return {};
    void* p = pop_idle(mine);
    if (p == nullptr && is_elsewhere(mine)) {
        if (m_fresh.size() == 0 && next_growth(objects()) == 0) return {.needs_central_mode = true};
        try_central_mode();
        p = pop_idle(mine);
    }
    if (p != nullptr) {
        if (is_central()) {
            m_hits = others_wait ? 0 : m_hits + 1;  // the next one finds none, if it is a waiter's
            if (m_hits >= k_central_hits) m_cacheable = m_generation;
        }
        return {p};
    }
    m_hits = 0;
    p = taken(m_fresh.pop());
    if (p != nullptr) return note_high_water(), grant{p};
    std::size_t const count = claim([this](std::size_t now) { return next_growth(now); });
    return {nullptr, count, count == 0 && is_elsewhere(mine)};  // others may have claimed what there was
}

template <class More>
POOLED_ALWAYS_INLINE std::size_t recycle_list::claim(More&& more) noexcept {
    std::size_t now = objects();
    std::size_t count = more(now);
    while (!m_objects.compare_exchange_strong(now, now + count, std::memory_order_relaxed))
        count = more(now);
    return count;
}

template <class Apart>
POOLED_ALWAYS_INLINE bool recycle_list::lock_or(Apart&& apart) {
    for (unsigned turn = 0; !m_core.caches().try_lock_for_a_moment(); platform::pause(turn++))
        if (!detail::is_foreign(m_core) && apart()) return false;
    return true;
}

POOLED_NOINLINE inline void* recycle_list::take_apart() {
    void* p = nullptr;
    apart([&] {
        p = m_left.pop();
        if (p == nullptr) return false;
        m_left_size.fetch_sub(1, std::memory_order_relaxed);
        return taken(&node_of(p)) == p;
    });
    if (p != nullptr) return p;
    auto const one_at_most = [this](std::size_t now) {
        return detail::smaller<std::size_t>(next_growth(now), 1);
    };
    if (claim(one_at_most) == 0) return nullptr;
    recycle_stack built = build(1, false);
    return add(built, 1 - built.size(), true);
}

inline bool recycle_list::leave(void* p) noexcept {
    m_left_size.fetch_add(1, std::memory_order_relaxed);
    if (m_left.put(p)) return true;
    return m_left_size.fetch_sub(1, std::memory_order_relaxed), false;
}

POOLED_NOINLINE inline bool recycle_list::put_apart(void* p) noexcept {
    return apart([&] { return node_of(p).generation == m_generation && leave(p); });
}

POOLED_NOINLINE inline bool recycle_list::add_apart(recycle_stack& built, void** taken_one) noexcept {
    return apart([&] {
        while (recycle_node* const n = built.pop()) {
            count_built(1);  // one by one: until it is in a list, it counts as outside
            if (taken_one != nullptr && *taken_one == nullptr) {
                *taken_one = taken(n);
            } else if (!leave(object_of(n))) {
                count_built(std::size_t{0} - 1);
                built.push(*n);
                return false;
            }
        }
        return true;
    });
}

POOLED_ALWAYS_INLINE recycle_stack recycle_list::build(std::size_t count, bool all) {
    recycle_stack built;
    std::uint32_t const first_counted = m_first_counted;
    // If this thread forked while it built, and the list has forgotten what it was to build, that counts again.
    auto const count_again = [&] {
        if (m_first_counted != first_counted)
            static_cast<void>(
                claim([&](std::size_t now) { return detail::smaller(count, m_limits.bound - now); }));
    };
    POOLED_TRY {
        // What the operating system does not have is refused now, the first growth included: to build until memory ends takes minutes,
        // or ends the process.
        std::size_t const most = detail::larger(count, detail::smaller(m_limits.growth, m_limits.bound));
        bool const has_memory =
            !all || most <= 1 || m_core.may_give(saturating_multiply(most, m_limits.object_bytes));
        if (has_memory) build_objects(built, count, all);
    }
    POOLED_CATCH(...) {
        destroy_all(built);
        count_again();
        static_cast<void>(add(built, count, false));
        POOLED_RETHROW;
    }
    count_again();
    if (all && built.size() != count) destroy_all(built);
    return built;
}

POOLED_NOINLINE inline void* recycle_list::add(recycle_stack& built, std::size_t missing,
                                               bool takes_one) noexcept {
    void* p = nullptr;
    unclaim(missing);
    if (!lock_or([&] { return add_apart(built, takes_one ? &p : nullptr); })) return p;
    section const own(*this);
    count_built(built.size());
    if (takes_one && p == nullptr) p = taken(built.pop());
    while (recycle_node* const n = built.pop())
        m_fresh.push(*n);
    settle();  // offers all: a section does one object at its end
    return p;
}

inline std::size_t recycle_list::destroy_all(recycle_stack& objects) noexcept {
    std::size_t const count = objects.size();
    while (void* const p = object_of(objects.pop()))
        destroy_one(p);
    return count;
}

POOLED_ALWAYS_INLINE std::size_t recycle_list::next_growth(std::size_t objects) const noexcept {
    std::size_t const left = m_limits.bound - objects;
    if (!(m_limits.growth_factor > 1)) return detail::smaller(left, m_limits.growth);
    double const more = static_cast<double>(objects) * (m_limits.growth_factor - 1);
    if (more >= static_cast<double>(left)) return left;
    return detail::smaller(left, detail::larger(m_limits.growth, static_cast<std::size_t>(more)));
}

POOLED_CODE recycle_list::recycle_list(pool_core& core, recycle_limits const& limits) noexcept
    : pool_extension(&record_access::of<recycle_list>::k_layout),
      m_core(core),
      m_index(core.slot()),
      m_limits(limits) {
    add_to_caches();
}

POOLED_CODE recycle_list::found recycle_list::take(waiter* self, bool gives_up) {
    if (m_index == k_far_slot) {
        far_pass const pass(m_core.id());
        if (pass)
            if (void* const p = pop_from(t_state().find(m_core.id()))) return {p};
    }
    thread_cache* const mine = attach();
    void* left = nullptr;
    bool const is_queued = self != nullptr && self->is_queued();
    if (!lock_or([&] { return !is_queued && (left = take_apart()) != nullptr; })) return {left};
    grant g;
    {
        section const own(*this);
        bool waits = false;
        for (;; m_core.caches().stop_every(), try_central_mode()) {  // others may change everything meanwhile
            g = take_locked(mine, self);
            bool const has_nothing = g.object == nullptr && g.to_build == 0;
            waits = has_nothing && self != nullptr && !gives_up && !m_core.is_local();
            if (!g.needs_central_mode && (!waits || is_central())) break;
        }
        if (self != nullptr) {
            waits ? m_waiters.wait(*self) : m_waiters.leave(*self);
            if (waits) return {nullptr, outcome::must_wait};
        }
    }
    if (g.to_build == 0) return {g.object, g.object != nullptr ? outcome::is_served : outcome::is_used_up};
    recycle_stack built = build(g.to_build, false);
    void* const first = add(built, g.to_build - built.size(), true);
    return {first, first != nullptr ? outcome::is_served : outcome::is_out_of_memory};
}
POOLED_CODE void recycle_list::put(void* p) noexcept {
    recycle_node const& n = node_of(p);
    if (m_index == k_far_slot) {
        far_pass const pass(m_core.id());
        if (pass && push_to(t_state().find(m_core.id()), p, n)) return;
    }
    thread_cache* const mine = attach();
    std::uint32_t const generation = n.generation;
    if (generation == m_generation) {
        if (!lock_or([&] { return put_apart(p); })) return;
        section const own(*this);
        if (generation == m_generation) return push_idle(p, mine);
    }
    destroy_one(p);
    remove(generation);
}
POOLED_CODE void recycle_list::remove(std::uint32_t generation) noexcept {
    // As long as the pool is open, its handle keeps the list, and who closes it waits for threads in apart().
    auto const remove_apart = [&] {
        if (m_core.is_closed()) return false;
        if (is_forgotten(generation)) return m_others_gone.fetch_add(1, std::memory_order_relaxed), true;
        m_references.fetch_sub(1, std::memory_order_relaxed);
        return unclaim(1), true;
    };
    for (unsigned turn = 0; !m_core.is_closed(); platform::pause(turn++))
        if (apart(remove_apart)) return;
    drop_references(1);  // nobody asks any more how many there are
}
POOLED_CODE void recycle_list::renew(void* p) noexcept {
    node_of(p).set(m_limits.idle_count, m_generation);
    m_built.fetch_add(1, std::memory_order_relaxed);
}
POOLED_CODE void recycle_list::reserve(std::size_t count) {
    thread_cache* const mine = attach();  // the first acquisition needs no memory for it
    std::size_t const more = claim([count](std::size_t now) { return count > now ? count - now : 0; });
    if (try_scoped_lock const lock(m_core.caches(), false); lock && mine != nullptr) grow(*mine);
    recycle_stack built = build(more, true);
    std::size_t const missing = more - built.size();
    static_cast<void>(add(built, missing, false));
    if (missing != 0) POOLED_THROW(std::bad_alloc());
}
POOLED_CODE void recycle_list::add_idle(recycle_stack& built) noexcept {
    m_core.caches().lock();
    section const own(*this);
    count_built(built.size());
    m_objects.fetch_add(built.size(), std::memory_order_relaxed);
    while (recycle_node* const n = built.pop())
        m_idle.push(*n);
    note_high_water();
}
POOLED_CODE std::size_t recycle_list::discard(in_use what) noexcept {
    bool const is_at_once = what == in_use::forget || what == in_use::close;
    recycle_stack all;
    {
        try_scoped_lock const lock(m_core.caches(), what != in_use::keep);
        if (!lock) return 0;
        what == in_use::keep ? static_cast<void>(m_core.caches().stop()) : stop_every();
        m_core.caches().settle();
        bool const was_central = is_central();
        if (what != in_use::keep) begin_generation();
        m_cacheable = was_central || what == in_use::close ? k_none : std::uint32_t{m_generation};
        collect_all();
        all = std::exchange(m_idle, recycle_stack());
        while (recycle_node* const n = m_fresh.pop())
            all.push(*n);
        m_references.fetch_sub(all.size(), std::memory_order_relaxed);
        if (is_at_once) unclaim(all.size());
        if (what == in_use::forget) {
            m_first_counted = m_generation;
            unclaim(existing());
            m_others.add(existing());
        }
        if (what == in_use::close)
            m_core.caches().for_each([](thread_cache& cache) { cache.recycled.release(); });
        resume();
    }
    if (is_at_once) return destroy_all(all);
    // Each may be replaced as soon as it is destroyed.
    std::size_t const count = all.size();
    recycle_stack none;
    while (void* const p = object_of(all.pop())) {
        destroy_one(p);
        static_cast<void>(add(none, 1, false));
    }
    return count;
}
POOLED_CODE void recycle_list::close() noexcept {
    discard(in_use::close);
    m_core.close();
    drop_references(1 + m_others_gone.load(std::memory_order_relaxed));
}
// Reads without stopping the owners: an object may be counted in two places at that moment. Beside a thread that has the lock and does not
// run, those that are cached count as in use.
POOLED_CODE object_pool_stats recycle_list::count() noexcept {
    try_scoped_lock const lock(m_core.caches(), false);
    std::size_t const kept = m_idle.size() + m_fresh.size();
    std::size_t const out = outside();
    std::size_t const held_now = lock ? detail::smaller(held(), out) : 0;
    return {.name = {},
            .capacity = out + kept,
            .in_use = out - held_now,
            .idle = kept + held_now,
            .high_water = m_high_water,
            .waiting = m_waiters.size(),
            .max_objects = m_limits.bound != k_size_max ? m_limits.bound : 0,
            .built = m_built.load(std::memory_order_relaxed)};
}
POOLED_CODE bool recycle_list::is_valid() noexcept {
    if (!m_core.is_valid()) return false;
    scoped_lock const lock(m_core.caches());
    stop_every();
    m_core.caches().settle();
    std::size_t const cached = held();
    std::size_t const kept = m_idle.size() + m_fresh.size();
    bool const valid = m_idle.is_valid() && m_fresh.is_valid() && cached + kept <= existing() &&
                       existing() <= objects() && objects() <= m_limits.bound &&
                       existing() - m_fresh.size() <= m_high_water && (!is_central() || cached == 0) &&
                       (m_waiters.empty() || (is_central() && !m_waiters.is_due(available())));
    resume();
    return valid;
}
// The caches' lock is held.
POOLED_CODE void recycle_list::retire(thread_cache& cache) noexcept {
    collect(cache.recycled);
    cache.recycled.release();
}
// In a forked child where nobody knows which objects are idle. Those of before are destroyed when they are released, and do not count
// under the bound: otherwise a child would wait for ever for objects that only its parent has.
POOLED_CODE void recycle_list::forget_objects() noexcept {
    begin_generation();
    m_first_counted = m_generation;
    m_cacheable = m_core.is_closed() ? k_none : std::uint32_t{m_generation};
    m_waiters.clear();
    m_idle = m_fresh = recycle_stack();
    m_objects.store(0, std::memory_order_relaxed);
    m_left_size.store(0, std::memory_order_relaxed);
    m_is_barred.store(false, std::memory_order_relaxed);
    ::new (static_cast<void*>(&m_left)) deferred_list;
    m_others = k_size_max / 2;  // the list lasts as long as the process
    m_references.store(m_others, std::memory_order_relaxed);
    m_hits = 0;
    add_to_caches();
}

POOLED_END_DETAIL

#endif
