#include "plan/program/petri_net.hpp"

#include <map>
#include <set>
#include <tuple>

#include "base/xml.hpp"
#include "plan/program/describe.hpp"

namespace rehearsal::plan {
namespace {

using Run = std::tuple<std::uint16_t, std::uint32_t, std::int32_t>;  // body, instruction, micro-batch
using Message =
    std::tuple<int, int, std::uint32_t, std::int32_t, std::uint32_t>;  // from, to (stages), channel, micro-batch, how often before

class NetBuilder {
 public:
  NetBuilder(const Program& program, const graph::Graph& graph) : program_(program), graph_(graph) {}

  PetriNet net() && {
    for (const int rank : representatives(program_)) add_rank(rank);
    for (const auto& [message, place] : under_way_)
      if (!sent_.contains(message)) net_.places[place].tokens = 1;  // an earlier step's
    return std::move(net_);
  }

 private:
  std::size_t add_place(std::string name, int tokens) {
    net_.places.push_back({std::move(name), tokens});
    return net_.places.size() - 1;
  }
  PetriNet::Transition& current() { return net_.transitions[at_]; }

  void add_rank(int rank) {
    rank_ = rank;
    role_ = &program_.role(rank);
    stream_.clear();
    done_.clear();
    counted_.clear();
    find_waited_for();
    for (const auto& slot : role_->slots) add_slot(slot);
    for (const auto& [stream, transition] : stream_)
      net_.transitions[transition].gives.push_back(
          add_place("end of rank " + std::to_string(rank_) + "'s " + std::string(name(static_cast<Stream>(stream))), 0));
  }

  /// Instructions that others wait for: a run of kernels ends with them.
  void find_waited_for() {
    waited_for_.clear();
    for (const auto& body : role_->bodies)
      for (const auto& i : body.instructions)
        for (const auto& d : i.after) waited_for_.insert({d.body, d.instruction});
  }

  void add_slot(const Slot& slot) {
    const auto& body = role_->bodies[slot.body];
    open_ = false;
    for (std::uint32_t n = 0; n < body.instructions.size(); ++n) {
      const auto& i = body.instructions[n];
      if (!runs(program_, *role_, i, slot.micro_batch)) continue;
      const bool joins = open_ && i.stream == Stream::Compute && is_computed(i) && i.after.empty();
      if (!joins) begin(slot, i);
      for (const auto& d : i.after) wait_for(slot, d);
      if (!is_computed(i)) exchange(slot, i);
      const bool ends = waited_for_.contains({slot.body, n});
      done_[{slot.body, n, slot.micro_batch}] = at_;
      if (i.stream == Stream::Compute) open_ = is_computed(i) && !ends;
    }
  }

  [[nodiscard]] static bool is_computed(const Instruction& i) {
    return i.kind != InstructionKind::Send && i.kind != InstructionKind::Receive && i.kind != InstructionKind::Collective;
  }

  void begin(const Slot& slot, const Instruction& i) {
    const auto& body = role_->bodies[slot.body];
    std::string name = "rank " + std::to_string(rank_) + ": ";
    if (i.stream == Stream::Compute && is_computed(i)) name += "computes, from ";
    name += describe(program_, *role_, i, graph_) + ", " + std::string(plan::name(body.kind));
    if (per_micro_batch(body.kind)) name += " of micro-batch " + std::to_string(slot.micro_batch);
    at_ = net_.transitions.size();
    net_.transitions.push_back({std::move(name), {}, {}});
    const auto stream = static_cast<int>(i.stream);
    const auto before = stream_.find(stream);
    const auto order = add_place("rank " + std::to_string(rank_) + "'s " + std::string(plan::name(i.stream)) + " is free",
                                 before == stream_.end() ? 1 : 0);
    if (before != stream_.end()) net_.transitions[before->second].gives.push_back(order);
    current().takes.push_back(order);
    stream_[stream] = at_;
  }

  /// What never ran in this step ran in an earlier one, or does not run in this micro-batch.
  void wait_for(const Slot& slot, const Dependency& d) {
    auto found = done_.find({d.body, d.instruction, micro_batch_of(program_, *role_, slot, d)});
    if (found == done_.end() || found->second == at_) return;
    const auto place = add_place("rank " + std::to_string(rank_) + ": done, " + net_.transitions[found->second].name, 0);
    net_.transitions[found->second].gives.push_back(place);
    current().takes.push_back(place);
  }

  void exchange(const Slot& slot, const Instruction& i) {
    if (i.kind == InstructionKind::Collective) return;  // the others of the group do the same in their replicas
    const auto& info = role_->messages[static_cast<std::size_t>(i.message)];
    const int other = role_->stage + info.stage_offset;
    const bool sends = i.kind == InstructionKind::Send;
    const int from = sends ? role_->stage : other, to = sends ? other : role_->stage;
    const auto often = counted_[{sends, from, to, info.channel, slot.micro_batch}]++;
    const Message message{from, to, info.channel, slot.micro_batch, often};
    const auto [at, fresh] = under_way_.try_emplace(message, 0);
    if (fresh)
      at->second = add_place("message from stage " + std::to_string(from) + " to " + std::to_string(to) + " of micro-batch " +
                                 std::to_string(slot.micro_batch) + ", channel " + std::to_string(info.channel),
                             0);
    (sends ? current().gives : current().takes).push_back(at->second);
    if (sends) sent_.insert(message);
  }

  const Program& program_;
  const graph::Graph& graph_;
  PetriNet net_;
  int rank_ = 0;
  const Role* role_ = nullptr;
  std::size_t at_ = 0;
  bool open_ = false;                  ///< kernels may join the transition at_
  std::map<int, std::size_t> stream_;  ///< the last transition of each stream
  std::map<Run, std::size_t> done_;    ///< transition of every instruction that ran
  std::set<std::pair<std::uint16_t, std::uint32_t>> waited_for_;
  std::map<std::tuple<bool, int, int, std::uint32_t, std::int32_t>, std::uint32_t> counted_;
  std::map<Message, std::size_t> under_way_;  ///< places
  std::set<Message> sent_;
};

std::string labelled(const std::string& element, const std::string& id, const std::string& name, const std::string& more) {
  return "    <" + element + " id=\"" + id + "\"><name><text>" + xml_escaped(name) + "</text></name>" + more + "</" + element + ">\n";
}

}  // namespace

PetriNet petri_net_of(const Program& program, const graph::Graph& graph) { return NetBuilder(program, graph).net(); }

std::string to_pnml(const PetriNet& net, const std::string& name) {
  std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<pnml xmlns=\"http://www.pnml.org/version-2009/grammar/pnml\">\n"
      "  <net id=\"step\" type=\"http://www.pnml.org/version-2009/grammar/ptnet\">\n    <name><text>" +
      xml_escaped(name) + "</text></name>\n    <page id=\"page\">\n";
  for (std::size_t p = 0; p < net.places.size(); ++p) {
    const int tokens = net.places[p].tokens;
    text += labelled("place", "p" + std::to_string(p), net.places[p].name,
                     tokens == 0 ? "" : "<initialMarking><text>" + std::to_string(tokens) + "</text></initialMarking>");
  }
  std::string arcs;
  std::size_t number = 0;
  const auto add_arc = [&](const std::string& from, const std::string& to) {
    arcs += "    <arc id=\"a" + std::to_string(number++) + "\" source=\"" + from + "\" target=\"" + to + "\"/>\n";
  };
  for (std::size_t t = 0; t < net.transitions.size(); ++t) {
    const auto id = "t" + std::to_string(t);
    text += labelled("transition", id, net.transitions[t].name, "");
    for (const auto place : net.transitions[t].takes) add_arc("p" + std::to_string(place), id);
    for (const auto place : net.transitions[t].gives) add_arc(id, "p" + std::to_string(place));
  }
  return text + arcs + "    </page>\n  </net>\n</pnml>\n";
}

}  // namespace rehearsal::plan
