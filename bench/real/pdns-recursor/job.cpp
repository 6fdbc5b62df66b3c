// SPDX-License-Identifier: BSL-1.0
// What a resolver does with each answer of another server: it parses the packet and keeps the records for a while.
#include "job.hpp"

#include "dnsparser.hh"
#include "dnsrecords.hh"
#include "dnswriter.hh"
#include "utility.hh"

#include <array>
#include <memory>
#include <string>
#include <vector>

// Stands for a file of the package that also writes its log; no record of this job has a time.
time_t Utility::timegm(tm* const time) { return ::timegm(time); }

namespace {

std::vector<std::uint8_t> answer(int number) {
    std::vector<std::uint8_t> packet;
    const DNSName name("www" + std::to_string(number) + ".example.com");
    DNSPacketWriter writer(packet, name, QType::A);
    writer.getHeader()->qr = 1;
    const auto record = [&](const DNSName& of, std::uint16_t type, const std::string& content,
                            DNSResourceRecord::Place place) {
        writer.startRecord(of, type, 3600, QClass::IN, place);
        DNSRecordContent::mastermake(type, QClass::IN, content)->toPacket(writer);
    };
    for (int i = 0; i < 4; ++i)
        record(name, QType::A, "192.0.2." + std::to_string((number + i) % 256), DNSResourceRecord::ANSWER);
    record(name, QType::MX, "10 mail.example.com.", DNSResourceRecord::ANSWER);
    record(name, QType::TXT, "\"v=spf1 mx -all " + std::to_string(number) + "\"", DNSResourceRecord::ANSWER);
    for (int i = 0; i < 4; ++i)
        record(DNSName("example.com"), QType::NS, "ns" + std::to_string(i) + ".example.com.",
               DNSResourceRecord::AUTHORITY);
    for (int i = 0; i < 4; ++i)
        record(DNSName("ns" + std::to_string(i) + ".example.com"), QType::A,
               "198.51.100." + std::to_string(i), DNSResourceRecord::ADDITIONAL);
    record(DNSName("ns0.example.com"), QType::AAAA, "2001:db8::53", DNSResourceRecord::ADDITIONAL);
    writer.commit();
    return packet;
}

}  // namespace

void bench::job(digest& output, double scale) {
    reportAllTypes();
    std::vector<std::vector<std::uint8_t>> packets;
    for (int i = 0; i < 256; ++i)
        packets.push_back(answer(i));
    std::vector<std::vector<std::shared_ptr<DNSRecordContent>>> kept(2000);
    std::uint64_t records = 0;
    for (std::size_t i = 0; i < scaled(150'000, scale); ++i) {
        const auto& packet = packets[i * 2654435761U / 16 % packets.size()];
        const MOADNSParser parser(false, reinterpret_cast<const char*>(packet.data()),
                                  static_cast<unsigned>(packet.size()));
        auto& place = kept[i % kept.size()];
        place.clear();
        for (const auto& [record, position] : parser.d_answers)
            place.push_back(record.d_content);
        records += place.size();
    }
    output.add(records);
    for (const auto& place : kept)
        for (const auto& content : place)
            output.add(content->getZoneRepresentation());
}
