// SPDX-License-Identifier: BSL-1.0

// poolheap's reader on the record of the running process, in which no other thread uses a pool meanwhile: exactly the blocks that
// the test holds.

#include "../poolheap/src/heap.cpp"

#include "pooled/inspect/own_record.hpp"
#include "pooled/pooled.hpp"

#include "../poolheap/src/elf.cpp"
#include "../poolheap/src/image.cpp"
#include "support/internals.hpp"
#include "support/sanitizer.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <memory_resource>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

// What image.cpp refers to: there are no other images here.
std::unique_ptr<poolheap::image> poolheap::open_process(int) { return nullptr; }
std::unique_ptr<poolheap::image> poolheap::open_core(std::string const&) { return nullptr; }

namespace {

namespace inspect = pooled::inspect;
using poolheap::address;

address at_of(void const* p) { return reinterpret_cast<address>(p); }

// The running process. Some bytes may be replaced.
class own_image : public poolheap::image {
public:
    own_image() {
        std::FILE* const maps = std::fopen("/proc/self/maps", "r");
        unsigned long begin = 0;
        unsigned long end = 0;
        unsigned long offset = 0;
        char flags[5] = {};
        while (std::fscanf(maps, "%lx-%lx %4s %lx %*s %*s%*[^\n]", &begin, &end, flags, &offset) == 4)
            m_mappings.push_back({begin, end, flags[0] == 'r', flags[1] == 'w', flags[2] == 'x', "", offset});
        std::fclose(maps);
    }
    std::size_t read(address from, std::span<std::byte> to) const override {
        iovec const here{to.data(), to.size()};
        iovec const there{reinterpret_cast<void*>(from), to.size()};
        ssize_t const bytes = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
        for (auto i = m_replaced.lower_bound(from - from % 8);
             i != m_replaced.end() && i->first < from + to.size(); ++i)
            for (std::size_t n = 0; n < sizeof(i->second); ++n)
                if (i->first + n - from < to.size())
                    to[i->first + n - from] = reinterpret_cast<std::byte const*>(&i->second)[n];
        return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
    }
    // Requires an aligned word, or its lower half.
    void replace(void const* at, std::uint64_t word) { m_replaced[at_of(at)] = word; }
    void replace(void const* at, std::uint32_t lower) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, sizeof(word));
        replace(at, (word & ~std::uint64_t{0xffffffff}) | lower);
    }

private:
    std::map<address, std::uint64_t> m_replaced;
};

class heap_of : public testing::Test {
protected:
    void SetUp() override {
        if (POOLED_SANITIZE) GTEST_SKIP() << "blocks are malloc's";
    }
};

template <class Pool>
std::set<address> blocks_of(Pool const& pool, poolheap::heap const& all,
                            std::uint8_t state = poolheap::in_use) {
    std::set<address> result;
    all.for_each_block([&](poolheap::block_index, poolheap::block const& b) {
        if (all.pools[b.pool] == pool.name() && b.state == state) result.insert(b.begin);
    });
    return result;
}
template <class Pool>
std::set<address> blocks_of(Pool const& pool) {
    poolheap::heap const all = read_heap(own_image());
    EXPECT_EQ(all.doubts, std::vector<std::string>());
    return blocks_of(pool, all);
}

struct request {
    void* block;
    std::size_t bytes;
};
std::set<address> starts_of(std::vector<request> const& all) {
    std::set<address> result;
    for (request const& one : all)
        result.insert(at_of(one.block));
    return result;
}

TEST_F(heap_of, this_process_lists_exactly_the_blocks_that_are_in_use_whatever_their_sizes) {
    pooled::pool pool{{.name = "mixed sizes"}};
    std::vector<request> held;
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
        if (random() % 5 < 3 || held.empty()) {
            std::size_t const bytes = i % 500 == 0 ? random() % (40U << 20) : 1U << random() % 17;
            held.push_back({pool.allocate(bytes, 8), bytes});
        } else {
            std::swap(held[random() % held.size()], held.back());
            pool.deallocate(held.back().block, held.back().bytes, 8);
            held.pop_back();
        }
        if (i % 4000 == 3999) {
            EXPECT_EQ(blocks_of(pool), starts_of(held)) << i;
        }
    }
    for (request const& one : held)
        pool.deallocate(one.block, one.bytes, 8);
    EXPECT_EQ(blocks_of(pool), std::set<address>());
}

TEST_F(heap_of, this_process_leaves_out_what_other_threads_have_cached) {
    pooled::pool pool{{.name = "other threads"}};
    std::atomic<int> step{0};
    std::vector<void*> held;
    std::thread other([&] {
        for (int i = 0; i < 1000; ++i)
            held.push_back(pool.allocate(100));
        for (int i = 0; i < 300; ++i) {
            pool.deallocate(held.back(), 100);
            held.pop_back();
        }
        step = 1;
        step.notify_all();
        step.wait(1);
    });
    step.wait(0);
    for (int i = 0; i < 200; ++i) {  // more than go into the cache
        pool.deallocate(held.back(), 100);
        held.pop_back();
    }
    std::set<address> expected;
    for (void* const one : held)
        expected.insert(at_of(one));
    EXPECT_EQ(blocks_of(pool), expected);
    step = 2;
    step.notify_all();
    other.join();
    EXPECT_EQ(blocks_of(pool), expected);
    for (void* const one : held)
        pool.deallocate(one, 100);
}

TEST_F(heap_of, this_process_leaves_out_what_is_reserved_and_what_lies_in_the_slots_of_the_bound) {
    pooled::pool pool{{.name = "bounded", .max_bytes = 256 << 10}};
    pool.reserve_bytes(500, 64);
    EXPECT_EQ(blocks_of(pool), std::set<address>());
    std::set<address> held;
    while (void* const one = pool.try_allocate(64))
        held.insert(at_of(one));
    EXPECT_EQ(blocks_of(pool), held);
    for (int i = 0; i < 4; ++i) {
        pool.deallocate(reinterpret_cast<void*>(*held.begin()), 64);
        held.erase(held.begin());
        EXPECT_EQ(blocks_of(pool), held) << i;
    }
    for (address const one : held)
        pool.deallocate(reinterpret_cast<void*>(one), 64);
}

TEST_F(heap_of, this_process_leaves_out_what_was_deferred_for_want_of_a_lock) {
    constexpr pooled::detail::class_index c = pooled::detail::class_for(64, 8);
    pooled::pool pool{{.name = "deferred frees"}};
    std::vector<request> held;
    for (int i = 0; i < 1000; ++i)
        held.push_back({pool.allocate(64), 64});
    pooled::detail::thread_cache* const cache = pooled::detail::t_state().find(test::core_of(pool).id());
    if (cache == nullptr || cache->classes[c].capacity() < 16) GTEST_SKIP() << "this build has no caches";
    for (int i = 0; i < 3; ++i) {
        for (int n = 0; n < 20; ++n) {
            pool.deallocate(held.back().block, 64);
            held.pop_back();
        }
        ASSERT_TRUE(test::core_of(pool).caches()[c].defer_half(cache->classes[c], held.back().block));
        held.pop_back();
    }
    EXPECT_EQ(blocks_of(pool), starts_of(held));
    for (request const& one : held)
        pool.deallocate(one.block, 64);
}

TEST_F(heap_of, this_process_leaves_out_what_one_thread_handed_to_another) {
    constexpr std::size_t k_bytes = 1'000'000;
    pooled::pool pool{{.name = "handed over"}};
    std::vector<request> held;
    for (int i = 0; i < 16; ++i)
        held.push_back({pool.allocate(k_bytes), k_bytes});
    std::thread([&] {
        for (int i = 0; i < 10; ++i) {
            pool.deallocate(held.back().block, k_bytes);
            held.pop_back();
        }
        EXPECT_EQ(blocks_of(pool), starts_of(held));
    }).join();
    for (request const& one : held)
        pool.deallocate(one.block, k_bytes);
}

TEST_F(heap_of, this_process_has_the_blocks_of_a_pool_that_was_destroyed_while_they_were_in_use) {
    auto pool = std::make_unique<pooled::pool>(pooled::pool_options{.name = "closed"});
    auto const object = pool->make_shared<int>(1);
    pool.reset();
    poolheap::heap const all = read_heap(own_image());
    poolheap::heap::hit const found = all.find(at_of(object.get()));
    ASSERT_NE(found.index, poolheap::k_no_block);
    EXPECT_EQ(all.pools[all[found.index].pool], "closed");
    std::size_t objects = 0;
    all.for_each_block([&](auto, poolheap::block const& b) { objects += b.pool == all[found.index].pool; });
    EXPECT_EQ(objects, 1U);
}

TEST_F(heap_of, this_process_has_inner_blocks_instead_of_the_block_that_is_a_pools_memory) {
    pooled::pool outer{{.name = "outer"}};
    void* const own = outer.allocate(1000);
    {
        pooled::pool inner{{.name = "inner", .upstream = outer.resource()}};
        auto const object = inner.make_shared<int>(1);
        poolheap::heap const all = read_heap(own_image());
        EXPECT_EQ(blocks_of(outer, all), std::set<address>{at_of(own)});
        poolheap::heap::hit const found = all.find(at_of(object.get()));
        ASSERT_NE(found.index, poolheap::k_no_block);
        EXPECT_EQ(blocks_of(inner, all), std::set<address>{found.begin});
        EXPECT_EQ(all.find(at_of(own)).begin, at_of(own));
    }
    outer.deallocate(own, 1000);
}

TEST_F(heap_of, this_process_tells_idle_recycled_objects_from_those_in_use) {
    pooled::object_pool<std::string> pool{{.name = "recycled", .max_objects = 100}};
    std::vector<std::shared_ptr<std::string>> held;
    for (int i = 0; i < 50; ++i)
        held.push_back(pool.acquire());
    held.resize(20);
    poolheap::heap const all = read_heap(own_image());
    EXPECT_EQ(all.doubts, std::vector<std::string>());
    std::set<address> expected;
    for (auto const& one : held)
        expected.insert(all.find(at_of(one.get())).begin);
    EXPECT_EQ(blocks_of(pool, all), expected);
    EXPECT_EQ(blocks_of(pool, all, poolheap::idle).size(), pool.stats().idle);
}

TEST_F(heap_of, this_process_knows_what_waits_for_its_destruction) {
    struct node {
        std::shared_ptr<node> next;
    };
    pooled::pool pool{{.name = "incremental", .teardown = pooled::teardown::incremental}};
    std::vector<std::shared_ptr<node>> held;
    for (int i = 0; i < 1000; ++i)
        held.push_back(pool.make_shared<node>());
    for (auto& one : held)
        one.reset();
    poolheap::heap const all = read_heap(own_image());
    EXPECT_GT(blocks_of(pool, all, poolheap::deferred).size(), 500U);
    EXPECT_EQ(blocks_of(pool, all), std::set<address>());
    pool.drain();
    EXPECT_EQ(blocks_of(pool), std::set<address>());
}

TEST_F(heap_of, an_image_taken_during_a_refill_calls_that_batch_uncertain_and_nothing_else) {
    constexpr pooled::detail::class_index c = pooled::detail::class_for(64, 8);
    pooled::pool pool{{.name = "refilling"}};
    std::set<address> held;
    for (int i = 0; i < 1000; ++i)
        held.insert(at_of(pool.allocate(64)));
    pooled::detail::thread_cache* const cache = pooled::detail::t_state().find(test::core_of(pool).id());
    if (cache == nullptr || cache->classes[c].capacity() < 16) GTEST_SKIP() << "this build has no caches";
    while (cache->classes[c].size() != 0)
        held.insert(at_of(pool.allocate(64)));
    auto& list = test::core_of(pool).caches()[c];
    list.lock();
    static_cast<void>(cache->classes[c].fill(16));  // the array has what it had before
    poolheap::heap const all = read_heap(own_image());
    static_cast<void>(cache->classes[c].fill(0));
    list.unlock();
    std::set<address> const uncertain = blocks_of(pool, all, poolheap::uncertain);
    EXPECT_GT(uncertain.size(), 0U);
    EXPECT_LE(uncertain.size(), 16U);
    std::set<address> both = blocks_of(pool, all);
    both.insert(uncertain.begin(), uncertain.end());
    EXPECT_EQ(both, held);
    EXPECT_EQ(all.doubts.size(), 1U);
    for (address const one : held)
        pool.deallocate(reinterpret_cast<void*>(one), 64);
}

bool is_in(std::span<poolheap::heap::range const> ranges, address a) {
    return std::ranges::any_of(ranges, [a](auto const& r) { return a >= r.first && a < r.second; });
}

// Memory at addresses that nothing else in the process has ever had.
class fresh_memory : public std::pmr::memory_resource {
    void* do_allocate(std::size_t bytes, std::size_t) override {
        void* const p = ::mmap(m_next, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        m_next = static_cast<std::byte*>(p) + (64U << 20);
        return p;
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t) override { ::munmap(p, bytes); }
    bool do_is_equal(memory_resource const& other) const noexcept override { return this == &other; }
    std::byte* m_next = reinterpret_cast<std::byte*>(std::uintptr_t{0x2345'4000'0000});
};

TEST_F(heap_of, this_process_has_no_address_of_a_free_block_outside_of_records_and_pool_memory) {
    if (test::k_sanitized)
        GTEST_SKIP() << "reads all mapped memory: the sanitizer's takes minutes, and keeps addresses";
    constexpr std::size_t k_blocks = 3000;
    fresh_memory memory;
    pooled::pool pool{{.name = "records", .upstream = &memory}};
    pooled::pool lists{{.name = "lists"}};
    auto const held = lists.make_unique<void*[]>(k_blocks);
    for (std::size_t i = 0; i < k_blocks; ++i)
        held[i] = pool.allocate(200);
    for (std::size_t i = 0; i < k_blocks; ++i)
        pool.deallocate(held[i], 200);
    auto const words = lists.make_unique<std::uint64_t[]>(1 << 13);
    auto const places = lists.make_unique<address[]>(4 * k_blocks);
    std::size_t found = 0;
    own_image const image;
    for (poolheap::mapping const& m : image.mappings()) {
        bool const is_stack = at_of(&found) >= m.begin && at_of(&found) < m.end;
        for (address at = m.begin; m.writable && !is_stack && at < m.end; at += 8 << 13) {
            auto* const buffer = reinterpret_cast<std::byte*>(words.get());
            std::size_t const bytes = image.read(at, {buffer, std::min<std::size_t>(8 << 13, m.end - at)});
            for (std::size_t i = 0; i < bytes / 8 && found < 4 * k_blocks; ++i)
                // Not where its chunks begin, which the list of mappings has, too.
                if (pool.owns(reinterpret_cast<void*>(words[i])) &&
                    pool.owns(reinterpret_cast<void*>(words[i] - 1)))
                    places[found++] = at + 8 * i;
        }
    }
    poolheap::heap const all = read_heap(image);
    std::size_t in_records = 0;
    std::size_t elsewhere = 0;
    for (std::size_t i = 0; i < found; ++i)
        if (!is_in(all.pool_memory, places[i])) ++(is_in(all.records, places[i]) ? in_records : elsewhere);
    EXPECT_LT(found, 4 * k_blocks);
    EXPECT_EQ(elsewhere, 0U);
    if (pooled::detail::k_has_cache) {
        EXPECT_GT(in_records, 500U);
    }
    EXPECT_TRUE(is_in(all.records, at_of(&test::core_of(pool))));
    EXPECT_TRUE(is_in(all.records, at_of(&pooled::detail::g_page_map)));
    EXPECT_FALSE(is_in(all.records, at_of(words.get())));
    EXPECT_FALSE(is_in(all.records, at_of(&found)));
}

TEST_F(heap_of, a_process_finds_the_block_of_any_address_in_it) {
    pooled::pool pool{{.name = "find"}};
    std::vector<std::byte*> held;
    for (int i = 0; i < 2000; ++i)
        held.push_back(static_cast<std::byte*>(pool.allocate(1000)));
    auto* const large = static_cast<std::byte*>(pool.allocate(5'000'000));
    poolheap::heap const all = read_heap(own_image());
    for (std::byte* const one : held)
        for (int const offset : {0, 1, 500, 999}) {
            poolheap::heap::hit const found = all.find(at_of(one + offset));
            ASSERT_NE(found.index, poolheap::k_no_block);
            EXPECT_EQ(found.begin, at_of(one));
            EXPECT_EQ(all[found.index].begin, at_of(one));
        }
    EXPECT_EQ(all.find(at_of(large + 4'999'999)).begin, at_of(large));
    EXPECT_EQ(all.find(at_of(large)).begin, at_of(large));
    EXPECT_EQ(all.find(at_of(&pool)).index, poolheap::k_no_block);
    for (std::byte* const one : held)
        pool.deallocate(one, 1000);
    pool.deallocate(large, 5'000'000);
    EXPECT_EQ(read_heap(own_image()).find(at_of(large)).index, poolheap::k_no_block);
}

TEST_F(heap_of, a_damaged_image_is_read_to_an_end_or_refused) {
    pooled::pool pool{{.name = "damaged"}};
    pooled::object_pool<std::string> objects{{.name = "damaged objects"}};
    std::vector<void*> held;
    for (int i = 0; i < 500; ++i)
        held.push_back(pool.allocate(100));
    std::vector<std::shared_ptr<std::string>> idle;
    for (int i = 0; i < 30; ++i)
        idle.push_back(objects.acquire());
    idle.clear();
    poolheap::heap const sound = read_heap(own_image());
    std::mt19937_64 random(1);
    std::vector<poolheap::address> const values{0,
                                                1,
                                                ~std::uint64_t{0},
                                                at_of(held[0]),
                                                at_of(&test::core_of(pool)),
                                                at_of(&sound),
                                                std::uint64_t{1} << 40};
    for (int run = 0; run < 10; ++run) {
        own_image image;
        // In what a pool consists of, and in the record itself.
        for (int i = 0; i < 200; ++i) {
            bool const is_core = i % 10 != 0;
            auto const* const at = is_core ? reinterpret_cast<std::byte const*>(&test::core_of(pool))
                                           : reinterpret_cast<std::byte const*>(&pooled::detail::k_record);
            std::size_t const words = is_core ? 2000 : sizeof(inspect::record) / 8;
            if (!is_core && run % 4 != 0) continue;
            image.replace(at + 8 * (random() % words), values[random() % values.size()]);
        }
        for (int i = 0; i < 200; ++i) {
            auto const& [begin, end] = sound.records[random() % sound.records.size()];
            image.replace(reinterpret_cast<std::byte const*>(begin + random() % ((end - begin) / 8) * 8),
                          i % 2 == 0 ? values[random() % values.size()] : random());
        }
        try {
            static_cast<void>(read_heap(image));
        } catch (poolheap::error const& refusal) {
            EXPECT_NE(std::string(refusal.what()), "");
        }
    }
    for (void* const one : held)
        pool.deallocate(one, 100);
}

TEST_F(heap_of, a_process_with_records_of_an_unknown_layout_is_refused_in_a_sentence) {
    own_image image;
    image.replace(&pooled::detail::k_record.layout, std::uint32_t{4711});
    try {
        static_cast<void>(read_heap(image));
        FAIL() << "it was read";
    } catch (poolheap::error const& refusal) {
        EXPECT_NE(std::string(refusal.what()).find("layout 4711"), std::string::npos) << refusal.what();
    }
    image.replace(&pooled::detail::k_record.magic, std::uint64_t{1});
    EXPECT_THROW(static_cast<void>(read_heap(image)), poolheap::error);
}

}  // namespace
