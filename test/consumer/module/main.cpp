// SPDX-License-Identifier: BSL-1.0
// The library by `import pooled;`, with the standard library by its headers.
#include <iostream>
#include <list>
#include <memory>
#include <thread>
#include <vector>

import pooled;

struct base {
    virtual ~base() = default;
};
struct node : base {
    int value = 7;
};

int main() {
    std::shared_ptr<int> answer = pooled::make_shared<int>(42);
    int seen = 0;
    std::thread([&seen, answer] { seen = *answer; }).join();

    pooled::pool packets{{.name = "packets", .max_bytes = 1 << 30}};
    packets.reserve<node>(100);
    pooled::rc_ptr<node> counted = packets.make_rc<node>();
    pooled::rc_ptr<base> seen_as_base = counted;
    std::list<int, pooled::pool_allocator<int>> numbers{packets};
    numbers.push_back(1);

    pooled::object_pool<std::vector<char>, pooled::clear_on_release> buffers{{.max_objects = 2}};
    auto buffer = buffers.acquire();
    {
        pooled::reclaim_scope together;
        answer.reset();
    }
    std::cout << packets.stats() << '\n';
    bool const is_right =
        seen == 42 && seen_as_base == counted && counted->value == 7 && packets.owns(&numbers.front());
    return is_right && pooled::version_major == 0 ? 0 : 1;
}
