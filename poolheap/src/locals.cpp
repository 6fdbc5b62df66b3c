// SPDX-License-Identifier: BSL-1.0
#include "locals.hpp"

#include <dwarf.h>

#include <algorithm>
#include <cstdlib>

namespace poolheap {
namespace {

constexpr int k_most_frames = 256;
// Where the registers of DWARF's numbers are in thread::registers, and the program counter.
#if defined(__aarch64__)
constexpr std::uint8_t k_registers[]{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                     16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
constexpr std::size_t k_counter = 32;
#else
constexpr std::uint8_t k_registers[]{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0};
constexpr std::size_t k_counter = 16;
#endif

struct unwinding {
    image const& from;
    thread const& of;
    Dwfl* dwfl;
    std::vector<local> found;
    int frames = 0;

    void add_variables(Dwfl_Frame* frame, Dwfl_Module* in, address at);
    void add_variable(Dwarf_Die variable, std::string const& function, address base, address at);
};

// The frame's address, from which locals count.
std::optional<address> canonical_frame(Dwfl_Frame* frame, Dwfl_Module* in, address at) {
    Dwarf_Addr bias = 0;
    Dwarf_Frame* rules = nullptr;
    Dwarf_CFI* const all = dwfl_module_eh_cfi(in, &bias);
    if (all == nullptr || dwarf_cfi_addrframe(all, at - bias, &rules) != 0) return {};
    Dwarf_Op* ops = nullptr;
    std::size_t count = 0;
    Dwarf_Word value = 0;
    std::optional<address> found;
    if (dwarf_frame_cfa(rules, &ops, &count) == 0 && count == 1 && ops[0].atom == DW_OP_bregx &&
        dwfl_frame_reg(frame, static_cast<unsigned>(ops[0].number), &value) == 0)
        found = value + ops[0].number2;
    std::free(rules);
    return found;
}

void unwinding::add_variable(Dwarf_Die variable, std::string const& function, address base, address at) {
    Dwarf_Attribute attribute;
    Dwarf_Op* ops = nullptr;
    std::size_t count = 0;
    if (dwarf_attr_integrate(&variable, DW_AT_location, &attribute) == nullptr ||
        dwarf_getlocation_addr(&attribute, at, &ops, &count, 1) != 1 || count != 1 ||
        ops[0].atom != DW_OP_fbreg)
        return;
    Dwarf_Die type;
    Dwarf_Word bytes = 0;
    char const* const name = dwarf_diename(&variable);
    if (name == nullptr || dwarf_attr_integrate(&variable, DW_AT_type, &attribute) == nullptr ||
        dwarf_formref_die(&attribute, &type) == nullptr || dwarf_aggregate_size(&type, &bytes) != 0)
        return;
    found.push_back({function + "(): " + name, base + ops[0].number, bytes, variable});
}

// The function that has the address, and the inlined functions and blocks in it that have it: from the outside inwards.
bool find_scopes(Dwarf_Die* in, address at, std::vector<Dwarf_Die>& found) {
    Dwarf_Die child;
    for (int more = dwarf_child(in, &child); more == 0; more = dwarf_siblingof(&child, &child)) {
        int const tag = dwarf_tag(&child);
        if (tag == DW_TAG_namespace && find_scopes(&child, at, found)) return true;
        bool const is_scope =
            tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block;
        if (!is_scope || dwarf_haspc(&child, at) <= 0) continue;
        found.push_back(child);
        find_scopes(&child, at, found);
        return true;
    }
    return false;
}

void unwinding::add_variables(Dwfl_Frame* frame, Dwfl_Module* in, address at) {
    Dwarf_Addr bias = 0;
    Dwarf* const all = dwfl_module_getdwarf(in, &bias);
    if (all == nullptr) return;
    Dwarf_CU* unit = nullptr;
    Dwarf_Die top;
    // Not every compiler writes a table of the units' addresses.
    do {
        if (dwarf_get_units(all, unit, &unit, nullptr, nullptr, &top, nullptr) != 0) return;
    } while (dwarf_haspc(&top, at - bias) <= 0);
    at -= bias;
    std::vector<Dwarf_Die> scopes;
    find_scopes(&top, at, scopes);
    std::optional<address> base;
    char const* function = nullptr;
    for (Dwarf_Die& scope : scopes) {
        Dwarf_Attribute attribute;
        Dwarf_Op* ops = nullptr;
        std::size_t count = 0;
        Dwarf_Word value = 0;
        if (int const tag = dwarf_tag(&scope); tag != DW_TAG_lexical_block) function = dwarf_diename(&scope);
        if (dwarf_attr_integrate(&scope, DW_AT_frame_base, &attribute) != nullptr &&
            dwarf_getlocation_addr(&attribute, at, &ops, &count, 1) == 1 && count == 1) {
            if (ops[0].atom == DW_OP_call_frame_cfa)
                base = canonical_frame(frame, in, at + bias);
            else if (ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31 &&
                     dwfl_frame_reg(frame, ops[0].atom - DW_OP_reg0, &value) == 0)
                base = value;
        }
        Dwarf_Die child;
        for (int more = function != nullptr && base ? dwarf_child(&scope, &child) : 1; more == 0;
             more = dwarf_siblingof(&child, &child))
            if (int const tag = dwarf_tag(&child); tag == DW_TAG_variable || tag == DW_TAG_formal_parameter)
                add_variable(child, function, *base, at);
    }
}

constexpr Dwfl_Thread_Callbacks k_callbacks{
    .next_thread = [](Dwfl*, void*, void**) -> pid_t { return 0; },
    .get_thread =
        [](Dwfl*, pid_t, void* all, void** of) {
            *of = all;
            return true;
        },
    .memory_read =
        [](Dwfl*, Dwarf_Addr at, Dwarf_Word* to, void* all) {
            auto const word = (*static_cast<unwinding**>(all))->from.get<address>(at);
            *to = word.value_or(0);
            return word.has_value();
        },
    .set_initial_registers =
        [](Dwfl_Thread* to, void* all) {
            auto const& known = (*static_cast<unwinding**>(all))->of.registers;
            Dwarf_Word words[std::size(k_registers)];
            if (known.size() <= k_counter) return false;
            std::ranges::transform(k_registers, words, [&](std::size_t i) { return known[i]; });
            dwfl_thread_state_register_pc(to, known[k_counter]);
            return dwfl_thread_state_registers(to, 0, std::size(words), words);
        },
    .detach = nullptr,
    .thread_detach = nullptr};

}  // namespace

std::vector<local> find_locals(symbols const& names, image const& from, thread const& of) {
    // libdwfl keeps one pointer for good, so that leads to what is unwound now.
    static unwinding* now = nullptr;
    unwinding all{from, of, names.dwfl(), {}};
    now = &all;
    dwfl_attach_state(all.dwfl, nullptr, 1, &k_callbacks, &now);  // fails the second time: it is attached
    dwfl_getthread_frames(
        all.dwfl, of.id,
        [](Dwfl_Frame* frame, void* to) -> int {
            auto& all = *static_cast<unwinding*>(to);
            Dwarf_Addr at = 0;
            bool is_activation = false;
            if (++all.frames > k_most_frames || !dwfl_frame_pc(frame, &at, &is_activation))
                return DWARF_CB_ABORT;
            if (!is_activation) --at;  // the call, behind which it returns
            if (Dwfl_Module* const in = dwfl_addrmodule(all.dwfl, at)) all.add_variables(frame, in, at);
            return DWARF_CB_OK;
        },
        &all);
    return std::move(all.found);
}

}  // namespace poolheap
