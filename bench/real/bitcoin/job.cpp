// SPDX-License-Identifier: BSL-1.0
// A thread reads blocks from their bytes, as it does from the network or the disk, and hands each to another, which keeps the transactions
// of the last blocks by their identifiers, as the pool of transactions does, and drops the rest.
#include "job.hpp"

#include <primitives/block.h>
#include <primitives/transaction.h>
#include <streams.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr std::size_t k_transactions = 2'500, k_kept = 8, k_waiting = 4;

struct hash_of_id {
    std::size_t operator()(const Txid& id) const noexcept { return id.ToUint256().GetUint64(0); }
};

// Two inputs with signatures of a usual length, and two outputs.
std::vector<std::byte> block_bytes() {
    CBlock block;
    for (std::uint32_t i = 0; i < k_transactions; ++i) {
        CMutableTransaction made;
        for (std::uint32_t in = 0; in < 2; ++in) {
            CTxIn input(Txid::FromUint256(uint256(static_cast<std::uint8_t>(i))), i * 2 + in);
            input.scriptWitness.stack = {std::vector<unsigned char>(71 + i % 2, 1),
                                         std::vector<unsigned char>(33, 2)};
            made.vin.push_back(input);
        }
        for (std::uint32_t out = 0; out < 2; ++out)
            made.vout.emplace_back(1'000 * i + out, CScript() << std::vector<unsigned char>(20 + i % 13, 3));
        block.vtx.push_back(MakeTransactionRef(std::move(made)));
    }
    DataStream stream;
    stream << TX_WITH_WITNESS(block);
    return {stream.begin(), stream.end()};
}

}  // namespace

void bench::job(digest& output, double scale) {
    const std::size_t blocks = scaled(60, scale);
    const std::vector<std::byte> bytes = block_bytes();
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<const CBlock>> waiting;
    std::uint64_t sum = 0;
    std::thread keeper([&] {
        std::deque<std::unordered_map<Txid, CTransactionRef, hash_of_id>> kept;
        for (std::size_t i = 0; i < blocks; ++i) {
            std::shared_ptr<const CBlock> block;
            {
                std::unique_lock lock(mutex);
                changed.wait(lock, [&] { return !waiting.empty(); });
                block = std::move(waiting.front());
                waiting.pop_front();
            }
            changed.notify_all();
            auto& these = kept.emplace_back();
            for (const CTransactionRef& each : block->vtx) {
                these.emplace(each->GetHash(), each);
                sum = sum * 31 + static_cast<std::uint64_t>(each->GetValueOut()) + each->vin.size();
            }
            if (kept.size() > k_kept) kept.pop_front();
        }
    });
    for (std::size_t i = 0; i < blocks; ++i) {
        const auto block = std::make_shared<CBlock>();
        SpanReader(bytes) >> TX_WITH_WITNESS(*block);
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return waiting.size() < k_waiting; });
        waiting.push_back(block);
        changed.notify_all();
    }
    keeper.join();
    output.add(sum);
}
