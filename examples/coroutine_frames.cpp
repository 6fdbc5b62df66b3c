// SPDX-License-Identifier: BSL-1.0
// Coroutine frames from a pool. A promise type with its own operator new decides where the frames of its coroutines are
// allocated. One pool serves frames of any size; a coroutine that ends on another thread frees its frame there.
//
//   coroutine_frames [--number 22] [--malloc]

#include <pooled/pooled.hpp>

#include "arguments.hpp"

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

namespace {

struct pooled_frames {
    static void* allocate(std::size_t bytes) { return pooled::default_pool().allocate(bytes); }
    static void deallocate(void* frame, std::size_t bytes) noexcept {
        pooled::default_pool().deallocate(frame, bytes);
    }
};
struct malloc_frames {
    static void* allocate(std::size_t bytes) { return ::operator new(bytes); }
    static void deallocate(void* frame, std::size_t bytes) noexcept { ::operator delete(frame, bytes); }
};

// A lazily started coroutine that is awaited once.
template <class T, class Frames = pooled_frames>
class [[nodiscard]] task {
public:
    class promise_type {
    public:
        static void* operator new(std::size_t bytes) { return Frames::allocate(bytes); }
        static void operator delete(void* frame, std::size_t bytes) noexcept {
            Frames::deallocate(frame, bytes);
        }

        task get_return_object() noexcept { return task(handle::from_promise(*this)); }
        std::suspend_always initial_suspend() noexcept { return {}; }
        auto final_suspend() noexcept { return resume_caller{}; }
        void return_value(T value) noexcept { m_value = std::move(value); }
        void unhandled_exception() noexcept { m_exception = std::current_exception(); }

    private:
        friend task;

        T m_value{};
        std::exception_ptr m_exception;
        std::coroutine_handle<> m_caller = std::noop_coroutine();
    };

    task(task&& other) noexcept : m_coroutine(std::exchange(other.m_coroutine, nullptr)) {}
    task& operator=(task&&) = delete;
    ~task() {
        if (m_coroutine) m_coroutine.destroy();
    }

    // co_await: runs the task, then its caller.
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
        m_coroutine.promise().m_caller = caller;
        return m_coroutine;
    }
    T await_resume() { return result(); }

    // From outside of coroutines.
    T run() {
        m_coroutine.resume();
        return result();
    }

private:
    using handle = std::coroutine_handle<promise_type>;

    struct resume_caller {
        bool await_ready() const noexcept { return false; }
        std::coroutine_handle<> await_suspend(handle finished) const noexcept {
            return finished.promise().m_caller;
        }
        void await_resume() const noexcept {}
    };

    explicit task(handle coroutine) noexcept : m_coroutine(coroutine) {}
    T result() {
        if (m_coroutine.promise().m_exception) std::rethrow_exception(m_coroutine.promise().m_exception);
        return std::move(m_coroutine.promise().m_value);
    }

    handle m_coroutine;
};

template <class Frames>
task<std::uint64_t, Frames> fibonacci(unsigned n) {
    if (n < 2) co_return n;
    std::uint64_t const a = co_await fibonacci<Frames>(n - 1);
    co_return a + co_await fibonacci<Frames>(n - 2);
}

}  // namespace

int main(int argc, char** argv) {
    example::arguments words(argc, argv, "coroutine_frames [--pool | --malloc] [--number N]");
    bool const is_malloc = words.is_malloc();
    auto const n = static_cast<unsigned>(words.number("--number", 22));
    words.end();

    auto const start = std::chrono::steady_clock::now();
    std::uint64_t const result =
        is_malloc ? fibonacci<malloc_frames>(n).run() : fibonacci<pooled_frames>(n).run();
    std::chrono::duration<double> const time = std::chrono::steady_clock::now() - start;

    std::uint64_t expected = 0;
    for (std::uint64_t i = 0, next = 1; i < n; ++i)
        expected = std::exchange(next, expected + next);
    std::printf("fibonacci(%u) = %llu\n", n, static_cast<unsigned long long>(result));
    std::printf("%s: seconds %.4f\n", is_malloc ? "malloc" : "pool", time.count());
    return result == expected && pooled::default_pool().stats().in_use == 0 ? 0 : 1;
}
