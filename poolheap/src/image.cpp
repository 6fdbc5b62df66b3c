// SPDX-License-Identifier: BSL-1.0
#include "image.hpp"

#include "core_image.hpp"
#include "process_image.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace poolheap {

std::string image::text(address from, std::size_t limit) const {
    std::string found;
    char part[256];
    while (found.size() < limit) {
        std::size_t const wanted = std::min({sizeof(part), limit - found.size(), 4096 - (from & 4095)});
        std::size_t const got = read(from, std::as_writable_bytes(std::span(part, wanted)));
        std::size_t const length = strnlen(part, got);
        found.append(part, length);
        if (length < wanted) break;
        from += length;
    }
    return found;
}

mapping const* image::find_mapping(address at) const {
    auto const all = mappings();
    auto const next = std::ranges::upper_bound(all, at, {}, &mapping::begin);
    return next != all.begin() && at < next[-1].end ? &next[-1] : nullptr;
}

std::unique_ptr<image> open_image(std::string const& pid_or_core) {
    int pid = 0;
    auto const [end, problem] =
        std::from_chars(pid_or_core.data(), pid_or_core.data() + pid_or_core.size(), pid);
    bool const is_number =
        problem == std::errc() && end == pid_or_core.data() + pid_or_core.size() && pid > 0;
    return is_number ? open_process(pid) : open_core(pid_or_core);
}

}  // namespace poolheap
