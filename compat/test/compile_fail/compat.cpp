// SPDX-License-Identifier: BSL-1.0
// Refused: mistakes with the drop-in headers.
#include "pooled/compat/boost_intrusive_pool.hpp"
#include "pooled/compat/boost_intrusive_ptr.hpp"
#include "pooled/compat/boost_pool.hpp"
#include "pooled/compat/recycle.hpp"

#include <memory>
#include <utility>

// Allocators of two tags, or of two user allocators, are on two pools.
// expect boost_pool_allocators_do_not_mix: (conversion from|no viable conversion|could not convert)
void boost_pool_allocators_do_not_mix() {
    pooled::compat::pool_allocator<int> const right = pooled::compat::pool_allocator<long>();
    static_cast<void>(right);
#ifdef MISTAKE_boost_pool_allocators_do_not_mix
    pooled::compat::fast_pool_allocator<int> const wrong = pooled::compat::pool_allocator<int>();
    static_cast<void>(wrong);
#endif
}

// A copy would destroy the objects of the original once more.
// expect boost_pool_object_pool_is_not_copied: (use of deleted function|call to deleted constructor|call to implicitly-deleted copy constructor)
void boost_pool_object_pool_is_not_copied() {
    pooled::compat::object_pool<int> pool;
    pool.construct(1);
#ifdef MISTAKE_boost_pool_object_pool_is_not_copied
    pooled::compat::object_pool<int> copy(pool);
#endif
}

// All of singleton_pool is static.
// expect boost_pool_singleton_is_no_object: (use of deleted function|call to deleted constructor)
namespace boost_pool_singleton_is_no_object {
struct tag {};
void test() {
    using buffers = pooled::compat::singleton_pool<tag, 64>;
    buffers::free(buffers::malloc());
#ifdef MISTAKE_boost_pool_singleton_is_no_object
    buffers one;
#endif
}
}  // namespace boost_pool_singleton_is_no_object

// The message says what is missing, not where in the library.
// expect intrusive_pool_init_with_wrong_arguments: allocate_through_init needs a member init\(\) of the item that takes these arguments
namespace intrusive_pool_init_with_wrong_arguments {
struct Packet : memorypool::boost_intrusive_pool_item {
    void init(int) {}
};
void test() {
    memorypool::boost_intrusive_pool<Packet> pool(1);
    auto a = pool.allocate_through_init(7);
#ifdef MISTAKE_intrusive_pool_init_with_wrong_arguments
    auto b = pool.allocate_through_init("seven");
#endif
}
}  // namespace intrusive_pool_init_with_wrong_arguments

// A pool is moved, not copied.
// expect intrusive_pool_is_not_copied: (deleted|implicitly-deleted)
namespace intrusive_pool_is_not_copied {
struct Packet : memorypool::boost_intrusive_pool_item {};
void test() {
    memorypool::boost_intrusive_pool<Packet> a(1);
    memorypool::boost_intrusive_pool<Packet> b(std::move(a));
#ifdef MISTAKE_intrusive_pool_is_not_copied
    memorypool::boost_intrusive_pool<Packet> c(b);
#endif
}
}  // namespace intrusive_pool_is_not_copied

// The base class contains the item's count and its place in the pool.
// expect intrusive_pool_item_without_base: an item must derive publicly from memorypool::boost_intrusive_pool_item
namespace intrusive_pool_item_without_base {
struct Packet
#ifndef MISTAKE_intrusive_pool_item_without_base
    : memorypool::boost_intrusive_pool_item
#endif
{
};
void test() { memorypool::boost_intrusive_pool<Packet> pool(1); }
}  // namespace intrusive_pool_item_without_base

// A pool constructs its items before they are used; arguments go through init().
// expect intrusive_pool_item_without_default_constructor: an item must be default-constructible
namespace intrusive_pool_item_without_default_constructor {
struct Packet : memorypool::boost_intrusive_pool_item {
#ifdef MISTAKE_intrusive_pool_item_without_default_constructor
    explicit Packet(int) {}
#endif
};
void test() { memorypool::boost_intrusive_pool<Packet> pool(1); }
}  // namespace intrusive_pool_item_without_default_constructor

// boost::intrusive_ptr finds its functions by the class; those of pooled are found only if the class enables them.
// expect intrusive_ptr_to_class_without_functions: derive it from pooled::enable_intrusive_ptr
namespace intrusive_ptr_to_class_without_functions {
struct Session
#ifndef MISTAKE_intrusive_ptr_to_class_without_functions
    : pooled::enable_intrusive_ptr
#endif
{
};
void test() { auto p = pooled::make_intrusive<Session>(); }
}  // namespace intrusive_ptr_to_class_without_functions

// A recycle function of unique_pool that takes the pointer by value would leave no object to recycle.
// expect recycle_function_that_swallows_a_unique_ptr: (no matching function|no matching constructor)
void recycle_function_that_swallows_a_unique_ptr() {
    auto const make = [] { return std::make_unique<int>(1); };
    recycle::unique_pool<int> const right(make, [](std::unique_ptr<int>&) {});
#ifdef MISTAKE_recycle_function_that_swallows_a_unique_ptr
    recycle::unique_pool<int> const wrong(make, [](std::unique_ptr<int>) {});
#endif
}

// A pool without an allocate function needs a default-constructible value.
// expect recycle_pool_of_value_without_default_constructor: (no matching function|no matching constructor|call to deleted|constraints not satisfied|deleted)
namespace recycle_pool_of_value_without_default_constructor {
struct connection {
    explicit connection(int) {}
};
void test() {
    recycle::shared_pool<connection> const right([] { return std::make_shared<connection>(80); });
#ifdef MISTAKE_recycle_pool_of_value_without_default_constructor
    recycle::shared_pool<connection> const wrong;
#endif
}
}  // namespace recycle_pool_of_value_without_default_constructor

// A pool_ptr recycles; converted to a plain std::unique_ptr it would silently delete. release() makes that explicit.
// expect recycle_pool_ptr_to_std_unique_ptr: (conversion from|could not convert|no viable conversion)
void recycle_pool_ptr_to_std_unique_ptr() {
    recycle::unique_pool<int> pool;
    std::unique_ptr<int> right(pool.allocate().release());
#ifdef MISTAKE_recycle_pool_ptr_to_std_unique_ptr
    std::unique_ptr<int> wrong = pool.allocate();
#endif
}
