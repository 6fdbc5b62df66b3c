// SPDX-License-Identifier: BSL-1.0
// An order book that was written for Boost.Pool. The tests build it twice: with MIGRATION_BEFORE on Boost itself, if that is
// installed, and on pooled. Only one include and one namespace change.
#ifdef MIGRATION_BEFORE
#include <boost/pool/object_pool.hpp>
#include <boost/pool/pool_alloc.hpp>
#include <boost/pool/singleton_pool.hpp>
namespace pools = boost;
#else
#include <pooled/compat/boost_pool.hpp>
namespace pools = pooled::compat;
#endif

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

struct Order {
    Order(unsigned n, long p, unsigned q) : number(n), price(p), quantity(q) {}
    unsigned number;
    long price;
    unsigned quantity;
};

struct Trade {
    long price;
    unsigned quantity;
};

// Messages are built in raw buffers of one size.
struct MessageTag {};
using MessageBuffers = pools::singleton_pool<MessageTag, 256>;

class Book {
public:
    void add(unsigned number, long price, unsigned quantity) {
        m_asks.emplace(price, m_orders.construct(number, price, quantity));
    }

    // Takes the cheapest orders up to `quantity`.
    std::vector<std::shared_ptr<Trade>> buy(unsigned quantity) {
        std::vector<std::shared_ptr<Trade>> trades;
        while (quantity != 0 && !m_asks.empty()) {
            Order* const order = m_asks.begin()->second;
            unsigned const taken = order->quantity < quantity ? order->quantity : quantity;
            trades.push_back(
                std::allocate_shared<Trade>(pools::fast_pool_allocator<Trade>(), Trade{order->price, taken}));
            quantity -= taken;
            order->quantity -= taken;
            if (order->quantity != 0) continue;
            m_asks.erase(m_asks.begin());
            m_orders.destroy(order);
        }
        return trades;
    }

private:
    using Asks = std::multimap<long, Order*, std::less<long>,
                               pools::fast_pool_allocator<std::pair<long const, Order*>>>;

    pools::object_pool<Order> m_orders;  // what is left in it is destroyed with the book
    Asks m_asks;
};

int main() {
    Book book;
    for (unsigned i = 0; i < 1000; ++i)
        book.add(i, 100 + static_cast<long>(i * 7919 % 50), 10);

    long paid = 0;
    unsigned messages = 0;
    for (std::shared_ptr<Trade> const& trade : book.buy(405)) {
        auto* const message = static_cast<char*>(MessageBuffers::malloc());
        std::snprintf(message, MessageBuffers::requested_size, "%u at %ld", trade->quantity, trade->price);
        messages += std::strlen(message) != 0 ? 1 : 0;
        MessageBuffers::free(message);
        paid += trade->price * trade->quantity;
    }
    MessageBuffers::release_memory();

    std::printf("%u trades, %ld paid\n", messages, paid);
    bool const right = messages == 41 && paid == 20 * 10 * 100 + 20 * 10 * 101 + 5 * 102;
    return right ? 0 : 1;
}
