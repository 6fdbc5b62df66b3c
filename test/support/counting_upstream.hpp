// SPDX-License-Identifier: BSL-1.0
#pragma once

// An upstream that records what is in use, the most that ever was, and how often it was called. Each deallocation is
// compared with its allocation. A wrong size, a wrong alignment or an unknown address is counted in errors(), and
// reported in the test's log. Any thread may call.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <mutex>
#include <new>

namespace test {

class counting_upstream : public std::pmr::memory_resource {
public:
    counting_upstream() = default;
    counting_upstream(counting_upstream const&) = delete;
    counting_upstream& operator=(counting_upstream const&) = delete;
    ~counting_upstream() override {
        EXPECT_EQ(m_out.size(), 0U) << "memory was not given back to its upstream";
        for (auto const& [p, out] : m_out)
            ::operator delete(p, std::align_val_t{out.align});
    }

    [[nodiscard]] std::size_t bytes() const { return locked(m_bytes); }
    [[nodiscard]] std::size_t most_bytes() const { return locked(m_most_bytes); }
    [[nodiscard]] std::size_t allocations() const { return locked(m_allocations); }
    [[nodiscard]] std::size_t errors() const { return locked(m_errors); }
    [[nodiscard]] std::size_t blocks() const {
        std::scoped_lock const lock(m_mutex);
        return m_out.size();
    }
    // Whether `p` points into memory that is in use.
    [[nodiscard]] bool contains(void const* p) const {
        std::scoped_lock const lock(m_mutex);
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        return std::ranges::any_of(m_out, [&](auto const& out) {
            return address - reinterpret_cast<std::uintptr_t>(out.first) < out.second.bytes;
        });
    }

private:
    struct shape {
        std::size_t bytes;
        std::size_t align;
    };

    void* do_allocate(std::size_t bytes, std::size_t align) override {
        std::scoped_lock const lock(m_mutex);
        ++m_allocations;
        if (!std::has_single_bit(align)) report("asked for an alignment that is not a power of two");
        void* const p = ::operator new(bytes, std::align_val_t{align});
        m_out.emplace(p, shape{bytes, align});
        m_bytes += bytes;
        m_most_bytes = std::max(m_most_bytes, m_bytes);
        return p;
    }

    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        std::scoped_lock const lock(m_mutex);
        auto const found = m_out.find(p);
        if (found == m_out.end()) return report("given back an address that is not out");
        if (found->second.bytes != bytes) report("given back with another size");
        if (found->second.align != align) report("given back with another alignment");
        m_bytes -= found->second.bytes;
        ::operator delete(p, std::align_val_t{found->second.align});
        m_out.erase(found);
    }

    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

    void report(char const* what) {
        ++m_errors;
        ADD_FAILURE() << "upstream: " << what;
    }

    [[nodiscard]] std::size_t locked(std::size_t const& value) const {
        std::scoped_lock const lock(m_mutex);
        return value;
    }

    mutable std::mutex m_mutex;
    std::map<void*, shape> m_out;
    std::size_t m_bytes = 0;
    std::size_t m_most_bytes = 0;
    std::size_t m_allocations = 0;
    std::size_t m_errors = 0;
};

}  // namespace test
