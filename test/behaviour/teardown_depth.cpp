// SPDX-License-Identifier: BSL-1.0
// Structures far deeper than the stack of the thread that drops them: 256 KiB, where recursion ends after some thousand
// nodes. POOLED_TEST_DEPTH says how deep; 10,000,000 is run by hand.

#include "pooled/pooled.hpp"

#include "support/small_stack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <variant>
#include <vector>

namespace {

// Each test drops on one thread, so a plain counter will do.
std::size_t g_alive = 0;

struct lives {
    lives() noexcept { ++g_alive; }
    lives(lives const&) = delete;
    lives& operator=(lives const&) = delete;
    ~lives() { --g_alive; }
};

class teardown_depth : public testing::Test {
protected:
    teardown_depth() { g_alive = 0; }
    ~teardown_depth() override { EXPECT_EQ(g_alive, 0U); }

    // Drops it on the small stack; everything must be gone when the drop returns.
    template <class Pointer>
    static void expect_gone(Pointer& head, pooled::local_pool* local = nullptr) {
        EXPECT_NE(g_alive, 0U);
        test::on_small_stack([&] {
            // The checked build assumes that the pool belongs to the thread that allocated last.
            if (local != nullptr) local->deallocate(local->allocate(8), 8);
            head.reset();
            EXPECT_EQ(g_alive, 0U);
        });
    }
};

template <class Node, class Make>
auto list_of(std::size_t count, Make make) {
    decltype(make()) head;
    for (std::size_t i = 0; i < count; ++i) {
        auto node = make();
        node->next = std::move(head);
        head = std::move(node);
    }
    return head;
}

struct plain : lives {
    std::shared_ptr<plain> next;
};

TEST_F(teardown_depth, a_list_of_the_default_pool_needs_no_stack) {
    auto head = list_of<plain>(test::depth(), [] { return pooled::make_shared<plain>(); });
    expect_gone(head);
}

TEST_F(teardown_depth, a_list_of_a_local_pool_needs_no_stack) {
    pooled::local_pool pool;
    auto head = list_of<plain>(test::depth(), [&] { return pool.make_shared<plain>(); });
    expect_gone(head, &pool);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TEST_F(teardown_depth, a_list_where_every_third_node_is_observed_needs_no_stack) {
    std::vector<std::weak_ptr<plain>> observers;
    std::size_t made = 0;
    auto head = list_of<plain>(test::depth(), [&] {
        auto node = pooled::make_shared<plain>();
        if (made++ % 3 == 0) observers.push_back(node);
        return node;
    });
    expect_gone(head);
    for (auto const& observer : observers)
        EXPECT_TRUE(observer.expired());
}

struct aware : lives, std::enable_shared_from_this<aware> {
    std::shared_ptr<aware> next;
};

TEST_F(teardown_depth, a_list_of_enable_shared_from_this_needs_no_stack) {
    auto head = list_of<aware>(test::depth(), [] { return pooled::make_shared<aware>(); });
    expect_gone(head);
}

struct counted : lives {
    pooled::rc_ptr<counted> next;
};

TEST_F(teardown_depth, a_list_of_rc_ptr_needs_no_stack) {
    auto head = list_of<counted>(test::depth(), [] { return pooled::make_rc<counted>(); });
    expect_gone(head);
}

struct counted_aware : lives, pooled::enable_rc_from_this<counted_aware> {
    pooled::rc_ptr<counted_aware> next;
};

TEST_F(teardown_depth, a_list_of_enable_rc_from_this_needs_no_stack) {
    auto head = list_of<counted_aware>(test::depth(), [] { return pooled::make_rc<counted_aware>(); });
    expect_gone(head);
}

struct unique : lives {
    pooled::unique_ptr<unique> next;
};

TEST_F(teardown_depth, a_list_of_unique_ptr_needs_no_stack) {
    auto head = list_of<unique>(test::depth(), [] { return pooled::make_unique<unique>(); });
    expect_gone(head);
}

struct by_rc;
struct by_unique;
struct by_local;
struct by_standard;
struct by_shared : lives {
    pooled::rc_ptr<by_rc> next;
};
struct by_rc : lives {
    pooled::unique_ptr<by_unique> next;
};
struct by_unique : lives {
    pooled::local_rc_ptr<by_local> next;
};
struct by_local : lives {
    std::shared_ptr<by_standard> next;
};
struct by_standard : lives {
    std::shared_ptr<by_shared> next;
};

TEST_F(teardown_depth, a_list_through_every_kind_of_pointer_and_pool_needs_no_stack) {
    pooled::pool pool;
    pooled::local_pool local;
    std::shared_ptr<by_shared> head;
    for (std::size_t i = 0; i < test::depth(5); ++i) {
        auto standard = std::make_shared<by_standard>();  // recurses by itself, but never twice in a row
        standard->next = std::move(head);
        auto by_one = local.make_local_rc<by_local>();
        by_one->next = std::move(standard);
        auto alone = pool.make_unique<by_unique>();
        alone->next = std::move(by_one);
        auto many = pooled::make_rc<by_rc>();
        many->next = std::move(alone);
        head = i % 2 == 0 ? pool.make_shared<by_shared>() : local.make_shared<by_shared>();
        head->next = std::move(many);
    }
    expect_gone(head, &local);
}

struct held_oddly : lives {
    std::variant<int, std::shared_ptr<held_oddly>> in_variant;
    std::optional<std::shared_ptr<held_oddly>> in_optional;
    std::vector<std::shared_ptr<held_oddly>> in_vector;
    std::function<void()> in_function;
};

TEST_F(teardown_depth, it_does_not_matter_what_holds_the_pointer) {
    std::shared_ptr<held_oddly> head;
    for (std::size_t i = 0; i < test::depth(4); ++i) {
        auto node = pooled::make_shared<held_oddly>();
        switch (i % 4) {
        case 0:
            node->in_variant = std::move(head);
            break;
        case 1:
            node->in_optional = std::move(head);
            break;
        case 2:
            node->in_vector.push_back(std::move(head));
            break;
        default:
            node->in_function = [kept = std::move(head)] { static_cast<void>(kept); };
        }
        head = std::move(node);
    }
    expect_gone(head);
}

struct big_frame : lives {
    ~big_frame() {
        std::array<char volatile, 48U << 10> frame;
        frame[0] = 1;
        next.reset();
        frame[frame.size() - 1] = frame[0];
    }
    std::shared_ptr<big_frame> next;
};

TEST_F(teardown_depth, destructors_with_large_frames_nest_twice_at_most) {
    auto head = list_of<big_frame>(test::depth(), [] { return pooled::make_shared<big_frame>(); });
    expect_gone(head);
}

// Between two steps down each node destroys some leaves: they must not move the bound of the recursion.
char const* g_lowest = nullptr;
[[gnu::always_inline]] inline char const*
stack_pointer() {  // not a local's address: AddressSanitizer has them elsewhere
    return static_cast<char const*>(__builtin_frame_address(0));
}
struct leaf : lives {};
struct wide : lives {
    ~wide() {
        char const* const here = stack_pointer();
        if (here < g_lowest) g_lowest = here;
    }
    std::shared_ptr<wide> next;
    std::vector<std::shared_ptr<leaf>> leaves;
};

TEST_F(teardown_depth, a_list_whose_nodes_own_leaves_needs_no_stack_however_many_these_are) {
    for (std::size_t width = 1; width < (test::k_sanitized ? 300 : 100);
         width += test::k_sanitized ? 12 : 3) {
        auto head = list_of<wide>(test::k_sanitized ? 500 : 2000, [&] {
            auto node = pooled::make_shared<wide>();
            for (std::size_t i = 0; i < width; ++i)
                node->leaves.push_back(pooled::make_shared<leaf>());
            return node;
        });
        test::on_small_stack([&] {
            char const* const top = stack_pointer();
            g_lowest = top;
            head.reset();
            EXPECT_LT(top - g_lowest, static_cast<std::ptrdiff_t>(test::k_small_stack / 2 + (32U << 10)))
                << width << " leaves a node";
            EXPECT_EQ(g_alive, 0U);
        });
    }
}

struct twig : lives {
    std::shared_ptr<twig> left;
    std::shared_ptr<twig> right;
};

TEST_F(teardown_depth, a_tree_as_deep_as_a_list_needs_no_stack_on_either_side) {
    std::shared_ptr<twig> root;
    for (std::size_t i = 0; i < test::depth(3); ++i) {
        auto node = pooled::make_shared<twig>();
        (i % 2 == 0 ? node->left : node->right) = std::move(root);
        (i % 2 == 0 ? node->right : node->left) = pooled::make_shared<twig>();
        root = std::move(node);
    }
    expect_gone(root);
}

// Large, and no node near the next.
TEST_F(teardown_depth, a_large_scattered_tree_is_torn_down) {
    std::vector<std::shared_ptr<twig>> nodes;
    for (std::size_t i = 0; i < test::depth(); ++i)
        nodes.push_back(pooled::make_shared<twig>());
    std::ranges::shuffle(nodes, std::mt19937_64(1));
    for (std::size_t i = nodes.size() - 1; i != 0; --i)
        (i % 2 == 0 ? nodes[(i - 1) / 2]->left : nodes[(i - 1) / 2]->right) = std::move(nodes[i]);
    test::on_small_stack([&] {
        nodes.front().reset();
        EXPECT_EQ(g_alive, 0U);
        for (int i = 0; i < 1000; ++i) {  // and small structures again
            auto root = pooled::make_shared<twig>();
            root->left = pooled::make_shared<twig>();
            root.reset();
            EXPECT_EQ(g_alive, 0U);
        }
    });
}

// Each node is owned by two others, and is destroyed with the second.
TEST_F(teardown_depth, a_graph_with_shared_nodes_needs_no_stack) {
    std::shared_ptr<twig> last;
    std::shared_ptr<twig> before_last;
    for (std::size_t i = 0; i < test::depth(); ++i) {
        auto node = pooled::make_shared<twig>();
        node->left = last;
        node->right = std::move(before_last);
        before_last = std::move(last);
        last = std::move(node);
    }
    before_last.reset();
    expect_gone(last);
}

TEST_F(teardown_depth, deep_lists_gathered_in_a_scope_need_no_stack) {
    std::array<std::shared_ptr<plain>, 5> heads;
    for (auto& head : heads)
        head = list_of<plain>(test::depth(5), [] { return pooled::make_shared<plain>(); });
    test::on_small_stack([&] {
        {
            pooled::reclaim_scope const together;
            for (auto& head : heads)
                head.reset();
        }
        EXPECT_EQ(g_alive, 0U);
    });
}

TEST_F(teardown_depth, a_deep_list_of_an_incremental_pool_needs_no_stack) {
    pooled::pool pool{{.teardown = pooled::teardown::incremental}};
    auto head = list_of<plain>(test::depth(), [&] { return pool.make_shared<plain>(); });
    std::size_t const before = g_alive;
    test::on_small_stack([&] {
        head.reset();
        EXPECT_EQ(g_alive, before) << "the drop only takes note";
        EXPECT_EQ(pool.drain(), before);
        EXPECT_EQ(g_alive, 0U);
    });
}

TEST_F(teardown_depth, a_deep_list_by_turns_of_an_incremental_and_an_immediate_pool_needs_no_stack) {
    pooled::pool slow{{.teardown = pooled::teardown::incremental}};
    std::size_t made = 0;
    auto head = list_of<plain>(test::depth(), [&] {
        return made++ % 2 == 0 ? slow.make_shared<plain>() : pooled::make_shared<plain>();
    });
    test::on_small_stack([&] {
        head.reset();
        slow.drain();
        EXPECT_EQ(g_alive, 0U);
    });
}

TEST_F(teardown_depth, a_thread_that_ends_tears_down_what_it_put_off_without_stack) {
    pooled::pool pool{{.teardown = pooled::teardown::incremental}};
    auto head = list_of<plain>(test::depth(), [&] { return pool.make_shared<plain>(); });
    test::on_small_stack([&] { head.reset(); });
    EXPECT_EQ(g_alive, 0U);
}

}  // namespace
