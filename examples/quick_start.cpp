// SPDX-License-Identifier: BSL-1.0
// README's example, as a program.
#include <pooled/pooled.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <utility>
#include <vector>

struct Packet {
    std::uint32_t source = 0;
    std::byte data[1500];
};

int main() {
    std::shared_ptr<Packet> a = pooled::make_shared<Packet>();     // from the process-wide pool
    pooled::unique_ptr<Packet> b = pooled::make_unique<Packet>();  // one pointer wide
    static_assert(sizeof(b) == sizeof(void*));

    pooled::pool packets{{.name = "packets", .max_bytes = 1u << 30}};  // a separate pool
    packets.reserve<Packet>(10'000);  // from here on neither malloc nor a system call

    std::shared_ptr<Packet> c = packets.make_shared<Packet>();
    c->source = 7;

    std::map<int, int, std::less<>, pooled::pool_allocator<std::pair<const int, int>>> index{packets};
    index[80] = 1;
    std::pmr::vector<int> ports{packets.resource()};
    ports.push_back(80);

    bool const right = packets.owns(c.get()) && !packets.owns(a.get()) && index.at(ports.front()) == 1;
    std::printf("%s: %zu blocks in use\n", packets.stats().name.c_str(),
                static_cast<std::size_t>(packets.stats().in_use));
    return right ? 0 : 1;
}
