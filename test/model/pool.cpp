// SPDX-License-Identifier: BSL-1.0

// A whole pool, production code from allocate() and deallocate() to the registry, under Relacy's scheduler and memory model: flush and
// refill, stealing, threads that end, and the close of a pool, against one another. stand_ins/ and stand_ins_of_pool/ have the
// headers that are not production's: atomics, the lock, the barrier, and a state for each simulated thread.
//
// Relacy sees the gates, the locks, the counters of the caches and the central free lists, and the blocks: each owner of a block writes
// to it, and so does upstream when it gets the memory back. Two writes that nothing orders are a race.
//
//   hand over   two threads allocate, exchange and free blocks, with flushes and refills, and end, while a third one trims
//   bound       two threads with a block at most each, in a pool of two blocks: an allocation never fails
//   deferred    the same with two blocks each, in a pool of four, while a third thread has the lock of their class again and again
//   end         a thread ends, perhaps cancelled within its gate, while two others use what it had cached
//   close       a pool is closed while two threads return its last blocks and end
//   controls    without one of the barriers Relacy must find a race
//
// Mutants of the production code, one at a time, and what they end in: docs/mechanisms.md.

#include "pooled/pool.hpp"

#include "model/relacy.hpp"  // behind all others

#include <array>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <utility>

namespace {

constexpr std::size_t k_few_bytes = 21'000;   // a thread caches two of them; three are a slab
constexpr std::size_t k_slab_bytes = 16'384;  // one is a slab of a pool with a small bound

// Returns the parts of a static array, from its beginning.
class one_array final : public std::pmr::memory_resource {
public:
    void begin_iteration() {
        m_used = m_out = 0;
        m_block_count = 0;
    }
    void note_block(void* p) {
        for (std::size_t i = 0; i < m_block_count; ++i)
            if (m_blocks[i] == p) return;
        m_blocks[m_block_count++] = p;
    }
    [[nodiscard]] std::size_t out() const { return m_out; }

private:
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        m_used = (m_used + align - 1) & ~(align - 1);
        void* const p = m_memory.data() + m_used;
        m_used += bytes;
        m_out += bytes;
        RL_ASSERT(m_used <= m_memory.size());
        return p;
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t) override {
        m_out -= bytes;
        auto* const first = static_cast<std::byte*>(p);
        for (std::size_t i = 0; i < m_block_count; ++i)
            if (m_blocks[i] >= first && m_blocks[i] < first + bytes) simulation::note_write(m_blocks[i]);
    }
    [[nodiscard]] bool do_is_equal(memory_resource const& other) const noexcept override {
        return this == &other;
    }

    static constexpr std::size_t k_align = 1 << 21;
    alignas(k_align) std::array<std::byte, 4 * k_align> m_memory;
    std::size_t m_used = 0;
    std::size_t m_out = 0;
    std::array<void*, 32> m_blocks{};
    std::size_t m_block_count = 0;
};
one_array g_upstream;

class pool_in_iteration {
public:
    // Threads act by themselves from the end of `first` on.
    template <class First>
    void begin(std::size_t bytes, std::size_t max_bytes, First&& first) {
        model::begin_iteration();
        simulation::forget();
        simulation::g_is_in_thread = false;
        simulation::g_acts_as = 0;
        for (auto& each : pooled::detail::g_simulated_states)
            std::construct_at(&each);
        g_upstream.begin_iteration();
        // What is static gets its first value in this thread, before the others begin.
        pooled::detail::g_metadata.deallocate(pooled::detail::g_metadata.allocate(64), 64);
        m_bytes = bytes;
        m_pool = std::construct_at(reinterpret_cast<pooled::pool*>(m_memory.data()),
                                   pooled::pool_options{.name = "model",
                                                        .max_bytes = max_bytes,
                                                        .chunk_bytes = std::size_t{64} << 10,
                                                        .upstream = &g_upstream,
                                                        .release_unused_after = {}});
        m_resource = m_pool->resource();
        first();
        simulation::g_is_in_thread = true;
    }
    void begin(std::size_t bytes, std::size_t max_bytes) {
        begin(bytes, max_bytes, [] {});
    }
    // Everything was returned, wherever it had been cached.
    void end() {
        simulation::g_is_in_thread = false;
        if (m_pool != nullptr) {
            RL_ASSERT(m_pool->stats().in_use == 0);
            RL_ASSERT(pooled::detail::pool_access::core(*m_pool).is_valid());
            close();
        }
        RL_ASSERT(g_upstream.out() == 0);
        simulation::clear();
    }

    [[nodiscard]] void* allocate() {
        void* const p = m_pool->try_allocate(m_bytes);
        RL_ASSERT(p != nullptr);
        g_upstream.note_block(p);
        simulation::note_write(p);
        return p;
    }
    void deallocate(void* p) {
        simulation::note_write(p);
        m_resource->deallocate(p, m_bytes);  // also when the pool is closed
    }
    [[nodiscard]] pooled::detail::central& list_of(void* p) {
        return pooled::detail::pool_access::core(*m_pool)
            .caches()[pooled::detail::g_page_map.find(p).slab_at()->size_class];
    }
    void trim() { static_cast<void>(m_pool->trim()); }
    void close() { std::destroy_at(std::exchange(m_pool, nullptr)); }

    static void end_thread() { pooled::detail::registry::end_thread(&pooled::detail::t_state()); }
    // The thread is cancelled while it uses its cache.
    static void enter_gates() {
        for (auto& cache : pooled::detail::t_state().owned)
            static_cast<void>(cache.gate.enter());
    }

private:
    // Not destroyed when an iteration fails.
    alignas(pooled::pool) std::array<std::byte, sizeof(pooled::pool)> m_memory;
    pooled::pool* m_pool = nullptr;
    std::pmr::memory_resource* m_resource = nullptr;
    std::size_t m_bytes = 0;
};

// Blocks on their way from thread to thread.
class mailbox {
public:
    void begin_iteration() { m_count = 0; }
    [[nodiscard]] bool post(void* p) {
        m_lock.lock($);
        bool const fits = m_count < m_blocks.size();
        if (fits) m_blocks[m_count++] = p;
        m_lock.unlock($);
        return fits;
    }
    [[nodiscard]] void* receive() {
        m_lock.lock($);
        void* const p = m_count != 0 ? m_blocks[--m_count] : nullptr;
        m_lock.unlock($);
        return p;
    }

private:
    rl::mutex m_lock;
    std::array<void*, 4> m_blocks{};
    std::size_t m_count = 0;
};

template <rl::test_result_e Expected>
struct hand_over : rl::test_suite<hand_over<Expected>, 3, Expected> {
    pool_in_iteration pool;
    mailbox mail;

    void before() {
        mail.begin_iteration();
        pool.begin(k_few_bytes, 0);
    }
    void thread(unsigned index) {
        if (index == 2) return pool.trim();
        std::array<void*, 4> held{};
        for (void*& one : held)
            one = pool.allocate();
        for (void* const one : held)
            if (rl::rand(2) == 0 || !mail.post(one)) pool.deallocate(one);
        for (int i = 0; i < 2; ++i)
            if (void* const other = mail.receive()) pool.deallocate(other);
        pool.end_thread();
    }
    void after() {
        simulation::g_is_in_thread = false;
        while (void* const rest = mail.receive())
            pool.deallocate(rest);
        pool.end();
    }
};

template <rl::test_result_e Expected>
struct bound : rl::test_suite<bound<Expected>, 2, Expected> {
    pool_in_iteration pool;

    void before() { pool.begin(k_slab_bytes, 2 * k_slab_bytes); }
    void thread(unsigned) {
        for (int i = 0; i < 3; ++i)
            pool.deallocate(pool.allocate());
        pool.end_thread();
    }
    void after() { pool.end(); }
};

template <rl::test_result_e Expected>
struct deferred : rl::test_suite<deferred<Expected>, 3, Expected> {
    pool_in_iteration pool;
    pooled::detail::central* list = nullptr;

    void before() {
        pool.begin(k_slab_bytes, 4 * k_slab_bytes, [this] {
            void* const p = pool.allocate();
            list = &pool.list_of(p);
            pool.deallocate(p);
        });
    }
    void thread(unsigned index) {
        for (int i = 0; index == 2 && i < 4; ++i) {
            pooled::detail::scoped_lock const preempted(*list);
            for (unsigned steps = rl::rand(40); steps != 0; --steps)
                model::yield();
        }
        if (index == 2) return;
        for (int i = 0; i < 3; ++i) {
            std::array<void*, 2> const held{pool.allocate(), pool.allocate()};
            for (void* const one : held)
                pool.deallocate(one);
        }
        pool.end_thread();
    }
    void after() { pool.end(); }
};

template <bool IsCancelled, rl::test_result_e Expected>
struct end_of_thread : rl::test_suite<end_of_thread<IsCancelled, Expected>, 3, Expected> {
    pool_in_iteration pool;

    void before() { pool.begin(k_slab_bytes, 3 * k_slab_bytes); }
    void thread(unsigned index) {
        pool.deallocate(pool.allocate());
        if (IsCancelled && index == 0) pool.enter_gates();
        if (index == 0) return pool.end_thread();
        pool.deallocate(pool.allocate());
        if (index == 1) pool.trim();
        pool.end_thread();
    }
    void after() { pool.end(); }
};

template <bool IsCancelled, rl::test_result_e Expected>
struct close_of_pool : rl::test_suite<close_of_pool<IsCancelled, Expected>, 3, Expected> {
    pool_in_iteration pool;
    std::array<void*, 3> last{};
    rl::atomic<int> is_closed;

    void before() {
        is_closed.store(0, rl::mo_relaxed, $);
        pool.begin(k_few_bytes, 0, [this] {
            for (unsigned i : {0U, 1U, 2U}) {
                simulation::g_acts_as = i;
                last[i] = pool.allocate();
                pool.deallocate(pool.allocate());
            }
        });
    }
    // Closing takes a few hundred steps: without this the others would nearly always be done before it has begun. Orders nothing.
    void wait_a_while() {
        if (rl::rand(2) == 0)
            for (unsigned steps = rl::rand(400); steps != 0; --steps)
                model::yield();
        else
            while (is_closed.load(rl::mo_relaxed, $) == 0)
                model::yield();
    }
    void thread(unsigned index) {
        if (index != 1) {
            if (rl::rand(4) != 0) wait_a_while();
            pool.deallocate(last[index]);
            if (IsCancelled && index == 0) pool.enter_gates();
        } else {
            pool.close();
            is_closed.store(1, rl::mo_relaxed, $);
            pool.deallocate(last[index]);
        }
        pool.end_thread();
    }
    void after() { pool.end(); }
};

constexpr auto k_success = rl::test_result_success;
constexpr auto k_race = rl::test_result_data_race;

// What it sees of docs/mechanisms.md's mutants and of the controls, it saw within 510.
constexpr unsigned k_iterations = 5'000;

}  // namespace

int main() {
    bool ok = true;
    ok &= model::run<hand_over<k_success>>(
        "blocks are flushed, refilled and trimmed: none is lost or given twice", k_iterations);
    ok &= model::run<bound<k_success>>("a bounded pool finds the free block in the other thread's cache",
                                       k_iterations);
    ok &= model::run<deferred<k_success>>(
        "a bounded pool finds what was deferred beside a thread with the lock of a class", 20'000);
    ok &= model::run<end_of_thread<false, k_success>>("a thread ends while others steal", k_iterations);
    ok &= model::run<end_of_thread<true, k_success>>(
        "a thread that was cancelled within its gate ends while others steal", k_iterations);
    ok &= model::run<close_of_pool<false, k_success>>(
        "a pool is closed while threads return its last blocks and end", k_iterations);
    ok &= model::run<close_of_pool<true, k_success>>(
        "a pool is closed, and one of them was cancelled within its gate", k_iterations);

    simulation::g_has = {.light_fence = false, .full_fence = false};
    ok &= model::run<bound<k_race>>("without the owner's barrier a steal races", k_iterations);
    simulation::g_has = {.heavy_fence = false};
    ok &= model::run<hand_over<k_race>>("without the heavy barrier a steal races", k_iterations);
    return ok ? 0 : 1;
}
