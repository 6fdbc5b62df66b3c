// SPDX-License-Identifier: BSL-1.0
// An array whose memory comes from the system itself and is resident from the start: it takes nothing from the malloc that
// is measured, and writing to it causes no page fault.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include <sys/mman.h>

namespace bench {

template <class T>
class resident_array {
public:
    // `count` value-initialised elements.
    explicit resident_array(std::size_t count) : m_count(count) {
        void* const memory = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        m_elements = static_cast<T*>(memory);
        std::uninitialized_value_construct_n(m_elements, m_count);
    }
    resident_array(const resident_array&) = delete;
    resident_array& operator=(const resident_array&) = delete;
    ~resident_array() {
        if (m_elements == nullptr) return;
        std::destroy_n(m_elements, m_count);
        ::munmap(m_elements, bytes());
    }

    // The elements are never destroyed: for the end of a process.
    void leave() { m_elements = nullptr; }

    T& operator[](std::size_t i) { return m_elements[i]; }
    T* begin() { return m_elements; }
    T* end() { return m_elements + m_count; }

private:
    std::size_t bytes() const { return m_count * sizeof(T) + 1; }  // no mapping has 0 bytes

    std::size_t m_count;
    T* m_elements = nullptr;
};

}  // namespace bench
