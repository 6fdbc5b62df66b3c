// SPDX-License-Identifier: BSL-1.0
// What programs do with objects, as templates over a shape, which says what the objects are:
//
//   struct shape {
//       template <class C> using slot = ...;                       // holds one object; empty when default constructed
//       template <class C> static slot<C> make(C&, std::uint64_t); // the number varies the kind, where there are several
//       static void touch(const slot&);                            // reads a byte of the object
//       using value = ...; static value make_value();              // for nodes that have one as a member
//   };
//
// create_drop  one object at a time
// burst        each thread fills a vector with its share of the live objects, drops them all, and begins again
// replace      each thread replaces random ones of its share
// mixed        as replace, but seven of eight are among the youngest 64: most objects die young, some are kept
// hand_off     pairs of threads: one creates, the other drops each object once its share of later ones has come
// list         each thread builds a list of its share, walks it, and drops it from its head
// fill         each thread creates its share and keeps it: once, so that growth is part of it
//
// Contenders are those whose pointers count or own: a slot is emptied by assigning an empty one.
#pragma once

#include "contender/contender.hpp"
#include "support/measure.hpp"
#include "support/random.hpp"
#include "support/registry.hpp"
#include "support/resident_memory.hpp"
#include "support/spsc_ring.hpp"

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace bench::patterns {

inline constexpr std::uint64_t k_operations = 10'000'000;  // of all threads together
inline constexpr std::size_t k_young = 64;

// A hand-off needs a contender that any thread may free to.
template <class C>
bool takes(std::string_view pattern) {
    return C::k_thread_safe || pattern != "handoff";
}

// Runs `make(thread)()` in `threads` threads, for phase 0, the warm-up, and then for phase 1, which is timed.
template <class Make>
double timed_in_threads(unsigned threads, Make make) {
    std::barrier barrier(static_cast<std::ptrdiff_t>(threads) + 1);
    std::vector<std::thread> running;
    for (unsigned t = 0; t < threads; ++t) {
        running.emplace_back([&, t] {
            auto mine = make(t);
            (*mine)(0);
            barrier.arrive_and_wait();  // all are warm
            barrier.arrive_and_wait();  // the clock runs
            (*mine)(1);
            barrier.arrive_and_wait();  // all are done
        });
    }
    barrier.arrive_and_wait();
    const stopwatch watch;
    barrier.arrive_and_wait();
    barrier.arrive_and_wait();
    const double seconds = watch.seconds();
    for (std::thread& thread : running)
        thread.join();
    return seconds;
}

// The work of a thread: `each` operations, with at most `live` objects.
struct share {
    std::size_t live;
    std::uint64_t each;
    std::uint64_t seed;

    // Whole rounds of `live` objects.
    std::uint64_t rounds() const { return std::max<std::uint64_t>(1, each / live); }
};

inline share share_of(const parameters& p, unsigned workers) {
    const std::size_t live = is_tiny(p.scale) ? std::min<std::size_t>(p.live, 1000) : p.live;
    return {std::max<std::size_t>(1, live / workers),
            std::max<std::uint64_t>(1, scaled(k_operations, p.scale) / workers), k_seed};
}

template <class Shape, class C>
class create_drop {
public:
    create_drop(C& from, const share& mine) : m_from(from), m_mine(mine) {}

    static std::uint64_t operations(const share& s) { return s.each; }

    void operator()(int phase) {
        const std::uint64_t count = phase == 0 ? m_mine.each / 10 : m_mine.each;
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto one = Shape::make(m_from, i);
            Shape::touch(one);
        }
    }

private:
    C& m_from;
    share m_mine;
};

template <class Shape, class C>
class burst {
public:
    burst(C& from, const share& mine) : m_from(from), m_mine(mine) { m_objects.reserve(mine.live); }

    static std::uint64_t operations(const share& s) { return s.rounds() * s.live; }

    void operator()(int phase) {
        for (std::uint64_t round = 0; round < (phase == 0 ? 1 : m_mine.rounds()); ++round) {
            for (std::size_t i = 0; i < m_mine.live; ++i)
                m_objects.push_back(Shape::make(m_from, i));
            keep_alive(m_objects.data());
            [[maybe_unused]] const auto scope = together(m_from);
            m_objects.clear();
        }
    }

private:
    C& m_from;
    share m_mine;
    resident_vector<typename Shape::template slot<C>> m_objects;
};

template <class Shape, class C, bool MostAreYoung>
class replacer {
public:
    replacer(C& from, const share& mine) : m_from(from), m_mine(mine), m_random(mine.seed) {
        for (std::size_t i = 0; i < mine.live; ++i)
            m_objects.push_back(Shape::make(from, i));
    }

    static std::uint64_t operations(const share& s) { return s.each; }

    void operator()(int phase) {
        const std::uint64_t count = phase == 0 ? m_mine.each / 10 : m_mine.each;
        const auto live = static_cast<std::uint32_t>(m_objects.size());
        const auto young = static_cast<std::uint32_t>(std::min(m_objects.size(), k_young));
        random_source random = m_random;
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint64_t kind = random.next();
            const std::uint32_t among = MostAreYoung && (kind >> 61) != 0 ? young : live;
            auto& place = m_objects[random.below(among)];
            place = Shape::make(
                m_from,
                kind & 0xffff);  // created before the old one is dropped, as in `p = make_shared<T>()`
        }
        m_random = random;
    }

private:
    C& m_from;
    share m_mine;
    random_source m_random;
    resident_vector<typename Shape::template slot<C>> m_objects;
};

template <class Shape, class C>
using replace = replacer<Shape, C, false>;
template <class Shape, class C>
using mixed = replacer<Shape, C, true>;

template <class Shape, class C>
class list {
public:
    list(C& from, const share& mine) : m_from(from), m_mine(mine) {}

    static std::uint64_t operations(const share& s) { return s.rounds() * s.live; }

    void operator()(int phase) {
        for (std::uint64_t round = 0; round < (phase == 0 ? 1 : m_mine.rounds()); ++round) {
            pointer head = m_from.template make<node>();
            for (std::size_t i = 1; i < m_mine.live; ++i) {
                pointer one = m_from.template make<node>();
                one->next = std::move(head);
                head = std::move(one);
            }
            for (const node* at = head.get(); at; at = at->next.get())
                keep_alive(at);
            [[maybe_unused]] const auto scope = together(m_from);
            while (head) {  // in a loop, whatever the contender: a list's own destructor would recurse
                pointer rest = std::move(head->next);
                head = std::move(rest);
            }
        }
    }

private:
    struct node;
    using pointer = typename C::template pointer<node>;
    struct node {
        node() : value(Shape::make_value()) {}
        typename Shape::value value;
        pointer next{};
    };

    C& m_from;
    share m_mine;
};

template <class Shape, class C>
class fill {
public:
    fill(C& from, const share& mine) : m_from(from), m_mine(mine) {
        m_objects.reserve(mine.live);
        if constexpr (requires { Shape::reserve(from, mine.live); }) Shape::reserve(from, mine.live);
    }

    static std::uint64_t operations(const share& s) { return s.live; }

    void operator()(int phase) {
        for (std::size_t i = 0; phase == 1 && i < m_mine.live; ++i)
            m_objects.push_back(Shape::make(m_from, i));
        keep_alive(m_objects.data());
    }

private:
    C& m_from;
    share m_mine;
    resident_vector<typename Shape::template slot<C>> m_objects;
};

// A worker, and its own instance of the contender if an instance serves only one thread.
template <class C, class Worker>
class with_source {
public:
    template <class... Args>
    explicit with_source(C& shared, Args&&... args)
        : m_own(C::k_thread_safe ? nullptr : std::make_unique<C>()),
          m_worker(m_own ? *m_own : shared, std::forward<Args>(args)...) {}

    void operator()(int phase) { m_worker(phase); }

private:
    std::unique_ptr<C> m_own;  // before the worker, whose objects it outlives
    Worker m_worker;
};

template <template <class, class> class Pattern, class Shape, class C>
measurement in_threads(const parameters& p) {
    using worker = Pattern<Shape, C>;
    const share usual = share_of(p, p.threads);
    auto shared = std::make_unique<C>();
    const double seconds = timed_in_threads(p.threads, [&](unsigned t) {
        return std::make_unique<with_source<C, worker>>(*shared,
                                                        share{usual.live, usual.each, usual.seed + t});
    });
    return {seconds, worker::operations(usual) * p.threads, {}};
}

// One end of a pair: a thread of even number creates, and its neighbour drops.
template <class Shape, class C>
class pair_end {
public:
    using slot = typename Shape::template slot<C>;

    pair_end(C& from, spsc_ring<slot>& ring, bool creates, const share& mine)
        : m_from(from), m_ring(ring), m_creates(creates), m_mine(mine), m_alive(creates ? 0 : mine.live) {}

    void operator()(int phase) {
        // The warm-up fills the queue of live objects, so that the timed part drops one for each that it takes.
        const std::uint64_t count = phase == 0 ? m_mine.each / 10 + m_mine.live : m_mine.each;
        m_creates ? create(count) : take(count);
    }

private:
    void create(std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i)
            m_ring.push(Shape::make(m_from, i));
        m_ring.flush();
    }

    void take(std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            slot& place = m_alive[m_oldest];
            place = slot{};
            place = m_ring.pop();
            Shape::touch(place);
            if (++m_oldest == m_alive.size()) m_oldest = 0;
        }
    }

    C& m_from;
    spsc_ring<slot>& m_ring;
    bool m_creates;
    share m_mine;
    resident_vector<slot> m_alive;  // of the end that drops: those not dropped yet, in a ring
    std::size_t m_oldest = 0;
};

template <class Shape, class C>
measurement hand_off(const parameters& p) {
    if (p.threads % 2 != 0)
        throw std::invalid_argument("a hand-off is between pairs of threads: --threads must be even");
    using end = pair_end<Shape, C>;
    const unsigned pairs = p.threads / 2;
    const share mine = share_of(p, pairs);
    auto shared = std::make_unique<C>();
    std::vector<std::unique_ptr<spsc_ring<typename end::slot>>> rings;
    for (unsigned pair = 0; pair < pairs; ++pair)
        rings.push_back(std::make_unique<spsc_ring<typename end::slot>>());
    const double seconds = timed_in_threads(p.threads, [&](unsigned t) {
        return std::make_unique<end>(*shared, *rings[t / 2], t % 2 == 0, mine);
    });
    return {seconds, mine.each * pairs, {}};
}

// Reads the first byte, as a program that looks at its object does.
template <class T>
void touch_object(const T* object) {
    [[maybe_unused]] const unsigned char first = *reinterpret_cast<const volatile unsigned char*>(object);
}

}  // namespace bench::patterns
