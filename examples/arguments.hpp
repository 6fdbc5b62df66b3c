// SPDX-License-Identifier: BSL-1.0
#pragma once

// Command lines of the examples: flags (--malloc) and options with a value (--packets 1000000). Any other argument
// ends the program with its usage.

#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace example {

class arguments {
public:
    arguments(int count, char** words, char const* usage)
        : m_words(words + 1, words + count), m_usage(usage) {}

    // Whether the flag is there.
    [[nodiscard]] bool flag(std::string_view name) {
        for (auto word = m_words.begin(); word != m_words.end(); ++word)
            if (*word == name) {
                m_words.erase(word);
                return true;
            }
        return false;
    }

    [[nodiscard]] std::string text(std::string_view name, std::string otherwise) {
        for (auto word = m_words.begin(); word != m_words.end(); ++word) {
            if (*word != name) continue;
            if (word + 1 == m_words.end()) fail();
            std::string value(*(word + 1));
            m_words.erase(word, word + 2);
            return value;
        }
        return otherwise;
    }

    [[nodiscard]] std::size_t number(std::string_view name, std::size_t otherwise) {
        std::string const word = text(name, std::to_string(otherwise));
        std::size_t value = 0;
        auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc{} || end != word.data() + word.size()) fail();
        return value;
    }

    // Whether to compare with malloc: --malloc, or --pool, which is the default.
    [[nodiscard]] bool is_malloc() {
        bool const is_pool = flag("--pool");
        bool const is_malloc = flag("--malloc");
        if (is_pool && is_malloc) fail();
        return is_malloc;
    }

    // Call this last.
    void end() const {
        if (!m_words.empty()) fail();
    }

private:
    [[noreturn]] void fail() const {
        std::fprintf(stderr, "usage: %s\n", m_usage);
        std::exit(2);
    }

    std::vector<std::string_view> m_words;
    char const* m_usage;
};

}  // namespace example
