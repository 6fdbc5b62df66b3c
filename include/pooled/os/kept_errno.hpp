// SPDX-License-Identifier: BSL-1.0
#pragma once

// While a kept_errno exists, errno may change. POSIX: free() leaves it as it is; so do the operators and the drop of an object here.

#include "pooled/config.hpp"

#include <cerrno>

POOLED_BEGIN_DETAIL

class kept_errno {
public:
    kept_errno() noexcept : m_kept(errno) {}
    ~kept_errno() { errno = m_kept; }
    kept_errno& operator=(kept_errno&&) = delete;

private:
    int m_kept;
};

POOLED_END_DETAIL
