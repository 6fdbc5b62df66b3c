// SPDX-License-Identifier: BSL-1.0
// Frees by threads that did not allocate the block, while threads start and end, the process forks, and a pool is trimmed.
//
// Each worker allocates batches of blocks from one of two pools, writes a mark into each, and posts them to the next worker,
// which verifies and frees them. A worker is a sequence of threads: each ends after its share, with batches left for its
// successor. Meanwhile the caller forks: the child uses both pools and ends. At the end every block was freed, both pools
// are empty and whole, and what they took from upstream is bounded by what can be in transit.
#pragma once

#include <pooled/pooled.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace soak {

struct frees_plan {
    std::uint64_t frees = 1'000'000'000;
    std::uint64_t lives = 20'000;  // threads that start and end
    std::uint64_t forks = 10'000;
    std::uint64_t forks_per_trim = 100;
};

struct frees_result {
    std::uint64_t allocated = 0;
    std::uint64_t freed = 0;
    std::uint64_t damaged = 0;  // whose mark was gone
    std::uint64_t lives = 0;
    std::uint64_t forks = 0;
    std::uint64_t failed_children = 0;
    std::uint64_t trims = 0;
    std::uint64_t most_upstream_bytes = 0;
    std::uint64_t left_in_use = 0;
    bool is_valid = false;
    double seconds = 0;

    // Four times what can be in transit, plus what caches and chunks take.
    static constexpr std::uint64_t k_most_upstream_bytes = std::uint64_t{64} << 20;

    [[nodiscard]] std::string fault() const {
        if (freed != allocated || left_in_use != 0) return "blocks were lost";
        if (damaged != 0) return "blocks were given twice, or written to";
        if (failed_children != 0) return "a child found a pool that did not work";
        if (most_upstream_bytes > k_most_upstream_bytes) return "memory is not bounded";
        return is_valid ? "" : "a pool is not as it should be";
    }
};

class frees {
public:
    explicit frees(frees_plan const& plan) : m_plan(plan) {}

    [[nodiscard]] frees_result run() {
        auto const begin = std::chrono::steady_clock::now();
        std::vector<std::thread> workers;
        for (std::size_t i = 0; i < k_workers; ++i)
            workers.emplace_back([this, i] { be_born_and_end(i); });
        for (; m_result.forks < m_plan.forks; ++m_result.forks) {
            fork_once(m_result.forks);
            if (m_result.forks % m_plan.forks_per_trim == 0) trim();
            note_memory();
        }
        while (m_running.load() != 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            trim();
            note_memory();
        }
        for (std::thread& one : workers)
            one.join();
        m_result.allocated = m_allocated;
        m_result.freed = m_freed;
        m_result.damaged = m_damaged;
        m_result.lives = m_lives;
        for (pooled::pool* const one : m_pools) {
            m_result.left_in_use += one->stats().in_use;
            m_result.is_valid = pooled::detail::pool_access::core(*one).is_valid() &&
                                (one == m_pools[0] || m_result.is_valid);
        }
        m_result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return m_result;
    }

private:
    static constexpr std::size_t k_workers = 4;
    static constexpr std::size_t k_batch = 64;
    static constexpr std::size_t k_most_batches = 32;  // in one mailbox

    struct batch {
        std::size_t bytes;
        std::size_t pool;
        std::uint64_t mark;
        std::array<void*, k_batch> blocks;
    };
    struct mailbox {
        std::mutex lock;
        std::vector<batch> batches;
    };

    // One thread after the other; the last one frees what is left when all have stopped allocating.
    void be_born_and_end(std::size_t self) {
        std::uint64_t const share = m_plan.frees / k_workers;
        std::uint64_t const per_life = std::max<std::uint64_t>(m_plan.frees / m_plan.lives, k_batch);
        for (std::uint64_t done = 0; done < share; done += per_life) {
            std::thread([&] { live(self, std::min(per_life, share - done), done); }).join();
            ++m_lives;
        }
        --m_allocating;
        while (m_allocating.load() != 0) {
            receive(self);
            std::this_thread::yield();
        }
        receive(self);
        --m_running;
    }

    void live(std::size_t self, std::uint64_t count, std::uint64_t seed) {
        std::uint64_t random = (seed + 1) * 0x9e37'79b9'7f4a'7c15U + self;
        for (std::uint64_t done = 0; done < count; done += k_batch) {
            random ^= random >> 12;
            random ^= random << 25;
            random ^= random >> 27;
            batch one{.bytes = std::size_t{16} << (random >> 32) % 7,
                      .pool = (random >> 48) % 2,
                      .mark = random,
                      .blocks = {}};
            for (void*& p : one.blocks) {
                p = m_pools[one.pool]->allocate(one.bytes);
                *static_cast<std::uint64_t*>(p) = one.mark;
            }
            m_allocated += k_batch;
            while (!post((self + 1) % k_workers, one)) {
                receive(self);
                std::this_thread::yield();
            }
            receive(self);
        }
    }

    [[nodiscard]] bool post(std::size_t to, batch const& one) {
        std::scoped_lock const lock(m_mail[to].lock);
        if (m_mail[to].batches.size() >= k_most_batches) return false;
        m_mail[to].batches.push_back(one);
        return true;
    }
    void receive(std::size_t self) {
        std::vector<batch> all;
        {
            std::scoped_lock const lock(m_mail[self].lock);
            all.swap(m_mail[self].batches);
        }
        for (batch const& one : all) {
            for (void* const p : one.blocks) {
                if (*static_cast<std::uint64_t*>(p) != one.mark) ++m_damaged;
                m_pools[one.pool]->deallocate(p, one.bytes);
            }
            m_freed += k_batch;
        }
    }

    void fork_once(std::uint64_t number) {
        pid_t const child = ::fork();
        if (child == 0) {
            ::alarm(60);
            ::_exit(work_in_child(number) ? 0 : 1);
        }
        int status = -1;
        if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) ++m_result.failed_children;
    }
    [[nodiscard]] bool work_in_child(std::uint64_t number) {
        std::array<void*, 200> blocks{};
        for (pooled::pool* const one : m_pools) {
            for (void*& p : blocks)
                p = one->allocate(48);
            for (void* const p : blocks)
                one->deallocate(p, 48);
            if (number % 16 == 0 && !pooled::detail::pool_access::core(*one).is_valid()) return false;
        }
        return true;
    }
    void trim() {
        for (pooled::pool* const one : m_pools)
            static_cast<void>(one->trim());
        ++m_result.trims;
    }
    void note_memory() {
        std::uint64_t bytes = 0;
        for (pooled::pool* const one : m_pools)
            bytes += one->stats().upstream_bytes;
        m_result.most_upstream_bytes = std::max(m_result.most_upstream_bytes, bytes);
    }

    frees_plan m_plan;
    pooled::pool m_first{{.name = "first"}};
    pooled::pool m_second{{.name = "second"}};
    std::array<pooled::pool*, 2> m_pools{&m_first, &m_second};
    std::array<mailbox, k_workers> m_mail;
    std::atomic<std::size_t> m_allocating{k_workers};
    std::atomic<std::size_t> m_running{k_workers};
    std::atomic<std::uint64_t> m_allocated{0};
    std::atomic<std::uint64_t> m_freed{0};
    std::atomic<std::uint64_t> m_damaged{0};
    std::atomic<std::uint64_t> m_lives{0};
    frees_result m_result;
};

}  // namespace soak
