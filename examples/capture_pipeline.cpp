// SPDX-License-Identifier: BSL-1.0
// A capture pipeline over a pcap file. One thread reads and parses packets, a second matches them against a filter and counts
// flows, a third writes those that match. At most --bound packets exist at a time: when the writer is slow, the reader waits
// in acquire_for, so memory stays constant and nothing is lost.
//
//   capture_pipeline --generate trace.pcap --packets 1000000      writes a trace
//   capture_pipeline --read trace.pcap --write udp.pcap           filters it; statistics each second
//   capture_pipeline --tails ...                                  packets as long as what arrived, instead of the longest
//   capture_pipeline --stuck ...                                  the writer takes nothing: ask poolheap who has the packets
//   capture_pipeline --malloc ...                                 the same with std::make_shared, to compare
//
// Without --read it generates a small trace in a temporary file, and checks what arrives.

#include <pooled/pooled.hpp>

#include "arguments.hpp"

#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <random>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

using namespace std::chrono_literals;

namespace {

constexpr std::size_t k_snap_bytes = 1518;  // the largest Ethernet frame without a tag
constexpr std::size_t k_batch = 32;         // packets that a queue moves at a time

struct flow {
    std::uint32_t source = 0;
    std::uint32_t target = 0;
    std::uint16_t source_port = 0;
    std::uint16_t target_port = 0;
    std::uint8_t protocol = 0;

    friend bool operator==(flow const&, flow const&) = default;
};

struct flow_hash {
    std::size_t operator()(flow const& f) const noexcept {
        std::uint64_t const addresses = (std::uint64_t{f.source} << 32) | f.target;
        std::uint64_t const rest =
            (std::uint64_t{f.source_port} << 24) | (std::uint64_t{f.target_port} << 8) | f.protocol;
        return std::hash<std::uint64_t>{}((addresses ^ (rest * 0x9E3779B97F4A7C15U)) * 0xBF58476D1CE4E5B9U);
    }
};

struct packet {
    packet() {}  // NOLINT: a capture writes all of it

    pcap_pkthdr header;
    flow of;
    bool is_ip;
    std::uint8_t* bytes;
};
using packet_ptr = std::shared_ptr<packet>;

struct longest_packet : packet {
    longest_packet() { bytes = room.data(); }

    std::array<std::uint8_t, k_snap_bytes> room;  // NOLINT: left as it is
};

// Packets stay constructed between uses, their control blocks included.
class pooled_packets {
public:
    explicit pooled_packets(std::size_t bound)
        : m_pool({.name = "packets", .initial_objects = bound, .growth = 0}) {}

    // Empty after the time.
    packet_ptr acquire_for(std::chrono::milliseconds time, std::size_t) { return m_pool.acquire_for(time); }
    [[nodiscard]] std::size_t in_use() const { return m_pool.in_use(); }

private:
    pooled::object_pool<longest_packet> m_pool;
};

// A bound for packets that are created and destroyed.
class counted_packets {
public:
    explicit counted_packets(std::size_t bound) : m_free(static_cast<std::ptrdiff_t>(bound)) {}
    [[nodiscard]] std::size_t in_use() const { return m_in_use.load(std::memory_order_relaxed); }

protected:
    template <class Packet>
    struct counted : Packet {
        explicit counted(counted_packets& owner) : m_owner(owner) {
            m_owner.m_in_use.fetch_add(1, std::memory_order_relaxed);
        }
        ~counted() {
            m_owner.m_in_use.fetch_sub(1, std::memory_order_relaxed);
            m_owner.m_free.release();
        }
        counted(counted const&) = delete;
        counted& operator=(counted const&) = delete;
        counted_packets& m_owner;
    };

    std::atomic<std::size_t> m_in_use = 0;
    std::counting_semaphore<> m_free;
};

// Each packet and its bytes in one block, as small as they are.
class tailed_packets : public counted_packets {
public:
    using counted_packets::counted_packets;

    packet_ptr acquire_for(std::chrono::milliseconds time, std::size_t size) {
        if (!m_free.try_acquire_for(time)) return nullptr;
        auto p = pooled::make_shared_with_tail_for_overwrite<counted<packet>, std::uint8_t>(size, *this);
        p->bytes = tail(p).data();
        return p;
    }
};

// With the same bound, std::make_shared.
class malloc_packets : public counted_packets {
public:
    using counted_packets::counted_packets;

    packet_ptr acquire_for(std::chrono::milliseconds time, std::size_t) {
        if (!m_free.try_acquire_for(time)) return nullptr;
        return std::make_shared<counted<longest_packet>>(*this);
    }
};

// Between two threads, in batches: one lock for many packets. The packets' bound is its bound.
class queue {
public:
    using batch = std::vector<packet_ptr>;

    // Empties the batch.
    void push(batch& packets) {
        if (packets.empty()) return;
        {
            std::scoped_lock const lock(m_mutex);
            std::move(packets.begin(), packets.end(), std::back_inserter(m_packets));
        }
        packets.clear();
        m_changed.notify_one();
    }
    // Takes all packets of the queue, in exchange for an empty batch; false when the queue is closed and drained.
    bool pop(batch& packets) {
        packets.clear();
        std::unique_lock lock(m_mutex);
        m_changed.wait(lock, [this] { return m_is_closed || !m_packets.empty(); });
        std::swap(m_packets, packets);
        return !packets.empty();
    }
    void close() {
        {
            std::scoped_lock const lock(m_mutex);
            m_is_closed = true;
        }
        m_changed.notify_one();
    }

private:
    std::mutex m_mutex;
    std::condition_variable m_changed;
    batch m_packets;
    bool m_is_closed = false;
};

struct counters {
    std::atomic<std::uint64_t> read = 0;
    std::atomic<std::uint64_t> matched = 0;
    std::atomic<std::uint64_t> written = 0;
    std::atomic<std::uint64_t> waits = 0;  // times that no packet was free
    std::atomic<std::uint64_t> flows = 0;
};

using capture = std::unique_ptr<pcap_t, decltype([](pcap_t* p) { pcap_close(p); })>;
using dump = std::unique_ptr<pcap_dumper_t, decltype([](pcap_dumper_t* p) { pcap_dump_close(p); })>;

capture open_capture(std::string const& path) {
    std::array<char, PCAP_ERRBUF_SIZE> error{};
    capture file(pcap_open_offline(path.c_str(), error.data()));
    if (!file) throw std::runtime_error(error.data());
    if (pcap_datalink(file.get()) != DLT_EN10MB) throw std::runtime_error(path + " has no Ethernet frames");
    return file;
}

dump open_dump(pcap_t* format, std::string const& path) {
    dump file(pcap_dump_open(format, path.c_str()));
    if (!file) throw std::runtime_error(pcap_geterr(format));
    return file;
}

std::uint16_t big16(std::uint8_t const* p) { return static_cast<std::uint16_t>((p[0] << 8) | p[1]); }
std::uint32_t big32(std::uint8_t const* p) { return (std::uint32_t{big16(p)} << 16) | big16(p + 2); }

constexpr std::size_t k_ethernet = 14;
constexpr std::uint8_t k_tcp = 6;
constexpr std::uint8_t k_udp = 17;

// IPv4 addresses and, of TCP and UDP, ports.
bool parse(std::uint8_t const* bytes, std::size_t size, flow& of) {
    if (size < k_ethernet + 20 || big16(bytes + 12) != 0x0800) return false;
    std::uint8_t const* const ip = bytes + k_ethernet;
    std::size_t const header = std::size_t{ip[0] & 0x0FU} * 4;
    if ((ip[0] >> 4) != 4 || header < 20 || size < k_ethernet + header) return false;
    of = {.source = big32(ip + 12), .target = big32(ip + 16), .protocol = ip[9]};
    bool const has_ports = (of.protocol == k_tcp || of.protocol == k_udp) && size >= k_ethernet + header + 4;
    if (has_ports) {
        of.source_port = big16(ip + header);
        of.target_port = big16(ip + header + 2);
    }
    return true;
}

template <class Packets>
void read_packets(pcap_t* file, Packets& packets, queue& parsed, counters& count) {
    queue::batch batch;
    pcap_pkthdr* header = nullptr;
    u_char const* bytes = nullptr;
    int status = 0;
    while ((status = pcap_next_ex(file, &header, &bytes)) == 1) {
        bpf_u_int32 const size = std::min<bpf_u_int32>(header->caplen, k_snap_bytes);
        packet_ptr p = packets.acquire_for(0ms, size);
        if (!p) parsed.push(batch);  // before waiting, pass on the packets that this thread holds
        while (!p) {
            count.waits.fetch_add(1, std::memory_order_relaxed);
            p = packets.acquire_for(100ms, size);
        }
        p->header = *header;
        p->header.caplen = size;
        std::memcpy(p->bytes, bytes, size);
        p->is_ip = parse(p->bytes, size, p->of);
        batch.push_back(std::move(p));
        if (batch.size() == k_batch) parsed.push(batch);
        count.read.fetch_add(1, std::memory_order_relaxed);
    }
    parsed.push(batch);
    parsed.close();
    if (status == PCAP_ERROR) std::fprintf(stderr, "reading stopped: %s\n", pcap_geterr(file));
}

// Counts the packets of each flow, and passes UDP on. What does not match is dropped here, on another thread than it came from.
template <class Allocator>
void match_packets(queue& parsed, queue& matched, counters& count) {
    using counts = std::unordered_map<flow, std::uint64_t, flow_hash, std::equal_to<>,
                                      typename std::allocator_traits<Allocator>::template rebind_alloc<
                                          std::pair<flow const, std::uint64_t>>>;
    counts flows;
    queue::batch batch;
    queue::batch out;
    while (parsed.pop(batch)) {
        for (packet_ptr& p : batch) {
            if (!p->is_ip) continue;
            ++flows[p->of];
            if (p->of.protocol == k_udp) out.push_back(std::move(p));
        }
        count.matched.fetch_add(out.size(), std::memory_order_relaxed);
        count.flows.store(flows.size(), std::memory_order_relaxed);
        matched.push(out);
    }
    matched.close();
}

void write_packets(queue& matched, pcap_dumper_t* file, counters& count) {
    queue::batch batch;
    while (matched.pop(batch)) {
        for (packet_ptr const& p : batch)
            pcap_dump(reinterpret_cast<u_char*>(file), &p->header, p->bytes);
        count.written.fetch_add(batch.size(), std::memory_order_relaxed);
    }
}

// A block of the pool, so that poolheap names its members as holders.
struct pipeline {
    queue parsed;
    queue matched;
};

struct result {
    std::uint64_t read;
    std::uint64_t written;
    std::size_t in_use;
    double seconds;
};

template <class Packets, class Allocator>
result run(std::string const& from, std::string const& to, std::size_t bound, bool is_stuck) {
    capture const file = open_capture(from);
    dump const out = open_dump(file.get(), to);
    Packets packets(bound);
    auto const shared = pooled::make_shared<pipeline>();
    auto& parsed = shared->parsed;
    auto& matched = shared->matched;
    counters count;
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;

    auto const start = std::chrono::steady_clock::now();
    std::thread statistics([&] {
        std::unique_lock lock(mutex);
        while (!changed.wait_for(lock, 1s, [&] { return is_done; }))
            std::printf("%9llu read, %9llu written, %6llu flows, %5zu packets in use, %llu waits\n",
                        static_cast<unsigned long long>(count.read.load()),
                        static_cast<unsigned long long>(count.written.load()),
                        static_cast<unsigned long long>(count.flows.load()), packets.in_use(),
                        static_cast<unsigned long long>(count.waits.load()));
    });
    std::thread reader([&] { read_packets(file.get(), packets, parsed, count); });
    std::thread matcher([&] { match_packets<Allocator>(parsed, matched, count); });
    std::thread writer([&] {
        if (is_stuck) std::this_thread::sleep_for(24h);
        write_packets(matched, out.get(), count);
    });
    for (std::thread* each : {&reader, &matcher, &writer})
        each->join();
    std::chrono::duration<double> const time = std::chrono::steady_clock::now() - start;
    {
        std::scoped_lock const lock(mutex);
        is_done = true;
    }
    changed.notify_one();
    statistics.join();
    std::printf("%llu packets, %llu flows, %llu written; %llu waits for a packet\n",
                static_cast<unsigned long long>(count.read.load()),
                static_cast<unsigned long long>(count.flows.load()),
                static_cast<unsigned long long>(count.written.load()),
                static_cast<unsigned long long>(count.waits.load()));
    return {count.read.load(), count.written.load(), packets.in_use(), time.count()};
}

// Every third packet is UDP, the others TCP; sizes as in a network, many small and some full.
std::uint64_t generate(std::string const& path, std::size_t count) {
    capture const format(pcap_open_dead(DLT_EN10MB, k_snap_bytes));
    dump const file = open_dump(format.get(), path);
    std::mt19937 generator(1);
    auto const random = [&generator] { return static_cast<std::uint32_t>(generator()); };
    std::array<std::uint8_t, k_snap_bytes> frame{};
    frame[12] = 0x08;
    std::uint8_t* const ip = frame.data() + k_ethernet;
    ip[0] = 0x45;
    std::uint64_t udp = 0;
    for (std::size_t i = 0; i < count; ++i) {
        bool const is_udp = i % 3 == 0;
        udp += is_udp ? 1 : 0;
        std::uint32_t const host = random() % 1024;
        ip[9] = is_udp ? k_udp : k_tcp;
        ip[12] = ip[16] = 10;
        ip[14] = static_cast<std::uint8_t>(host >> 8);
        ip[15] = static_cast<std::uint8_t>(host);
        ip[19] = static_cast<std::uint8_t>(random() % 8);
        ip[21] = static_cast<std::uint8_t>(random() % 4);
        ip[23] = 53;
        std::uint32_t const size = random() % 4 == 0 ? k_snap_bytes : 64 + random() % 400;
        ip[2] = static_cast<std::uint8_t>((size - k_ethernet) >> 8);
        ip[3] = static_cast<std::uint8_t>(size - k_ethernet);
        pcap_pkthdr header{};
        header.ts.tv_sec = static_cast<decltype(header.ts.tv_sec)>(i / 100'000);
        header.ts.tv_usec = static_cast<decltype(header.ts.tv_usec)>(i % 100'000 * 10);
        header.caplen = header.len = size;
        pcap_dump(reinterpret_cast<u_char*>(file.get()), &header, frame.data());
    }
    return udp;
}

int run_program(int argc, char** argv) {
    example::arguments words(
        argc, argv,
        "capture_pipeline [--pool | --tails | --malloc] [--read FILE [--write FILE] | --generate FILE] "
        "[--packets N] [--bound N] [--stuck]");
    bool const is_malloc = words.is_malloc();
    bool const has_tails = words.flag("--tails");
    bool const is_stuck = words.flag("--stuck");
    std::string const made = words.text("--generate", "");
    std::string from = words.text("--read", "");
    std::string const to = words.text("--write", "/dev/null");
    std::size_t const count = words.number("--packets", 20'000);
    std::size_t const bound = words.number("--bound", 1024);
    words.end();

    if (!made.empty()) {
        std::printf("%s: %zu packets, %llu of them UDP\n", made.c_str(), count,
                    static_cast<unsigned long long>(generate(made, count)));
        return 0;
    }
    bool const is_own = from.empty();
    std::uint64_t expected = 0;
    if (is_own) {
        from = std::filesystem::temp_directory_path() /
               ("capture_pipeline-" + std::to_string(::getpid()) + ".pcap");
        expected = generate(from, count);
    }
    result const r = is_malloc ? run<malloc_packets, std::allocator<std::byte>>(from, to, bound, is_stuck)
                     : has_tails
                         ? run<tailed_packets, pooled::allocator<std::byte>>(from, to, bound, is_stuck)
                         : run<pooled_packets, pooled::allocator<std::byte>>(from, to, bound, is_stuck);
    if (is_own) std::filesystem::remove(from);
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    std::printf("peak resident memory %ld KiB\n", usage.ru_maxrss);
    std::printf("%s: seconds %.4f\n", is_malloc ? "malloc" : "pool", r.seconds);
    return r.in_use == 0 && (!is_own || (r.read == count && r.written == expected)) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run_program(argc, argv);
    } catch (std::exception const& e) {
        std::fprintf(stderr, "capture_pipeline: %s\n", e.what());
        return 1;
    }
}
