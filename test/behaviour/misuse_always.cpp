// SPDX-License-Identifier: BSL-1.0
// The checked build misses no misuse: each kind, many times, over blocks of all sizes. It reports the deallocations at the
// call, and the writes at the latest when the block is used again; it never reports correct use.
//
// A report is caught by leaving the library with longjmp: one process then sees many. Only in the preset `checked`.

#include <gtest/gtest.h>

#ifndef POOLED_CHECKED
#define POOLED_CHECKED 0
#endif

#if POOLED_CHECKED
#undef POOLED_GUARD_BYTES  // the preset has none, so that the other tests get the blocks that they expect

#include "support/caught_report.hpp"

#define POOLED_FAIL(message) ::test::on_report(message)

#include "pooled/pooled.hpp"

#include "support/internals.hpp"
#include "support/misused_pool.hpp"
#include "support/pool_kinds.hpp"
#include "support/stale_pointer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using test::is_report;
using test::iterations;
using test::report_of;
using test::report_of_stale_drop;
using test::stale;

template <class Pool>
class misuse_of : public test::misused_pool<Pool> {};
TYPED_TEST_SUITE(misuse_of, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_double_free) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        std::size_t const bytes = this->any_size();
        void* const p = this->pool.allocate(bytes);
        this->pool.deallocate(p, bytes);
        found += is_report(report_of([&] { this->pool.deallocate(p, bytes); }), "double free");
    }
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_pointer_into_a_block) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        std::size_t const bytes = 16 + this->any_size();
        auto* const p = static_cast<std::byte*>(this->pool.allocate(bytes));
        std::size_t const offset = 1 + this->any() % (i % 2 == 0 ? 15 : bytes - 1);
        found += is_report(report_of([&] { this->pool.deallocate(p + offset, bytes); }), "into a block");
        this->pool.deallocate(p, bytes);
    }
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_foreign_pointer) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        std::size_t const bytes = this->any_size();
        auto const foreign = std::make_unique<std::byte[]>(bytes);
        found += is_report(report_of([&] { this->pool.deallocate(foreign.get(), bytes); }), "of no pool");
    }
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_wrong_size) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        std::size_t const bytes = this->any_size();
        std::size_t const wrong = i % 2 == 0 ? bytes + 1 : bytes + this->any_size();
        void* const p = this->pool.allocate(bytes);
        std::string const report = report_of([&] { this->pool.deallocate(p, wrong); });
        found += is_report(report, "the size or alignment") &&
                 is_report(report, ("freed as a block of " + std::to_string(wrong) + " bytes, is one of " +
                                    std::to_string(bytes))
                                       .c_str());
        this->pool.deallocate(p, bytes);
    }
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_block_of_another_pool) {
    TypeParam other{{.name = "other"}};
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        std::size_t const bytes = this->any_size();
        void* const p = other.allocate(bytes);
        found += is_report(report_of([&] { this->pool.deallocate(p, bytes); }), "to another pool");
        other.deallocate(p, bytes);
    }
    EXPECT_EQ(found, iterations());
}

// In front, in the middle, at the end: at the latest when another allocation gets the block.
TYPED_TEST(misuse_of, a_pool_is_reported_for_every_write_after_free) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        std::size_t const bytes = 8 + this->any_size();
        auto* const p = static_cast<std::byte*>(this->pool.allocate(bytes));
        this->pool.deallocate(p, bytes);
        std::size_t const at = i % 3 == 0 ? 0 : i % 3 == 1 ? (bytes - 8) / 2 : bytes - 8;
        std::memset(p + at, static_cast<int>(this->any() % 0xdb), 8);
        found += is_report(report_of([&] { static_cast<void>(this->pool.allocate(bytes)); }),
                           ("offset " + std::to_string(at) + " was written after it was freed").c_str());
    }
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_a_write_after_free_when_another_size_class_takes_the_slab) {
    EXPECT_DEATH(
        {
            auto* const p = static_cast<std::byte*>(this->pool.allocate(48));
            this->pool.deallocate(p, 48);
            p[17] = std::byte{1};
            this->pool.trim();
        },
        "of pool 'packets': the byte at offset 17 was written after it was freed");
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_byte_written_behind_a_block) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        std::size_t const bytes = this->any_size();
        auto* const p = static_cast<std::byte*>(this->pool.allocate(bytes));
        p[bytes] ^= static_cast<std::byte>(1 + this->any() % 255);
        found += is_report(report_of([&] { this->pool.deallocate(p, bytes); }), "behind its end (overflow)");
    }
    EXPECT_EQ(found, iterations());
}

// Its guard is right, but for the block that was copied.
TYPED_TEST(misuse_of, a_pool_is_reported_for_every_block_that_was_copied_over_another) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        void* const from = this->pool.allocate(48);
        void* const to = this->pool.allocate(48);
        std::memcpy(to, from, 48 + 16);
        found += is_report(report_of([&] { this->pool.deallocate(to, 48); }), "behind its end (overflow)");
        this->pool.deallocate(from, 48);
    }
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_large_blocks) {
    int found = 0;
    constexpr int k_blocks = 100;
    for (int i = 0; i < k_blocks; ++i) {
        std::size_t const bytes = 40'000 + this->any() % 100'000;
        auto* p = static_cast<std::byte*>(this->pool.allocate(bytes));
        found += is_report(report_of([&] { this->pool.deallocate(p + 1, bytes); }), "into a block");
        found += is_report(report_of([&] { this->pool.deallocate(p, bytes + 1); }), "the size or alignment");
        this->pool.deallocate(p, bytes);
        found += is_report(report_of([&] { this->pool.deallocate(p, bytes); }), "double free");
        p = static_cast<std::byte*>(this->pool.allocate(bytes));
        p[bytes] ^= std::byte{1};
        found += is_report(report_of([&] { this->pool.deallocate(p, bytes); }), "behind its end (overflow)");
    }
    EXPECT_EQ(found, 4 * k_blocks);
    auto* const p = static_cast<std::byte*>(this->pool.allocate(50'000));
    this->pool.deallocate(p, 50'000);
    p[49'999] = std::byte{1};
    EXPECT_TRUE(is_report(report_of([&] { static_cast<void>(this->pool.allocate(50'000)); }),
                          "offset 49999 was written after it was freed"));
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_second_drop_before_the_destructor_runs) {
    struct counting {
        int* destroyed;
        explicit counting(int* count) : destroyed(count) {}
        counting(counting const&) = delete;
        counting& operator=(counting const&) = delete;
        ~counting() { ++*destroyed; }
    };
    int destroyed = 0;
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        auto first = this->pool.template make_unique<counting>(&destroyed);
        counting* const object = first.get();
        first.reset();
        found += is_report(report_of([&] { pooled::deleter<counting>{}(object); }), "double free");
    }
    EXPECT_EQ(found, iterations());
    EXPECT_EQ(destroyed, iterations());
}

// Neither destroyed nor freed yet: deferred until the scope ends.
TYPED_TEST(misuse_of, a_unique_ptr_is_reported_for_every_second_drop_of_a_deferred_object) {
    int found = 0;
    {
        pooled::reclaim_scope const scope;
        for (int i = 0; i < iterations(); ++i) {
            auto first = this->pool.template make_unique<std::vector<int>>(3);
            std::vector<int>* const object = first.get();
            first.reset();
            found += report_of([&] { pooled::deleter<std::vector<int>>{}(object); }).find("double free") !=
                     std::string::npos;
        }
    }
    EXPECT_EQ(found, iterations());
}

// It has no destructor to run: the count is reported, of an object or of its memory alone.
TYPED_TEST(misuse_of, a_pool_is_reported_for_every_drop_of_an_rc_ptr_or_weak_rc_ptr_after_the_last_one) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        found +=
            is_report(report_of_stale_drop(this->pool.template make_rc<std::string>("text")), "double free");
        found += is_report(report_of_stale_drop(this->pool.template make_rc<int>(i)), "double free");
        found +=
            is_report(report_of_stale_drop(this->pool.template make_rc<std::string[]>(3)), "double free");
        auto owner = this->pool.template make_rc<std::string>("text");
        auto observer = typename decltype(owner)::weak_type(owner);
        found += is_report(report_of_stale_drop(std::move(owner)), "double free");  // observed: not free yet
        found += is_report(report_of_stale_drop(std::move(observer)), "double free");
    }
    EXPECT_EQ(found, 5 * iterations());
}

TYPED_TEST(misuse_of, an_rc_ptr_is_reported_for_every_second_drop_of_a_deferred_object) {
    int found = 0;
    {
        pooled::reclaim_scope const scope;
        for (int i = 0; i < iterations(); ++i)
            found += is_report(report_of_stale_drop(this->pool.template make_rc<std::vector<int>>(3)),
                               "double free");
    }
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, a_shared_ptr_is_reported_for_every_second_drop_of_a_deferred_object) {
    int found = 0;
    {
        pooled::reclaim_scope const scope;
        for (int i = 0; i < iterations(); ++i)
            found += is_report(report_of_stale_drop(this->pool.template make_shared<std::vector<int>>(3)),
                               "std::shared_ptr");
    }
    EXPECT_EQ(found, iterations());
    EXPECT_EQ(this->pool.stats().in_use, 0U);
}

TYPED_TEST(misuse_of, a_pool_is_not_to_own_an_object_that_observes_itself) {
    struct observing : pooled::enable_rc_from_this<observing> {
        std::string text = "text";
    };
    static_cast<void>(this->pool.template make_unique<observing>());
    {
        pooled::reclaim_scope const scope;
        static_cast<void>(this->pool.template make_unique<observing>());
    }
    EXPECT_EQ(this->pool.stats().in_use, 0U);
    pooled::object_pool<observing> objects;
    static_cast<void>(objects.acquire_unique());
    EXPECT_EQ(objects.in_use(), 0U);
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_drop_of_a_shared_ptr_after_the_last_owner) {
    struct alignas(64) aligned {
        std::string text = "text";
    };
    struct large {
        std::array<std::string, 2000> texts;
    };
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        found += is_report(report_of_stale_drop(this->pool.template make_shared<std::string>("text")),
                           "std::shared_ptr");
        found +=
            is_report(report_of_stale_drop(this->pool.template make_shared<aligned>()), "std::shared_ptr");
    }
    EXPECT_EQ(found, 2 * iterations());
    EXPECT_TRUE(is_report(report_of_stale_drop(this->pool.template make_shared<large>()), "std::shared_ptr"));
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_drop_of_a_weak_ptr_after_the_last_one) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        auto owner = this->pool.template make_shared<std::string>("text");
        std::weak_ptr<std::string> observer = owner;
        owner.reset();
        found += is_report(report_of_stale_drop(std::move(observer)), "std::weak_ptr");
    }
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_drop_of_a_shared_ptr_to_an_array_after_the_last_owner) {
    struct alignas(64) aligned {
        std::string text = "text";
    };
    int found = 0;
    auto const count = [&found](auto p) {
        found += is_report(report_of_stale_drop(std::move(p)), "std::shared_ptr");
    };
    for (int i = 0; i < iterations(); ++i) {
        count(this->pool.template make_shared<char[]>(this->any_size()));
        count(this->pool.template make_shared<std::string[]>(this->any() % 20, "text"));
        count(this->pool.template make_shared<aligned[3]>());
        count(this->pool.template make_shared_for_overwrite<std::array<char, 3>[]>(this->any_size()));
    }
    EXPECT_EQ(found, 4 * iterations());
    count(this->pool.template make_shared<std::string[]>(10'000));  // a large block
    EXPECT_EQ(found, 4 * iterations() + 1);
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_drop_of_a_weak_ptr_to_an_array_after_the_last_one) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        auto owner = this->pool.template make_shared<std::string[]>(this->any() % 20);
        std::weak_ptr<std::string[]> observer = owner;
        owner.reset();
        found += is_report(report_of_stale_drop(std::move(observer)), "std::weak_ptr");
    }
    EXPECT_EQ(found, iterations());
}

// Freed when the scope ends, not by the drop.
TYPED_TEST(misuse_of,
           a_pool_is_reported_for_every_drop_of_a_shared_ptr_after_a_deferred_object_is_destroyed) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        auto last = this->pool.template make_shared<std::vector<int>>(3);
        stale copy(last);
        {
            pooled::reclaim_scope const scope;
            last.reset();
        }
        found += is_report(copy.report_of_drop(), "std::shared_ptr");
    }
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_write_around_the_control_block_of_a_freed_array) {
    constexpr std::ptrdiff_t k_elements = 100;
    int written = 0;
    for (std::ptrdiff_t const distance : {-8, -1, 8, 23, 24, 31}) {
        auto owner = this->pool.template make_shared<char[]>(k_elements);
        auto* const first = reinterpret_cast<std::byte*>(owner.get());
        std::byte* const control = stale(owner).control_block();
        owner.reset();
        std::byte* const start = std::min(first, control);
        std::ptrdiff_t const at = control + distance - start;
        if (at < 0) continue;
        ++written;
        start[at] ^= std::byte{1};
        EXPECT_TRUE(is_report(
            report_of([&] { static_cast<void>(this->pool.template make_shared<char[]>(k_elements)); }),
            ("offset " + std::to_string(at) + " was written after it was freed").c_str()));
    }
    EXPECT_GE(written, 4);
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_a_shared_ptr_that_was_copied_after_the_last_owner) {
    auto owner = this->pool.template make_shared<std::string>("text");
    stale bytes(owner);
    owner.reset();
    auto* const copy = new std::shared_ptr<std::string>(bytes.get());
    EXPECT_TRUE(
        is_report(report_of([&] { static_cast<void>(this->pool.template make_shared<std::string>("text")); }),
                  "offset 8 was written after it was freed"));
    ::operator delete(copy);
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_allocation_after_it_was_destroyed) {
    int found = 0;
    for (int i = 0; i < std::min(iterations(), 3000); ++i) {
        auto made = std::make_unique<TypeParam>(pooled::pool_options{.name = "packets"});
        pooled::pool_allocator<int, TypeParam> from(*made);
        int* const out = i % 2 == 0 ? from.allocate(1) : nullptr;  // it keeps the pool's memory
        std::pmr::memory_resource* const resource = made->resource();
        made.reset();
        TypeParam const next;  // does not take the other's place
        found += is_report(report_of([&] { static_cast<void>(from.allocate(1)); }), "it was destroyed");
        found += is_report(report_of([&] { static_cast<void>(from.allocate(100'000)); }), "it was destroyed");
        found += is_report(report_of([&] { static_cast<void>(resource->allocate(1)); }), "it was destroyed");
        if (out != nullptr) from.deallocate(out, 1);
        found += is_report(report_of([&] { static_cast<void>(resource->allocate(1)); }), "it was destroyed");
        found += is_report(report_of([&] { resource->deallocate(out, 1); }), "double free");
    }
    EXPECT_EQ(found, 5 * std::min(iterations(), 3000));
}

// The last 256 destroyed pools are remembered.
TYPED_TEST(misuse_of, a_pool_is_reported_for_an_allocation_when_many_others_were_destroyed_since) {
    auto made = std::make_unique<TypeParam>(pooled::pool_options{.name = "packets"});
    pooled::pool_allocator<int, TypeParam> from(*made);
    made.reset();
    for (int i = 0; i < 255; ++i)
        TypeParam const other{{.name = "other"}};
    EXPECT_PRED2(is_report, report_of([&] { static_cast<void>(from.allocate(1)); }), "it was destroyed");
}

TEST(misuse_of_a_local_pool, is_reported_for_every_drop_on_another_thread) {
    pooled::local_pool pool{{.name = "packets"}};
    std::vector<void*> blocks;
    for (int i = 0; i < iterations(); ++i)
        blocks.push_back(pool.allocate(48));
    void* const large = pool.allocate(100'000);
    int found = 0;
    std::thread([&] {
        for (void* const p : blocks)
            found += is_report(report_of([&] { pool.deallocate(p, 48); }), "another thread uses");
        found += is_report(report_of([&] { pool.deallocate(large, 100'000); }), "another thread uses");
    }).join();
    EXPECT_EQ(found, iterations() + 1);
}

TEST(misuse_of_a_local_pool, is_not_to_hand_it_over) {
    pooled::local_pool pool{{.name = "packets"}};
    void* p = nullptr;
    std::thread([&] { p = pool.allocate(48); }).join();
    pool.deallocate(p, 48);  // the thread that used it has ended
    void* const q = pool.allocate(48);
    std::thread([&] {
        void* const mine = pool.allocate(48);  // from here on this thread uses it
        pool.deallocate(q, 48);
        pool.deallocate(mine, 48);
    }).join();
}

TEST(misuse_of_a_local_pool, is_not_to_adopt_it_and_only_drop_there) {
    pooled::local_pool pool{{.name = "packets"}};
    std::vector<void*> blocks;
    for (int i = 0; i < iterations(); ++i)
        blocks.push_back(pool.allocate(48));
    void* const kept = pool.allocate(48);
    int reported = 0;
    std::thread([&] {
        pool.adopt();
        for (void* const p : blocks)
            reported += !report_of([&] { pool.deallocate(p, 48); }).empty();
    }).join();
    std::string back;
    std::thread([&] {
        pool.adopt();
        // The adopting thread is alive: the former owner may no longer drop.
        std::thread([&] { back = report_of([&] { pool.deallocate(kept, 48); }); }).join();
    }).join();
    EXPECT_EQ(reported, 0);
    EXPECT_TRUE(is_report(back, "another thread uses"));
    pool.adopt();
    pool.deallocate(kept, 48);
}

TEST(misuse_of_an_upstream, that_returns_misaligned_memory_is_reported) {
    struct misaligned : std::pmr::memory_resource {
        alignas(65536) std::byte memory[1 << 18];
        void* do_allocate(std::size_t, std::size_t) override { return memory + 4096; }
        void do_deallocate(void*, std::size_t, std::size_t) override {}
        bool do_is_equal(memory_resource const& other) const noexcept override { return this == &other; }
    };
    auto const upstream = std::make_unique<misaligned>();
    std::string const report = report_of([&] {
        auto* const pool = new pooled::pool{{.name = "packets", .upstream = upstream.get()}};
        static_cast<void>(pool->allocate(48));
    });
    EXPECT_TRUE(is_report(report, "is not aligned to 16384")) << report;
}

// Phases of one size after the other, so that slabs change their class; memory goes back to the system, and threads end.
TYPED_TEST(misuse_of, a_pool_is_not_reported_where_there_is_none) {
    struct block {
        std::byte* p;
        std::size_t bytes;
    };
    std::vector<block> blocks;
    for (int i = 0; i < 100 * iterations(); ++i) {
        if (this->any() % 2 == 0 || blocks.empty()) {
            std::size_t bytes = this->any_size();
            if (this->any() % 1000 == 0) bytes *= 20;
            auto* const p = static_cast<std::byte*>(this->pool.allocate(bytes));
            std::memset(p, 0xa5, bytes);
            blocks.push_back({p, bytes});
        } else {
            std::swap(blocks[this->any() % blocks.size()], blocks.back());
            this->pool.deallocate(blocks.back().p, blocks.back().bytes);
            blocks.pop_back();
        }
        if (i % 20'000 == 0) {
            while (!blocks.empty()) {
                this->pool.deallocate(blocks.back().p, blocks.back().bytes);
                blocks.pop_back();
            }
            this->pool.trim();
        }
    }
    for (block const& b : blocks)
        this->pool.deallocate(b.p, b.bytes);
    EXPECT_EQ(this->pool.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(this->pool));
}

TEST(misuse_of_a_shared_pool, is_not_reported_where_there_is_none) {
    pooled::pool pool;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < iterations(); ++i) {
                auto const shared = pool.make_shared<std::string>("text");
                auto const unique = pool.make_unique<int[]>(static_cast<std::size_t>(i % 100));
                auto const counted = pool.make_rc<std::vector<int>>(10);
                if (i % 1000 == 0) pool.trim();
            }
        });
    for (std::thread& each : threads)
        each.join();
    EXPECT_TRUE(test::is_valid(pool));
}

}  // namespace

#else

TEST(misuse_of_pools, is_counted_in_the_preset_checked) { GTEST_SKIP() << "POOLED_CHECKED is 0"; }

#endif
