// SPDX-License-Identifier: BSL-1.0
// The objects that test/consumer/gdb.cmake prints in gdb, at stop().
#include <pooled/pooled.hpp>

#include <map>
#include <utility>

namespace {

struct base {
    virtual ~base() = default;
    int first = 1;
};
struct other {
    virtual ~other() = default;
    int second = 2;
};
struct both : base, other {};

[[gnu::noinline]] void stop(void const*...) { asm volatile("" ::: "memory"); }

}  // namespace

int main() {
    pooled::pool packets{{.name = "packets", .max_bytes = 1U << 20}};
    pooled::local_pool local{{.name = "local"}};
    pooled::object_pool<int> numbers{{.name = "numbers", .initial_objects = 3, .max_objects = 64}};
    pooled::pool_allocator<int> allocator{packets};
    pooled::rc_ptr<int> empty;
    auto answer = packets.make_rc<int>(42);
    auto again = answer;
    pooled::weak_rc_ptr<int> observer = answer;
    pooled::rc_ptr<other> view = pooled::make_rc<both>();
    pooled::weak_rc_ptr<int> expired = packets.make_rc<int>(7);
    pooled::rc_ptr<int const[]> array = packets.make_rc<int[]>(3, 5);
    auto unique = pooled::make_unique<int>(8);
    auto shared = pooled::make_shared<int>(9);
    stop(&packets, &local, &numbers, &allocator, &empty, &again, &observer, &view, &expired, &array, &unique,
         &shared);
}
