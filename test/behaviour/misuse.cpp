// SPDX-License-Identifier: BSL-1.0
// The checked build misses no misuse: each kind, many times, over blocks of all sizes (support/misuse_suite.hpp, and what it
// alone promises here). It reports the deallocations at the call, and the writes at the latest when the block is used again.
//
// A report is caught by leaving the library with longjmp: one process then sees many.

#include <gtest/gtest.h>

#if !defined(__SANITIZE_THREAD__) && !defined(POOLED_TEST_SANITIZER_THREAD)
#undef POOLED_SANITIZE
#define POOLED_SANITIZE 0
#undef POOLED_CHECKED
#define POOLED_CHECKED 1
#undef POOLED_GUARD_BYTES  // the preset `checked` has none, so that the other tests get the blocks that they expect

#include "support/caught_report.hpp"

#define POOLED_FAIL(message) ::test::on_report(message)

#include "pooled/pooled.hpp"

#include "support/misuse_suite.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using test::stale;

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_pointer_into_a_block) {
    expect_each_reported("into a block", [&](int i) {
        std::size_t const bytes = 16 + this->any_size();
        auto* const p = static_cast<std::byte*>(this->pool.allocate(bytes));
        std::size_t const offset = 1 + this->any() % (i % 2 == 0 ? 15 : bytes - 1);
        std::string report = report_of([&] { this->pool.deallocate(p + offset, bytes); });
        this->pool.deallocate(p, bytes);
        return report;
    });
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_wrong_size) {
    expect_each_reported("the size or alignment", [&](int i) {
        std::size_t const bytes = this->any_size();
        std::size_t const wrong = i % 2 == 0 ? bytes + 1 : bytes + this->any_size();
        void* const p = this->pool.allocate(bytes);
        std::string report = report_of([&] { this->pool.deallocate(p, wrong); });
        this->pool.deallocate(p, bytes);
        EXPECT_PRED2(
            is_report, report,
            ("freed as a block of " + std::to_string(wrong) + " bytes, is one of " + std::to_string(bytes))
                .c_str());
        return report;
    });
}

// In front, in the middle, at the end: at the latest when another allocation gets the block.
TYPED_TEST(misuse_of, a_pool_is_reported_for_every_write_after_free) {
    expect_each_reported(" was written after it was freed", [&](int i) {
        std::size_t const bytes = 8 + this->any_size();
        auto* const p = static_cast<std::byte*>(this->pool.allocate(bytes));
        this->pool.deallocate(p, bytes);
        std::size_t const at = i % 3 == 0 ? 0 : i % 3 == 1 ? (bytes - 8) / 2 : bytes - 8;
        std::memset(p + at, static_cast<int>(this->any() % 0xdb), 8);
        std::string report = report_of([&] { static_cast<void>(this->pool.allocate(bytes)); });
        EXPECT_PRED2(is_report, report, ("offset " + std::to_string(at)).c_str());
        return report;
    });
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
    expect_each_reported("behind its end (overflow)", [&](int) {
        std::size_t const bytes = this->any_size();
        auto* const p = static_cast<std::byte*>(this->pool.allocate(bytes));
        p[bytes] ^= static_cast<std::byte>(1 + this->any() % 255);
        return report_of([&] { this->pool.deallocate(p, bytes); });
    });
}

// Its guard is right, but for the block that was copied.
TYPED_TEST(misuse_of, a_pool_is_reported_for_every_block_that_was_copied_over_another) {
    expect_each_reported("behind its end (overflow)", [&](int) {
        void* const from = this->pool.allocate(48);
        void* const to = this->pool.allocate(48);
        std::memcpy(to, from, 48 + 16);
        std::string report = report_of([&] { this->pool.deallocate(to, 48); });
        this->pool.deallocate(from, 48);
        return report;
    });
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
    counts_destructions::count = 0;
    expect_each_reported("double free", [&](int) {
        return report_of_stale_drop(this->pool.template make_unique<counts_destructions>());
    });
    EXPECT_EQ(counts_destructions::count, iterations());
}

// Neither destroyed nor freed yet: deferred until the scope ends.
TYPED_TEST(misuse_of, a_pool_is_reported_for_every_second_drop_of_a_deferred_object) {
    {
        pooled::reclaim_scope const scope;
        expect_each_reported("double free", [&](int) {
            return report_of_stale_drop(this->pool.template make_rc<std::vector<int>>(3));
        });
        expect_each_reported("std::shared_ptr", [&](int) {
            return report_of_stale_drop(this->pool.template make_shared<std::vector<int>>(3));
        });
        for (int i = 0; i < iterations(); ++i)
            ASSERT_NE(report_of_stale_drop(this->pool.template make_unique<std::vector<int>>(3))
                          .find("double free"),
                      std::string::npos);
    }
    EXPECT_EQ(this->pool.stats().in_use, 0U);
}

// The object is observed, so its memory is not free yet.
TYPED_TEST(misuse_of, a_pool_is_reported_for_every_drop_of_an_rc_ptr_to_an_observed_object) {
    expect_each_reported("double free", [&](int) {
        auto owner = this->pool.template make_rc<std::string>("text");
        auto observer = typename decltype(owner)::weak_type(owner);
        return std::array{report_of_stale_drop(std::move(owner)), report_of_stale_drop(std::move(observer))};
    });
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
    expect_each_reported("std::shared_ptr", [&](int) {
        return std::array{
            report_of_stale_drop(this->pool.template make_shared<std::string>("text")),
            report_of_stale_drop(this->pool.template make_shared<aligned_text<64>>()),
            report_of_stale_drop(this->pool.template make_shared<char[]>(this->any_size())),
            report_of_stale_drop(this->pool.template make_shared<std::string[]>(this->any() % 20, "text")),
            report_of_stale_drop(this->pool.template make_shared<aligned_text<64>[3]>()),
            report_of_stale_drop(
                this->pool.template make_shared_for_overwrite<std::array<char, 3>[]>(this->any_size()))};
    });
    struct large {
        std::array<std::string, 2000> texts;
    };
    EXPECT_PRED2(is_report, report_of_stale_drop(this->pool.template make_shared<large>()),
                 "std::shared_ptr");
    EXPECT_PRED2(is_report, report_of_stale_drop(this->pool.template make_shared<std::string[]>(10'000)),
                 "std::shared_ptr");
}

TYPED_TEST(misuse_of, a_pool_is_reported_for_every_drop_of_a_weak_ptr_after_the_last_one) {
    expect_each_reported("std::weak_ptr", [&](int) {
        return std::array{
            report_of_stale_observer(this->pool.template make_shared<std::string>("text")),
            report_of_stale_observer(this->pool.template make_shared<std::string[]>(this->any() % 20))};
    });
}

// Freed when the scope ends, not by the drop.
TYPED_TEST(misuse_of,
           a_pool_is_reported_for_every_drop_of_a_shared_ptr_after_a_deferred_object_is_destroyed) {
    expect_each_reported("std::shared_ptr", [&](int) {
        auto last = this->pool.template make_shared<std::vector<int>>(3);
        stale copy(last);
        {
            pooled::reclaim_scope const scope;
            last.reset();
        }
        return copy.report_of_drop();
    });
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
    expect_each_reported(
        "it was destroyed",
        [&](int i) {
            auto made = std::make_unique<TypeParam>(pooled::pool_options{.name = "packets"});
            pooled::pool_allocator<int, TypeParam> from(*made);
            int* const out = i % 2 == 0 ? from.allocate(1) : nullptr;  // it keeps the pool's memory
            std::pmr::memory_resource* const resource = made->resource();
            made.reset();
            TypeParam const next;  // does not take the other's place
            std::array reports{report_of([&] { static_cast<void>(from.allocate(1)); }),
                               report_of([&] { static_cast<void>(from.allocate(100'000)); }),
                               report_of([&] { static_cast<void>(resource->allocate(1)); }), std::string()};
            if (out != nullptr) from.deallocate(out, 1);
            reports[3] = report_of([&] { static_cast<void>(resource->allocate(1)); });
            EXPECT_PRED2(is_report, report_of([&] { resource->deallocate(out, 1); }), "double free");
            return reports;
        },
        std::min(iterations(), 3000));
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
    void* const large = pool.allocate(100'000);
    std::vector<void*> blocks;
    for (int i = 0; i < iterations(); ++i)
        blocks.push_back(pool.allocate(48));
    std::thread([&] {
        expect_each_reported("another thread uses", [&](int i) {
            return report_of([&] { pool.deallocate(blocks[static_cast<std::size_t>(i)], 48); });
        });
        EXPECT_PRED2(is_report, report_of([&] { pool.deallocate(large, 100'000); }), "another thread uses");
    }).join();
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
    // Not by report_of(): the call of upstream is under way.
    pooled::pool pool{{.name = "packets", .upstream = upstream.get()}};
    EXPECT_DEATH(static_cast<void>(pool.allocate(48)), "pool 'packets'.* is not aligned to 16384");
}

// Each ends a process of its own: destructors and locks are in the way.

TYPED_TEST(misuse_of, a_pool_is_a_small_block_freed_as_a_large_one) {
    EXPECT_DEATH(this->pool.deallocate(this->pool.allocate(48), 300'000), "pool 'packets': .*no large block");
    EXPECT_DEATH(this->pool.deallocate(this->pool.allocate(48), 100'000),
                 "pool 'packets': .*size or alignment");
    for (std::size_t const bytes : {100'000U, 300'000U})
        EXPECT_DEATH(this->pool.deallocate(this->pool.allocate(bytes), 48),
                     "pool 'packets': .*size or alignment");
}

TYPED_TEST(misuse_of, a_pool_is_a_write_to_a_freed_large_block_when_it_returns_to_upstream) {
    EXPECT_DEATH(
        {
            auto* const p = static_cast<std::byte*>(this->pool.allocate(100'000));
            this->pool.deallocate(p, 100'000);
            p[7] = std::byte{1};
            this->pool.trim();
        },
        "of pool 'packets': the byte at offset 7 was written after it was freed");
}

TYPED_TEST(misuse_of, a_pool_is_an_alignment_that_is_no_power_of_two) {
    for (std::size_t const align : {0UL, 3UL, 24UL, 12'345UL}) {
        std::string const report = "bad allocation of 48 bytes from pool 'packets': the alignment " +
                                   std::to_string(align) + " is not a power of two";
        EXPECT_DEATH(static_cast<void>(this->pool.allocate(48, align)), report);
        EXPECT_DEATH(static_cast<void>(this->pool.try_allocate(48, align)), report);
        EXPECT_DEATH(static_cast<void>(this->pool.resource()->allocate(48, align)), report);
        EXPECT_DEATH(this->pool.reserve_bytes(10, 48, align), report);
    }
}

template <class Pool>
Pool& destroyed_pool() {
    auto* const memory = static_cast<Pool*>(::operator new(sizeof(Pool)));
    std::construct_at(memory, pooled::pool_options{.name = "packets"});
    std::destroy_at(memory);
    return *memory;
}

TYPED_TEST(misuse_of, a_pool_is_a_reservation_after_it_was_destroyed) {
    char const* const report = "bad allocation from pool 'packets' at 0x[0-9a-f]+: it was destroyed";
    EXPECT_DEATH(destroyed_pool<TypeParam>().reserve_bytes(10, 48), report);
    EXPECT_DEATH(destroyed_pool<TypeParam>().template reserve<int>(10), report);
}

// The control block of an object that is observed is needed until its deferred destruction.
TYPED_TEST(misuse_of, a_pool_is_a_shared_ptr_to_a_deferred_observed_object_dropped_twice) {
    EXPECT_DEATH(
        {
            auto owner = this->pool.template make_shared<std::string>("text");
            std::weak_ptr<std::string> const observer = owner;
            test::stale<std::shared_ptr<std::string>> second(owner);
            pooled::reclaim_scope const scope;
            owner.reset();
            second.get().reset();
        },
        "bad drop of a std::shared_ptr to the block at 0x[0-9a-f]+ of pool 'packets'");
}

// What lies in front of it is a number, not a header.
template <class Numbers, class Pool>
void owns_a_part(Pool& pool) {
    auto const whole = pool.template make_unique<Numbers>();
    pooled::unique_ptr<std::uint32_t> part(&whole->all[2]);
    part.reset();
}

TYPED_TEST(misuse_of, a_pool_is_a_unique_ptr_into_an_object) {
    struct few {
        std::uint32_t all[3] = {1, 0, 3};
    };
    struct many {
        std::uint32_t all[12] = {1, 0, 3};
    };
    EXPECT_DEATH(owns_a_part<few>(this->pool), "no object starts there");
    EXPECT_DEATH(owns_a_part<many>(this->pool), "no object starts there");
}

TEST(misuse, a_small_object_of_the_default_pool_is_none) {
    struct few {
        std::uint32_t all[2] = {1, 2};
    };
    auto const u = pooled::make_unique<few>();
    auto const r = pooled::make_rc<few>();
    EXPECT_EQ(u->all[0] + r->all[1], 3U);
}

TEST(misuse, of_the_default_pool_is_a_unique_ptr_into_a_small_object) {
    EXPECT_DEATH(
        {
            // A block of the smallest class, with a number where a header would be.
            auto* const numbers = static_cast<std::uint64_t*>(pooled::default_pool().allocate(16));
            numbers[0] = 5;
            pooled::unique_ptr<std::uint64_t> part(&numbers[1]);
            part.reset();
        },
        "no object starts there");
}

// Pointers that are from no pool. The compiler would see that no header lies in front of the object, and warn.
template <class T>
T* hidden(T* p) {
    asm("" : "+r"(p));
    return p;
}

TEST(misuse, of_what_no_pool_gave_is_a_unique_ptr) {
    char const* const report = "bad deallocation of .*of no pool";
    EXPECT_DEATH({ pooled::unique_ptr<int> p(hidden(new int(1))); }, report);
    EXPECT_DEATH(
        {
            int i = 1;
            pooled::unique_ptr<int> p(hidden(&i));
        },
        report);
    EXPECT_DEATH({ pooled::unique_ptr<int[]> p(hidden(new int[4])); }, "bad deallocation of .*");
}

// Objects of an object_pool.

TYPED_TEST(misuse_of_objects, are_reported_for_every_drop_of_a_shared_ptr_or_weak_ptr_to_an_idle_one) {
    expect_each_reported("a std::shared_ptr",
                         [&](int) { return report_of_stale_drop(this->pool.acquire()); });
    expect_each_reported("a std::weak_ptr",
                         [&](int) { return report_of_stale_observer(this->pool.acquire()); });
}

TYPED_TEST(misuse_of_objects, are_said_to_be_idle) {
    expect_each_reported("is idle in its object_pool", [&](int) {
        return std::array{report_of_stale_drop(this->pool.acquire_unique()),
                          report_of_stale_drop(this->pool.acquire_rc()),
                          report_of_stale_observer(this->pool.acquire_rc())};
    });
    expect_each_reported("double free", [&](int) {
        auto owner = this->pool.acquire_rc();
        auto const observer = typename decltype(owner)::weak_type(owner);
        return report_of_stale_drop(std::move(owner));  // observed: not idle yet
    });
}

// In a thread's cache, in the central list, and destroyed.
TYPED_TEST(misuse_of_objects, are_reported_wherever_they_are_when_they_are_dropped_again) {
    constexpr std::size_t k_objects = 500;
    std::vector<stale<std::shared_ptr<std::string>>> copies;
    std::vector<decltype(this->pool.acquire_rc())> counted;
    std::vector<stale<decltype(this->pool.acquire_rc())>> counted_copies;
    {
        std::vector<std::shared_ptr<std::string>> owners;
        for (std::size_t i = 0; i < k_objects; ++i) {
            owners.push_back(this->pool.acquire());
            copies.emplace_back(owners.back());
            counted.push_back(this->pool.acquire_rc());
            counted_copies.emplace_back(counted.back());
        }
        counted.clear();
    }
    auto const expect_all = [&](char const* when) {
        std::size_t found = 0;
        for (auto each : copies)  // by value: a drop empties it
            found += is_report(each.report_of_drop(), "a std::shared_ptr");
        for (auto each : counted_copies)
            found += is_report(each.report_of_drop(), "double free");
        EXPECT_EQ(found, 2 * k_objects) << when;
    };
    expect_all("idle");
    this->pool.acquire().reset();  // none was damaged
    expect_all("idle again");
    EXPECT_EQ(this->pool.in_use(), 0U);
}

TYPED_TEST(misuse_of_objects, are_reported_for_a_drop_after_they_were_destroyed) {
    auto owner = this->pool.acquire();
    auto const other = this->pool.acquire();  // the memory stays with the pool
    stale copy(owner);
    owner.reset();
    EXPECT_EQ(this->pool.trim(), 1U);
    EXPECT_TRUE(is_report(copy.report_of_drop(), "a std::shared_ptr"));
}

// The next owner is of another kind, and does not use the control block.
TYPED_TEST(misuse_of_objects, are_reported_for_the_drop_of_an_earlier_shared_ptr) {
    auto first = this->pool.acquire();
    std::string const* const object = first.get();
    stale copy(first);
    first.reset();
    auto const unique = this->pool.acquire_unique();
    ASSERT_EQ(unique.get(), object);
    EXPECT_TRUE(is_report(copy.report_of_drop(), "a std::shared_ptr"));
}

TYPED_TEST(misuse_of_objects, are_reported_for_a_shared_ptr_that_is_copied_from_an_idle_one) {
    auto owner = this->pool.acquire();
    stale bytes(owner);
    owner.reset();
    auto* const copy = new std::shared_ptr<std::string>(bytes.get());
    EXPECT_TRUE(is_report(report_of([&] { static_cast<void>(this->pool.acquire_rc()); }),
                          "bad copy of a std::shared_ptr"));
    ::operator delete(copy);
}

// Objects go through all kinds of handles, caches and lists; a shared pool's among threads.
TYPED_TEST(misuse_of_objects, are_not_reported_where_there_is_no_mistake) {
    auto const work = [this] {
        std::vector<std::shared_ptr<std::string>> shared;
        for (int i = 0; i < iterations(); ++i) {
            auto const unique = this->pool.acquire_unique();
            auto counted = this->pool.acquire_rc();
            typename decltype(counted)::weak_type const observer = counted;
            counted.reset();
            shared.push_back(this->pool.acquire());
            std::weak_ptr<std::string> const watching = shared.back();
            if (i % 300 == 0) shared.clear();
            if (i % 1000 == 0) this->pool.trim();
        }
    };
    std::vector<std::thread> threads;
    if constexpr (std::is_same_v<TypeParam, pooled::object_pool<std::string>>)
        for (int t = 0; t < 3; ++t)
            threads.emplace_back(work);
    work();
    for (std::thread& each : threads)
        each.join();
    EXPECT_EQ(this->pool.in_use(), 0U);
}

}  // namespace

#else

TEST(misuse_of_pools, is_tested_without_thread_sanitizer) { GTEST_SKIP(); }

#endif
