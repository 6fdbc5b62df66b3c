// SPDX-License-Identifier: BSL-1.0
#include "pretty.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace poolheap {
namespace {

// Where the argument of a template that begins at `at` ends: at a comma or bracket of its own level.
std::size_t end_of_argument(std::string_view name, std::size_t at) {
    int angles = 0;
    int others = 0;
    for (; at < name.size(); ++at) {
        char const c = name[at];
        if (c == '(' || c == '[' || c == '{') ++others;
        if (c == ')' || c == ']' || c == '}')
            if (--others < 0) return at;
        if (others != 0) continue;
        if (c == '<') ++angles;
        if (c == '>' && at > 0 && name[at - 1] != '-')
            if (--angles < 0) return at;
        if (c == ',' && angles == 0) return at;
    }
    return at;
}

void replace_all(std::string& in, std::string_view from, std::string_view to) {
    for (std::size_t at = 0; (at = in.find(from, at)) != std::string::npos; at += to.size())
        in.replace(at, from.size(), to);
}

// Arguments that a user of the standard library leaves out, behind others.
constexpr std::string_view k_defaults[]{
    ",std::allocator<",      ",std::char_traits<",      ",std::less<", ",std::hash<", ",std::equal_to<",
    ",std::default_delete<", ",pooled::pool_allocator<"};
// What stays of names: the right-hand sides.
constexpr std::pair<std::string_view, std::string_view> k_spellings[]{
    {"std::__1::", "std::"},
    {"std::__value_type<", "std::pair<"},  // of libc++'s maps
    {"std::__hash_value_type<", "std::pair<"},
    {"std::__cxx11::", "std::"},
    {"(anonymous namespace)::", ""},
    {"{anonymous}::", ""},
    {"long long unsigned int", "unsigned long long"},
    {"long unsigned int", "unsigned long"},
    {"short unsigned int", "unsigned short"},
    {"long long int", "long long"},
    {"long int", "long"},
    {"short int", "short"},
    {" >", ">"},
    {", ", ","},
    {" const", ""},
    {"const ", ""},
    {" (", "("},
    {" []", "[]"},
    {" [", "["},
    {"(__gnu_cxx::_Lock_policy)", ""},
};

}  // namespace

std::string_view template_argument(std::string_view name, std::string_view prefix, unsigned index) {
    if (!name.starts_with(prefix)) return {};
    for (std::size_t begin = prefix.size();; ++begin, --index) {
        std::size_t const end = end_of_argument(name, begin);
        while (begin < end && name[begin] == ' ')
            ++begin;
        if (index == 0)
            return name.substr(begin, std::max(begin, name.find_last_not_of(' ', end - 1) + 1) - begin);
        if (end >= name.size() || name[end] != ',') return {};
        begin = end;
    }
}

std::string pretty(std::string name) {
    for (auto const& [from, to] : k_spellings)
        replace_all(name, from, to);
    for (std::size_t at = 0; (at = name.find("[abi:", at)) != std::string::npos;)
        name.erase(at, std::min(name.find(']', at), name.size()) + 1 - at);
    // pooled's namespace of a version: pooled::v0_3_plain::
    for (std::size_t at = 0; (at = name.find("pooled::v", at)) != std::string::npos; at += 8) {
        std::size_t const end = name.find("::", at + 8);
        if (end != std::string::npos && std::isdigit(name[at + 9])) name.erase(at + 8, end + 2 - (at + 8));
    }
    for (std::string_view const argument : k_defaults)
        for (std::size_t at = 0; (at = name.find(argument, at)) != std::string::npos;)
            name.erase(at, end_of_argument(name, at + 1) - at);
    replace_all(name, "std::basic_string<char>", "std::string");
    replace_all(name, "std::basic_string_view<char>", "std::string_view");
    replace_all(name, ",", ", ");
    return name;
}

}  // namespace poolheap
