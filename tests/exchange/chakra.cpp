// Chakra execution traces: what is written is what was played, and what is no trace is named.
#include "exchange/chakra/chakra.hpp"

#include <map>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "tests/catch.hpp"

namespace rehearsal::exchange {
namespace {

/// A field of a message on the wire: protobuf.dev, "Encoding".
struct WireField {
  std::uint64_t number = 0, value = 0;
  std::string bytes;
};

std::uint64_t varint(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<WireField> fields_of(const std::string& message) {
  std::vector<WireField> fields;
  for (std::size_t at = 0; at < message.size();) {
    const auto tag = varint(message, at);
    WireField field{tag >> 3, 0, {}};
    field.value = varint(message, at);
    if ((tag & 7) == 2) {
      field.bytes = message.substr(at, field.value);
      at += field.value;
    }
    fields.push_back(field);
  }
  return fields;
}

struct DecodedNode {
  std::uint64_t id = 0, type = 0, begin = 0, duration = 0;
  std::vector<std::uint64_t> needs;
  std::map<std::string, std::uint64_t> numbers;
  std::map<std::string, std::string> texts;
};

/// By another decoder than the product's, with the schema's numbers: id 1, type 3, dependencies 4 and 5, times 6 and 7, attributes 10.
std::vector<DecodedNode> decoded(const std::string& file) {
  std::vector<DecodedNode> nodes;
  std::size_t at = 0;
  at += varint(file, at);  // the heading
  while (at < file.size()) {
    const auto length = varint(file, at);
    auto& node = nodes.emplace_back();
    for (const auto& field : fields_of(file.substr(at, length))) {
      if (field.number == 1) node.id = field.value;
      if (field.number == 3) node.type = field.value;
      if (field.number == 6) node.begin = field.value;
      if (field.number == 7) node.duration = field.value;
      if (field.number == 4 || field.number == 5)
        for (std::size_t i = 0; i < field.bytes.size();) node.needs.push_back(varint(field.bytes, i));
      if (field.number != 10) continue;
      std::string name, text;
      std::uint64_t number = 0;
      for (const auto& part : fields_of(field.bytes))
        if (part.number == 1)
          name = part.bytes;
        else if (part.number == 29)
          text = part.bytes;
        else
          number = part.value;
      (text.empty() ? void(node.numbers[name] = number) : void(node.texts[name] = text));
    }
    at += length;
  }
  return nodes;
}

/// Every instruction takes 10 us, one after the other on all streams.
struct Played {
  Played(const std::string& model, std::int64_t batch, const std::string& plan)
      : training(graph::build_training_graph(graph::with_initial_values(graph::zoo::build(model, batch)), graph::TrainingOptions{})),
        program(plan::lower(training, plan::parse_plan(plan), plan::TableBackend(), {})) {
    for (int rank = 0; rank < program.ranks; ++rank) {
      const auto& role = program.role(rank);
      auto& row = timeline.emplace_back();
      double now = 0;
      for (const auto& slot : role.slots)
        for (std::uint32_t i = 0; i < role.bodies[slot.body].instructions.size(); ++i)
          if (plan::runs(program, role, role.bodies[slot.body].instructions[i], slot.micro_batch)) {
            row.push_back({slot.body, i, slot.micro_batch, now, now + 1e-5, 1e-5, false});
            now += 1e-5;
          }
      shown.push_back(rank);
    }
  }
  [[nodiscard]] std::string file(int rank) const { return chakra_trace({program, training.graph, timeline, shown, 1}, rank); }

  graph::TrainingGraph training;
  plan::Program program;
  predict::Timeline timeline;
  std::vector<int> shown;
};

const std::string kSmall = "gpt?layers=1&hidden=8&heads=2&seq=4&vocab=11";
constexpr std::uint64_t kSummedBytes = 4 * (1008 + 10 * 8) + 2 * 8;
constexpr std::uint64_t kSend = 5, kReceive = 6, kCollective = 7;

TEST_CASE("gradients of replicas are summed by all-reduces of all of their bytes") {
  // Of a block 12·8² + 13·8, embeddings of 11 words and 4 places, the last norm: 872 + 88 + 32 + 16 = 1008 parameters of 4 bytes. In
  // a bucket tensors begin at multiples of 16 values: eight vectors of 8, one of 24 and the words have 8 behind them. Then the loss and the
  // number of labels, 8 bytes each.
  const Played played(kSmall, 4, "dp=2");
  const auto groups = nlohmann::json::parse(chakra_groups(played.program));
  std::uint64_t bytes = 0;
  for (const auto& node : decoded(played.file(1)))
    if (node.type == kCollective) {
      CHECK(node.numbers.at("comm_type") == 0);
      CHECK(groups.at(node.texts.at("pg_name")) == nlohmann::json{0, 1});
      bytes += node.numbers.at("comm_size");
    }
  CHECK(bytes == kSummedBytes);
}

TEST_CASE("messages of stages have both their ends, and nothing waits for what comes later") {
  const Played played("gpt?layers=2&hidden=8&heads=2&seq=4&vocab=11", 4, "pp=2,micro_batch=1");
  std::map<std::uint64_t, std::multiset<std::vector<std::uint64_t>>> ends;
  for (int rank : {0, 1}) {
    std::set<std::uint64_t> before;
    const auto nodes = decoded(played.file(rank));
    CHECK(nodes.size() == played.timeline[static_cast<std::size_t>(rank)].size());
    for (const auto& node : nodes) {
      for (const auto id : node.needs) CHECK(before.contains(id));
      CHECK(before.insert(node.id).second);
      CHECK(node.duration == 10);
      if (node.type == kSend || node.type == kReceive)
        ends[node.type].insert(
            {node.numbers.at("comm_src"), node.numbers.at("comm_dst"), node.numbers.at("comm_tag"), node.numbers.at("comm_size")});
    }
  }
  CHECK(ends[kSend].size() >= 8);  // of four micro-batches there and back
  CHECK(ends[kSend] == ends[kReceive]);
}

TEST_CASE("what is written is read again: times, bytes, ranks") {
  const Played played(kSmall, 4, "dp=2");
  std::istringstream in(played.file(0));
  CHECK(is_chakra(played.file(0).substr(0, 100)));
  const auto profile = read_chakra(in, "a.et");
  CHECK(profile.events.size() == played.timeline[0].size());
  const auto times = breakdown(profile);
  CHECK(times.total() == 10 * static_cast<std::int64_t>(played.timeline[0].size()));  // one after the other
  CHECK(times.idle == 0);
  std::uint64_t bytes = 0;
  for (const auto& sum : collectives(profile)) {
    CHECK(sum.name == "all-reduce");
    CHECK(sum.group == 2);
    bytes += static_cast<std::uint64_t>(sum.bytes * sum.count);
  }
  CHECK(bytes == kSummedBytes);
}

TEST_CASE("rings of neighbours have no number in Chakra") {
  const Played played(kSmall, 4, "cp=2,attention=ring");
  CHECK_THROWS_WITH(played.file(0), contains("Chakra traces have no collective that is a"));
}

TEST_CASE("nodes without a begin have sums and no breakdown") {
  // Heading with a schema; then a node of the device that took 7 us (COMP: type 4), and one of the host.
  const auto message = [](const std::string& bytes) { return std::string(1, static_cast<char>(bytes.size())) + bytes; };
  const std::string schema = std::string("\x12\x10\x0A\x06") + "schema\xEA\x01\x05" + "1.0.1",
                    host = std::string("\x52\x0E\x0A\x09") + "is_cpu_op\xD8\x01\x01";
  std::istringstream in(message(schema) + message("\x08\x01\x18\x04\x38\x07") + message("\x08\x02\x18\x04\x38\x09") +
                        message("\x08\x03\x18\x04\x38\x63" + host));
  CHECK(is_chakra(message(schema)));
  const auto profile = read_chakra(in, "a.et");
  CHECK(profile.events.size() == 2);
  CHECK(work_sums(profile).compute == 16);
  CHECK_THROWS_WITH(breakdown(profile), contains("not when it began"));
}

TEST_CASE("what is no trace is named with its message") {
  const Played played(kSmall, 4, "dp=2");
  const auto whole = played.file(0);
  const auto refused = [](const std::string& text, const std::string& words) {
    std::istringstream in(text);
    CHECK_THROWS_WITH(read_chakra(in, "a.et"), contains("a.et") && contains(words));
  };
  refused("", "the file is empty");
  refused(whole.substr(0, whole.size() - 3), "the file is cut off");
  refused(std::string("\x05") + "hello", "is no Protocol Buffers message");
  refused(std::string(12, '\xFF'), "a length that is no number");
  refused("\xFF\xFF\xFF\xFF\x0F", "which no node is");
  const std::string heading = whole.substr(0, 8), node("\x06\x08\x01\x18\x04\x38\x07", 7);
  refused(heading, "has no node of a device");
  refused(heading + node + node, "is a second node 1");
  refused(heading + std::string("\x04\x08\x01\x18\x04", 5), "has no times");
  CHECK_FALSE(is_chakra("# nccl-tests version 2.17.6"));
  CHECK_FALSE(is_chakra("{\"traceEvents\": []}"));
  CHECK_FALSE(is_chakra(""));
}

}  // namespace
}  // namespace rehearsal::exchange
