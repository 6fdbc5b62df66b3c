// SPDX-License-Identifier: BSL-1.0
// A program that replaces operator delete alone, with and without an alignment: the preloaded forms that are told a size call these,
// as the standard says, and the preloaded new serves them.
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <new>

namespace {
int g_plain = 0;
int g_aligned = 0;
}  // namespace

void operator delete(void* p) noexcept {
    ++g_plain;
    std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
    ++g_aligned;
    std::free(p);
}

int main() {
    constexpr auto k_line = std::align_val_t{64};
    int const plain = g_plain;
    int const aligned = g_aligned;
    int rounds = 0;
    auto const work = [&] {
        for (std::size_t bytes : {1U, 50U, 3'000U, 100'000U}) {
            ++rounds;
            ::operator delete(::operator new(bytes), bytes);
            ::operator delete[](::operator new[](bytes), bytes);
            ::operator delete[](::operator new[](bytes));
            ::operator delete(::operator new(bytes, k_line), bytes, k_line);
            ::operator delete[](::operator new[](bytes, k_line), bytes, k_line);
            ::operator delete[](::operator new[](bytes, k_line), k_line);
        }
    };
    for (int i = 0; i < 100; ++i)
        work();
    return g_plain - plain == 3 * rounds && g_aligned - aligned == 3 * rounds ? 0 : 1;
}
