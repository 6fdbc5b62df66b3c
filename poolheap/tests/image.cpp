// SPDX-License-Identifier: BSL-1.0
#include "naming.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace {

struct fake_image : poolheap::image {
    fake_image() { map(0x1000, 0x2000, false); }
    void map(poolheap::address begin, poolheap::address end, bool is_code) {
        m_mappings = {{begin, end, true, false, is_code, "", 0}};
    }
    std::string memory = std::string(300, 'a') + '\0';

    std::size_t read(poolheap::address from, std::span<std::byte> to) const override {
        if (from < 0x1000 || from >= 0x1000 + memory.size()) return 0;
        std::size_t const bytes = std::min(to.size(), 0x1000 + memory.size() - from);
        std::memcpy(to.data(), memory.data() + (from - 0x1000), bytes);
        return bytes;
    }
};

TEST(Image, TextEndsAtItsZeroOrAtAHole) {
    fake_image image;
    EXPECT_EQ(image.text(0x1000), std::string(300, 'a'));
    EXPECT_EQ(image.text(0x1000, 17), std::string(17, 'a'));
    image.memory.pop_back();
    EXPECT_EQ(image.text(0x1000), std::string(300, 'a'));
    EXPECT_EQ(image.text(0x5000), "");
}

TEST(Image, AnAddressLeadsToItsMapping) {
    fake_image const image;
    EXPECT_EQ(image.find_mapping(0xfff), nullptr);
    EXPECT_EQ(image.find_mapping(0x1000), image.mappings().data());
    EXPECT_EQ(image.find_mapping(0x1fff), image.mappings().data());
    EXPECT_EQ(image.find_mapping(0x2000), nullptr);
}

TEST(Image, OfADamagedFileWithCodeEverywhereIsNamedInAMoment) {
    fake_image image;
    image.map(0x1000, ~poolheap::address{4095}, true);
    poolheap::heap const blocks;
    EXPECT_EQ(poolheap::names_of(image, blocks)->name_all().size(), 0u);
}

}  // namespace
