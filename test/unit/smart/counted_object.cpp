// SPDX-License-Identifier: BSL-1.0
// An object in its block with the word in front of it: where everything lies, and what happens to it when owners and
// observers let go, without a pointer class.

#include "pooled/smart/counted_object.hpp"

#include "pooled/pooled.hpp"

#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace {

using namespace pooled::detail;

template <std::size_t Bytes, std::size_t Align = 1>
struct alignas(Align) sized {
    std::byte bytes[Bytes];
};
template <class T>
using by_default = counted_object<T, from_default>;

static_assert(by_default<char>::k_offset == 8 && by_default<char>::k_bytes == 9 &&
              by_default<char>::k_align == 8);
static_assert(by_default<sized<40, 8>>::k_bytes == 48, "eight bytes more than the object");
static_assert(by_default<sized<64, 64>>::k_offset == 64 && by_default<sized<64, 64>>::k_align == 64);
static_assert(by_default<sized<40'000>>::k_class == k_large);
static_assert(count_header::k_sole == count_header::k_strong_one + count_header::k_weak_one);

TEST(count_header, tells_its_counts_apart_from_its_type) {
    std::uint64_t const word = k_type_one * 500 + count_header::k_weak_one * 3 + 2;
    EXPECT_EQ(count_header::strong_in(word), 2U);
    EXPECT_EQ(count_header::weak_in(word), count_header::k_weak_one * 3);
    EXPECT_FALSE(count_header::is_sole(word));
    EXPECT_TRUE(count_header::is_sole(k_type_one * 500 + count_header::k_sole));
}

TEST(count_header, lies_right_in_front_of_the_object) {
    pooled::pool pool;
    auto const check = [](void const* object, std::uint64_t counts) {
        std::uint64_t const word = (static_cast<count_header const*>(object) - 1)->word.load();
        EXPECT_EQ(word & (k_type_one - 1), counts);
        EXPECT_NE(word >> k_type_shift, k_no_type);
    };
    check(pool.make_rc<char>('x').get(), count_header::k_sole);
    check(pool.make_rc<sized<4, 64>>().get(), count_header::k_sole);
    check(pool.make_unique<int>(1).get(), count_header::k_unique);
}

// An object of the default pool, as make_rc makes it.
template <class T>
class counted_object_of : public testing::Test {
protected:
    static count_header& make(test::life_log& log, std::uint64_t counts) {
        type_tag const tag = object::tag();
        EXPECT_EQ(object::tag(), tag) << "a type has one tag";
        void* const place =
            object::place_in(pooled::default_pool().allocate(object::k_bytes, object::k_align));
        T* const made = ::new (place) T(log);
        object::set_header(made, tag, counts);
        return *(reinterpret_cast<count_header*>(made) - 1);
    }
    static std::uint64_t in_use() { return pooled::default_pool().stats().in_use; }
    ~counted_object_of() override { EXPECT_EQ(in_use(), m_before); }

    test::life_log log;

private:
    using object = by_default<T>;
    std::uint64_t m_before = in_use();
};
using objects = testing::Types<test::counted<>, test::counted<100, 64>, test::counted<100'000>>;
TYPED_TEST_SUITE(counted_object_of, objects);

TYPED_TEST(counted_object_of, any_size_goes_at_once_when_all_that_is_counted_lets_go) {
    for (std::uint64_t const counts : {count_header::k_sole, count_header::k_unique}) {
        count_header& h = this->make(this->log, counts);
        EXPECT_FALSE(h.retires(h.word.load(), counts ^ count_header::k_sole)) << "other counts than those";
        EXPECT_EQ(this->log.alive(), 1);
        EXPECT_TRUE(h.retires(h.word.load(), counts));
        EXPECT_EQ(this->log.alive(), 0);
    }
}

TYPED_TEST(counted_object_of, any_size_leaves_its_block_to_its_observer) {
    count_header& h = this->make(this->log, count_header::k_sole + count_header::k_weak_one);
    std::uint64_t const before = this->in_use();
    std::uint64_t const now = h.word.fetch_sub(count_header::k_strong_one);
    EXPECT_FALSE(h.retires(now, count_header::k_sole));
    g_block_types[now].retire_observed(&h);
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_EQ(this->in_use(), before);
    h.release_weak();
    EXPECT_EQ(this->in_use(), before - 1);
}

TYPED_TEST(counted_object_of, any_size_is_finished_when_it_was_deferred) {
    count_header& h = this->make(this->log, count_header::k_sole);
    deferred(&h, h.word.load() & ~(k_type_one - 1), false).finish();
    EXPECT_EQ(this->log.destroyed(), 1);
    count_header& observed = this->make(this->log, 2 * count_header::k_weak_one);
    deferred(&observed, observed.word.load() & ~(k_type_one - 1), true).finish();
    EXPECT_EQ(this->log.destroyed(), 2);
    EXPECT_EQ(observed.word.load() & (k_type_one - 1), count_header::k_weak_one);
    observed.release_weak();
}

}  // namespace
