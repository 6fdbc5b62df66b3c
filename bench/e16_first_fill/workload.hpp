// SPDX-License-Identifier: BSL-1.0
// E16: the first --live objects of a fresh process. All stay, so each touches new memory, and the figure includes what the
// kernel does for it. Nothing warms up: --repeat shows something else.
//
// one_size     objects of 48 bytes
// many_sizes   of 16 sizes from 16 to 256 bytes, chosen at random before the clock starts
// threads      --live threads are started, create 20 objects each, of 20 sizes, and wait for one another (start_ns); then each drops its own
//              and ends (end_ns)
//
// Processor time is reported beside wall time, for the kernel's share is what differs. Huge pages make the first touch
// cheap, or, where the hypervisor has taken the memory back, many times as expensive: so the worst process counts as well.
#pragma once

#include "contender/contender.hpp"
#include "support/environment.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/random.hpp"
#include "support/registry.hpp"
#include "support/resident_memory.hpp"

#include <algorithm>
#include <array>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace bench::e16_first_fill {

inline constexpr std::size_t k_sizes = 16;
inline constexpr std::size_t k_step = 16;  // bytes between two sizes

// Both clocks around what is timed.
class fill_clock {
public:
    measurement stop(std::size_t objects) const {
        const double wall = m_wall.seconds();
        const double cpu = (process_cpu_seconds() - m_cpu) * 1e9 / static_cast<double>(objects);
        // poolbench takes the largest of all processes as a figure that ends in _worst.
        return {wall, objects, {{"cpu_ns", cpu}, {"cpu_ns_worst", cpu}}};
    }

private:
    double m_cpu = process_cpu_seconds();
    stopwatch m_wall;
};

template <class C>
measurement one_size(std::size_t count, bool drop) {
    C from;
    resident_array<typename C::template pointer<packet<48>>> objects(count);
    const fill_clock clock;
    for (auto& one : objects)
        one = from.template make<packet<48>>();
    const measurement found = clock.stop(count);
    if (drop) {
        for (auto& one : objects)
            from.drop(one);
    } else {
        objects.leave();
    }
    return found;
}

// An array for each size, since each size is a type.
template <class C, class Sizes = std::make_index_sequence<k_sizes>>
class objects_of_sizes;

template <class C, std::size_t... I>
class objects_of_sizes<C, std::index_sequence<I...>> {
public:
    objects_of_sizes(C& from, const std::array<std::size_t, k_sizes>& counts)
        : m_from(from), m_objects(counts[I]...) {}

    void make_one(std::size_t size) { (this->*k_makers[size])(); }

    void drop_all() { (drop_size<I>(), ...); }
    void leave() { (std::get<I>(m_objects).leave(), ...); }

private:
    template <std::size_t Size>
    using object = packet<k_step*(Size + 1)>;

    template <std::size_t Size>
    void make_of_size() {
        std::get<Size>(m_objects)[m_made[Size]++] = m_from.template make<object<Size>>();
    }
    template <std::size_t Size>
    void drop_size() {
        for (auto& one : std::get<Size>(m_objects))
            m_from.drop(one);
    }

    static constexpr std::array<void (objects_of_sizes::*)(), k_sizes> k_makers{
        &objects_of_sizes::template make_of_size<I>...};

    C& m_from;
    std::tuple<resident_array<typename C::template pointer<object<I>>>...> m_objects;
    std::array<std::size_t, k_sizes> m_made{};
};

template <class C>
measurement many_sizes(std::size_t count, bool drop) {
    resident_array<std::uint8_t> sizes(count);
    std::array<std::size_t, k_sizes> counts{};
    random_source random;
    for (std::uint8_t& size : sizes)
        ++counts[size = static_cast<std::uint8_t>(random.below(k_sizes))];
    C from;
    objects_of_sizes<C> objects(from, counts);
    const fill_clock clock;
    for (const std::uint8_t size : sizes)
        objects.make_one(size);
    const measurement found = clock.stop(count);
    if (drop)
        objects.drop_all();
    else
        objects.leave();
    return found;
}

template <class C>
std::vector<std::string_view> variants() {
    if (C::k_thread_safe) return {"one_size", "many_sizes", "threads"};
    return {"one_size", "many_sizes"};
}

template <class C, std::size_t... I>
void make_and_drop(C& from, std::barrier<>& barrier, std::index_sequence<I...>) {
    std::tuple<typename C::template pointer<packet<k_step*(I + 1)>>...> mine;
    ((std::get<I>(mine) = from.template make<packet<k_step*(I + 1)>>(),
      keep_alive(std::to_address(std::get<I>(mine)))),
     ...);
    barrier.arrive_and_wait();  // all are ready
    barrier.arrive_and_wait();  // the clock runs
    (from.drop(std::get<I>(mine)), ...);
}

template <class C>
measurement start_and_end_threads(std::size_t count) {
    constexpr std::size_t k_objects_each = 20;
    C from;
    std::barrier<> barrier(static_cast<std::ptrdiff_t>(count) + 1);
    std::vector<std::thread> threads(count);
    const stopwatch start;
    for (std::thread& thread : threads)
        thread =
            std::thread([&] { make_and_drop(from, barrier, std::make_index_sequence<k_objects_each>()); });
    barrier.arrive_and_wait();
    const double started = start.seconds();
    const stopwatch end;
    barrier.arrive_and_wait();
    for (std::thread& thread : threads)
        thread.join();
    const double ended = end.seconds();
    const auto ns_each = [count](double seconds) { return seconds * 1e9 / static_cast<double>(count); };
    return {started + ended, count, {{"start_ns", ns_each(started)}, {"end_ns", ns_each(ended)}}};
}

template <contender C>
measurement run(const parameters& p) {
    const std::size_t count = is_tiny(p.scale) ? std::min<std::size_t>(p.live, 1000) : p.live;
    start_and_join_one_thread();
    if constexpr (C::k_thread_safe) {
        if (p.variant == "threads") return start_and_end_threads<C>(is_tiny(p.scale) ? 20 : p.live);
    }
    // Freeing ten million objects takes as long as creating them and measures nothing.
    const bool drop = !p.last_in_process || is_tiny(p.scale);
    return p.variant == "one_size" ? one_size<C>(count, drop) : many_sizes<C>(count, drop);
}

}  // namespace bench::e16_first_fill
