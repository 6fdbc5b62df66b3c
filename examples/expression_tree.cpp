// SPDX-License-Identifier: BSL-1.0
// Expression trees: parsed, differentiated, simplified and evaluated. Nodes of several classes are owned by
// pooled::unique_ptr to their base, which is one pointer wide. A tree that is a million nodes deep is dropped without
// overflowing the stack.
//
//   expression_tree [--trees 5000] [--malloc]

#include <pooled/pooled.hpp>

#include "arguments.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace {

struct from_pools {
    template <class T>
    using pointer = pooled::unique_ptr<T>;
    template <class T, class... Args>
    static pointer<T> make(Args&&... args) {
        return pooled::make_unique<T>(std::forward<Args>(args)...);
    }
};
struct from_malloc {
    template <class T>
    using pointer = std::unique_ptr<T>;
    template <class T, class... Args>
    static pointer<T> make(Args&&... args) {
        return std::make_unique<T>(std::forward<Args>(args)...);
    }
};

// Sums and products of numbers and x.
template <class Memory>
struct expressions {
    struct node;
    using node_ptr = typename Memory::template pointer<node>;

    struct node {
        virtual ~node() = default;
        [[nodiscard]] virtual double value(double x) const = 0;
        [[nodiscard]] virtual node_ptr derivative() const = 0;
        [[nodiscard]] virtual node_ptr copy() const = 0;
        [[nodiscard]] virtual double const* constant() const { return nullptr; }
    };

    struct number final : node {
        explicit number(double n) : m_number(n) {}
        [[nodiscard]] double value(double) const override { return m_number; }
        [[nodiscard]] node_ptr derivative() const override { return Memory::template make<number>(0.0); }
        [[nodiscard]] node_ptr copy() const override { return Memory::template make<number>(m_number); }
        [[nodiscard]] double const* constant() const override { return &m_number; }

    private:
        double m_number;
    };

    struct variable final : node {
        [[nodiscard]] double value(double x) const override { return x; }
        [[nodiscard]] node_ptr derivative() const override { return Memory::template make<number>(1.0); }
        [[nodiscard]] node_ptr copy() const override { return Memory::template make<variable>(); }
    };

    struct sum final : node {
        sum(node_ptr left, node_ptr right) : m_left(std::move(left)), m_right(std::move(right)) {}
        [[nodiscard]] double value(double x) const override { return m_left->value(x) + m_right->value(x); }
        [[nodiscard]] node_ptr derivative() const override {
            return add(m_left->derivative(), m_right->derivative());
        }
        [[nodiscard]] node_ptr copy() const override { return add(m_left->copy(), m_right->copy()); }

    private:
        node_ptr m_left;
        node_ptr m_right;
    };

    struct product final : node {
        product(node_ptr left, node_ptr right) : m_left(std::move(left)), m_right(std::move(right)) {}
        [[nodiscard]] double value(double x) const override { return m_left->value(x) * m_right->value(x); }
        [[nodiscard]] node_ptr derivative() const override {
            return add(multiply(m_left->derivative(), m_right->copy()),
                       multiply(m_left->copy(), m_right->derivative()));
        }
        [[nodiscard]] node_ptr copy() const override { return multiply(m_left->copy(), m_right->copy()); }

    private:
        node_ptr m_left;
        node_ptr m_right;
    };

    // Simplified: constants are folded, 0 and 1 disappear.
    static node_ptr add(node_ptr left, node_ptr right) {
        double const* const l = left->constant();
        double const* const r = right->constant();
        if (l && r) return Memory::template make<number>(*l + *r);
        if (l && *l == 0) return right;
        if (r && *r == 0) return left;
        return Memory::template make<sum>(std::move(left), std::move(right));
    }
    static node_ptr multiply(node_ptr left, node_ptr right) {
        double const* const l = left->constant();
        double const* const r = right->constant();
        if (l && r) return Memory::template make<number>(*l * *r);
        if ((l && *l == 0) || (r && *r == 1)) return left;
        if ((r && *r == 0) || (l && *l == 1)) return right;
        return Memory::template make<product>(std::move(left), std::move(right));
    }

    // sum = product {"+" product}; product = factor {"*" factor}; factor = digit | "x" | "(" sum ")"
    class parser {
    public:
        explicit parser(std::string_view text) : m_text(text) {}
        node_ptr parse() {
            node_ptr whole = parse_sum();
            if (!m_text.empty()) throw std::invalid_argument("unexpected character in an expression");
            return whole;
        }

    private:
        node_ptr parse_sum() {
            node_ptr left = parse_product();
            while (take('+'))
                left = add(std::move(left), parse_product());
            return left;
        }
        node_ptr parse_product() {
            node_ptr left = parse_factor();
            while (take('*'))
                left = multiply(std::move(left), parse_factor());
            return left;
        }
        node_ptr parse_factor() {
            if (take('x')) return Memory::template make<variable>();
            if (take('(')) {
                node_ptr inner = parse_sum();
                if (!take(')')) throw std::invalid_argument("a parenthesis is not closed");
                return inner;
            }
            if (m_text.empty() || m_text.front() < '0' || m_text.front() > '9')
                throw std::invalid_argument("a number, x or a parenthesis is expected");
            double const digit = m_text.front() - '0';
            m_text.remove_prefix(1);
            return Memory::template make<number>(digit);
        }
        bool take(char c) {
            if (m_text.empty() || m_text.front() != c) return false;
            m_text.remove_prefix(1);
            return true;
        }

        std::string_view m_text;
    };
};

template <class Memory>
bool run(std::size_t trees, char const* name) {
    using all = expressions<Memory>;
    auto const start = std::chrono::steady_clock::now();
    bool is_right = true;
    for (std::size_t i = 0; i < trees; ++i) {
        auto const f = typename all::parser("(x+1)*(x+2)*(x+3)+2*x*x+(3+4)*x").parse();
        auto const second = f->derivative()->derivative();
        // f = x^3 + 8 x^2 + 18 x + 6
        is_right = f->value(2) == 82 && second->value(2) == 6 * 2 + 16 && is_right;
    }
    std::chrono::duration<double> const time = std::chrono::steady_clock::now() - start;
    std::printf("%zu trees, parsed and differentiated twice\n", trees);
    std::printf("%s: seconds %.4f\n", name, time.count());
    return is_right;
}

}  // namespace

int main(int argc, char** argv) {
    example::arguments words(argc, argv, "expression_tree [--pool | --malloc] [--trees N]");
    bool const is_malloc = words.is_malloc();
    std::size_t const trees = words.number("--trees", 5'000);
    words.end();
    if (is_malloc) return run<from_malloc>(trees, "malloc") ? 0 : 1;

    // x + x + x ...: with std::unique_ptr the drop of this tree overflows the stack.
    using all = expressions<from_pools>;
    all::node_ptr deep = from_pools::make<all::variable>();
    for (int i = 0; i < 1'000'000; ++i)
        deep = from_pools::make<all::sum>(std::move(deep), from_pools::make<all::variable>());
    deep.reset();
    return run<from_pools>(trees, "pool") ? 0 : 1;
}
