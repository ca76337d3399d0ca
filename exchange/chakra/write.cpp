#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exchange/chakra/chakra.hpp"
#include "exchange/chakra/collective_types.hpp"
#include "exchange/chakra/rehearsal_chakra.pb.h"

namespace rehearsal::exchange {
namespace {

using plan::Instruction;
using plan::InstructionKind;

constexpr double kMicroseconds = 1e6;

void append(std::string& file, const google::protobuf::MessageLite& message) {
  const auto bytes = message.SerializeAsString();
  auto length = bytes.size();
  for (; length >= 0x80; length >>= 7) file += static_cast<char>((length & 0x7F) | 0x80);
  file += static_cast<char>(length);
  file += bytes;
}

chakra::Attribute& add(chakra::Node& node, const char* name) {
  auto& attribute = *node.add_attr();
  attribute.set_name(name);
  return attribute;
}

/// Groups of ranks that have collectives, in the order of axes and then of ranks.
std::vector<std::pair<std::size_t, std::vector<int>>> groups_of(const plan::Program& program) {
  std::vector<std::pair<std::size_t, std::vector<int>>> groups;
  for (std::size_t axis = 0; axis < program.axes.size(); ++axis)
    for (int rank = 0; rank < program.ranks; ++rank)
      if (program.axes[axis].size > 1 && plan::coordinate(program, rank, axis) == 0)
        groups.emplace_back(axis, plan::group(program, rank, axis));
  return groups;
}

class RankWriter {
 public:
  RankWriter(const PlayedStep& played, int rank)
      : played_(played), program_(played.program), role_(program_.role(rank)), rank_(rank), groups_(groups_of(program_)) {
    for (const auto& role : program_.roles)
      for (const auto& message : role.messages) channels_ = std::max(channels_, static_cast<int>(message.channel) + 1);
  }

  std::string file() {
    chakra::Heading heading;
    heading.set_version("0.0.4");
    std::string file;
    append(file, heading);
    for (const auto& timed : row()) append(file, node_of(timed));
    return file;
  }

 private:
  using Run = std::tuple<std::uint16_t, std::uint32_t, std::int32_t>;  // body, instruction, micro-batch

  [[nodiscard]] const std::vector<predict::TimedInstruction>& row() const {
    const auto role = [&](int rank) { return program_.role_of[static_cast<std::size_t>(rank)]; };
    auto at = std::ranges::find(played_.shown, rank_);
    if (at == played_.shown.end()) at = std::ranges::find_if(played_.shown, [&](int shown) { return role(shown) == role(rank_); });
    ensure(at != played_.shown.end(), "every role of a played step has a rank that is shown");
    return played_.timeline[static_cast<std::size_t>(at - played_.shown.begin())];
  }

  chakra::Node node_of(const predict::TimedInstruction& timed) {
    const auto& i = role_.bodies[timed.body].instructions[timed.instruction];
    chakra::Node node;
    node.set_id(++last_id_);
    const auto begin = std::llround(timed.begin * kMicroseconds), end = std::llround(timed.end * kMicroseconds);
    node.set_start_time_micros(static_cast<std::uint64_t>(begin));
    node.set_duration_micros(static_cast<std::uint64_t>(std::max<long long>(0, end - begin)));
    node.set_name(name_of(i) + ", micro-batch " + std::to_string(timed.micro_batch));
    const auto stream = timed.issue ? plan::Stream::Host : i.stream;
    auto& before = last_of_[static_cast<std::size_t>(stream)];
    if (before != 0) node.add_data_deps(before);  // feeders of simulators look at no other dependencies
    before = last_id_;
    const Run run{timed.body, timed.instruction, timed.micro_batch};
    if (timed.issue) {
      node.set_type(chakra::COMP);
      node.set_name("launch of " + node.name());
      issued_[run] = last_id_;
    } else {
      add_dependencies(node, timed, i);
      runs_[run] = last_id_;
      describe(node, timed, i);
    }
    add(node, "is_cpu_op").set_bool_val(stream == plan::Stream::Host);
    return node;
  }

  [[nodiscard]] std::string name_of(const Instruction& i) const {
    const auto what = std::string(plan::name(i.kind));
    if (i.node != graph::NodeId::None) return std::string(played_.graph[i.node].name);
    if (i.kind == InstructionKind::Collective) {
      const auto& info = role_.collectives[static_cast<std::size_t>(i.collective)];
      return std::string(plan::name(info.kind)) + (i.tensor != graph::TensorId::None ? " " + played_.graph[i.tensor].name : "");
    }
    return i.tensor != graph::TensorId::None ? what + " " + played_.graph[i.tensor].name : what;
  }

  void add_dependencies(chakra::Node& node, const predict::TimedInstruction& timed, const Instruction& i) {
    const plan::Slot slot{timed.body, timed.micro_batch};
    for (const auto& dependency : i.after) {
      const auto found = runs_.find({dependency.body, dependency.instruction, plan::micro_batch_of(program_, role_, slot, dependency)});
      if (found != runs_.end()) node.add_data_deps(found->second);  // one that is missing is of an earlier step
    }
    if (const auto launch = issued_.find({timed.body, timed.instruction, timed.micro_batch}); launch != issued_.end())
      node.add_data_deps(launch->second);
  }

  void describe(chakra::Node& node, const predict::TimedInstruction& timed, const Instruction& i) {
    const bool repeated = plan::per_micro_batch(role_.bodies[timed.body].kind);
    const std::size_t variant = repeated ? plan::variant_of_micro_batch(role_, timed.micro_batch) : 0;
    switch (i.kind) {
      case InstructionKind::Send:
      case InstructionKind::Receive:
        return describe_message(node, timed, i, plan::message_bytes(role_, i, variant));
      case InstructionKind::Collective:
        return describe_collective(node, i, plan::message_bytes(role_, i, variant));
      case InstructionKind::Report:
        return node.set_type(chakra::COMP);
      default:
        break;
    }
    const auto work = predict::kernel_case(program_, played_.graph, {role_, i, variant, played_.threads}).work;
    const bool loads = i.kind == InstructionKind::Load || i.kind == InstructionKind::Restore;
    node.set_type(loads ? chakra::MEM_LOAD : i.kind == InstructionKind::Stash ? chakra::MEM_STORE : chakra::COMP);
    if (node.type() == chakra::COMP) add(node, "num_ops").set_int64_val(std::llround(work.flops.value()));
    add(node, "tensor_size").set_uint64_val(static_cast<std::uint64_t>(std::llround(work.bytes.value())));
  }

  /// Both ends have the same tag: channel and micro-batch.
  void describe_message(chakra::Node& node, const predict::TimedInstruction& timed, const Instruction& i, std::int64_t bytes) {
    const auto& message = role_.messages[static_cast<std::size_t>(i.message)];
    const bool sends = i.kind == InstructionKind::Send;
    const int other = plan::peer(program_, rank_, message);
    node.set_type(sends ? chakra::COMM_SEND : chakra::COMM_RECV);
    add(node, "comm_size").set_int64_val(bytes);
    add(node, "comm_src").set_int32_val(sends ? rank_ : other);
    add(node, "comm_dst").set_int32_val(sends ? other : rank_);
    add(node, "comm_tag").set_int32_val(timed.micro_batch * channels_ + static_cast<int>(message.channel));
  }

  void describe_collective(chakra::Node& node, const Instruction& i, std::int64_t bytes) {
    const auto& info = role_.collectives[static_cast<std::size_t>(i.collective)];
    const auto type = collective_type(info.kind);
    if (!type)
      throw Refusal("Chakra traces have no collective that is a " + std::string(plan::name(info.kind)) + " (" + node.name() +
                    "): use a plan without spatial or ring parallelism");
    node.set_type(chakra::COMM_COLL);
    const auto group = std::ranges::find_if(
        groups_, [&](const auto& g) { return g.first == info.axis && std::ranges::find(g.second, rank_) != g.second.end(); });
    ensure(group != groups_.end(), "a collective has a group of several ranks");
    add(node, "comm_type").set_int64_val(*type);
    add(node, "comm_size").set_int64_val(bytes);
    add(node, "comm_group_size").set_int64_val(static_cast<std::int64_t>(group->second.size()));
    add(node, "pg_name").set_string_val(std::to_string(group - groups_.begin()));
  }

  const PlayedStep& played_;
  const plan::Program& program_;
  const plan::Role& role_;
  int rank_, channels_ = 1;
  std::vector<std::pair<std::size_t, std::vector<int>>> groups_;
  std::uint64_t last_id_ = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(plan::Stream::Count)> last_of_{};  ///< node by stream; 0: none
  std::map<Run, std::uint64_t> runs_, issued_;                                          ///< nodes
};

}  // namespace

std::string chakra_trace(const PlayedStep& played, int rank) { return RankWriter(played, rank).file(); }

std::string chakra_groups(const plan::Program& program) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  int number = 0;
  for (const auto& [axis, ranks] : groups_of(program)) json[std::to_string(number++)] = ranks;
  return json.dump() + "\n";
}

}  // namespace rehearsal::exchange
