// Where the ranks of each kind of parallelism lie.
#include "predict/frameworks/groups.hpp"

#include "platforms/catalog.hpp"
#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

namespace rehearsal::predict::frameworks {
namespace {

platforms::Platform nodes_of(int devices, int count) {
  auto platform = platforms::load("dgx-h100");
  platform.nodes.front().devices = devices;
  platform.nodes.front().count = count;
  return platform;
}

costmodel::Group tensor(int devices, int count, const char* plan) {
  return groups_of(nodes_of(devices, count), plan::parse_plan(plan)).tensor;
}

TEST_CASE("a group that lies on two nodes stands for those of its kind, which wait for it") {
  CHECK(tensor(8, 6, "dp=12,tp=4").per_node == 4);
  CHECK(tensor(6, 8, "dp=12,tp=4").per_node == 2);  // ranks 4 to 7: two on the first node, two on the second
  CHECK(tensor(6, 8, "dp=16,tp=3").per_node == 3);
  CHECK(tensor(6, 8, "tp=4").per_node == 4);         // there is no other
  CHECK(tensor(7, 4, "dp=7,tp=4").per_node == 3);    // ranks 4 to 7: three and one
  CHECK(tensor(6, 8, "dp=8,tp=4").per_node == 4);    // eight nodes have room for one each, and two idle devices
  CHECK(tensor(6, 8, "dp=4,tp=12").per_node == 6);   // two whole nodes
  CHECK(tensor(8, 12, "dp=8,tp=12").per_node == 8);  // on two nodes, as all others are
}

TEST_CASE("ranks that share experts may lie on two nodes, too") {
  const auto experts = [](const char* plan) { return groups_of(nodes_of(72, 2), plan::parse_plan(plan)).expert; };
  CHECK(experts("dp=144,ep=16").per_node == 8);   // ranks 64 to 79: eight of each node
  CHECK(experts("dp=128,ep=16").per_node == 16);  // 64 ranks of each node, as such machines are shared out
  CHECK(experts("dp=64,ep=16").per_node == 16);
  CHECK(experts("dp=144,ep=18").per_node == 18);
  // Eight of 12 context parallel ranks, and of 24 replicas half as many: no axis says which. 36 places of tensor parallel pairs are four
  // groups of eight and four places, which four of the next node have to join.
  const auto carved = experts("dp=6,cp=12,tp=2,ep=8");
  CHECK(carved.ranks == 8);
  CHECK(carved.per_node == 4);
}

TEST_CASE("tensor parallelism between nodes costs what it takes there") {
  const auto exposed = [](int devices, int count) {
    sample::Sample s("zoo:llama?layers=4&hidden=1024&heads=16&ffn=4096&seq=2048&vocab=1000&batch=1", nodes_of(devices, count),
                     "megatron-core");
    s.job.plan = plan::parse_plan("dp=12,tp=4,sequence_parallel=on");
    s.job.micro_batch = 1;
    return s.time().exposed;
  };
  CHECK(exposed(6, 8) > 1.5 * exposed(8, 6));
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
