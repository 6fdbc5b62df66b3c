// SPDX-License-Identifier: BSL-1.0
// An executable that exports its state opens two plugins with RTLD_GLOBAL. The first is linked with -Bsymbolic, so its functions use a
// state of their own, and the second one binds to these functions, but to the executable's state: a message says so.
//
//   usage: symbolic <plugin with -Bsymbolic> <other plugin>

#include "pooled/pooled.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

int main(int, char** argv) {
    // ctest fails a test that a signal ends, whatever it prints.
    static_cast<void>(std::signal(SIGABRT, [](int) { std::_Exit(1); }));
    static_cast<void>(pooled::make_shared<long>(1));
    void* plugin = nullptr;
    for (int i = 1; i <= 2; ++i) {
        plugin = dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL);
        if (plugin == nullptr) return std::puts(dlerror()), 1;
    }
    reinterpret_cast<void (*)(pooled::pool&)>(dlsym(plugin, "use_own_pool"))(pooled::default_pool());
    std::puts("nothing was reported");
}
