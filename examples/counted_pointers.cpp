// SPDX-License-Identifier: BSL-1.0
// A scene graph held by pointers of 8 bytes: built on one thread without atomics, then shared with another, whose nodes
// know their parents and themselves.
#include <pooled/pooled.hpp>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

struct named {  // no virtual function, and not the first base
    char const* name = "";
};

struct drawable {
    virtual ~drawable() = default;
    [[nodiscard]] virtual int area() const = 0;
};

class node : public drawable, public named, public pooled::enable_rc_from_this<node> {
public:
    node(char const* title, int width, int height) : named{title}, m_width(width), m_height(height) {}

    void add(pooled::rc_ptr<node> child) {
        child->m_parent = weak_rc_from_this();  // an owner here would be a cycle, and a leak
        m_children.push_back(std::move(child));
    }
    [[nodiscard]] pooled::rc_ptr<node> parent() const { return m_parent.lock(); }
    [[nodiscard]] int area() const override {
        int sum = m_width * m_height;
        for (auto const& child : m_children)
            sum += child->area();
        return sum;
    }

private:
    int m_width;
    int m_height;
    pooled::weak_rc_ptr<node> m_parent;
    std::vector<pooled::rc_ptr<node>> m_children;
};

struct mesh {
    std::vector<int> vertices;
};

int main() {
    static_assert(sizeof(pooled::rc_ptr<node>) == sizeof(void*));
    pooled::pool scene{{.name = "scene"}};

    // One thread builds: copies are plain additions.
    pooled::local_rc_ptr<mesh> building = scene.make_local_rc<mesh>();
    {
        pooled::local_rc_ptr<mesh> const alias = building;  // NOLINT: a copy is what is shown
        alias->vertices = {1, 2, 3};
    }
    // The graph is built. Its only owner shares it between threads: nothing is allocated, the counts stay in place.
    pooled::rc_ptr<mesh const> const shared = std::move(building);

    // A factory returns a unique_ptr; a caller that needs to share makes an rc_ptr of it, also without an allocation.
    pooled::rc_ptr<node> const root = scene.make_unique<node>("root", 2, 3);
    root->add(scene.make_rc<node>("child", 4, 5));
    pooled::weak_rc_ptr<node> observer;
    {
        auto const leaf = scene.make_rc<node>("leaf", 1, 1);
        leaf->add(scene.make_rc<node>("twig", 1, 1));
        root->add(leaf);
        observer = leaf;
    }

    int area = 0;
    std::thread([&area, mine = pooled::rc_ptr<drawable>(root), shared] {
        area = mine->area() + shared->vertices.back();
    }).join();

    // A pointer to any base keeps it alive, with a virtual destructor or without.
    pooled::rc_ptr<named> const by_name = observer.lock();
    bool const found = by_name && static_pointer_cast<node>(by_name)->parent() == root;
    std::printf("area %d, %s's parent is %s, %zu blocks in use\n", area, by_name->name,
                found ? "root" : "lost", static_cast<std::size_t>(scene.stats().in_use));
    return area == 6 + 20 + 1 + 1 + 3 && found && scene.stats().in_use == 5 ? 0 : 1;
}
