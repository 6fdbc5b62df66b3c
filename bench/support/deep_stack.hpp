// SPDX-License-Identifier: BSL-1.0
// A thread whose stack is deep enough for destructors that recurse ten million times.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <type_traits>

#include <pthread.h>

namespace bench {

// 100 to 200 bytes a level are usual, and more where a compiler inlined one level into the next. Pages that nobody
// touches cost nothing.
inline constexpr std::size_t k_deep_stack_bytes = std::size_t{8} << 30;

// Runs `function` there and waits for it. Throws std::runtime_error when the system refuses such a stack.
template <class Function>
void on_deep_stack(Function&& function) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_t thread{};
    const bool started = pthread_attr_setstacksize(&attributes, k_deep_stack_bytes) == 0 &&
                         pthread_create(
                             &thread, &attributes,
                             [](void* f) -> void* {
                                 (*static_cast<std::remove_reference_t<Function>*>(f))();
                                 return nullptr;
                             },
                             &function) == 0;
    pthread_attr_destroy(&attributes);
    if (!started) throw std::runtime_error("a thread with a stack of 8 GiB was refused; raise `ulimit -v`");
    pthread_join(thread, nullptr);
}

}  // namespace bench
