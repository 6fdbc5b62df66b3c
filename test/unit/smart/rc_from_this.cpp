// SPDX-License-Identifier: BSL-1.0
// enable_rc_from_this: who gets a pointer to itself, when, and who does not.

#include "pooled/rc_from_this.hpp"

#include "pooled/pooled.hpp"

#include "support/handle_kinds.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <concepts>
#include <memory>
#include <utility>

namespace {

struct session : pooled::enable_rc_from_this<session> {
    explicit session(test::life_log& log) : life(log) {}
    test::counted<> life;
    int value = 7;
};

class rc_from_this : public test::handles_test<test::counted_among_threads> {};

TEST_F(rc_from_this, gives_one_more_owner) {
    auto p = pool.make_rc<session>(log);
    pooled::rc_ptr<session> const again = p->rc_from_this();
    EXPECT_EQ(again, p);
    EXPECT_EQ(p.use_count(), 2);
    p.reset();
    EXPECT_EQ(log.alive(), 1);
    EXPECT_EQ(again->value, 7);
}

TEST_F(rc_from_this, gives_a_pointer_to_const_from_a_const_object) {
    pooled::rc_ptr<session const> const p = pool.make_rc<session const>(log);
    static_assert(std::same_as<decltype(p->rc_from_this()), pooled::rc_ptr<session const>>);
    static_assert(std::same_as<decltype(p->weak_rc_from_this()), pooled::weak_rc_ptr<session const>>);
    EXPECT_EQ(p->rc_from_this(), p);
    EXPECT_EQ(p->weak_rc_from_this().lock(), p);
}

TEST_F(rc_from_this, works_for_objects_counted_on_one_thread) {
    auto const p = pool.make_local_rc<session>(log);
    pooled::local_rc_ptr<session> const again = p->local_rc_from_this();
    EXPECT_EQ(again, p);
    EXPECT_EQ(p.use_count(), 2);
    pooled::local_rc_ptr<session const> const as_const = std::as_const(*p).local_rc_from_this();
    EXPECT_EQ(p.use_count(), 3);
}

TEST_F(rc_from_this, throws_when_nobody_owns_the_object_by_counting) {
    session on_the_stack(log);
    EXPECT_THROW(static_cast<void>(on_the_stack.rc_from_this()), std::bad_weak_ptr);
    EXPECT_TRUE(on_the_stack.weak_rc_from_this().expired());
    auto const shared = pool.make_shared<session>(log);
    EXPECT_THROW(static_cast<void>(shared->rc_from_this()), std::bad_weak_ptr);
    auto const unique = pool.make_unique<session>(log);
    EXPECT_THROW(static_cast<void>(unique->rc_from_this()), std::bad_weak_ptr);
    EXPECT_THROW(static_cast<void>(unique->local_rc_from_this()), std::bad_weak_ptr);
    EXPECT_TRUE(unique->weak_rc_from_this().expired());
}

TEST_F(rc_from_this, works_once_a_unique_ptr_has_become_counted) {
    auto unique = pool.make_unique<session>(log);
    auto* const raw = unique.get();
    pooled::rc_ptr<session> const p = std::move(unique);
    EXPECT_EQ(raw->rc_from_this(), p);
}

struct asks_early_and_late : pooled::enable_rc_from_this<asks_early_and_late> {
    explicit asks_early_and_late(int& answers) : refused(&answers) { ask(); }
    ~asks_early_and_late() { ask(); }
    void ask() {
        if (weak_rc_from_this().expired()) ++*refused;
        try {
            static_cast<void>(rc_from_this());
        } catch (std::bad_weak_ptr const&) {
            ++*refused;
        }
    }
    int* refused;
};

TEST_F(rc_from_this, throws_in_the_constructor_and_in_the_destructor) {
    int refused = 0;
    auto p = pool.make_rc<asks_early_and_late>(refused);
    EXPECT_EQ(refused, 2);
    p->ask();
    EXPECT_EQ(refused, 2);
    p.reset();
    EXPECT_EQ(refused, 4) << "by the last of owners, unobserved";

    refused = 0;
    p = pool.make_rc<asks_early_and_late>(refused);
    pooled::weak_rc_ptr<asks_early_and_late> const w = p;
    p.reset();
    EXPECT_EQ(refused, 4) << "observed";

    refused = 0;
    pool.make_unique<asks_early_and_late>(refused).reset();
    EXPECT_EQ(refused, 4) << "by a unique_ptr";

    refused = 0;
    pool.make_local_rc<asks_early_and_late>(refused).reset();
    EXPECT_EQ(refused, 4) << "by a local_rc_ptr";
}

TEST_F(rc_from_this, is_not_copied_with_the_object) {
    struct copyable : pooled::enable_rc_from_this<copyable> {
        int value = 1;
    };
    auto const p = pool.make_rc<copyable>();
    copyable on_the_stack = *p;
    EXPECT_THROW(static_cast<void>(on_the_stack.rc_from_this()), std::bad_weak_ptr);
    auto const q = pool.make_rc<copyable>(*p);
    EXPECT_EQ(q->rc_from_this(), q);
    *p = *q;
    EXPECT_EQ(p->rc_from_this(), p);
    on_the_stack = *p;
    EXPECT_THROW(static_cast<void>(on_the_stack.rc_from_this()), std::bad_weak_ptr);
}

struct front_matter {
    virtual ~front_matter() = default;
    int front = 1;
};
struct derived_session : front_matter, session {
    using session::session;
};

TEST_F(rc_from_this, is_inherited_and_gives_the_base_that_asked_for_it) {
    auto const p = pool.make_rc<derived_session>(log);
    pooled::rc_ptr<session> const base = p->rc_from_this();
    EXPECT_EQ(base->value, 7);
    EXPECT_EQ(static_pointer_cast<derived_session>(base), p);
    pooled::rc_ptr<front_matter> const front = p;
    EXPECT_EQ(dynamic_cast<session&>(*front).rc_from_this(), base);
}

TEST_F(rc_from_this, works_in_a_virtual_base) {
    struct root : pooled::enable_rc_from_this<root> {
        virtual ~root() = default;
        int value = 3;
    };
    struct l : virtual root {};
    struct r : virtual root {};
    struct both : l, r {};
    auto const p = pool.make_rc<both>();
    pooled::rc_ptr<root> const base = p->rc_from_this();
    EXPECT_EQ(base->value, 3);
    EXPECT_EQ(dynamic_pointer_cast<both>(base), p);
}

TEST_F(rc_from_this, costs_eight_bytes_in_the_object) {
    struct without {
        double value;
    };
    struct with : pooled::enable_rc_from_this<with> {
        double value;
    };
    static_assert(sizeof(with) == sizeof(without) + 8);
}

}  // namespace
