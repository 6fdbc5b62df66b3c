// SPDX-License-Identifier: BSL-1.0
// A thread cuts frames into RTP packets, keeps the last ones for retransmission and puts all in a queue, as a track does; another, the
// network and the other side in one, makes a message of each packet's bytes and puts frames together again.
#include "job.hpp"

#include "impl/queue.hpp"
#include "rtc/h264rtpdepacketizer.hpp"
#include "rtc/h264rtppacketizer.hpp"
#include "rtc/rtcpnackresponder.hpp"

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

void bench::job(digest& output, double scale) {
    const std::size_t frames = scaled(40'000, scale);
    rtc::impl::Queue<rtc::message_ptr> network(1024);  // push() waits while it is full
    std::uint64_t sum = 0;
    std::thread receiver([&] {
        const auto depacketizer =
            std::make_shared<rtc::H264RtpDepacketizer>(rtc::NalUnit::Separator::LongStartSequence);
        const rtc::message_callback nothing = [](rtc::message_ptr) {};
        while (network.running()) {
            const auto packet = network.pop();
            if (!packet) {
                std::this_thread::sleep_for(std::chrono::microseconds(50));
                continue;
            }
            rtc::message_vector received{rtc::make_message((*packet)->begin(), (*packet)->end())};
            depacketizer->incomingChain(received, nothing);
            for (const auto& frame : received)
                sum = sum * 31 + frame->size() + static_cast<std::uint8_t>(frame->back());
        }
    });
    const auto config =
        std::make_shared<rtc::RtpPacketizationConfig>(1, "pooled", 96, rtc::H264RtpPacketizer::ClockRate);
    config->sequenceNumber = 0;  // random otherwise
    const auto track = std::make_shared<rtc::H264RtpPacketizer>(rtc::NalUnit::Separator::Length, config);
    track->addToChain(std::make_shared<rtc::RtcpNackResponder>());
    const rtc::message_callback nothing = [](rtc::message_ptr) {};
    for (std::size_t i = 0; i < frames; ++i) {
        const std::uint32_t bytes = 4'000 + static_cast<std::uint32_t>(i * 7'919 % 16'000);
        rtc::binary frame(4 + bytes, static_cast<std::byte>(i));
        const std::uint32_t big_endian = __builtin_bswap32(bytes);
        std::memcpy(frame.data(), &big_endian, sizeof big_endian);
        frame[4] = std::byte{0x65};  // a key frame's unit
        config->timestamp = static_cast<std::uint32_t>(i * 3'000);
        rtc::message_vector messages{rtc::make_message(std::move(frame))};
        track->outgoingChain(messages, nothing);
        for (auto& message : messages)
            network.push(std::move(message));
    }
    while (!network.empty())
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    network.stop();
    receiver.join();
    output.add(sum);
}
