# SPDX-License-Identifier: BSL-1.0
# Which contenders can be built here, and which take part in which workload.

# Sets POOLED_WHY_NOT_<family> to a reason when the contenders of a family cannot be built, and
# POOLED_LINK_<family> to what they link.
function(pooled_bench_find_contenders)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS "-std=c++20")
  check_cxx_source_compiles("#include <version>
    #ifndef _LIBCPP_VERSION
    #error
    #endif
    int main() {}" POOLED_BENCH_LIBCXX)

  find_path(POOLED_BOOST_INCLUDE boost/pool/pool_alloc.hpp)
  if(NOT POOLED_BOOST_INCLUDE)
    set(why_boost "boost/pool/pool_alloc.hpp not found (Debian: libboost1.81-dev)")
  endif()

  find_path(POOLED_TBB_INCLUDE tbb/scalable_allocator.h)
  find_library(POOLED_TBB_MALLOC tbbmalloc)
  if(NOT POOLED_TBB_INCLUDE OR NOT POOLED_TBB_MALLOC)
    set(why_tbb "tbb/scalable_allocator.h or libtbbmalloc not found (Debian: libtbb-dev)")
  endif()

  find_package(foonathan_memory CONFIG QUIET)
  if(NOT TARGET foonathan_memory)
    set(why_foonathan "foonathan/memory not found (Debian: libfoonathan-memory-dev)")
  elseif(POOLED_BENCH_LIBCXX)
    # It throws standard exceptions, whose layout belongs to the library it was compiled with.
    set(why_foonathan "the packaged foonathan/memory is compiled for libstdc++, this build uses libc++")
  endif()

  check_cxx_source_compiles("#include <memory_resource>
    int main() { std::pmr::synchronized_pool_resource r; return r.allocate(1) == nullptr; }" POOLED_BENCH_PMR)
  if(NOT POOLED_BENCH_PMR)
    set(why_pmr "this standard library has no std::pmr pools")
  endif()

  # Ours is looked up like a contender, so that the others can be measured while it is being written.
  set(ours "${CMAKE_CURRENT_SOURCE_DIR}/../include/pooled/pooled.hpp")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${ours}")
  if(NOT EXISTS "${ours}")
    set(why_pooled "include/pooled/pooled.hpp is missing")
  endif()

  # Ours through the header for users of boost-intrusive-pool, whose handles are Boost's.
  if(why_boost OR why_pooled)
    set(why_memorypool "${why_boost}${why_pooled}")
  endif()

  foreach(family boost tbb foonathan pmr pooled memorypool)
    set(POOLED_WHY_NOT_${family} "${why_${family}}" PARENT_SCOPE)
    if(why_${family})
      message(STATUS "bench: contenders of ${family} are skipped: ${why_${family}}")
    endif()
  endforeach()
  set(POOLED_LINK_tbb "${POOLED_TBB_MALLOC}" PARENT_SCOPE)
  set(POOLED_LINK_foonathan foonathan_memory PARENT_SCOPE)
endfunction()

# The family a contender belongs to is the part of its name before the first underscore.
function(pooled_bench_family contender result)
  string(REGEX MATCH "^[a-z]+" family "${contender}")
  set(${result} "${family}" PARENT_SCOPE)
endfunction()

set(POOLED_SHARED_CONTENDERS new make_shared boost_fast_pool boost_pool block_pool_mutex block_pool_spin
  pmr_synchronized foonathan_locked tbb_scalable pooled pooled_instance pooled_rc)
set(POOLED_UNSHARED_CONTENDERS boost_fast_pool_unlocked pmr_unsynchronized foonathan raw raw_new pooled_local)

set(POOLED_CONTENDERS_e1_list_churn ${POOLED_SHARED_CONTENDERS} ${POOLED_UNSHARED_CONTENDERS}
  pooled_scope pooled_incremental)
set(POOLED_CONTENDERS_e2_packet_burst ${POOLED_SHARED_CONTENDERS} ${POOLED_UNSHARED_CONTENDERS}
  block_pool_mutex_raw block_pool_mutex_shared_ptr block_pool_spin_raw block_pool_spin_shared_ptr
  pooled_raw pooled_shared_ptr pooled_allocate_shared bump)
set(POOLED_CONTENDERS_e3_pointer_overhead raw_new malloc_free unique_ptr_new make_unique new make_shared pooled
  pooled_unique pass_by_value pass_by_reference pass_raw_pointer vector_unique_ptr vector_raw_pointer)
set(POOLED_CONTENDERS_create_drop ${POOLED_SHARED_CONTENDERS} ${POOLED_UNSHARED_CONTENDERS} one_slot
  pooled_local_rc)
# They must be pools that can be constructed once a run, or mallocs; the handle must count.
set(POOLED_CONTENDERS_e4_pool_patterns boost_intrusive_new boost_intrusive_free_list new make_shared pooled pooled_rc memorypool)
set(POOLED_CONTENDERS_e5_handoff ${POOLED_SHARED_CONTENDERS} raw raw_new two_rings)
# What `poolbench try` measures: the standard's pointers, and ours.
set(POOLED_CONTENDERS_own_type make_shared make_unique pooled pooled_instance pooled_rc pooled_unique)
set(POOLED_CONTENDERS_own_pattern ${POOLED_CONTENDERS_own_type})
# Readers share a packet, so the handle must count.
set(POOLED_CONTENDERS_e6_fan_out ${POOLED_SHARED_CONTENDERS})
# A contender for one thread that has instances can be constructed once for each thread.
set(POOLED_CONTENDERS_e7_random_replacement ${POOLED_SHARED_CONTENDERS} pmr_unsynchronized raw raw_new pooled_local
  thread_local_list)
# Pointers that drop what they own: a raw pointer's teardown is its user's loop.
set(POOLED_CONTENDERS_e8_teardown make_shared boost_fast_pool pmr_synchronized pmr_unsynchronized foonathan
  pooled pooled_instance pooled_local pooled_recursive pooled_scope pooled_incremental pooled_rc)
set(POOLED_CONTENDERS_e9_recycled new make_shared pooled pooled_instance pooled_rc pooled_recycled
  pooled_recycled_unique pooled_recycled_rc free_list)
set(POOLED_CONTENDERS_e10_resident ${POOLED_SHARED_CONTENDERS} pmr_unsynchronized raw raw_new pooled_local)
set(POOLED_CONTENDERS_e11_aging new make_shared boost_fast_pool pmr_synchronized pmr_unsynchronized foonathan
  tbb_scalable pooled pooled_instance pooled_local pooled_rc)
set(POOLED_CONTENDERS_e12_latency new make_shared boost_fast_pool block_pool_spin pmr_synchronized pmr_unsynchronized
  tbb_scalable raw raw_new pooled pooled_instance pooled_local pooled_rc)
# Pools that request a thousand blocks at a time, or twice as much each time, are not designed for these.
set(POOLED_CONTENDERS_e13_large new make_shared pmr_synchronized pmr_unsynchronized tbb_scalable raw_new pooled
  pooled_instance pooled_local pooled_rc)
# The programs have these two options.
set(POOLED_CONTENDERS_e14_programs make_shared pooled)
# The block pools and Boost's request a thousand blocks at a time, or search a list to free one.
set(POOLED_CONTENDERS_e16_first_fill new make_shared boost_fast_pool pmr_synchronized tbb_scalable raw_new pooled
  pooled_instance pooled_small_pages pooled_rc)
# They have a bound.
set(POOLED_CONTENDERS_e17_at_bound malloc_counter pooled)
# The original's classes, and those of the same names in compat/.
set(POOLED_CONTENDERS_boost_pool boost_original pooled_compat)
