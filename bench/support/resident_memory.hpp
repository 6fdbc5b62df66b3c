// SPDX-License-Identifier: BSL-1.0
// Memory for what a workload itself needs beside the objects under test. It comes from the system and is resident from the start: it takes
// nothing from the malloc that is measured, its pages are the same whatever malloc that is, and writing to it causes no page fault.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace bench {

template <class T>
struct resident_allocator {
    using value_type = T;

    resident_allocator() = default;
    template <class U>
    resident_allocator(const resident_allocator<U>&) {}  // NOLINT: converting, as allocators do

    T* allocate(std::size_t count) {
        void* const memory =
            ::mmap(nullptr, bytes(count), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        return static_cast<T*>(std::memset(memory, 0, bytes(count)));
    }
    void deallocate(T* memory, std::size_t count) { ::munmap(memory, bytes(count)); }
    friend bool operator==(resident_allocator, resident_allocator) { return true; }

private:
    static std::size_t bytes(std::size_t count) { return count * sizeof(T) + 1; }  // no mapping has 0 bytes
};

template <class T>
using resident_vector = std::vector<T, resident_allocator<T>>;

// An array that can be left behind with its elements.
template <class T>
class resident_array {
public:
    // `count` value-initialised elements.
    explicit resident_array(std::size_t count)
        : m_count(count), m_elements(resident_allocator<T>().allocate(count)) {
        std::uninitialized_value_construct_n(m_elements, m_count);
    }
    resident_array(const resident_array&) = delete;
    resident_array& operator=(const resident_array&) = delete;
    ~resident_array() {
        if (m_elements == nullptr) return;
        std::destroy_n(m_elements, m_count);
        resident_allocator<T>().deallocate(m_elements, m_count);
    }

    // The elements are never destroyed: for the end of a process.
    void leave() { m_elements = nullptr; }

    T& operator[](std::size_t i) { return m_elements[i]; }
    T* begin() { return m_elements; }
    T* end() { return m_elements + m_count; }

private:
    std::size_t m_count;
    T* m_elements;
};

}  // namespace bench
