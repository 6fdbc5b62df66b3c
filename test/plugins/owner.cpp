// SPDX-License-Identifier: BSL-1.0
// An executable that exports its state, and uses little of the library, opens a plugin that uses more of it, and closes the plugin.
// What the plugin registered in the shared state must not lead to code or names that are no longer loaded; and the plugin must not
// run code of an executable without exceptions where it expects one. A type that both know has one number in the state that they share.
//
//   usage: owner <plugin> <function of the plugin>

#include "pooled/pooled.hpp"

#include "plugins/sharer.hpp"

#include <cstdio>
#include <cstring>
#include <iostream>

#include <dlfcn.h>

int main(int, char** argv) {
    pooled::pool pool{{.name = "bounded", .max_bytes = 1 << 20}};
    static_cast<void>(pooled::make_shared<long>(1));
    void* const plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) return std::puts(dlerror()), 1;
    void* const function = dlsym(plugin, argv[2]);
    if (std::strcmp(argv[2], "number_of_common") != 0)
        reinterpret_cast<void (*)(pooled::pool&)>(function)(pool);
    else if (reinterpret_cast<std::uint64_t (*)(pooled::pool&)>(function)(pool) !=
             plugins::number_of_common())
        return std::puts("one type has two numbers in one state"), 1;
    if (dlclose(plugin) != 0) return std::puts(dlerror()), 1;

    std::size_t count = 0;
    while (pool.try_allocate(1000) != nullptr)  // the last one asks for deferred objects
        ++count;
    if (count < 500) return std::printf("%zu blocks\n", count), 1;
    pool.live_report(std::cout);
    std::puts("passed");  // exit() asks for deferred objects, too
}
