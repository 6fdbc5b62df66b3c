// SPDX-License-Identifier: BSL-1.0
// Records as a web service exchanges them are parsed, changed in places and written.
#include "job.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace {

std::string document() {
    std::string text = "[";
    for (int i = 0; i < 10000; ++i) {
        const std::string number = std::to_string(i);
        text += (i == 0 ? "" : ",") + std::string(R"({"id": )") + number + R"(, "name": "customer number )" +
                number + R"(", "active": true, "balance": )" + number + R"(.25, "tags": ["a", "bb", "tag-)" +
                number + R"("], "address": {"street": "Long Street )" + number +
                R"(", "city": "City", "zip": ")" + number + R"("}})";
    }
    return text + "]";
}

}  // namespace

void bench::job(digest& output, double scale) {
    const std::string text = document();
    for (std::size_t round = 0; round < scaled(10, scale); ++round) {
        nlohmann::json records = nlohmann::json::parse(text);
        for (std::size_t i = 0; i < records.size(); i += 3) {
            records[i]["seen"] = i;
            records[i].erase("tags");
        }
        output.add(records.dump());
    }
}
