// Steps of small programs on small platforms, written out to be read: when everything begins and ends on every rank, and how long every
// algorithm takes on networks of every kind (tests/sim/written_out/; docs/testing.md).
#include "tests/written_out.hpp"

#include <cstdio>
#include <map>

#include "platforms/catalog.hpp"
#include "tests/sim/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::sim;
using namespace rehearsal::sim::sample;
using plan::BodyKind;
using plan::CollectiveKind;

namespace {

template <class... Values>
std::string printed(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string name_of(const plan::Instruction& i) {
  switch (i.kind) {
    case plan::InstructionKind::Send:
      return "send";
    case plan::InstructionKind::Receive:
      return "receive";
    case plan::InstructionKind::Collective:
      return "collective";
    case plan::InstructionKind::Load:
      return "load";
    default:
      return "kernel";
  }
}

std::string timeline_of(const Job& job, int rank, const std::vector<predict::TimedInstruction>& timeline) {
  std::string text;
  for (const auto& t : timeline) {
    const auto& body = job.program.role(rank).bodies[t.body];
    text += printed("  %10.6f %10.6f  %s %d: %s%s %u\n", t.begin, t.end, std::string(plan::name(body.kind)).c_str(), t.micro_batch,
                    t.issue ? "the host issues " : "", name_of(body.instructions[t.instruction]).c_str(), t.instruction);
  }
  return text;
}

std::string step_of(const predict::StepCost& c) {
  const auto& b = c.breakdown;
  auto text = printed("%.6f s: compute %.6f, exposed communication %.6f, bubble %.6f, optimizer %.6f, input %.6f\n", c.step.value(),
                      b.compute.value(), b.exposed_communication.value(), b.bubble.value(), b.optimizer.value(), b.io.value());
  text += printed("  rank %d limits it, by %.6f s over the mean; %lld events; devices %.6g J, links %.6g J\n  busy", c.limiting_rank,
                  c.imbalance.value(), static_cast<long long>(c.events), c.devices_energy.value(), c.links_energy.value());
  for (const double busy : c.busy_seconds) text += printed(" %.6f", busy);
  return text + "\n";
}

/// A job played in full, rank by rank, and what it takes folded and in closed form.
std::string played(const char* title, const Job& job, const platforms::Platform& platform, const predict::InputPace& pace = {}) {
  auto device = platform.nodes.front().device;
  if (job.host_progressed) device.kind = platforms::DeviceKind::Cpu;
  const costmodel::CostModel model(device, {}, "f32");
  const predict::EvaluationRequest request{job.program, job.costs, platform, model, true, pace};
  const auto full = full_evaluator()->evaluate(request), folded = folded_evaluator()->evaluate(request);
  auto text = std::string(title) + "\n  full   " + step_of(full) + "  folded " + step_of(folded) +
              printed("  closed %.6f s\n", predict::closed_form_evaluator()->evaluate(request).step.value());
  std::map<std::string, std::size_t> known;
  for (std::size_t rank = 0; rank < full.timeline.size(); ++rank) {
    const auto [at, fresh] = known.try_emplace(timeline_of(job, static_cast<int>(rank), full.timeline[rank]), rank);
    text += fresh ? printed("  rank %zu\n", rank) + at->first : printed("  rank %zu as rank %zu\n", rank, at->second);
  }
  return text + "\n";
}

/// Four replicas of two micro-batches, whose gradients are summed in two parts, the first one beside the rest of the backward pass.
Job overlapping(bool priced, double interference) {
  Job job({{"dp", 4, 1}}, 2);
  const auto role = job.add_role(0, {});
  const auto forward = job.add_body(role, BodyKind::Forward), backward = job.add_body(role, BodyKind::Backward),
             update = job.add_body(role, BodyKind::Update);
  job.add_kernel(role, forward, 0.01);
  const auto late = job.add_kernel(role, backward, 0.012);
  const auto first = job.add_collective(role, backward, {CollectiveKind::AllReduce, "ring", 0}, 200'000'000, {{backward, late}});
  const auto early = job.add_kernel(role, backward, 0.02);
  const auto second =
      job.add_collective(role, backward, {CollectiveKind::AllReduce, "halving-doubling", 0}, 100'000'000, {{backward, early}});
  for (const auto sum : {first, second}) job.role(role).bodies[backward].instructions[sum].when = plan::When::LastMicroBatch;
  job.add_kernel(role, update, 0.001, {{backward, first}, {backward, second}});
  job.role(role).slots = {{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}, {update, 0}};
  if (!priced) return job;
  job.costs.with_messages = true;
  job.costs.interference = interference;
  job.costs.roles[role].seconds[backward][first][0].seconds = Seconds(0.018);
  job.costs.roles[role].seconds[backward][second][0].seconds = Seconds(0.009);
  return job;
}

/// Three replicas, one of which is late, and has its samples in two kernels.
Job with_a_straggler() {
  Job job({{"dp", 3, 1}}, 1);
  const auto usual = job.add_role(0, {}), slow = job.add_role(0, {1});
  for (const auto role : {usual, slow}) {
    const auto body = job.add_body(role, BodyKind::Backward);
    auto kernel = job.add_kernel(role, body, 0.5);
    if (role == slow) kernel = job.add_kernel(role, body, 0.25);
    job.add_collective(role, body, {CollectiveKind::AllReduce, "ring", 0}, 300'000'000, {{body, kernel}});
    job.role(role).slots = {{body, 0}};
  }
  return job;
}

/// Kernels that the host issues more slowly than they run, then one that is longer.
Job issued_slowly() {
  Job job({{"dp", 2, 1}}, 1);
  const auto role = job.add_role(0, {});
  const auto body = job.add_body(role, BodyKind::Forward);
  for (const double seconds : {0.001, 0.002, 0.008, 0.001}) job.add_kernel(role, body, seconds);
  auto& queue = job.costs.roles[role].launches.emplace_back();
  for (const double seconds : {0.001, 0.002, 0.008, 0.001}) queue.push_back({0.003, seconds, 0.003 + seconds});
  job.role(role).slots = {{body, 0}};
  return job;
}

/// Experts on four ranks of two nodes: tokens go out before their products and come back behind them.
Job experts() {
  Job job({{"ep", 4, 1}}, 1);
  const auto role = job.add_role(0, {});
  const auto body = job.add_body(role, BodyKind::Forward);
  const auto gates = job.add_kernel(role, body, 0.0005);
  const auto out = job.add_collective(role, body, {CollectiveKind::AllToAll, "pairwise", 0}, 4'000'000, {{body, gates}});
  const auto products = job.add_kernel(role, body, 0.002, {{body, out}});
  const auto back = job.add_collective(role, body, {CollectiveKind::AllToAll, "bruck", 0}, 4'000'000, {{body, products}});
  job.add_kernel(role, body, 0.0005, {{body, back}});
  job.role(role).slots = {{body, 0}};
  return job;
}

/// Two stages of two replicas each: messages of both replicas share what their nodes have.
Job replicated_pipeline() {
  Job job({{"dp", 2, 1}, {"pp", 2, 2}}, 2);
  const auto first = job.add_role(0, {}), second = job.add_role(1, {2, 3});
  const auto from = job.add_body(first, BodyKind::Forward), to = job.add_body(second, BodyKind::Forward);
  const auto kernel = job.add_kernel(first, from, 0.05);
  job.add_message(first, from, {true, 1, 0, 100'000'000}, {{from, kernel}});
  const auto come = job.add_message(second, to, {false, -1, 0, 100'000'000});
  job.add_kernel(second, to, 0.1, {{to, come}});
  job.role(first).slots = {{from, 0}, {from, 1}};
  job.role(second).slots = {{to, 0}, {to, 1}};
  return job;
}

std::string written_steps() {
  auto usage = cluster(2, 2, 1);
  usage.nodes.front().nic.idle_power = Watts(5);
  usage.nodes.front().nic.busy_power = Watts(12);
  auto on_cores = pipeline({"1f1b", 2, 2, 0.02, 0.04, 50'000'000});
  on_cores.host_progressed = true;
  return "Begin and end in seconds: the pass, its micro-batch and the instruction of the pass.\n\n" +
         played("A pipeline that fills and drains, of two stages on wires", pipeline({"gpipe", 2, 2, 1, 2, 25'000'000}), chain(2)) +
         played("One forward, one backward: three stages on a switch", pipeline({"1f1b", 3, 3, 0.01, 0.02, 10'000'000}), cluster(1, 3, 0)) +
         played("One forward, one backward between nodes", pipeline({"1f1b", 2, 2, 0.02, 0.04, 50'000'000}), cluster(2, 1, 1)) +
         played("The same where cores move messages themselves", on_cores, cluster(2, 1, 1)) +
         played("A pipeline without flushes", pipeline({"pipedream-2bw", 2, 2, 0.01, 0.02, 10'000'000}), chain(2)) +
         played("Two replicas of two stages, a card for two ranks", replicated_pipeline(), usage) +
         played("Sums beside the backward pass, by their messages", overlapping(false, 0), cluster(1, 4, 0)) +
         played("Sums beside the backward pass, as a library takes them", overlapping(true, 0.2), cluster(1, 4, 0)) +
         played("The same between nodes with one card", overlapping(true, 0), cluster(2, 2, 1)) +
         played("A replica that is late", with_a_straggler(), cluster(1, 3, 0)) +
         played("A host that issues kernels slowly", issued_slowly(), cluster(1, 2, 0)) +
         played("Experts on two nodes", experts(), cluster(2, 2, 2)) +
         played("Samples that come every 0.2 s, and take 0.03 s from the cores", pipeline({"gpipe", 2, 2, 0.01, 0.02, 1000}), chain(2),
                {Seconds(0.2), Seconds(0.03)});
}

platforms::Platform nodes_on(const char* kind, std::map<std::string, std::vector<std::int64_t>, std::less<>> parameters) {
  auto platform = cluster(8, 1, 1);
  platform.topology.kind = kind;
  platform.topology.parameters = std::move(parameters);
  platform.topology.bandwidth = BytesPerSecond(kCard);
  return platform;
}

std::string written_networks() {
  struct Place {
    const char* name;
    platforms::Platform platform;
  };
  const std::vector<Place> places{{"switch", cluster(1, 8, 0)},
                                  {"2 nodes", cluster(2, 4, 2)},
                                  {"fat tree", nodes_on("fat-tree", {{"arity", {4}}, {"levels", {2}}, {"oversubscription", {4}}})},
                                  {"torus", nodes_on("torus", {{"dims", {4, 2}}})},
                                  {"cube mesh", platforms::with_devices(platforms::load("dgx1-v100"), 8)}};
  std::string text =
      "Microseconds that 8 ranks take for 8 MB, played, and in closed form where it says something else: a switch, two nodes with two "
      "cards\n"
      "each, a fat tree with a quarter of its links up, a torus of 4 by 2 nodes, the GPUs of a DGX-1.\n";
  text += "                                       ";
  for (const auto& place : places) text += printed(" %-18s", place.name);
  for (const auto& row : plan::collective_table()) {
    if (row.one_sided) continue;
    text += "\n" + printed("%-39s", (std::string(plan::name(row.kind)) + " " + std::string(row.name)).c_str());
    const auto job = one_collective(8, std::string(row.name), row.kind, 2'000'000);
    for (const auto& place : places) {
      const double simulated = job.simulated(place.platform) * 1e6, closed = job.closed_form(place.platform) * 1e6;
      const bool same = std::abs(simulated - closed) < 5e-4;
      text += printed(" %-18s", same ? printed("%.3f", simulated).c_str() : printed("%.3f/%.3f", simulated, closed).c_str());
    }
  }
  std::string trimmed;
  for (std::istringstream lines(text); std::getline(lines, text);) trimmed += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  return trimmed;
}

}  // namespace

TEST_CASE("steps are those that are written out") {
  test::check_written_out(std::string(REHEARSAL_SIM_WRITTEN_OUT) + "/steps.txt", written_steps());
}

TEST_CASE("times on networks are those that are written out") {
  test::check_written_out(std::string(REHEARSAL_SIM_WRITTEN_OUT) + "/networks.txt", written_networks());
}
