// SPDX-License-Identifier: BSL-1.0
#pragma once

// A program of one thread that an input describes: pools are created and destroyed, objects are created, copied, observed
// and dropped, blocks are allocated, objects recycled, upstream fails. After each step the library's state is compared with
// the shadow's.
//
// An input with an odd number of bytes is extended: it also uses what world_extras.hpp has. Others mean what they always meant.

#include "pooled/pooled.hpp"

#include "fuzz/input.hpp"
#include "fuzz/objects.hpp"
#include "fuzz/shadow.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace fuzz {

// Fails on request; records what is in use.
class upstream final : public std::pmr::memory_resource {
public:
    upstream() = default;
    upstream(upstream const&) = delete;
    upstream& operator=(upstream const&) = delete;
    ~upstream() override { check(m_out.empty(), "all memory is given back to upstream"); }
    // From the `after`-th call on, `count` times.
    void fail(std::size_t after, std::size_t count) noexcept {
        m_after = after;
        m_count = count;
    }
    [[nodiscard]] std::size_t failures() const noexcept { return m_failures; }

private:
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        if (m_after != 0) {
            --m_after;
        } else if (m_count != 0) {
            --m_count;
            ++m_failures;
            throw std::bad_alloc();
        }
        void* const p = ::operator new(bytes, std::align_val_t(align));
        m_out.emplace(p, std::pair(bytes, align));
        return p;
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        auto const found = m_out.find(p);
        check(found != m_out.end() && found->second == std::pair(bytes, align),
              "what goes back to upstream came from it, with that size and alignment");
        m_out.erase(found);
        ::operator delete(p, std::align_val_t(align));
    }
    [[nodiscard]] bool do_is_equal(memory_resource const& other) const noexcept override {
        return this == &other;
    }

    std::map<void*, std::pair<std::size_t, std::size_t>> m_out;
    std::size_t m_after = 0;
    std::size_t m_count = 0;
    std::size_t m_failures = 0;
};

// An object of an object_pool: constructed once, whatever happens between.
struct recycled {
    recycled() noexcept { ++alive; }
    recycled(recycled const&) = delete;
    recycled& operator=(recycled const&) = delete;
    ~recycled() { --alive; }
    static inline std::size_t alive = 0;
    bool is_out = false;
    std::uint64_t uses = 0;
    std::array<std::byte, 120> bytes{};
};
struct recycling {
    static void on_acquire(recycled& one) {
        check(!one.is_out, "an object has one user at a time");
        one.is_out = true;
        fill(one.bytes, ++one.uses);
    }
    static void on_release(recycled& one) noexcept {
        check(one.is_out, "an object is released once");
        check_filled(one.bytes, one.uses);
        one.is_out = false;
    }
};

class world {
public:
    explicit world(std::span<std::uint8_t const> bytes)
        : m_input(bytes), m_is_extended(bytes.size() % 2 != 0) {
        for (pool_place& place : m_pools)
            open(place);
        m_recycler.emplace(recycler_options());
    }
    world(world const&) = delete;
    world& operator=(world const&) = delete;

    void run() {
        while (!m_input.empty())
            step();
        finish();
    }

private:
    static constexpr std::size_t k_pools = 4;  // the last one is local
    static constexpr std::size_t k_places = 24;
    static constexpr std::size_t k_raw = 32;

    struct pool_place {
        std::unique_ptr<pooled::pool> shared;
        std::unique_ptr<pooled::local_pool> local;
        pooled::pool_options options{};
        std::uint32_t number = 0;
        bool is_reserved = false;  // reserved memory serves no other request
    };
    struct raw_block {
        void* at = nullptr;
        std::size_t bytes = 0;
        std::size_t align = 0;
        std::uint64_t number = 0;
        std::uint32_t pool = 0;
        std::pmr::memory_resource* from = nullptr;
    };
    using weak = std::variant<std::monostate, std::weak_ptr<node>, pooled::weak_rc_ptr<node>>;
    struct weak_place {
        weak to;
        std::uint32_t id = k_nobody;
    };
    using recycled_handle = std::variant<std::monostate, std::shared_ptr<recycled>,
                                         pooled::unique_ptr<recycled>, pooled::rc_ptr<recycled>>;

    [[nodiscard]] pool_place& any_pool() { return m_pools[m_input.below(k_pools)]; }
    [[nodiscard]] handle& any_place() { return m_places[m_input.below(k_places)]; }

    template <class Use>
    static decltype(auto) with(pool_place const& place, Use&& use) {
        return place.local ? use(*place.local) : use(*place.shared);
    }
    [[nodiscard]] static std::uint32_t id_of(handle const& h) {
        node const* const one = get(h);
        return one != nullptr ? one->id() : k_nobody;
    }

    void open(pool_place& place) {
        bool const is_local = &place == &m_pools.back();
        place.options = {.name = "fuzzed"};
        static constexpr std::array<std::size_t, 4> bounds{0, 0, std::size_t{256} << 10,
                                                           std::size_t{8} << 20};
        place.options.max_bytes = bounds[m_input.below(bounds.size())];
        if (m_input.flag()) place.options.upstream = &m_upstream;
        if (m_input.below(4) == 0) place.options.chunk_bytes = std::size_t{64} << 10;
        if (!is_local) place.options.teardown = static_cast<pooled::teardown>(m_input.below(3));
        place.options.release_unused_after = std::chrono::milliseconds(m_input.flag() ? 0 : 1);
        if (m_is_extended) extend(place.options);
        place.number = m_next_pool++;
        place.is_reserved = false;
        if (is_local)
            place.local = std::make_unique<pooled::local_pool>(place.options);
        else
            place.shared = std::make_unique<pooled::pool>(place.options);
    }
    // Objects and blocks of it stay.
    void reopen(pool_place& place) {
        place.shared.reset();
        place.local.reset();
        if (place.options.teardown == pooled::teardown::incremental) drain();
        open(place);
    }
    [[nodiscard]] pooled::object_pool_options recycler_options() {
        pooled::object_pool_options options{.max_objects = m_input.below(6)};
        options.growth = 1 + m_input.below(3);
        if (options.max_objects != 0) options.initial_objects = m_input.below(options.max_objects + 1);
        m_recycler_bound = options.max_objects;
        if (m_is_extended) extend(options);
        return options;
    }

    [[nodiscard]] bool is_immediate() const {
        for (pool_place const& place : m_pools)
            if (place.options.teardown != pooled::teardown::immediate) return false;
        return m_closed_unordered == 0;
    }
    [[nodiscard]] bool may_defer() const {
        if (m_closed_deferring != 0) return true;
        for (pool_place const& place : m_pools)
            if (place.options.teardown == pooled::teardown::incremental) return true;
        return false;
    }

    // The shadow's drop, then the library's.
    template <class Drop>
    void drop(std::uint32_t id, Drop&& by_library) {
        m_shadow.expect_order(is_immediate() && m_shadow.pending() == 0 && !m_is_scope);
        m_shadow.drop(id);
        by_library();
        if (!may_defer() && !m_is_scope)
            check(m_shadow.pending() == 0, "a drop destroys what it leaves without an owner");
        m_shadow.expect_order(false);
    }
    void clear(handle& place) {
        drop(id_of(place), [&] { place = std::monostate(); });
    }

    void make();
    template <std::size_t Bytes, std::size_t Align>
    [[nodiscard]] handle make_in(pool_place& place, std::size_t kind, bool tries, bool fails,
                                 std::array<handle, 2>& owned, shadow::children const& ids);
    void copy() {
        handle const& from = any_place();
        handle& to = any_place();
        if (&from == &to) return;
        clear(to);
        if (auto const* const s = std::get_if<shared_handle>(&from)) to = *s;
        if (auto const* const r = std::get_if<rc_handle>(&from)) to = *r;
        if (id_of(to) != k_nobody) m_shadow.copied(id_of(to));
    }
    void move() {
        handle& from = any_place();
        handle& to = any_place();
        if (&from == &to) return;
        clear(to);
        to = std::exchange(from, std::monostate());
    }
    void observe() {
        handle const& from = any_place();
        weak_place& to = any_weak();
        unobserve(to);
        if (auto const* const s = std::get_if<shared_handle>(&from); s != nullptr && *s)
            to.to = std::weak_ptr(*s);
        if (auto const* const r = std::get_if<rc_handle>(&from); r != nullptr && *r)
            to.to = pooled::weak_rc_ptr<node>(*r);
        if (to.to.index() == 0) return;
        to.id = id_of(from);
        m_shadow.observed(to.id);
    }
    [[nodiscard]] weak_place& any_weak() { return m_weak[m_input.below(m_weak.size())]; }
    void unobserve(weak_place& place) {
        if (place.id == k_nobody) return;
        place.to = std::monostate();
        m_shadow.unobserved(std::exchange(place.id, k_nobody));
    }
    void lock() {
        weak_place const& from = any_weak();
        handle& to = any_place();
        clear(to);
        if (from.id == k_nobody) return;
        if (auto const* const s = std::get_if<std::weak_ptr<node>>(&from.to)) to = s->lock();
        if (auto const* const r = std::get_if<pooled::weak_rc_ptr<node>>(&from.to)) to = r->lock();
        check((get(to) != nullptr) == m_shadow.is_alive(from.id), "a weak pointer locks what is alive");
        if (get(to) == nullptr) return;
        check(get(to)->id() == from.id, "a weak pointer locks its object");
        m_shadow.copied(from.id);
    }

    void allocate();
    void deallocate(raw_block& one) {
        if (one.at == nullptr) return;
        check_filled({static_cast<std::byte*>(one.at), one.bytes}, one.number);
        one.from->deallocate(one.at, one.bytes, one.align);
        --m_shadow.blocks(one.pool);
        one = {};
    }

    void acquire();
    void release(recycled_handle& place) {
        if (place.index() == 0) return;
        --m_recycled_out;
        place = std::monostate();
    }
    void close_recycler() {
        for (recycled_handle& one : m_recycled)
            release(one);
        m_recycler.reset();
        check(recycled::alive == m_orphans.size(), "an object pool destroys its objects");
    }

    void reserve() {
        pool_place& place = any_pool();
        std::size_t const count = m_input.below(64) * 8;
        std::size_t const bytes = std::size_t{16} << m_input.below(12);
        std::size_t const failures = m_upstream.failures();
        place.is_reserved = true;
        try {
            with(place, [&](auto& pool) { pool.reserve_bytes(count, bytes); });
        } catch (std::bad_alloc const&) {
            check(place.options.max_bytes != 0 || m_upstream.failures() != failures,
                  "only a bound or upstream refuses a reservation");
        }
    }
    static void trim(pool_place& place) {
        with(place, [](auto& pool) { static_cast<void>(pool.trim()); });
        place.is_reserved = false;
    }
    // What one pool destroys may defer in another.
    void drain() {
        for (std::size_t destroyed = 1; destroyed != 0;) {
            destroyed = 0;
            for (pool_place const& place : m_pools)
                if (place.shared || place.local)
                    destroyed += with(place, [](auto& pool) { return pool.drain(); });
        }
    }
    void drop_in_scope() {
        // What is already pending may be destroyed, too.
        m_is_scope = true;
        {
            pooled::reclaim_scope const scope;
            for (std::size_t n = 1 + m_input.below(8); n != 0; --n)
                clear(any_place());
        }
        m_is_scope = false;
        if (!may_defer())
            check(m_shadow.pending() == 0, "a reclaim_scope's end destroys what was dropped in it");
    }
    void compare();
    void finish();
    void step();

    // World_extras.hpp.
    using bytes_handle =
        std::variant<std::monostate, pooled::unique_ptr<std::byte[]>, std::shared_ptr<std::byte[]>,
                     pooled::rc_ptr<std::byte[]>, pooled::local_rc_ptr<std::byte[]>>;
    struct array_place {
        bytes_handle held;
        std::span<std::byte> bytes;
        std::uint64_t number = 0;
        std::uint32_t pool = 0;
    };
    using numbers = std::vector<std::uint64_t, pooled::pool_allocator<std::uint64_t>>;
    struct vector_place {
        std::optional<numbers> held;
        std::uint32_t pool = 0;
    };
    void extend(pooled::pool_options& options);
    void extend(pooled::object_pool_options& options);
    void extended_step();
    void make_array();
    template <class Pool>
    [[nodiscard]] bytes_handle make_bytes(Pool& pool, std::size_t kind, std::size_t count);
    void drop_array(array_place& place);
    void change_vector();
    void convert();
    void leave_recycler();
    void drop_extras();

    input m_input;
    bool m_is_extended;
    shadow m_shadow;
    upstream m_upstream;                    // outlives everything below
    pooled::pool m_base{{.name = "base"}};  // some pools' upstream
    std::size_t m_hook_calls = 0;
    std::uint32_t m_next_pool = 0;
    // Destroyed pools whose objects may still be alive.
    std::size_t m_closed_unordered = 0;
    std::size_t m_closed_deferring = 0;
    bool m_is_scope = false;
    std::uint64_t m_next_number = 0;
    std::array<pool_place, k_pools> m_pools;
    std::size_t m_recycler_bound = 0;
    std::size_t m_recycled_out = 0;
    std::optional<pooled::object_pool<recycled, recycling>> m_recycler;
    std::array<recycled_handle, 8> m_recycled;
    std::array<handle, k_places> m_places;
    std::array<weak_place, 8> m_weak;
    std::array<raw_block, k_raw> m_raw;
    std::array<array_place, 8> m_arrays;
    std::array<vector_place, 4> m_vectors;
    std::vector<pooled::pending> m_pending;
    std::vector<recycled_handle> m_orphans;  // of destroyed object pools
};

}  // namespace fuzz

#include "fuzz/world_extras.hpp"
#include "fuzz/world_steps.hpp"
