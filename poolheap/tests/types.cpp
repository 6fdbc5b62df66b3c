// SPDX-License-Identifier: BSL-1.0
#include "pretty.hpp"
#include "recorded.hpp"

#include <gtest/gtest.h>

namespace {

using namespace poolheap;
using namespace poolheap_tests;

TEST(Pretty, NamesAreWhatAUserWrites) {
    EXPECT_EQ(pretty("std::vector<std::shared_ptr<A>, std::allocator<std::shared_ptr<A> > >"),
              "std::vector<std::shared_ptr<A>>");
    EXPECT_EQ(pretty("std::map<int, B, std::less<int>, std::allocator<std::pair<int, B> > >"),
              "std::map<int, B>");
    EXPECT_EQ(pretty("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"),
              "std::string");
    EXPECT_EQ(pretty("std::__1::unique_ptr<A, std::__1::default_delete<A> >"), "std::unique_ptr<A>");
    EXPECT_EQ(pretty("pooled::v0_3_plain::pool"), "pooled::pool");
    EXPECT_EQ(pretty("(anonymous namespace)::hidden"), "hidden");
    EXPECT_EQ(pretty("f(A, long unsigned int)"), pretty("f(A, unsigned long)"));
    EXPECT_EQ(pretty("A::{lambda(int)#1}"), "A::{lambda(int)#1}");
}

TEST(Pretty, ATemplateHasItsArguments) {
    EXPECT_EQ(template_argument("A<B<C, D>, E>", "A<"), "B<C, D>");
    EXPECT_EQ(template_argument("A<B<C, D>, E>", "A<", 1), "E");
    EXPECT_EQ(template_argument("A<B<C, D>, E>", "A<", 2), "");
    EXPECT_EQ(template_argument("A<void (*)(B, C), (x > 1)>", "A<"), "void (*)(B, C)");
    EXPECT_EQ(template_argument("A<B", "A<"), "B");
    EXPECT_EQ(template_argument("B<C>", "A<"), "");
}

void expect_types(recorded& o, bool is_libcxx) {
    auto const expect = [&](char const* at, std::string const& name, kind k, std::uint32_t offset = 0) {
        type const& t = o.type_at(at);
        EXPECT_EQ(t.name, name) << at;
        EXPECT_EQ(name_of(t.kind), name_of(k)) << at;
        EXPECT_EQ(t.object_offset, offset) << at;
    };
    std::uint32_t const base = is_libcxx ? 24 : 16;
    expect("made", "app::connection", kind::shared, base);
    expect("boxed", "app::box<std::vector<std::string>>", kind::shared, base);
    expect("constant", "app::connection", kind::shared, base);
    expect("adopted-control", "control block of app::connection", kind::shared);
    for (char const* const name : {"adopted", "with_function", "with_lambda"})
        expect(name, "app::connection", kind::shared);
    // The class of the object, not the one that it is held as.
    expect("adopted_shape", "app::circle", kind::virtual_object);
    expect("circle", "app::circle", kind::virtual_object);
    expect("hidden", "hidden", kind::virtual_object);
    expect("buffer", "", kind::buffer);
    expect("array", "app::connection[]", kind::shared, is_libcxx ? 32 : 0);
    expect("no_elements", "app::connection[]", kind::shared, is_libcxx ? 32 : 0);
    expect("after_array", "", kind::buffer);
}

TEST(Types, BlocksSayWhatTheyHold) {
    for (toolchain const& t : toolchains()) {
        SCOPED_TRACE(t.name);
        recorded o(compile("objects", t));
        bool const is_libcxx = t.name.starts_with("libc++");
        expect_types(o, is_libcxx);
        type const& coroutine = o.type_at("coroutine");
        EXPECT_EQ(name_of(coroutine.kind), "coroutine");
        EXPECT_EQ(coroutine.name, "app::server::serve(std::shared_ptr<app::connection>, int)");

        auto const made = o.counts_at("made");
        ASSERT_TRUE(made);
        // Held by two pointers of main, the coroutine and the function.
        EXPECT_EQ(made->owners, 4u);
        EXPECT_EQ(made->weak, 3u);
        auto const only_weak = o.counts_at("only_weak");
        ASSERT_TRUE(only_weak);
        EXPECT_EQ(only_weak->owners, 0u);
        EXPECT_EQ(only_weak->weak, 1u);
        EXPECT_FALSE(o.counts_at("circle"));
    }
}

TEST(Types, AFunctionSaysWhatItHoldsAlsoWhereCodeCrossesAMebibyte) {
    recorded o(compile("functions", default_toolchain(), "-no-pie -Wl,-Ttext-segment=0xffe000"));
    EXPECT_EQ(o.type_at("functor").name, "main::{lambda()#1}");
}

TEST(Types, AStrippedProgramSaysTheSameByItsTypeInformation) {
    for (toolchain const& t : toolchains()) {
        SCOPED_TRACE(t.name);
        recorded o(stripped(compile("objects", t)));
        expect_types(o, t.name.starts_with("libc++"));
        EXPECT_EQ(name_of(o.type_at("coroutine").kind), "buffer");  // which function it is, no one says
    }
}

TEST(Types, AProgramWithoutTypeInformationSaysTheSameByItsSymbols) {
    for (toolchain const& t : toolchains()) {
        if (!t.name.ends_with("-O2")) continue;
        SCOPED_TRACE(t.name);
        recorded o(compile("objects", t, "-fno-rtti"));
        expect_types(o, t.name.starts_with("libc++"));
    }
    recorded o(stripped(compile("objects", toolchains().back(), "-fno-rtti")));
    EXPECT_TRUE(o.type_at("circle").name.starts_with("object with vtable objects"))
        << o.type_at("circle").name;
    EXPECT_EQ(&o.type_at("circle"), &o.type_at("adopted_shape"));
}

TEST(Types, ObjectsOfPooledSayWhatTheyAreAlsoInAStrippedProgram) {
    std::vector<toolchain> const all = toolchains();
    for (toolchain const& t : {all[0], all[all.size() / 2 - 1]}) {  // -O0, which compiles in half the time
        SCOPED_TRACE(t.name);
        recorded o(stripped(compile("counted", t)));
        auto const expect = [&](char const* at, std::string const& name, std::string_view kind) {
            EXPECT_EQ(o.type_at(at).name, name) << at;
            EXPECT_EQ(name_of(o.type_at(at).kind), kind) << at;
        };
        expect("counted", "app::packet", "rc");
        expect("unique", "app::packet", "unique");
        expect("array", "app::packet[]", "rc");
        expect("shared", "app::connection", "shared");
        expect("tailed", "app::packet + n × std::byte", "shared");
        for (char const* const name : {"idle", "acquired", "acquired_rc"})
            expect(name, "app::connection", "object");
        auto const counts = o.counts_at("counted");
        ASSERT_TRUE(counts);
        EXPECT_EQ(counts->owners, 2u);
        EXPECT_EQ(counts->weak, 1u);
    }
}

}  // namespace
