// SPDX-License-Identifier: BSL-1.0
// A thread that nothing stops: it waits in the kernel for a child of vfork, which makes the file of the second argument, and ends when
// there is that of the first one.
#include <thread>

#include <fcntl.h>
#include <unistd.h>

int main(int, char** arguments) {
    std::thread([&] {
        if (::vfork() != 0) return;
        ::close(::creat(arguments[2], 0600));
        while (::access(arguments[1], F_OK) != 0)
            ::usleep(1000);
        ::_exit(0);
    }).join();
    return 7;
}
