// The samples of a step, by hand.
#include "predict/input/input.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "platforms/catalog.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

namespace {

/// 1,000,000 pictures of 100 kB and 400 x 250 pixels on four nodes of 8 A100s and 128 cores, batch 3200.
struct Setting {
  platforms::Platform platform = platforms::with_nodes(platforms::load("dgx-a100"), 4);
  InputQuestion q;
  plan::Plan plan;

  Setting() {
    platform.storage = platforms::SharedStorage{BytesPerSecond(10e9), Seconds(2e-3)};
    platforms::NodeStorage storage;
    storage.bandwidth = BytesPerSecond(4e9);
    storage.cache = Bytes(20e9);
    storage.decoding = BytesPerSecond(100e6);
    platform.nodes.front().storage = storage;
    q.data.samples = 1e6;
    q.data.stored = Bytes(100e3);
    q.data.jpeg = Bytes(400 * 250 * 3);
    plan.dp = 32;
  }
  platforms::NodeStorage& of_node() { return *platform.nodes.front().storage; }
  [[nodiscard]] StepInput input() const {
    check_input(q, platform);
    return input_of(q, platform, plan, 3200);
  }
  [[nodiscard]] std::string refusal() const {
    try {
      check_input(q, platform);
    } catch (const BadInput& bad) {
      return bad.what();
    }
    return {};
  }
};

double part(const InputTimes& t, InputPart which) { return t.parts[static_cast<std::size_t>(which)].value; }
const CacheKind* cache(const std::string& name) { return &*std::ranges::find(cache_kinds(), name, &CacheKind::name); }

}  // namespace

TEST_CASE("reading takes what bandwidth, that of all nodes, or requests take longest for") {
  Setting s;
  // A node wants 800 samples, 80 MB. Four nodes share 10 GB/s: 2.5 GB/s each, 32 ms. 800 requests of 2 ms by 8 ranks of 16 threads: 12.5
  // ms.
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.032));
  CHECK(s.input().bytes.value() == Approx(320e6));
  CHECK(s.input().epoch_steps == 313);  // 312.5
  // Alone a node would read 4 GB/s: 20 ms.
  s.platform.storage->bandwidth.reset();
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.020));
  // 1 GB/s of it while all four read: 80 ms. Two of the four have twice as much, and twice the samples.
  s.of_node().bandwidth_while_all = BytesPerSecond(1e9);
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.080));
  s.plan.dp = 16;
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.080));
  s.plan.dp = 8;  // one alone: 320 MB at 4 GB/s
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.080));
  // The 1 GB/s are those of 32 nodes: 32 GB/s, of which four nodes could have 8 GB/s each and take 4.
  s.of_node().nodes_at_once = 32;
  s.plan.dp = 32;
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.020));
  s.of_node().nodes_at_once = 8;  // 8 GB/s: 2 each
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.040));
  // Together they never read less than one alone: 0.8 GB/s are less than its 4, of which each of four has 1.
  s.of_node().bandwidth_while_all = BytesPerSecond(0.1e9);
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.080));
  s.of_node().bandwidth_while_all = BytesPerSecond(1e9);
  s.of_node().nodes_at_once = 0;
  // With one thread of each rank 800 requests take 800 / 8 * 2 ms.
  s.plan.dp = 32;
  s.q.threads = 1;
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.2));
  // Shards: a hundredth of the requests.
  s.q.data.requests = 0.01;
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.080));
}

TEST_CASE("decoding takes the rank's threads, on its share of the cores") {
  Setting s;
  // 100 samples of 300 kB of pixels at 100 MB/s are 0.3 s of one core; a rank has 128 / 8 = 16 of them.
  CHECK(part(s.input().first, InputPart::Decoding) == Approx(0.3 / 16));
  s.q.threads = 4;
  CHECK(part(s.input().first, InputPart::Decoding) == Approx(0.3 / 4));
  CHECK(s.input().first.bound_by({0.01, 0.01, 0.01}) == InputPart::Decoding);
  s.q.threads = 64;  // more than there are cores
  CHECK(part(s.input().first, InputPart::Decoding) == Approx(0.3 / 16));
  // Measured: 5 ms a sample.
  s.q.data.work = platforms::Sourced<Seconds>(Seconds(5e-3));
  CHECK(part(s.input().first, InputPart::Decoding) == Approx(0.5 / 16));
  // Nothing is known of the cores: 60 MB/s are assumed, and said to be.
  s.q.data.work.reset();
  s.of_node().decoding.reset();
  CHECK(part(s.input().first, InputPart::Decoding) == Approx(0.5 / 16));
  CHECK_THAT(grounds_of_input(s.q, s.platform), contains("assumed"));
  s.q.data.jpeg.reset();
  CHECK(part(s.input().first, InputPart::Decoding) == 0);
}

TEST_CASE("a step takes as long as computing or as its input, whichever is longer") {
  Setting s;
  const auto input = s.input().first;  // 32 ms of reading
  CHECK(input.step({0.1, 0.09, 0.11}).value == 0.1);
  CHECK(input.step({0.01, 0.009, 0.011}).value == Approx(0.032));
  CHECK(input.bound_by({0.01, 0.009, 0.011}) == InputPart::Storage);
  // Either end of the interval is that of whichever is longer there: 0.032 exp(1.645 · 0.25) = 0.0483.
  const auto between = input.step({0.033, 0.030, 0.036});
  CHECK(between.low == Approx(0.030));
  CHECK(between.high == Approx(0.0483).margin(1e-4));
}

TEST_CASE("ranks of one replica want its samples once from storage, and each prepares them") {
  Setting s;
  s.plan.dp = 8;
  s.plan.tp = 4;  // two replicas on each node, of 400 samples each
  const auto input = s.input();
  CHECK(input.bytes.value() == Approx(320e6));
  CHECK(part(input.first, InputPart::Decoding) == Approx(400 * 3e-3 / 16));
  // Four stages, each a node: the first one wants everything.
  s.plan.dp = 8;
  s.plan.tp = 1;
  s.plan.pp = 4;
  CHECK(part(s.input().first, InputPart::Storage) == Approx(320e6 / 4e9));
}

TEST_CASE("caches take samples from the storage, memory first, then disk") {
  Setting s;
  s.q.cache = cache("node");
  // 20 GB of 100 GB: a fifth, which four nodes have had in their hands after an epoch.
  auto later = s.input().later;
  CHECK(later.from.own == Approx(0.2));
  CHECK(part(later, InputPart::Storage) == Approx(0.8 * 0.032));
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.032));
  // 60 GB more on a disk of 1 GB/s: 0.8 in all, three quarters of it from there: 0.6 · 80 MB.
  s.of_node().disk_bandwidth = BytesPerSecond(1e9);
  s.of_node().disk_capacity = Bytes(60e9);
  later = s.input().later;
  CHECK(later.from.own == Approx(0.8));
  CHECK(part(later, InputPart::Disk) == Approx(0.048));
  // All nodes together have room for everything: a quarter is a node's own, what grows on it with time 0.8; eight cards of 25 GB/s.
  s.q.cache = cache("global");
  later = s.input().later;
  CHECK(later.from.storage == Approx(0).margin(1e-12));
  CHECK(later.from.peers == Approx(0.2));
  CHECK(part(later, InputPart::Network) == Approx(0.2 * 80e6 / 200e9));
  s.q.cache_size = Bytes(25e9);  // in memory alone
  later = s.input().later;
  CHECK(later.from.own == Approx(0.25));
  CHECK(part(later, InputPart::Disk) == 0);
}

TEST_CASE("data on the nodes' own disks leaves the shared storage alone") {
  Setting s;
  s.of_node().disk_bandwidth = BytesPerSecond(2e9);
  s.q.data.on_disk = true;
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.040));
  // So it is where there is no other storage.
  s.q.data.on_disk = false;
  s.of_node().bandwidth.reset();
  s.platform.storage.reset();
  CHECK(part(s.input().first, InputPart::Storage) == Approx(0.040));
}

TEST_CASE("cores that compute have none left to decode, and samples that are read when they are wanted hide behind nothing") {
  Setting s;
  s.platform = platforms::with_nodes(platforms::load("xeon-2s-10gbe"), 2);
  s.platform.nodes.front().storage = platforms::NodeStorage{BytesPerSecond(1e9), {}, {}, {}, {}, {}, BytesPerSecond(100e6)};
  s.plan.dp = 2 * s.platform.nodes.front().devices;
  const double cores = s.platform.nodes.front().host_cores, decoding = 1600 * 3e-3 / cores;
  const auto input = s.input().first;
  CHECK(input.beside.value == Approx(decoding));
  CHECK(input.step({1, 1, 1}).value == Approx(1 + decoding));
  CHECK(input.bound_by({1, 1, 1}) == InputPart::Decoding);
  s.q.threads = 0;  // 1600 samples of 100 kB at 1 GB/s: 0.16 s
  const auto unread = s.input().first;
  CHECK(unread.step({1, 1, 1}).value == Approx(1 + 0.16 + 1600.0 / s.platform.nodes.front().devices * 3e-3));
}

TEST_CASE("what is wrong or missing is named") {
  Setting s;
  CHECK(s.refusal().empty());
  s.q.cache = cache("node");
  s.of_node().cache.reset();
  CHECK_THAT(s.refusal(), contains("--cache node") && contains("dgx-a100") && contains("node=64GB") && contains("\"cache\""));
  s.q.cache_size = Bytes(9e15);
  CHECK_THAT(s.refusal(), contains("more than the 2 TB of memory"));
  s.q.cache_size = Bytes(64e9);
  CHECK(s.refusal().empty());
  s.q.cache = cache("global");
  s.platform.nodes.front().nic.count = 0;
  CHECK_THAT(s.refusal(), contains("--cache global") && contains("no network"));
  s.q.cache = nullptr;
  CHECK_THAT(s.refusal(), contains("keeps nothing has no size"));
  s.q.cache_size.reset();
  s.q.data.on_disk = true;
  CHECK_THAT(s.refusal(), contains("on=disk") && contains("disk_bandwidth"));
  s.q.data.on_disk = false;
  s.q.data.stored = Bytes(-1);
  CHECK_THAT(s.refusal(), contains("bytes of a sample"));
  s.platform.storage.reset();
  s.platform.nodes.front().storage.reset();
  CHECK_THAT(unknown_storage(s.platform), contains("dgx-a100") && contains("calibrate --storage"));
}
