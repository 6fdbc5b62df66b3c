// SPDX-License-Identifier: BSL-1.0
// A cache that evicts the least recently used entry: a list in the order of use, an index into it, and values behind shared_ptr,
// so that an evicted value stays valid while it is held. List nodes, index nodes and values come from one pool; once the cache is
// full, each miss reuses the blocks of the entry that it evicts.
//
//   lru_cache [--entries 10000] [--lookups 200000] [--malloc]

#include <pooled/pooled.hpp>

#include "arguments.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <unordered_map>
#include <utility>

namespace {

// Allocator is that of any type, rebound for values, list and index.
template <class Key, class Value, class Allocator>
class lru_cache {
    template <class T>
    using allocator_of = typename std::allocator_traits<Allocator>::template rebind_alloc<T>;

public:
    using value_ptr = std::shared_ptr<Value const>;

    lru_cache(std::size_t capacity, Allocator const& from)
        : m_capacity(capacity), m_used(from), m_index(from) {
        m_index.reserve(capacity + 1);
    }

    // The value of the key; `load(key)` makes it if it is not here.
    template <class Load>
    value_ptr get(Key const& key, Load&& load) {
        if (auto const found = m_index.find(key); found != m_index.end()) {
            m_used.splice(m_used.begin(), m_used, found->second);
            ++m_hits;
            return m_used.front().second;
        }
        ++m_misses;
        if (m_used.size() == m_capacity) {
            m_index.erase(m_used.back().first);
            m_used.pop_back();
        }
        m_used.emplace_front(
            key, std::allocate_shared<Value>(allocator_of<Value>(m_used.get_allocator()), load(key)));
        m_index.emplace(key, m_used.begin());
        return m_used.front().second;
    }

    [[nodiscard]] std::size_t size() const noexcept { return m_used.size(); }
    [[nodiscard]] std::size_t hits() const noexcept { return m_hits; }
    [[nodiscard]] std::size_t misses() const noexcept { return m_misses; }

private:
    using entry = std::pair<Key, value_ptr>;
    using list = std::list<entry, allocator_of<entry>>;  // the last used in front
    using position = typename list::iterator;

    std::size_t m_capacity;
    list m_used;
    std::unordered_map<Key, position, std::hash<Key>, std::equal_to<>,
                       allocator_of<std::pair<Key const, position>>>
        m_index;
    std::size_t m_hits = 0;
    std::size_t m_misses = 0;
};

struct page {
    std::uint64_t number;
    std::array<std::byte, 240> text{};
};

template <class Allocator>
bool run(std::size_t entries, std::size_t lookups, Allocator const& from, char const* name) {
    auto const start = std::chrono::steady_clock::now();
    lru_cache<std::uint64_t, page, Allocator> cache(entries, from);
    std::mt19937_64 random(1);
    auto const load = [](std::uint64_t key) { return page{.number = key}; };
    auto const first = cache.get(0, load);  // still held when it is evicted
    bool is_right = true;
    for (std::size_t i = 0; i < lookups; ++i) {
        // Half of the lookups go to a tenth of the keys that fit, the others to four times as many as fit.
        std::uint64_t const r = random();
        std::uint64_t const key = (r & 1) != 0 ? (r >> 1) % (entries / 10 + 1) : (r >> 1) % (entries * 4);
        is_right = cache.get(key, load)->number == key && is_right;
    }
    std::chrono::duration<double> const time = std::chrono::steady_clock::now() - start;
    std::printf("%zu entries, %zu hits, %zu misses\n", cache.size(), cache.hits(), cache.misses());
    std::printf("%s: seconds %.4f\n", name, time.count());
    return is_right && first->number == 0 && cache.size() <= entries &&
           cache.hits() + cache.misses() == lookups + 1;
}

}  // namespace

int main(int argc, char** argv) {
    example::arguments words(argc, argv, "lru_cache [--pool | --malloc] [--entries N] [--lookups N]");
    bool const is_malloc = words.is_malloc();
    std::size_t const entries = words.number("--entries", 10'000) + 1;
    std::size_t const lookups = words.number("--lookups", 200'000);
    words.end();
    if (is_malloc) return run(entries, lookups, std::allocator<page>(), "malloc") ? 0 : 1;

    pooled::pool pages{{.name = "pages"}};
    bool const is_right = run(entries, lookups, pooled::pool_allocator<page>(pages), "pool");
    return is_right && pages.stats().in_use == 0 ? 0 : 1;
}
