// SPDX-License-Identifier: BSL-1.0
// One block of each kind that says what it is.
#include "recorded_new.hpp"

#include <coroutine>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace app {

struct connection {
    long bytes[3]{1, 2, 3};
};
template <class T>
struct box {
    T value;
};
struct shape {
    virtual ~shape() = default;
    long area = 3;
};
struct circle final : shape {
    double radius = 2;
};
struct alignas(32) wide {
    long words[4]{};
};

struct task {
    struct promise_type {
        task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
    std::coroutine_handle<promise_type> handle;
};
struct server {
    static task serve(std::shared_ptr<connection> c, int i) {
        co_await std::suspend_always{};
        std::printf("%ld\n", c->bytes[0] + i);
    }
};

}  // namespace app

namespace {
struct hidden {
    virtual ~hidden() = default;
    long word = 1;
};
}  // namespace

void close_connection(app::connection* c) { delete c; }

template <class T>
void say_control(char const* name, std::shared_ptr<T> const& p) {
    say(name, reinterpret_cast<void* const*>(&p)[1]);
}

int main() {
    using namespace app;
    auto const made = std::make_shared<connection>();
    auto const made2 = made;
    std::weak_ptr<connection> const w1 = made, w2 = made, w3 = made;
    say_control("made", made);
    auto const boxed = std::make_shared<box<std::vector<std::string>>>();
    say_control("boxed", boxed);
    auto const constant = std::make_shared<connection const>();
    say_control("constant", constant);
    std::weak_ptr<connection> const only_weak = std::make_shared<connection>();
    say("only_weak", reinterpret_cast<void* const*>(&only_weak)[1]);

    std::shared_ptr<connection> const adopted(new connection);
    say_control("adopted-control", adopted);
    say("adopted", adopted.get());
    std::shared_ptr<connection> const with_function(new connection, close_connection);
    say_control("with_function-control", with_function);
    say("with_function", with_function.get());
    long a = 1, b = 2;
    std::shared_ptr<connection> const with_lambda(new connection,
                                                  [&a, &b](connection* c) { a = b, delete c; });
    say_control("with_lambda-control", with_lambda);
    say("with_lambda", with_lambda.get());
    std::shared_ptr<shape> const adopted_shape(new circle);
    say_control("adopted_shape-control", adopted_shape);
    say("adopted_shape", adopted_shape.get());

    std::unique_ptr<shape> const unique = std::make_unique<circle>();
    say("circle", unique.get());
    auto const local = std::make_unique<hidden>();
    say("hidden", local.get());
    task const t = server::serve(made, 7);
    say("coroutine", t.handle.address());
    auto const text = std::make_unique<std::string>("a string that is too long for its own bytes");
    say("buffer", text->data());
    std::function<void()> const function = [made, a, b] { std::printf("%ld\n", made->bytes[0] + a + b); };
    auto const over_aligned = std::make_shared<wide>();
    say_control("over_aligned", over_aligned);
    auto const array = std::make_shared<connection[]>(3);
    say("array", array.get());
    auto const no_elements = std::make_shared<connection[]>(0);
    say_control("no_elements", no_elements);
    // Has the block of such an array that is gone, whose words behind the elements it does not overwrite.
    auto const after_array = std::make_unique<void*[]>(14);
#if defined(__GLIBCXX__)
    std::memcpy(&after_array[9], &array[3], 5 * sizeof(void*));
    after_array[10] = nullptr;  // the counts
    after_array[13] = after_array.get();
#endif
    say("after_array", after_array.get());
    say_ready();
}
