// SPDX-License-Identifier: BSL-1.0
// Correct use of everything that the checked build verifies, by threads that start and end: each report is a false one.
//
// Each worker has places for handles and blocks of all kinds. A step fills an empty place, or verifies what is in it and
// drops it, or posts it to the next worker, which drops it. Objects own other objects, so drops nest, and some are
// deferred. A life of a worker is a thread with a pool of its own, which it destroys while objects are in use. A local pool
// stays with the worker, and so goes from thread to thread. Every payload is written to its first and its last byte.
#pragma once

#include <pooled/pooled.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace soak {

struct correct_plan {
    std::uint64_t operations = 1'000'000'000;  // allocations and deallocations, by whichever function
    std::uint64_t workers = 4;
    std::uint64_t operations_of_life = 1'000'000;
    std::uint64_t seed = 1;
};

struct correct_result {
    std::uint64_t operations = 0;
    std::uint64_t lives = 0;
    std::uint64_t damaged = 0;
    std::uint64_t left_in_use = 0;
    bool is_valid = false;
    double seconds = 0;

    [[nodiscard]] std::string fault() const {
        if (damaged != 0) return "what was written is gone";
        if (left_in_use != 0) return "blocks were lost";
        return is_valid ? "" : "a pool is not as it should be";
    }
};

class object {
public:
    object() = default;
    object(object const&) = delete;
    object& operator=(object const&) = delete;
    virtual ~object() = default;
    [[nodiscard]] virtual bool is_whole() const noexcept = 0;

    std::shared_ptr<object> owned;
};

template <std::size_t Bytes, std::size_t Align = alignof(void*)>
class alignas(Align) sized final : public object {
public:
    explicit sized(std::uint64_t mark) noexcept : m_front(mark) {
        std::fill(m_bytes.begin(), m_bytes.end(), static_cast<std::byte>(mark));
    }
    [[nodiscard]] bool is_whole() const noexcept override {
        auto const as_written = static_cast<std::byte>(m_front);
        return m_bytes.front() == as_written && m_bytes.back() == as_written;
    }

private:
    std::uint64_t m_front;
    std::array<std::byte, Bytes> m_bytes;
};

// A block from a pool that may be gone.
class raw_block {
public:
    raw_block(std::pmr::memory_resource* from, std::size_t bytes, std::size_t align, std::uint64_t mark)
        : m_from(from),
          m_bytes(bytes),
          m_align(align),
          m_mark(static_cast<std::uint8_t>(mark)),
          m_at(static_cast<std::uint8_t*>(from->allocate(bytes, align))) {
        if (bytes != 0) m_at[0] = m_at[bytes - 1] = m_mark;
    }
    raw_block(raw_block&& other) noexcept
        : m_from(other.m_from),
          m_bytes(other.m_bytes),
          m_align(other.m_align),
          m_mark(other.m_mark),
          m_at(std::exchange(other.m_at, nullptr)) {}
    raw_block& operator=(raw_block&&) = delete;
    ~raw_block() {
        if (m_at != nullptr) m_from->deallocate(m_at, m_bytes, m_align);
    }
    [[nodiscard]] bool is_whole() const noexcept {
        bool const is_aligned = reinterpret_cast<std::uintptr_t>(m_at) % m_align == 0;
        return is_aligned && (m_bytes == 0 || (m_at[0] == m_mark && m_at[m_bytes - 1] == m_mark));
    }

private:
    std::pmr::memory_resource* m_from;
    std::size_t m_bytes;
    std::size_t m_align;
    std::uint8_t m_mark;
    std::uint8_t* m_at;
};

class correct {
public:
    explicit correct(correct_plan const& plan) : m_plan(plan), m_mail(plan.workers) {}

    [[nodiscard]] correct_result run() {
        auto const begin = std::chrono::steady_clock::now();
        std::vector<std::thread> workers;
        for (std::size_t i = 0; i < m_plan.workers; ++i)
            workers.emplace_back([this, i] { be_born_and_end(i); });
        for (std::thread& one : workers)
            one.join();
        m_mail.clear();
        correct_result result;
        // What one pool destroys may defer in another.
        while (m_unordered.drain() + m_incremental.drain() != 0) {}
        result.is_valid = pooled::detail::pool_access::core(pooled::default_pool()).is_valid();
        for (pooled::pool* const one : {&m_immediate, &m_unordered, &m_incremental}) {
            result.left_in_use += one->stats().in_use;
            result.is_valid = result.is_valid && pooled::detail::pool_access::core(*one).is_valid();
        }
        result.left_in_use += pooled::default_pool().stats().in_use + m_left_in_local.load();
        result.left_in_use += m_recycled.in_use();
        result.operations = m_operations;
        result.lives = m_lives;
        result.damaged = m_damaged;
        result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return result;
    }

private:
    using numbers = std::vector<std::uint64_t, pooled::pool_allocator<std::uint64_t>>;
    using place =
        std::variant<std::monostate, raw_block, std::shared_ptr<object>, std::weak_ptr<object>,
                     pooled::unique_ptr<object>, pooled::rc_ptr<object>, pooled::weak_rc_ptr<object>,
                     std::shared_ptr<std::uint64_t[]>, pooled::unique_ptr<std::uint64_t[]>,
                     pooled::rc_ptr<std::uint64_t[]>, pooled::rc_ptr<std::uint64_t>, numbers>;
    using local_place = std::variant<std::monostate, raw_block, std::shared_ptr<object>,
                                     pooled::unique_ptr<object>, pooled::local_rc_ptr<object>>;
    static constexpr std::size_t k_places = 512;
    static constexpr std::size_t k_local_places = 64;
    static constexpr std::size_t k_most_mail = 256;

    struct mailbox {
        std::mutex lock;
        std::vector<place> places;
    };

    // xorshift64*, Vigna 2014.
    class generator {
    public:
        explicit generator(std::uint64_t seed) : m_state(seed * 0x9e37'79b9'7f4a'7c15U + 1) {}
        std::uint64_t operator()() noexcept {
            m_state ^= m_state >> 12;
            m_state ^= m_state << 25;
            m_state ^= m_state >> 27;
            return m_state * 0x2545'f491'4f6c'dd1dU;
        }
        std::size_t below(std::size_t n) noexcept { return ((*this)() >> 16) % n; }

    private:
        std::uint64_t m_state;
    };

    // The state of a worker, whichever thread runs it.
    struct belongings {
        generator random;
        std::vector<place> places{k_places};
        pooled::local_pool local{{.name = "local"}};
        std::vector<local_place> local_places{k_local_places};
        std::uint64_t operations = 0;
        std::uint64_t damaged = 0;
    };

    void be_born_and_end(std::size_t self) {
        belongings mine{.random = generator(m_plan.seed * m_plan.workers + self)};
        while (m_operations < m_plan.operations) {
            std::thread([&] { live(self, mine); }).join();
            m_operations += std::exchange(mine.operations, 0);
            ++m_lives;
        }
        // A worker that posts does not wait: it keeps what does not fit.
        mine.places.clear();
        mine.local.adopt();
        mine.local_places.clear();
        m_left_in_local += mine.local.stats().in_use;
        m_damaged += mine.damaged;
    }

    void live(std::size_t self, belongings& mine) {
        pooled::pool own{{.name = "own", .teardown = static_cast<pooled::teardown>(mine.random.below(3))}};
        std::array<pooled::pool*, 5> const pools{&pooled::default_pool(), &m_immediate, &m_unordered,
                                                 &m_incremental, &own};
        while (mine.operations < m_plan.operations_of_life) {
            place& one = mine.places[mine.random.below(k_places)];
            if (one.index() == 0)
                fill(mine, one, *pools[mine.random.below(pools.size())]);
            else
                verify_and_drop(self, mine, one);
            local_step(mine);
            if (mine.random.below(1 << 14) == 0) maintain(mine, *pools[mine.random.below(pools.size())]);
            if (mine.random.below(64) == 0) receive(self, mine);
        }
    }

    // Calls make.template operator()<T>() for one of a few types.
    template <class Make>
    static auto with_type(generator& random, Make&& make) {
        switch (random.below(64)) {
        case 0:
            return make.template operator()<sized<40'000>>();
        case 1:
        case 2:
            return make.template operator()<sized<100, 64>>();
        case 3:
        case 4:
            return make.template operator()<sized<5, 4096>>();
        case 5:
        case 6:
        case 7:
            return make.template operator()<sized<1500>>();
        default:
            return random.below(2) == 0 ? make.template operator()<sized<1>>()
                                        : make.template operator()<sized<77>>();
        }
    }
    [[nodiscard]] static std::size_t any_bytes(generator& random) {
        std::size_t const bits = random.below(512);
        return random.below((std::size_t{16} << (bits == 0 ? 16 : bits % 10)) + 1);
    }

    void fill(belongings& mine, place& to, pooled::pool& from) {
        generator& random = mine.random;
        std::uint64_t const mark = random();
        mine.operations += 2;  // with the one that ends it
        switch (random.below(9)) {
        case 0:
        case 1:
            to.emplace<raw_block>(from.resource(), any_bytes(random), std::size_t{1} << random.below(9),
                                  mark);
            break;
        case 2:
        case 3: {
            auto made = with_type(
                random, [&]<class T>() -> std::shared_ptr<object> { return from.make_shared<T>(mark); });
            // It owns what was in another place.
            place& other = mine.places[random.below(k_places)];
            if (auto* const owned = std::get_if<std::shared_ptr<object>>(&other); owned != nullptr) {
                made->owned = std::move(*owned);
                other = std::monostate();
            }
            if (random.below(8) == 0) mine.places[random.below(k_places)] = std::weak_ptr<object>(made);
            to = std::move(made);
            break;
        }
        case 4:
            to = with_type(
                random, [&]<class T>() -> pooled::unique_ptr<object> { return from.make_unique<T>(mark); });
            break;
        case 5: {
            auto made =
                with_type(random, [&]<class T>() -> pooled::rc_ptr<object> { return from.make_rc<T>(mark); });
            if (random.below(8) == 0) mine.places[random.below(k_places)] = pooled::weak_rc_ptr<object>(made);
            to = std::move(made);
            break;
        }
        case 6:
            fill_with_array(random, to, from);
            break;
        case 7: {
            numbers made(1 + random.below(50), mark, from);
            to.emplace<numbers>(std::move(made));
            break;
        }
        default:
            if (auto acquired = m_recycled.try_acquire_rc()) {
                *acquired = mark;
                to = std::move(acquired);
            } else {
                mine.operations -= 2;
            }
        }
    }
    static void fill_with_array(generator& random, place& to, pooled::pool& from) {
        std::size_t const count = random.below(100);
        switch (random.below(3)) {
        case 0:
            to = from.make_shared<std::uint64_t[]>(count);
            break;
        case 1:
            to = from.make_unique<std::uint64_t[]>(count);
            break;
        default:
            to = from.make_rc<std::uint64_t[]>(count);
        }
    }

    struct whole {
        template <class T>
        bool operator()(T const& one) const noexcept {
            if constexpr (requires { one->is_whole(); })
                return one == nullptr || one->is_whole();
            else if constexpr (requires { one.is_whole(); })
                return one.is_whole();
            else if constexpr (requires { one.lock()->is_whole(); }) {
                auto const locked = one.lock();
                return locked == nullptr || locked->is_whole();
            } else
                return true;
        }
    };

    void verify_and_drop(std::size_t self, belongings& mine, place& one) {
        mine.damaged += std::visit(whole(), one) ? 0 : 1;
        std::size_t const how = mine.random.below(8);
        if (how == 0 && post((self + 1) % m_plan.workers, one)) return;
        if (how == 1) {
            pooled::reclaim_scope const scope;
            one = std::monostate();
        } else {
            one = std::monostate();
        }
    }

    void local_step(belongings& mine) {
        generator& random = mine.random;
        local_place& one = mine.local_places[random.below(k_local_places)];
        if (one.index() != 0) {
            mine.damaged += std::visit(whole(), one) ? 0 : 1;
            mine.local.adopt();  // this thread may not have allocated from it yet
            one = std::monostate();
            return;
        }
        std::uint64_t const mark = random();
        mine.operations += 2;
        switch (random.below(4)) {
        case 0:
            one.emplace<raw_block>(mine.local.resource(), any_bytes(random), 16, mark);
            break;
        case 1:
            one = std::shared_ptr<object>(mine.local.make_shared<sized<30>>(mark));
            break;
        case 2:
            one = pooled::unique_ptr<object>(mine.local.make_unique<sized<200>>(mark));
            break;
        default:
            one = pooled::local_rc_ptr<object>(mine.local.make_rc<sized<7>>(mark));
        }
    }

    void maintain(belongings& mine, pooled::pool& one) {
        static_cast<void>(one.trim());
        one.reserve<sized<77>>(mine.random.below(100));
        one.drain(mine.random.below(1000));
        m_recycled.trim();
        static_cast<void>(mine.local.trim());
    }

    [[nodiscard]] bool post(std::size_t to, place& one) {
        std::scoped_lock const lock(m_mail[to].lock);
        if (m_mail[to].places.size() >= k_most_mail) return false;
        m_mail[to].places.push_back(std::move(one));
        one = std::monostate();
        return true;
    }
    void receive(std::size_t self, belongings& mine) {
        std::vector<place> all;
        {
            std::scoped_lock const lock(m_mail[self].lock);
            all.swap(m_mail[self].places);
        }
        for (place const& one : all)
            mine.damaged += std::visit(whole(), one) ? 0 : 1;
    }

    correct_plan m_plan;
    pooled::pool m_immediate{{.name = "immediate"}};
    pooled::pool m_unordered{{.name = "unordered", .teardown = pooled::teardown::unordered}};
    pooled::pool m_incremental{{.name = "incremental", .teardown = pooled::teardown::incremental}};
    pooled::object_pool<std::uint64_t> m_recycled{{.name = "recycled", .max_objects = 256}};
    std::vector<mailbox> m_mail;
    std::atomic<std::uint64_t> m_operations{0};
    std::atomic<std::uint64_t> m_lives{0};
    std::atomic<std::uint64_t> m_damaged{0};
    std::atomic<std::uint64_t> m_left_in_local{0};
};

}  // namespace soak
