// SPDX-License-Identifier: BSL-1.0
#pragma once

// A type that counts its lives and can throw in its n-th constructor. Counts belong to a `life_log`, so tests do not share
// them; the log must outlive the objects. Any thread may construct and destroy.
//
//   test::life_log log;
//   log.throw_at(3);
//   pool.make_shared<test::counted<>>(log);
//   EXPECT_EQ(log.alive(), 0);

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace test {

class constructor_failed : public std::runtime_error {
public:
    constructor_failed() : std::runtime_error("the constructor was told to throw") {}
};

class life_log {
public:
    life_log() = default;
    life_log(life_log const&) = delete;
    life_log& operator=(life_log const&) = delete;

    [[nodiscard]] std::int64_t alive() const noexcept { return m_constructed - m_destroyed; }
    [[nodiscard]] std::int64_t constructed() const noexcept { return m_constructed; }
    [[nodiscard]] std::int64_t destroyed() const noexcept { return m_destroyed; }

    // The n-th construction from now on throws; counted from 1, 0 never.
    void throw_at(std::int64_t n) noexcept {
        m_attempts = 0;
        m_throw_at = n;
    }

    void on_construct() {
        if (++m_attempts == m_throw_at) throw constructor_failed();
        ++m_constructed;
    }
    void on_destroy() noexcept { ++m_destroyed; }

    // For types that are constructed without arguments.
    [[nodiscard]] static life_log*& current() noexcept {
        static thread_local life_log* log = nullptr;
        return log;
    }
    // Makes `log` the current one of this thread for a scope.
    class scope {
    public:
        explicit scope(life_log& log) noexcept : m_before(current()) { current() = &log; }
        ~scope() { current() = m_before; }
        scope(scope const&) = delete;
        scope& operator=(scope const&) = delete;

    private:
        life_log* m_before;
    };

private:
    std::atomic<std::int64_t> m_constructed{0};
    std::atomic<std::int64_t> m_destroyed{0};
    std::atomic<std::int64_t> m_attempts{0};
    std::atomic<std::int64_t> m_throw_at{0};
};

// `Bytes` of payload besides the log's address, at `Align`.
template <std::size_t Bytes = 8, std::size_t Align = alignof(void*)>
class alignas(Align) counted {
public:
    counted() : counted(*life_log::current()) {}
    explicit counted(life_log& log) : m_log(&log) { log.on_construct(); }
    counted(counted const& other) : counted(*other.m_log) {}
    counted& operator=(counted const&) noexcept { return *this; }
    virtual ~counted() { m_log->on_destroy(); }

private:
    life_log* m_log;
    [[maybe_unused]] unsigned char m_payload[Bytes];  // never written
};

}  // namespace test
