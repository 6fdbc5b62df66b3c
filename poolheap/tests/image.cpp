// SPDX-License-Identifier: BSL-1.0
#include "naming.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace {

struct fake_image : poolheap::image {
    std::vector<poolheap::mapping> all{{0x1000, 0x2000, true, false, false, "", 0}};
    std::string memory = std::string(300, 'a') + '\0';

    std::span<poolheap::mapping const> mappings() const override { return all; }
    std::span<poolheap::thread const> threads() const override { return {}; }
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
    EXPECT_EQ(image.find_mapping(0x1000), image.all.data());
    EXPECT_EQ(image.find_mapping(0x1fff), image.all.data());
    EXPECT_EQ(image.find_mapping(0x2000), nullptr);
}

TEST(Image, OfADamagedFileWithCodeEverywhereIsNamedInAMoment) {
    fake_image image;
    image.all = {{0x1000, ~poolheap::address{4095}, true, false, true, "", 0}};
    EXPECT_TRUE(poolheap::names_of(image, poolheap::heap())->name_all().empty());
}

}  // namespace
