// SPDX-License-Identifier: BSL-1.0
// As pages.cpp: those code blocks of the pages in docs/ that need Boost's headers.
#include <pooled/compat/boost_intrusive_pool.hpp>  // before: "boost_intrusive_pool.hpp"; needs Boost's headers, too
#include <pooled/compat/boost_intrusive_ptr.hpp>
#include <pooled/compat/boost_pool.hpp>  // after
#include <pooled/pooled.hpp>

#include <boost/pool/pool_alloc.hpp>  // before
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include <list>

namespace {

bool g_is_right = true;
void expect(bool condition) { g_is_right = g_is_right && condition; }

// clang-format off

// page: compat/README.md
class Packet : public memorypool::boost_intrusive_pool_item {
public:
    void init(int n) { number = n; }
    int number = 0;
    char data[1500];
};
void intrusive_pool() {
memorypool::boost_intrusive_pool<Packet> pool(1024, 64);
boost::intrusive_ptr<Packet> p = pool.allocate_through_init(7);
    expect(p->number == 7);
}

namespace before {
struct Session : boost::intrusive_ref_counter<Session> { int id = 0; };     // before
void intrusive_ptr() {
boost::intrusive_ptr<Session> s(new Session);
    expect(s->id == 0);
}
}  // namespace before

struct Session : pooled::enable_intrusive_ptr { int id = 0; };              // after: an empty base
void intrusive_ptr() {
    pooled::pool pool;
boost::intrusive_ptr<Session> s = pooled::make_intrusive<Session>();
boost::intrusive_ptr<Session> t = pooled::to_intrusive(pool.make_rc<Session>());
    expect(s->id == t->id);
}

// #include <boost/pool/pool_alloc.hpp>                      // before
struct Order {
    int number = 0;
};
void boost_pool_before() {
std::list<Order, boost::fast_pool_allocator<Order>> orders;
    orders.push_back({1});
}

// #include <pooled/compat/boost_pool.hpp>                   // after
void boost_pool() {
std::list<Order, pooled::compat::fast_pool_allocator<Order>> orders;
    orders.push_back({1});
    expect(orders.front().number == 1);
}
// end of pages
// clang-format on

}  // namespace

int main() {
    for (void (*page)() :
         {intrusive_pool, before::intrusive_ptr, intrusive_ptr, boost_pool_before, boost_pool})
        page();
    return g_is_right ? 0 : 1;
}
