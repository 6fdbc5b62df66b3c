// SPDX-License-Identifier: BSL-1.0
// A std::function whose code lies behind two pages of other code.
#include "recorded_new.hpp"

#include <functional>
#include <memory>

asm(".text\n.skip 8192, 0x90");

int main() {
    long a = 1, b = 2, c = 3;
    auto const held = std::make_unique<std::function<void()>>([a, b, c] { std::printf("%ld\n", a + b + c); });
    say("functor", g_blocks[1].begin);
    say_ready();
}
