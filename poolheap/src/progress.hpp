// SPDX-License-Identifier: BSL-1.0
#pragma once

// Progress on standard error, once work takes longer than a second; nothing when standard error is no terminal.

#include <chrono>
#include <cstddef>
#include <cstdio>

#include <unistd.h>

namespace poolheap {

class progress {
public:
    progress(char const* stage, std::size_t all) : m_stage(stage), m_all(all) {}
    progress(progress const&) = delete;
    progress& operator=(progress const&) = delete;
    ~progress() {
        if (m_shown) std::fputs("\r\033[K", stderr);
    }

    void at(std::size_t done) {
        if (done - m_done < m_all / 256 + 1) return;  // the clock is read seldom
        m_done = done;
        auto const now = clock::now();
        if (now < m_next || !isatty(STDERR_FILENO)) return;
        m_next = now + std::chrono::milliseconds(200);
        m_shown = true;
        std::fprintf(stderr, "\rpoolheap: %s, %zu%%", m_stage, done * 100 / m_all);
    }

private:
    using clock = std::chrono::steady_clock;
    char const* m_stage;
    std::size_t m_all;
    std::size_t m_done = 0;
    clock::time_point m_next = clock::now() + std::chrono::seconds(1);
    bool m_shown = false;
};

}  // namespace poolheap
