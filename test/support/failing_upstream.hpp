// SPDX-License-Identifier: BSL-1.0
#pragma once

// An upstream that throws at its n-th allocation and passes everything else on. For "whatever fails, nothing is lost":
//
//   for (std::size_t n = 1;; ++n) {
//       test::counting_upstream books;
//       test::failing_upstream upstream(books, n);
//       ... a scenario; what it throws is caught, and the pool is checked ...
//       if (!upstream.has_failed()) break;
//   }

#include <atomic>
#include <cstddef>
#include <memory_resource>
#include <new>

namespace test {

// What is thrown: a separate type, so that a test recognises it.
class injected_failure : public std::bad_alloc {
public:
    [[nodiscard]] char const* what() const noexcept override { return "injected failure"; }
};

class failing_upstream : public std::pmr::memory_resource {
public:
    // Counted from 1; 0 never fails.
    explicit failing_upstream(std::pmr::memory_resource& next, std::size_t fail_at = 0) noexcept
        : m_next(next), m_fail_at(fail_at) {}

    [[nodiscard]] std::size_t calls() const noexcept { return m_calls; }
    [[nodiscard]] bool has_failed() const noexcept { return m_failures != 0; }
    void fail_at_next_call() noexcept { m_fail_at = m_calls + 1; }
    // Every call fails from the n-th on; 0: none.
    void fail_from(std::size_t n) noexcept { m_fail_from = n; }
    // Every call fails until fail_always(false).
    void fail_always(bool always) noexcept { m_always = always; }

private:
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        std::size_t const call = ++m_calls;
        if (call == m_fail_at || (m_fail_from != 0 && call >= m_fail_from) || m_always) {
            ++m_failures;
            throw injected_failure();
        }
        return m_next.allocate(bytes, align);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        m_next.deallocate(p, bytes, align);
    }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

    std::pmr::memory_resource& m_next;
    std::atomic<std::size_t> m_calls{0};
    std::atomic<std::size_t> m_failures{0};
    std::atomic<std::size_t> m_fail_at;
    std::atomic<std::size_t> m_fail_from{0};
    std::atomic<bool> m_always{false};
};

}  // namespace test
