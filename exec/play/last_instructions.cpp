#include "exec/play/last_instructions.hpp"

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"

namespace rehearsal::exec {
namespace {

using Json = nlohmann::ordered_json;

std::string pass_of(const plan::Body& body, int micro_batch) {
  const auto pass = std::string(plan::name(body.kind)) + " pass";
  return plan::per_micro_batch(body.kind) ? pass + " of micro-batch " + std::to_string(micro_batch) : std::string(plan::name(body.kind));
}

const char* state_text(BoardPlace::State state) {
  return state == BoardPlace::State::Ended ? "ended" : state == BoardPlace::State::Stopped ? "stopped" : "running";
}

Json entry_of(const Training& training, const Communicator::Neighbour& neighbour, double now) {
  const auto notes = neighbour.place->last();
  Json last = Json::array();
  for (const auto& note : notes) last.push_back({{"seconds_ago", now - note.since}, {"what", described(training, neighbour.rank, note)}});
  return {{"rank", neighbour.rank},
          {"process", neighbour.place->process()},
          {"state", state_text(neighbour.place->state())},
          {"at", notes.empty() ? "getting ready" : described(training, neighbour.rank, notes.back())},
          {"last", std::move(last)}};
}

}  // namespace

std::string instruction_text(const Training& training, const plan::Role& role, const plan::Instruction& i) {
  const auto& g = training.graph.graph;
  if (i.kind == plan::InstructionKind::Kernel) return std::string(graph::schema(g[i.node]).name) + " " + g[i.node].name;
  auto text = std::string(plan::name(i.kind));
  if (i.kind == plan::InstructionKind::Collective) text = plan::name(role.collectives[static_cast<std::size_t>(i.collective)].kind);
  return i.tensor == graph::TensorId::None ? text : text + " of '" + g[i.tensor].name + "'";
}

std::string described(const Training& training, int rank, const BoardNote& note) {
  const auto step = "step " + std::to_string(note.step + 1);
  switch (note.doing) {
    case Doing::GettingReady:
      return "getting ready";
    case Doing::Meeting:
      return "the end of " + step + ", where it waits for the other ranks";
    case Doing::Saving:
      return "the checkpoint of " + step;
    case Doing::Evaluating:
      return "the evaluation behind " + step;
    case Doing::Ending:
      return "the end of the training";
    case Doing::Leaving:
      return "its end";
    case Doing::Playing:
    case Doing::Awaiting:
      break;
  }
  const auto& role = training.program.role(rank);
  if (note.body >= role.bodies.size() || note.instruction >= role.bodies[note.body].instructions.size()) return step;
  const auto& body = role.bodies[note.body];
  return step + ", " + pass_of(body, note.micro_batch) + ", " + (note.doing == Doing::Awaiting ? "waiting for " : "") +
         instruction_text(training, role, body.instructions[note.instruction]);
}

bool write_last_instructions(const std::string& path, const Training& training) {
  const double now = now_seconds();
  std::string lines;
  for (const auto& neighbour : training.world.neighbours())
    lines += entry_of(training, neighbour, now).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  try {
    write_file_atomically(path, lines);
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace rehearsal::exec
