// SPDX-License-Identifier: BSL-1.0
#include "recorded.hpp"

#include <gtest/gtest.h>

namespace {

using namespace poolheap;
using namespace poolheap_tests;

struct with_members : recorded {
    using recorded::recorded;

    // As an analysis does: buffers get the types of the pointers that lead to them, until nothing changes.
    void spread_types() {
        for (bool is_new = true; is_new;) {
            is_new = false;
            for (variable const& v : globals)
                for (std::uint64_t at = 0; at < 64; at += 8)
                    is_new |=
                        give(from->get<address>(v.begin + at).value_or(0), types->at(v.type, at).pointee);
            blocks.for_each_block([&](block_index i, block const& b) {
                for (std::uint64_t at = 0; at + 8 <= b.bytes; at += 8)
                    if (ids[i] != k_buffer)
                        is_new |=
                            give(from->get<address>(b.begin + at).value_or(0), types->at(ids[i], at).pointee);
            });
        }
    }
    bool give(address to, type_id_t id) {
        heap::hit const b = blocks.find(to);
        if (id == k_buffer || b.index == k_no_block || b.begin != to) return false;
        type_id_t& old = ids[b.index];
        return old == k_buffer && ((old = id), true);
    }
    // "type::member" of the word at an address that the program printed.
    std::string name_at(std::string const& name, std::uint64_t more = 0) {
        return name_of(program.at(name), more);
    }
    std::string name_of(address at, std::uint64_t more) {
        at += more;
        heap::hit const b = blocks.find(at);
        if (b.index == k_no_block) return "no block";
        type_id_t const id = ids[b.index];
        member const& m = types->at(id, at - b.begin);
        constexpr char const* k_how[]{"", " strong", " weak", " raw"};
        return (*types)[id].name + "::" + m.name + k_how[static_cast<int>(m.how)];
    }

    std::vector<variable> globals;
};

TEST(Members, WordsHaveTheNamesOfMembersAlsoInBasesAndContainers) {
    std::vector<toolchain> const all = toolchains();
    for (toolchain const& t : {all.front(), all.back()}) {
        SCOPED_TRACE(t.name);
        with_members o(compile("members", t, "-g"));
        for (char const* const name : {"g_table", "s_first"}) {
            auto const global = o.types->global(o.program.at(name));
            ASSERT_TRUE(global) << name;
            o.globals.push_back(*global);
        }
        o.spread_types();
        EXPECT_EQ(o.name_at("conn"), "app::session::conn strong");
        EXPECT_EQ(o.name_at("conn", 8), "app::session::conn strong");
        EXPECT_EQ(o.name_at("all"), "app::session::all strong");
        EXPECT_EQ(o.name_at("table", 16), "app::session::table strong");
        EXPECT_EQ(o.name_at("maybe"), "app::session::maybe strong");
        EXPECT_EQ(o.name_at("owned"), "app::session::owned strong");
        EXPECT_EQ(o.name_at("on_close"), "app::session::on_close strong");
        EXPECT_EQ(o.name_at("places[1].owner"), "app::session::places[].owner strong");
        EXPECT_EQ(o.name_at("places[1].owner", 16), "app::session::places[].watcher weak");
        EXPECT_EQ(o.name_at("raw"), "app::session::raw raw");
        EXPECT_EQ(o.name_at("frame"), "app::session::frame strong");  // nothing else owns one
        EXPECT_EQ(o.name_at("label"), "app::session::label strong");
        EXPECT_EQ(o.name_at("self", 8), "app::session::enable_shared_from_this weak");
        EXPECT_EQ(o.name_at("conn->session"), "app::connection::session strong");
        EXPECT_EQ(o.name_at("over_aligned->held"), "app::aligned::held strong");
        EXPECT_EQ(o.name_at("with_state->session"), "app::connection::session strong");
        EXPECT_EQ(o.name_at("diamond->on_left"), "app::joined::on_left strong");
        EXPECT_EQ(o.name_at("diamond->on_right", 8), "app::joined::on_right strong");
        EXPECT_EQ(o.name_at("diamond->own"), "app::joined::own strong");
        for (auto const& [name, elements] :
             {std::pair("g", "app::session"),
              std::pair("app::g_by_name", "std::pair<std::string, std::shared_ptr<app::session>>[]"),
              std::pair("app::s_kept", "std::shared_ptr<app::session>[]")}) {
            std::string_view const last(
                std::string_view(name).substr(std::string_view(name).find_last_of(':') + 1));
            auto const global = o.types->global(o.program.at(std::string(last)));
            ASSERT_TRUE(global) << name;
            EXPECT_EQ(global->name, name);
            member const& first = o.types->at(global->type, 0);
            EXPECT_EQ(first.how, strength::strong) << name;
            EXPECT_EQ((*o.types)[first.pointee].name, elements);
        }
        // What the containers and pointers lead to:
        EXPECT_EQ(o.name_at("all[1]"), "std::shared_ptr<app::connection>[]::[] strong");
        EXPECT_EQ(o.name_at("table[1]"),
                  "map node of std::pair<int, std::shared_ptr<app::connection>>::second strong");
        EXPECT_EQ(o.name_at("hashed[a]"),
                  "hash node of std::pair<std::string, std::shared_ptr<app::connection>>::second strong");
        EXPECT_EQ(o.name_at("listed[0]", 8).substr(0, 13), "list node of ");
        EXPECT_EQ(o.name_at("queue[0].watcher"), "app::place[]::[].watcher weak");
        EXPECT_EQ(o.name_at("owned->peer"), "app::plain::peer raw");
        EXPECT_EQ(o.name_at("large->behind"), "app::large::behind strong");
        // A lambda in a std::function holds the session.
        address const functor =
            *o.from->get<address>(o.program.at("on_close") + (t.name.starts_with("libc++") ? 32 : 0));
        EXPECT_EQ(o.name_of(functor, t.name.starts_with("libc++") ? 8 : 0).substr(4),
                  t.name.starts_with("libc++") ? "::$_0::self strong" : "::{lambda()#1}::self strong");
        EXPECT_EQ(o.name_at("g_table[7]"),
                  "map node of std::pair<int, std::shared_ptr<app::session>>::second strong");
        EXPECT_EQ(o.types->at(o.globals[0].type, 8).name, "");
        EXPECT_EQ(o.types->at(o.globals[0].type, 16).how, strength::strong);
    }
}

TEST(Members, HaveTheirNamesAlsoWhereDebugInformationIsInFilesOfItsOwn) {
    with_members o(compile("members", default_toolchain(), "-g -gsplit-dwarf"));
    EXPECT_EQ(o.name_at("conn"), "app::session::conn strong");
    EXPECT_EQ(o.name_at("places[1].owner", 16), "app::session::places[].watcher weak");
}

TEST(Members, ObjectsOfPooledHaveMembersAlsoWithTailsAndInArrays) {
    std::vector<toolchain> const all = toolchains();
    for (toolchain const& t : {all.front(), all.back()}) {
        SCOPED_TRACE(t.name);
        with_members o(compile("counted", t, "-g"));
        EXPECT_EQ(o.name_at("tailed->text"), "app::packet + n × std::byte::text strong");
        EXPECT_EQ(o.name_at("wide_tailed->held"), "app::wide + n × long::held strong");
        EXPECT_EQ(o.name_at("connections_of[3].last"), "app::connection[]::[].last strong");
        EXPECT_EQ(o.name_at("wides[2].held", 8), "app::wide[]::[].held strong");
        EXPECT_EQ(o.name_at("watcher"), "app::watched::watcher weak");
        EXPECT_EQ(o.name_at("local_watcher"), "app::watched::local_watcher weak");
        EXPECT_EQ(o.name_at("local"), "app::watched::local strong");
        EXPECT_EQ(o.name_at("rc_from_this"), "app::watched::enable_rc_from_this weak");
    }
}

TEST(Members, WithoutDebugInformationWordsHaveNoNames) {
    with_members o(stripped(compile("members", toolchains().front(), "-g")));
    EXPECT_EQ(o.name_at("conn"), "app::session::");
    EXPECT_EQ(o.types->at(o.ids[0], 16).pointee, k_buffer);
}

}  // namespace
