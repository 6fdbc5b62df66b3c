// SPDX-License-Identifier: BSL-1.0
// The names of an image: symbols, types, members and local variables as one interface.
#include "naming.hpp"

#include "locals.hpp"
#include "members.hpp"
#include "types.hpp"

namespace poolheap {
namespace {

class image_naming final : public type_namer {
public:
    image_naming(image const& from, heap const& blocks)
        : type_namer(from, blocks), m_members(m_symbols, *this) {}

    member const& at(type_id_t holder, std::uint64_t offset) override { return m_members.at(holder, offset); }
    std::optional<variable> global(address at) override { return variable_of(m_symbols.find(at)); }
    std::optional<variable> thread_local_of(thread const& of, address at) override {
        return variable_of(m_symbols.find_thread_local(of, at));
    }
    std::optional<variable> local_of(thread const& of, address at) override {
        auto const [known, is_new] = m_locals.try_emplace(of.id);
        if (is_new) known->second = find_locals(m_symbols, m_image, of);
        for (local const& l : known->second)
            if (at >= l.begin && at - l.begin < l.bytes)
                return variable{l.name, l.begin, m_members.variable(l.name, &l.variable)};
        return {};
    }
    std::string module_name(address at) const override {
        module const* const found = m_symbols.module_of(at);
        return found ? found->name() : std::string();
    }

private:
    std::optional<variable> variable_of(std::optional<symbol> const& s) {
        if (!s) return {};
        return variable{s->name, s->begin, m_members.variable(s->name)};
    }

    std::map<int, std::vector<local>> m_locals;  // of each thread that was asked about
    members m_members;
};

}  // namespace

std::unique_ptr<naming> names_of(image const& from, heap const& blocks) {
    return std::make_unique<image_naming>(from, blocks);
}

}  // namespace poolheap
