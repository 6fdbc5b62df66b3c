// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the analysis asks about names: one interface over symbols, types and members, so that tests can give answers of their own.

#include "locals.hpp"
#include "members.hpp"

#include <map>

namespace poolheap {

class naming {
public:
    virtual ~naming() = default;

    // One type for each block.
    [[nodiscard]] virtual std::vector<type_id_t> name_all() = 0;
    [[nodiscard]] virtual type const& operator[](type_id_t id) const = 0;
    [[nodiscard]] virtual std::size_t types() const = 0;
    virtual type_id_t add(type t) = 0;
    [[nodiscard]] virtual std::optional<counts> counts_of(type_id_t id,
                                                          std::span<std::uint64_t const> words) const = 0;
    [[nodiscard]] virtual member const& at(type_id_t holder, std::uint64_t offset) = 0;
    [[nodiscard]] virtual member const& at_global(std::string const& name, std::uint64_t offset) = 0;
    [[nodiscard]] virtual std::optional<type_id_t> pointee(type_id_t holder, std::uint64_t offset) = 0;
    [[nodiscard]] virtual std::optional<type_id_t> global_pointee(std::string const& name,
                                                                  std::uint64_t offset) = 0;
    [[nodiscard]] virtual std::optional<symbol> global(address at) const = 0;
    [[nodiscard]] virtual std::optional<symbol> thread_local_of(thread const& of, address at) const = 0;
    // The local variable at an address in a thread's stack.
    [[nodiscard]] virtual std::optional<symbol> local_of(thread const& of, address at) = 0;
    // The program or library that maps the address; empty: none.
    [[nodiscard]] virtual std::string module_name(address at) const = 0;
};

class image_naming final : public naming {
public:
    image_naming(image const& from, heap const& blocks)
        : m_image(from), m_symbols(from), m_types(from, m_symbols, blocks), m_members(m_symbols, m_types) {}

    std::vector<type_id_t> name_all() override { return m_types.name_all(); }
    type const& operator[](type_id_t id) const override { return m_types[id]; }
    std::size_t types() const override { return m_types.types().size(); }
    type_id_t add(type t) override { return m_types.add(std::move(t)); }
    std::optional<counts> counts_of(type_id_t id, std::span<std::uint64_t const> words) const override {
        return m_types.counts_of(id, words);
    }
    member const& at(type_id_t holder, std::uint64_t offset) override { return m_members.at(holder, offset); }
    member const& at_global(std::string const& name, std::uint64_t offset) override {
        return m_members.at_global(name, offset);
    }
    std::optional<type_id_t> pointee(type_id_t holder, std::uint64_t offset) override {
        return m_members.pointee(holder, offset);
    }
    std::optional<type_id_t> global_pointee(std::string const& name, std::uint64_t offset) override {
        return m_members.global_pointee(name, offset);
    }
    std::optional<symbol> global(address at) const override { return m_symbols.find(at); }
    std::optional<symbol> thread_local_of(thread const& of, address at) const override {
        return m_symbols.find_thread_local(of, at);
    }
    std::optional<symbol> local_of(thread const& of, address at) override {
        auto const [known, is_new] = m_locals.try_emplace(of.id);
        if (is_new) known->second = find_locals(m_symbols, m_image, of);
        for (local const& l : known->second) {
            if (at < l.begin || at - l.begin >= l.bytes) continue;
            m_members.know_variable(l.name, l.variable);
            return symbol{l.name, l.begin, l.bytes};
        }
        return {};
    }
    std::string module_name(address at) const override {
        module const* const found = m_symbols.module_of(at);
        return found ? found->name() : std::string();
    }

private:
    image const& m_image;
    symbols m_symbols;
    std::map<int, std::vector<local>> m_locals;  // of each thread that was asked about
    type_namer m_types;
    members m_members;
};

}  // namespace poolheap
