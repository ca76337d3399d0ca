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

TEST_CASE("from one node of a group to the next it is as far as the groups between them are wide") {
  const auto groups = [](int devices, int count, const char* plan) { return groups_of(nodes_of(devices, count), plan::parse_plan(plan)); };
  CHECK(groups(8, 8, "dp=64").replicas.apart == 1);
  CHECK(groups(8, 8, "dp=4,tp=16").replicas.apart == 2);
  const auto sharded = groups(1, 64, "dp=64,zero=3,zero_group=8");
  CHECK(sharded.shards.apart == 1);
  CHECK(sharded.copies == PlacedGroup{{8, 1, 8}, {0}});
  CHECK(groups(1, 64, "dp=4,tp=16").tensor.apart == 1);
  CHECK(groups(1, 64, "dp=16,tp=4,ep=4").expert.apart == 4);
  CHECK(groups(8, 8, "dp=4,cp=4,tp=4,ep=8").expert.apart == 1);
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

/// A node of eight and two of four.
platforms::Platform eight_and_fours() {
  auto platform = nodes_of(8, 1);
  platform.nodes.push_back(platform.nodes.front());
  platform.nodes.back().devices = 4;
  platform.nodes.back().count = 2;
  return platform;
}

TEST_CASE("where nodes differ every group is looked at where it lies") {
  const auto platform = eight_and_fours();
  using Groups = std::map<StagePlace, RankGroups>;
  const auto is = [](const PlacedGroup& group, int ranks, int per_node, const NodeKinds& kinds) {
    return group == PlacedGroup{{ranks, per_node}, kinds};
  };
  const Groups pairs = groups_by_place(platform, plan::parse_plan("dp=2,tp=8"));
  REQUIRE(pairs.size() == 2);
  const auto &on_one = pairs.at({0, 0}), &on_two = pairs.at({0, 1});
  CHECK(is(on_one.tensor, 8, 8, {0}));
  CHECK(is(on_two.tensor, 8, 4, {1}));                       // ranks 8 to 15
  CHECK(on_one.replicas == PlacedGroup{{2, 1, 2}, {0, 1}});  // ranks 4 and 12: the first node and the third
  CHECK(on_two.replicas == on_one.replicas);
  CHECK(on_one.nodes == 3);
  // Sixteen replicas: four channels go round all three nodes.
  const Groups whole = groups_by_place(platform, plan::parse_plan("dp=16"));
  CHECK(is(whole.at({0, 0}).replicas, 16, 4, {0, 1}));
  CHECK(is(whole.at({0, 0}).tensor, 1, 1, {0}));
  // Eight of sixteen replicas that share experts with the ranks of context parallelism: the first eight places, and the others.
  const Groups experts = groups_by_place(platform, plan::parse_plan("dp=4,cp=4,ep=8"));
  CHECK(is(experts.at({0, 0}).expert, 8, 8, {0}));
  CHECK(is(experts.at({0, 1}).expert, 8, 4, {1}));
}

TEST_CASE("stages lie on nodes of their own kind, and next to each other where one node has both") {
  const auto stages = groups_by_place(eight_and_fours(), plan::parse_plan("tp=4,pp=4,micro_batch=1"));
  REQUIRE(stages.size() == 4);
  CHECK_FALSE(stages.at({0, 0}).stages_between_nodes);  // ranks 0 to 3 send to 4 to 7
  CHECK(stages.at({2, 1}).stages_between_nodes);        // 8 to 11 to 12 to 15
  CHECK(stages.at({1, 0}) == stages.at({0, 0}));
  CHECK(stages.at({3, 1}) == stages.at({2, 1}));
  for (const auto& [place, groups] : stages) CHECK(groups.tensor == PlacedGroup{{4, 4}, {place.kind}});
}

TEST_CASE("nodes that a plan leaves idle count for nothing") {
  const auto platform = eight_and_fours();
  for (const auto* text : {"dp=8", "tp=8", "dp=4,tp=2", "dp=2,pp=4,micro_batch=1", "cp=8"}) {
    const auto plan = plan::parse_plan(text);
    CHECK(groups_by_place(platform, plan) == groups_by_place(nodes_of(8, 1), plan));
  }
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
