// One Program, two interpreters: what ranks under mpirun do and what the simulator (and the closed form) plays is the same, instruction
// by instruction; and the comparison sees it when one of them is given another Program.
#include <cstdlib>
#include <vector>

#include "predict/simulation.hpp"
#include "tests/catch.hpp"
#include "tests/exec/executor/interpreters.hpp"
#include "tests/exec/executor/models.hpp"
#include "tests/process.hpp"

using namespace rehearsal;
using exec::sample::Case;
using exec::sample::difference;
using exec::sample::done_on;

namespace {

/// The traces of ranks that really train.
std::vector<traces::Trace> measured(int ranks, const std::vector<Case>& cases) {
  const TemporaryFolder folder;
  std::string command = REHEARSAL_MPIRUN " -n " + std::to_string(ranks) + " \"" REHEARSAL_TRAIN_PLANS "\" 4 " + (folder / "");
  for (const auto& c : cases) command += " '" + exec::sample::to_text(c) + "'";
  const auto ended = run_shell(command);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  std::vector<traces::Trace> found;
  for (std::size_t n = 0; n < cases.size(); ++n) found.push_back(traces::read_trace(folder / (std::to_string(n) + ".json")));
  return found;
}

/// The trace of the case's Program on a modelled machine.
traces::Trace simulated(const Case& c, predict::StepEvaluator& evaluator) {
  const auto training = exec::sample::training_of(c);
  return exec::sample::simulated(exec::sample::program_of(c, training), training, evaluator);
}

std::unique_ptr<predict::StepEvaluator> simulator() {
#ifdef REHEARSAL_SIM_MODULE_FILE
  ::setenv("REHEARSAL_SIM_MODULE", REHEARSAL_SIM_MODULE_FILE, 1);
  return predict::open_simulator("full", Seconds(60));
#else
  WARN("SimGrid is not here: the closed form alone stands for the simulator");
  return predict::closed_form_evaluator();
#endif
}

std::size_t events_of(const traces::Trace& trace, plan::Stream stream, int step = 0) {
  std::size_t count = 0;
  for (const auto& rank : trace.ranks) count += done_on(rank, stream, step).size();
  return count;
}

}  // namespace

TEST_CASE("both interpreters do the same") {
  const auto [ranks, cases] = GENERATE(std::pair<int, std::vector<Case>>{2,
                                                                         {{"mlp", 8, "dp=2"},
                                                                          {"mlp", 6, "dp=2,micro_batch=2,overlap=off"},
                                                                          {"cnn", 5, "dp=2", "f32"},
                                                                          {"gpt", 4, "dp=2,micro_batch=1", "f32"},
                                                                          {"mlp", 7, "pp=2,micro_batch=2"},
                                                                          {"mlp", 8, "pp=2,micro_batch=2,schedule=gpipe", "f32"},
                                                                          {"gpt", 4, "pp=2,micro_batch=1", "f32"},
                                                                          {"gpt", 4, "tp=2,sequence_parallel=on"},
                                                                          {"gpt", 4, "cp=2,micro_batch=2"},
                                                                          {"gpt", 4, "dp=2,zero=3"},
                                                                          {"gpt", 4, "cp=2,attention=ring,micro_batch=2"},
                                                                          {"encoder", 5, "cp=2,attention=ring", "f32"},
                                                                          {"gpt", 4, "tp=2,sequence_parallel=on,recompute=full"},
                                                                          {"mlp", 7, "pp=2,micro_batch=2,recompute=full"},
                                                                          {"gpt", 4, "pp=2,micro_batch=1,schedule=dualpipe"},
                                                                          {"mlp", 7, "pp=2,micro_batch=2,schedule=pipedream-2bw"},
                                                                          {"cnn", 8, "pp=2,schedule=pipedream", "f32"},
                                                                          {"cnn", 6, "dp=2,offload=activations"},
                                                                          {"mlp", 7, "pp=2,micro_batch=2,compression=gist-sparse:0.9"},
                                                                          {"gpt", 4, "dp=2,compression=bf16", "f32"},
                                                                          {"gpt", 4, "dp=2,micro_batch=1,zero=2,compression=f16", "f32"},
                                                                          {"cnn", 6, "spatial=2"}}},
                                       std::pair<int, std::vector<Case>>{4,
                                                                         {{"mlp", 7, "dp=2,pp=2,micro_batch=2"},
                                                                          {"gpt", 4, "dp=2,pp=2,micro_batch=1", "f32"},
                                                                          {"gpt", 4, "dp=2,pp=2,micro_batch=1,schedule=pipedream-2bw"}}});
  const auto played = measured(ranks, cases);
  for (std::size_t n = 0; n < cases.size(); ++n) {
    INFO(exec::sample::to_text(cases[n]));
    const auto training = exec::sample::training_of(cases[n]);
    const int usual = exec::sample::usual_step(exec::sample::program_of(cases[n], training));
    const auto by_simulation = simulated(cases[n], *simulator()), by_formula = simulated(cases[n], *predict::closed_form_evaluator());
    CHECK(played[n].ranks.size() == static_cast<std::size_t>(ranks));
    CHECK(events_of(by_formula, plan::Stream::Compute) > 20);
#ifdef REHEARSAL_SIM_MODULE_FILE
    for (auto stream : {plan::Stream::Compute, plan::Stream::Collective, plan::Stream::Send, plan::Stream::Receive, plan::Stream::Host})
      CHECK(events_of(by_simulation, stream) == events_of(played[n], stream, usual));
#endif
    CHECK(difference(by_simulation, played[n], usual).value_or("none") == "none");
    CHECK(difference(by_formula, played[n], usual).value_or("none") == "none");
    const bool replicas = !cases[n].plan.starts_with("pp=2,"), stages = cases[n].plan.find("pp=2") != std::string::npos;
    CHECK(events_of(played[n], plan::Stream::Compute) > 20);
    CHECK((events_of(played[n], plan::Stream::Collective) > 0) == replicas);
    CHECK((events_of(played[n], plan::Stream::Send, usual) > 0) == stages);
    CHECK(events_of(played[n], plan::Stream::Send, usual) == events_of(played[n], plan::Stream::Receive, usual));
  }
}

TEST_CASE("another Program is found out") {
  struct Pair {
    Case here, there;
  };
  const std::vector<Pair> pairs{
      {{"mlp", 8, "pp=2,micro_batch=2,schedule=1f1b"},
       {"mlp", 8, "pp=2,micro_batch=2,schedule=gpipe"}},                                   // the same instructions in another order
      {{"mlp", 8, "dp=2,allreduce=ring"}, {"mlp", 8, "dp=2,allreduce=halving-doubling"}},  // one algorithm for another
      {{"mlp", 8, "dp=2"}, {"mlp", 8, "dp=2,micro_batch=2"}},
      {{"mlp", 8, "dp=2"}, {"mlp", 8, "dp=2", "f32"}},  // half the bytes
      {{"mlp", 8, "dp=2"}, {"cnn", 8, "dp=2"}},
  };
  std::vector<Case> cases;
  for (const auto& p : pairs) cases.push_back(p.there);
  const auto played = measured(2, cases);
  for (std::size_t n = 0; n < pairs.size(); ++n) {
    INFO(exec::sample::to_text(pairs[n].here));
    const auto found = difference(simulated(pairs[n].here, *simulator()), played[n]);
    REQUIRE(found);
    CHECK_THAT(*found, contains("rank ") || contains("model"));
  }
}
