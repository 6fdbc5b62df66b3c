// SPDX-License-Identifier: BSL-1.0
// A pool for one type, grown by arrays whose free places are linked, as in thinkingeek's "A very simple memory pool in C++11"; with
// MIGRATION_BEFORE, on such a pool, else on pooled::local_pool. docs/migration/free-list-pool.md has what differs.
#ifndef MIGRATION_BEFORE
#include <pooled/pooled.hpp>
#endif

#include <cstddef>
#include <cstdio>
#include <memory>
#include <new>
#include <random>
#include <utility>
#include <vector>

namespace {

struct Node {
    static inline long alive = 0;

    explicit Node(int k) : key(k) { ++alive; }
    Node(Node const&) = delete;
    Node& operator=(Node const&) = delete;
    ~Node() { --alive; }

    int key;
    Node* left = nullptr;
    Node* right = nullptr;
};

#ifdef MIGRATION_BEFORE

// A free place contains the address of the next one. free() must be called for each object, with its own pool.
template <class T>
class memory_pool {
public:
    explicit memory_pool(std::size_t arena_size) : m_arena_size(arena_size) {}
    memory_pool(memory_pool const&) = delete;
    memory_pool& operator=(memory_pool const&) = delete;

    template <class... Args>
    T* alloc(Args&&... args) {
        if (m_free == nullptr) grow();
        place* const p = std::exchange(m_free, m_free->next);
        return ::new (p->bytes) T(std::forward<Args>(args)...);
    }
    void free(T* object) {
        object->~T();
        m_free = ::new (static_cast<void*>(object)) place{m_free};
    }

private:
    union place {
        place* next;
        alignas(T) std::byte bytes[sizeof(T)];
    };
    void grow() {
        m_arenas.push_back(std::make_unique<place[]>(m_arena_size));
        for (std::size_t i = m_arena_size; i-- != 0;)
            m_free = ::new (&m_arenas.back()[i]) place{m_free};
    }

    std::size_t m_arena_size;
    std::vector<std::unique_ptr<place[]>> m_arenas;
    place* m_free = nullptr;
};

class nodes {
public:
    Node* make(int key) { return m_pool.alloc(key); }
    void drop(Node* node) { m_pool.free(node); }

private:
    memory_pool<Node> m_pool{1024};
};

#else

class nodes {
public:
    nodes() { m_pool.reserve<Node>(1024); }
    Node* make(int key) { return m_pool.make_unique<Node>(key).release(); }
    void drop(Node* node) { pooled::unique_ptr<Node>{node}.reset(); }

private:
    pooled::local_pool m_pool{{.name = "nodes"}};
};

#endif

void drop_tree(nodes& from, Node* root) {
    std::vector<Node*> pending{root};
    while (!pending.empty()) {
        Node* const node = pending.back();
        pending.pop_back();
        if (node == nullptr) continue;
        pending.push_back(node->left);
        pending.push_back(node->right);
        from.drop(node);
    }
}

}  // namespace

int main() {
    nodes all;
    std::mt19937 random(1);
    long found = 0;
    for (int round = 0; round < 20; ++round) {
        Node* root = nullptr;
        for (int i = 0; i < 5000; ++i) {
            int const key = static_cast<int>(random() % 10'000);
            Node** at = &root;
            while (*at != nullptr && (*at)->key != key)
                at = key < (*at)->key ? &(*at)->left : &(*at)->right;
            if (*at == nullptr)
                *at = all.make(key);
            else
                ++found;
        }
        drop_tree(all, root);
    }
    std::printf("%ld keys were there before, %ld nodes are left\n", found, Node::alive);
    return found > 0 && Node::alive == 0 ? 0 : 1;
}
