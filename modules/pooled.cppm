// SPDX-License-Identifier: BSL-1.0
// The library as a C++20 module: `import pooled;` instead of #include <pooled/pooled.hpp>. Macros are not exported; include
// <pooled/config.hpp> or <pooled/version.hpp> for them. Macros that change the library (POOLED_CHECKED ...) must have the same value
// for this file and for sources that include headers of the library.
//
// docs/modules.md says how to build it, and with which tools it is tested. tools/tests/test_make_docs.py compares the list with the names
// of the API reference.
module;

#include <pooled/pooled.hpp>

export module pooled;

// Clang emits no unused inline code of a module, not even constructors and the note by which other copies of the library's state find
// this one: this function uses them.
namespace pooled_module {
[[gnu::constructor(101), gnu::used]] void start() {
#if defined(__ELF__)
    asm volatile(POOLED_COPY_NOTE);
#endif
    static_cast<void>(pooled::detail::g_copy_link.directory.load(std::memory_order_relaxed));
#if POOLED_HAS_CODE
    pooled::detail::set_foreign_type();
#endif
}
}  // namespace pooled_module

export namespace pooled {

// pool/
using pooled::configure_default_pool;
using pooled::default_pool;
using pooled::exhausted;
using pooled::exhaustion_hook;
using pooled::local_pool;
using pooled::pool;
using pooled::pool_options;
using pooled::pool_stats;
using pooled::size_class_stats;
using pooled::teardown;

// smart/
using pooled::allocate_shared;
using pooled::allocate_shared_for_overwrite;
using pooled::allocator;
using pooled::const_pointer_cast;
using pooled::deleter;
using pooled::dynamic_pointer_cast;
using pooled::enable_rc_from_this;
using pooled::local_rc_ptr;
using pooled::make_local_rc;
using pooled::make_rc;
using pooled::make_rc_for_overwrite;
using pooled::make_rc_with_tail;
using pooled::make_rc_with_tail_for_overwrite;
using pooled::make_shared;
using pooled::make_shared_for_overwrite;
using pooled::make_shared_with_tail;
using pooled::make_shared_with_tail_for_overwrite;
using pooled::make_unique;
using pooled::make_unique_for_overwrite;
using pooled::make_unique_with_tail;
using pooled::make_unique_with_tail_for_overwrite;
using pooled::pool_allocator;
using pooled::rc_ptr;
using pooled::reinterpret_pointer_cast;
using pooled::static_pointer_cast;
using pooled::tail;
using pooled::to_shared;
using pooled::unique_ptr;
using pooled::weak_local_rc_ptr;
using pooled::weak_rc_ptr;
using pooled::with_tail;

// object/
using pooled::clear_on_release;
using pooled::default_lifecycle;
using pooled::function_lifecycle;
using pooled::local_object_pool;
using pooled::object_pool;
using pooled::object_pool_options;
using pooled::object_pool_stats;
using pooled::reset_on_release;

// teardown/
using pooled::destroy_in_place;
using pooled::pending;
using pooled::reclaim_scope;

// Found by argument-dependent lookup.
using pooled::operator==;
using pooled::operator<=>;
using pooled::operator<<;

using pooled::version_major;
using pooled::version_minor;
using pooled::version_patch;
using pooled::version_string;

}  // namespace pooled
