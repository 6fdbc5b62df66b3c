// A pattern of your own, for `poolbench try --pattern THIS_FILE`. Change the type, the set-up, and what run() does.
#pragma once

#include <poolbench/pattern.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

// The objects: your own, with `#include "my_type.hpp"` and --flags '-I...'.
struct message {
    explicit message(std::uint64_t n) : number(n) {}
    std::uint64_t number;
    char text[200];
};

// Here: a queue of 1,000 messages; each operation appends one and drops the oldest. Where your code copies pointers, write
// poolbench::shared_source: then the pointers that cannot be copied are left out.
template <poolbench::source Source>
class pattern {
public:
    static constexpr const char* k_operation = "one message appended, one dropped";

    // Not timed.
    explicit pattern(Source& source) : m_source(source) {
        for (std::uint64_t i = 0; i < 1000; ++i)
            m_queue.push_back(m_source.template make<message>(i));
    }

    // Timed. A first call, with a tenth of the operations, is not.
    void run(std::uint64_t operations) {
        for (std::uint64_t i = 0; i < operations; ++i) {
            auto fresh = m_source.template make<message>(i);
            poolbench::keep_alive(&*fresh);
            m_queue.push_back(std::move(fresh));
            m_queue.pop_front();
        }
    }

private:
    Source& m_source;
    std::deque<typename Source::template pointer<message>> m_queue;
};
