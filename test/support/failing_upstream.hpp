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
#include <functional>
#include <memory_resource>
#include <new>
#include <utility>

namespace test {

// What is thrown: a separate type, so that a test recognises it.
class injected_failure : public std::bad_alloc {
public:
    [[nodiscard]] char const* what() const noexcept override { return "injected failure"; }
};

// Calls a function with the size ahead of each allocation, and one ahead of each deallocation, and passes the call on.
class hooked_upstream : public std::pmr::memory_resource {
public:
    using hook = std::function<void(std::size_t bytes)>;

    hooked_upstream(
        std::pmr::memory_resource& next, hook on_allocate, hook on_deallocate = [](std::size_t) {})
        : m_next(next), m_on_allocate(std::move(on_allocate)), m_on_deallocate(std::move(on_deallocate)) {}

private:
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        m_on_allocate(bytes);
        return m_next.allocate(bytes, align);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        m_on_deallocate(bytes);
        m_next.deallocate(p, bytes, align);
    }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

    std::pmr::memory_resource& m_next;
    hook m_on_allocate;
    hook m_on_deallocate;
};

class failing_upstream : public hooked_upstream {
public:
    // Counted from 1; 0 never fails.
    explicit failing_upstream(std::pmr::memory_resource& next, std::size_t fail_at = 0)
        : hooked_upstream(next, [this](std::size_t) { count(); }), m_fail_at(fail_at) {}

    [[nodiscard]] std::size_t calls() const noexcept { return m_calls; }
    [[nodiscard]] bool has_failed() const noexcept { return m_failures != 0; }
    void fail_at_next_call() noexcept { m_fail_at = m_calls + 1; }
    // Every call fails from the n-th on; 0: none.
    void fail_from(std::size_t n) noexcept { m_fail_from = n; }
    // Every call fails until fail_always(false).
    void fail_always(bool always) noexcept { m_always = always; }

private:
    void count() {
        std::size_t const call = ++m_calls;
        if (call == m_fail_at || (m_fail_from != 0 && call >= m_fail_from) || m_always) {
            ++m_failures;
            throw injected_failure();
        }
    }

    std::atomic<std::size_t> m_calls{0};
    std::atomic<std::size_t> m_failures{0};
    std::atomic<std::size_t> m_fail_at;
    std::atomic<std::size_t> m_fail_from{0};
    std::atomic<bool> m_always{false};
};

// Grants requests up to a size, as fragmented memory does.
class frugal_upstream : public hooked_upstream {
public:
    frugal_upstream(std::pmr::memory_resource& next, std::size_t most)
        : hooked_upstream(next,
                          [this](std::size_t bytes) {
                              if (bytes > m_most) throw injected_failure();
                          }),
          m_most(most) {}
    void set_most(std::size_t most) { m_most = most; }

private:
    std::size_t m_most;
};

}  // namespace test
