// SPDX-License-Identifier: BSL-1.0
// A configuration as services have it is loaded, changed in places and written.
#include "job.hpp"

#include <yaml-cpp/yaml.h>

#include <string>

namespace {

constexpr int k_entries = 4000;

std::string document() {
    std::string text;
    for (int i = 0; i < k_entries; ++i) {
        const std::string number = std::to_string(i);
        text += "- name: service-" + number + "\n  image: registry/team/image:" + number +
                "\n  replicas: " + std::to_string(i % 7) + "\n  ports: [80, 443, " +
                std::to_string(8000 + i % 100) + "]\n  labels: {tier: back, zone: \"zone " +
                std::to_string(i % 5) +
                "\"}\n  command:\n    - /usr/bin/server\n    - --verbose\n    - --port=" + number + "\n";
    }
    return text;
}

}  // namespace

void bench::job(digest& output, double scale) {
    const std::string text = document();
    for (std::size_t round = 0; round < scaled(3, scale); ++round) {
        YAML::Node root = YAML::Load(text);
        for (std::size_t i = 0; i < root.size(); i += 16)
            root[i]["replicas"] = i;
        YAML::Emitter written;
        written << root;
        output.add(std::string_view(written.c_str(), written.size()));
    }
}
