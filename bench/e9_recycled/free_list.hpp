// SPDX-License-Identifier: BSL-1.0
// Contender `free_list`: what programs write by hand. A vector of idle buffers under a mutex, and std::shared_ptr with a
// deleter that returns the buffer; its control block comes from malloc.
#pragma once

#include "contender/contender.hpp"
#include "e9_recycled/buffer.hpp"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace bench::e9_recycled {

template <class T>
class mutex_free_list {
public:
    std::shared_ptr<T> acquire() {
        std::unique_ptr<T> one;
        {
            const std::lock_guard guard(m_mutex);
            if (!m_idle.empty()) {
                one = std::move(m_idle.back());
                m_idle.pop_back();
            }
        }
        if (one == nullptr) one = std::make_unique<T>();
        return {one.release(), [this](T* object) { put_back(std::unique_ptr<T>(object)); }};
    }

private:
    void put_back(std::unique_ptr<T> object) {
        const std::lock_guard guard(m_mutex);
        m_idle.push_back(std::move(object));
    }

    std::mutex m_mutex;
    std::vector<std::unique_ptr<T>> m_idle;
};

struct free_list_contender : shared_contender {
    static constexpr bool k_recycles = true;
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&...) {
        return m_lists.of<T>().acquire();
    }

private:
    pool_of_each<mutex_free_list> m_lists;
};

}  // namespace bench::e9_recycled
