// SPDX-License-Identifier: BSL-1.0
// Refused: mistakes with object_pool and its lifecycles.
#include "pooled/pooled.hpp"

#include <chrono>
#include <memory>
#include <new>
#include <utility>

// The arguments of acquire are on_acquire's; an object is not built from them.
// expect object_pool_arguments_for_no_on_acquire: (acquire_arguments|acquires_with|no matching)
void object_pool_arguments_for_no_on_acquire() {
    pooled::object_pool<int> pool;
    auto const a = pool.acquire();
#ifdef MISTAKE_object_pool_arguments_for_no_on_acquire
    auto const b = pool.acquire(42);
#endif
}

// The same of one that waits.
// expect object_pool_arguments_for_no_on_acquire_of_a_wait: (acquire_arguments|acquires_with|no matching)
void object_pool_arguments_for_no_on_acquire_of_a_wait() {
    pooled::object_pool<int> pool;
    auto const a = pool.acquire_for(std::chrono::seconds(1));
#ifdef MISTAKE_object_pool_arguments_for_no_on_acquire_of_a_wait
    auto const b = pool.acquire_for(std::chrono::seconds(1), 42);
#endif
}

// Without a default constructor, a lifecycle must define how an object is built.
// expect object_pool_cannot_build_its_objects: T has no default constructor: pass a factory
namespace object_pool_cannot_build_its_objects {
struct connection {
    explicit connection(int) {}
};
void test() {
    pooled::object_pool<connection> with_factory({}, [] { return connection(1); });
#ifdef MISTAKE_object_pool_cannot_build_its_objects
    pooled::object_pool<connection> without;
#endif
}
}  // namespace object_pool_cannot_build_its_objects

// A member with the right name and a wrong signature is a mistake, not an absent member.
// expect object_pool_create_takes_something_else: Lifecycle::create must be callable with a void\*
namespace object_pool_create_takes_something_else {
struct wrong {
#ifdef MISTAKE_object_pool_create_takes_something_else
    int* create() const { return new int(1); }
#else
    int* create(void* where) const { return ::new (where) int(1); }
#endif
};
void test() {
    pooled::object_pool<int, wrong> pool;
    auto const a = pool.acquire();
}
}  // namespace object_pool_create_takes_something_else

// Objects in use find their pool by its address.
// expect object_pool_is_not_copied: (deleted|implicitly-deleted)
void object_pool_is_not_copied() {
    pooled::object_pool<int> pool;
#ifdef MISTAKE_object_pool_is_not_copied
    pooled::object_pool<int> copy(pool);
#endif
}

// Another thread may be acquiring or waiting.
// expect object_pool_is_not_moved: (deleted|implicitly-deleted)
void object_pool_is_not_moved() {
    pooled::object_pool<int> pool;
#ifdef MISTAKE_object_pool_is_not_moved
    pooled::object_pool<int> moved(std::move(pool));
#endif
}

// A recycled object is changed by its users; they may hold it by std::shared_ptr<T const>.
// expect object_pool_of_const: T must be an object type, not an array, and without const
void object_pool_of_const() {
    pooled::object_pool<int> pool;
    std::shared_ptr<int const> const a = pool.acquire();
#ifdef MISTAKE_object_pool_of_const
    pooled::object_pool<int const> constant;
#endif
}

// An on_acquire that needs arguments is not silently omitted.
// expect object_pool_on_acquire_without_its_arguments: (acquire_arguments|acquires_with|no matching)
namespace object_pool_on_acquire_without_its_arguments {
struct sized {
    void on_acquire(int& n, int size) const { n = size; }
};
void test() {
    pooled::object_pool<int, sized> pool;
    auto const a = pool.acquire(1);
#ifdef MISTAKE_object_pool_on_acquire_without_its_arguments
    auto const b = pool.acquire();
#endif
}
}  // namespace object_pool_on_acquire_without_its_arguments

// A member with the right name and a wrong signature is a mistake, not an absent member.
// expect object_pool_on_release_takes_something_else: Lifecycle::on_release must be callable with a T&
namespace object_pool_on_release_takes_something_else {
struct wrong {
#ifdef MISTAKE_object_pool_on_release_takes_something_else
    void on_release(int*) const {}
#else
    void on_release(int&) const {}
#endif
};
void test() {
    pooled::object_pool<int, wrong> pool;
    auto const a = pool.acquire();
}
}  // namespace object_pool_on_release_takes_something_else

// A recycled object must not end up with a deleter that frees it.
// expect object_pool_unique_ptr_is_not_deleted_by_another: (could not convert|no viable conversion|conversion from|no matching)
void object_pool_unique_ptr_is_not_deleted_by_another() {
    pooled::object_pool<int> pool;
    auto a = pool.acquire_unique();
#ifdef MISTAKE_object_pool_unique_ptr_is_not_deleted_by_another
    std::unique_ptr<int> b = pool.acquire_unique();
#endif
}

// A hook of another name would never be called, and the next user would get a dirty object.
// expect object_pool_lifecycle_misspelt: Lifecycle has a misspelt member
namespace object_pool_lifecycle_misspelt {
struct cleans {
    void on_acquire(int& n) const { n = 1; }
#ifdef MISTAKE_object_pool_lifecycle_misspelt
    void onRelease(int& n) const { n = 0; }
#else
    void on_release(int& n) const { n = 0; }
#endif
};
void test() { pooled::object_pool<int, cleans> pool; }
}  // namespace object_pool_lifecycle_misspelt

// The same of a class that is no lifecycle at all.
// expect object_pool_lifecycle_without_hooks: Lifecycle has none of the members create
namespace object_pool_lifecycle_without_hooks {
struct other {
    void clean(int& n) const { n = 0; }
};
struct derived : pooled::default_lifecycle<int> {};
void test() {
    pooled::object_pool<int, derived> with;
#ifdef MISTAKE_object_pool_lifecycle_without_hooks
    pooled::object_pool<int, other> without;
#endif
}
}  // namespace object_pool_lifecycle_without_hooks
