// Random models under random plans: real ranks under mpirun give the losses and the weights of the graph interpreted whole, and the
// simulator and the closed form play what the ranks played. The same cases every time; REHEARSAL_PROPERTY_SECONDS=600 goes on drawing for
// so long, from REHEARSAL_PROPERTY_SEED.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>

#include "base/error.hpp"
#include "predict/simulation.hpp"
#include "tests/catch.hpp"
#include "tests/exec/executor/interpreters.hpp"
#include "tests/exec/property/cases.hpp"
#include "tests/exec/property/messages.hpp"
#include "tests/exec/property/reference.hpp"
#include "tests/process.hpp"

using namespace rehearsal;
using property::Case;
using property::Draws;

namespace {

double number_of_environment(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atof(text);
}

std::unique_ptr<predict::StepEvaluator> simulator() {
#ifdef REHEARSAL_SIM_MODULE_FILE
  ::setenv("REHEARSAL_SIM_MODULE", REHEARSAL_SIM_MODULE_FILE, 1);
  return predict::open_simulator("full", Seconds(60));
#else
  return predict::closed_form_evaluator();
#endif
}

/// Cases that lower, drawn for a number of ranks; what was refused and how often.
class Cases {
 public:
  explicit Cases(std::uint64_t seed) : draws_(seed) {}

  /// Fails when of 30 jobs a case hardly any can use a plan: then something is refused that was not, and what is left proves little.
  std::vector<Case> draw(int ranks, std::size_t count) {
    std::vector<Case> cases;
    for (std::size_t jobs = 0; cases.size() < count && jobs < 30 * count; ++jobs)
      if (auto c = try_one(ranks)) cases.push_back(std::move(*c));
    INFO("refused for " << ranks << " ranks:\n" << refusals());
    REQUIRE(cases.size() == count);
    return cases;
  }
  [[nodiscard]] std::string refusals() const {
    std::string text;
    for (const auto& [why, times] : refused_) text += std::to_string(times) + " x " + why + "\n";
    return text;
  }

 private:
  /// A job, and the first of some plans that it can use.
  std::optional<Case> try_one(int ranks) {
    std::optional<graph::TrainingGraph> training;
    Case c;
    try {
      c = property::random_job(draws_);
      training = property::training_of(c);
    } catch (const Error& error) {
      ++refused_[std::string("model: ") + error.what()];
      return std::nullopt;
    }
    for (int n = 0; n < 6; ++n) {
      c.plan = property::random_plan(draws_, c.batch, ranks);
      INFO(to_text(c));
      try {
        const auto program = property::program_of(c, *training);
        CHECK(property::unmatched_message(program, training->graph).value_or("none") == "none");
        return c;
      } catch (const Refusal& refusal) {
        ++refused_[refusal.what()];
      } catch (const BadInput& refusal) {
        ++refused_[refusal.what()];
      } catch (const std::exception& error) {
        FAIL_CHECK(error.what());
      }
    }
    return std::nullopt;
  }

  Draws draws_;
  std::map<std::string, int> refused_;
};

/// What the ranks of one number came to, by case.
struct Outcome {
  double losses = HUGE_VAL, stored = HUGE_VAL, bound = 0;
  std::string tensor;
};

class Proof {
 public:
  explicit Proof(int ranks) : ranks_(ranks) {}

  /// Runs the cases under one mpirun; after a case that ended it, the rest under another.
  void run(std::vector<Case> cases) {
    while (!cases.empty()) {
      const TemporaryFolder folder;
      std::string command = "REHEARSAL_STALL_SECONDS=30 " REHEARSAL_MPIRUN " -n " + std::to_string(ranks_) +
                            " \"" REHEARSAL_PROVE_PLANS "\" " + (folder / "");
      for (const auto& c : cases) command += " '" + to_text(c) + "'";
      const auto ended = run_shell(command);
      const auto done = read(ended.out);
      for (std::size_t n = 0; n < done.size(); ++n) check(cases[n], done[n], folder / (std::to_string(n) + ".json"));
      if (done.size() == cases.size()) return;
      INFO(to_text(cases[done.size()]) << "\n" << ended.err);
      FAIL_CHECK("the ranks ended early, with status " << ended.status);
      cases.erase(cases.begin(), cases.begin() + static_cast<std::ptrdiff_t>(done.size()) + 1);
    }
  }

 private:
  static std::vector<Outcome> read(const std::string& out) {
    std::vector<Outcome> done;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line.back() == '?') continue;
      std::istringstream words(line);
      std::string text, losses, stored, bound;
      Outcome o;
      words >> text >> losses >> stored >> bound >> o.tensor;
      o.losses = std::strtod(losses.c_str(), nullptr), o.stored = std::strtod(stored.c_str(), nullptr);
      o.bound = std::strtod(bound.c_str(), nullptr);
      done.push_back(o);
    }
    return done;
  }

  static void check(const Case& c, const Outcome& o, const std::string& trace_file) {
    INFO(to_text(c) << "\n" << o.tensor);
    CHECK(o.losses <= o.bound);
    CHECK(o.stored <= o.bound);
    const auto training = property::training_of(c);
    const auto program = property::program_of(c, training);
    const auto played = traces::read_trace(trace_file);
    REQUIRE(played.ranks.size() == static_cast<std::size_t>(program.ranks));
    for (auto& evaluator : {simulator(), predict::closed_form_evaluator()}) {
      INFO(evaluator->name());
      const auto modelled = exec::sample::simulated(program, training, *evaluator);
      CHECK(exec::sample::difference(modelled, played, exec::sample::usual_step(program)).value_or("none") == "none");
    }
  }

  int ranks_;
};

}  // namespace

TEST_CASE("random models under random plans train as one process does") {
  const double seconds = number_of_environment("REHEARSAL_PROPERTY_SECONDS", 0);
  const auto seed = static_cast<std::uint64_t>(number_of_environment("REHEARSAL_PROPERTY_SEED", 1));
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  std::size_t count = 0;
  for (std::uint64_t round = 0; round == 0 || passed() < seconds; ++round)
    for (const int ranks : {2, 4, 3, 8, 1, 6}) {
      Cases cases(1000 * seed + 10 * round + static_cast<std::uint64_t>(ranks));
      const auto drawn = cases.draw(ranks, seconds > 0 ? 20 : 3);
      Proof(ranks).run(drawn);
      count += drawn.size();
      if (seconds > 0)
        std::cout << "seed " << seed << ", round " << round << ": " << count << " cases, " << passed() << " s\n" << std::flush;
      if (std::getenv("REHEARSAL_PROPERTY_REFUSALS") != nullptr) std::cout << cases.refusals();
    }
}

TEST_CASE("without a flush training is what the old weights' gradients make it") {
  const std::map<int, std::vector<const char*>> all{
      {2,
       {"vec.6+dense.5+act.3+dense.4+class.3/7/pp=2,micro_batch=2,schedule=pipedream-2bw/sgd:lr=0.05:momentum=0.9/f64/400",
        "vec.6+dense.5+act.3+dense.4+class.3/7/pp=2,micro_batch=1,schedule=pipedream-2bw,recompute=full/adamw:lr=0.01/f64/400",
        "tok.3.8.7+dense.5+dropout+dense.4+act.3+dense.6+class.3/4/pp=2,schedule=pipedream/adam:lr=0.01:eps=1e-4:clip=0.1/f64/400",
        "seq.3.4+tied.2+tied.2+class.3/4/pp=2,micro_batch=1,schedule=pipedream-2bw/lamb:lr=0.01:weight_decay=0.01:eps=1e-4/f64/400"}},
      {4,
       {"vec.6+dense.5+act.3+dense.4+act.3+dense.7+class.3/8/pp=4,schedule=pipedream/sgd:lr=0.05:momentum=0.9:nesterov=1:weight_decay=0.01/"
        "f64/"
        "400",
        "vec.6+dense.5+act.3+dense.4+act.3+dense.7+class.3/8/pp=4,micro_batch=2,schedule=pipedream-2bw/lars:lr=0.5:momentum=0.9:trust=0.02/"
        "f64/400",
        "vec.6+dense.5+act.3+dense.4+act.3+dense.7+class.3/8/dp=2,pp=2,micro_batch=1,schedule=pipedream-2bw,zero=1/adam:lr=0.01:eps=1e-4/"
        "f64/"
        "400",
        "vec.6+dense.5+act.3+dense.4+act.3+dense.7+class.3/8/dp=2,pp=2,schedule=pipedream,zero=3/adamw:lr=0.01:eps=1e-4/f64/400",
        "vec.6+dense.5+act.3+dense.4+act.3+dense.7+class.3/8/tp=2,pp=2,micro_batch=3,schedule=pipedream-2bw/sgd:lr=0.05/f32/400"}},
  };
  for (const auto& [ranks, texts] : all) {
    std::vector<Case> cases;
    for (const auto* text : texts) {
      cases.push_back(property::parse_case(text));
      const auto training = property::training_of(cases.back());
      const auto program = property::program_of(cases.back(), training);
      INFO(text);
      CHECK(property::delays_of(program).size() > 1);
      CHECK_THAT(program.warnings.empty() ? "" : program.warnings.back(), contains("different mathematics"));
      // The old weights matter: a training that uses the newest ones is another one.
      const auto steps = property::steps_to_prove(program);
      const auto old = property::train_whole(training, {steps, 0, property::delays_of(program), {}});
      CHECK(property::difference(training, property::train_whole(training, {steps, 0, {}, {}}), old).stored > 1e-6);
    }
    Proof(ranks).run(std::move(cases));
  }
}

TEST_CASE("batch normalization of parts of the batch is that of its definition, sample by sample") {
  const std::string model = "img.2.6.6+batchnorm+block.4+mse.3/", plain = "/sgd:lr=0.05:momentum=0.9/f64/2000",
                    adam = "/adam:lr=0.01:eps=1e-4:clip=0.1/f64/400";
  std::map<int, std::vector<Case>> cases;
  for (const auto& [ranks, text] : std::vector<std::pair<int, std::string>>{{2, "8/dp=2,bn=local" + plain},
                                                                            {2, "5/dp=2,bn=local" + plain},  // 3 and 2
                                                                            {2, "8/dp=2,micro_batch=2,bn=local" + adam},
                                                                            {2, "8/dp=2,micro_batch=2,bn=sync" + adam},
                                                                            {2, "8/pp=2,micro_batch=2,bn=local" + plain},
                                                                            {2, "8/spatial=1x2x1,micro_batch=4,bn=local" + plain},
                                                                            {8, "8/dp=2,tp=2,pp=2,micro_batch=2,bn=sync" + plain}})
    cases[ranks].push_back(property::parse_case(model + text));
  for (auto& [ranks, of_ranks] : cases) Proof(ranks).run(std::move(of_ranks));
}

TEST_CASE("elements of gradients are clipped alike wherever they lie") {
  const std::string model = "vec.6+dense.8+act.3+dense.6+class.3/8/",
                    clipped = "/sgd:lr=0.05:momentum=0.9:clip_value=0.01:clip=0.03/f64/400";
  Proof(4).run({property::parse_case(model + "dp=2,tp=2,zero=2,micro_batch=2" + clipped),
                property::parse_case(model + "tp=2,pp=2,micro_batch=2" + clipped)});
}

TEST_CASE("16-bit training keeps f32 copies and moments in the parts that parameters have, on real ranks") {
  const std::string layers = "tok.6.24.16+attention.2.1.1+dense.8+act.3+dense.6+class.5/8/", adam = "/adam:lr=0.01:eps=1e-4/",
                    experts = "seq.4.6+experts.2.1.3+dense.6+class.5/8/";
  std::map<int, std::vector<Case>> cases;
  for (const auto* dtype : {"bf16", "f16"})
    for (const auto& [ranks, text] : std::vector<std::pair<int, std::string>>{
             {2, layers + "tp=2" + adam},
             {2, layers + "tp=2,sequence_parallel=on,micro_batch=4" + adam},
             {2, layers + "cp=2" + adam},
             {2, layers + "pp=2,micro_batch=4" + adam},
             {2, layers + "dp=2,zero=1,micro_batch=2" + adam},
             {2, "img.4.6.6+conv.4.3.1.1.0.1.1+average+class.3/8/spatial=1x2x1/lars:lr=0.5:trust=0.02/"},
             {4, layers + "dp=2,tp=2,zero=3/lamb:lr=0.01:eps=1e-4/"},
             {4, layers + "tp=2,pp=2/adam:lr=0.01:eps=1e-4:clip=0.1/"},
             {2, experts + "dp=2,ep=2" + adam},
             {2, layers + "dp=2,zero=1/adafactor:lr=0.05:eps=1e-3/"},
             {2, layers + "tp=2/schedule-free-adamw:lr=0.02:eps=1e-4/"},
             {2, layers + "pp=2,micro_batch=4/schedule-free-sgd:lr=0.1/"},
             {4, experts + "dp=2,tp=2,ep=2" + adam}})
      cases[ranks].push_back(property::parse_case(text + dtype + "/400"));
  for (auto& [ranks, of_ranks] : cases) Proof(ranks).run(std::move(of_ranks));
}

TEST_CASE("optimizers that see matrices, averages or signs train alike under every plan, on real ranks") {
  const std::string words = "tok.6.24.16+attention.2.1.1+dense.8+act.3+dense.6+class.5", layers = words + "/8/",
                    layers_of_nine = words + "/9/", images = "img.4.6.6+conv.4.3.1.1.0.1.1+average+class.3/8/",
                    experts = "seq.4.6+experts.2.1.3+dense.6+class.5/8/";
  std::map<int, std::vector<Case>> cases;
  for (const auto* optimizer :
       {"lion:lr=0.01:weight_decay=0.1", "adafactor:lr=0.05:eps=1e-3:weight_decay=0.1", "schedule-free-sgd:lr=0.1:weight_decay=0.1",
        "schedule-free-adamw:lr=0.02:eps=1e-4:weight_decay=0.1", "muon:lr=0.02:eps=1e-4",
        "shampoo:lr=0.02:eps=1e-4:root_eps=1e-3:interval=2", "soap:lr=0.02:eps=1e-3:basis_eps=1e-2:interval=2",
        "kfac:lr=0.02:damping=0.01:factor_interval=1:interval=2"})
    for (const auto& [ranks, text] : std::vector<std::pair<int, std::string>>{{1, layers + "dp=1,micro_batch=2/"},
                                                                              {2, layers + "dp=2,zero=1/"},
                                                                              {2, layers + "dp=2,zero=2,micro_batch=2/"},
                                                                              {3, layers_of_nine + "dp=3,zero=3,micro_batch=1/"},
                                                                              {2, layers + "tp=2/"},
                                                                              {2, layers + "pp=2,micro_batch=4,offload=optimizer/"},
                                                                              {4, layers + "dp=2,tp=2,zero=1/"},
                                                                              {4, layers + "tp=2,pp=2,micro_batch=4,schedule=zb-h1/"},
                                                                              {4, layers + "dp=4,zero=2,zero_group=2/"},
                                                                              {2, images + "dp=2,zero=1/"},
                                                                              {2, images + "tp=2/"},
                                                                              {2, experts + "dp=2,ep=2/"}})
      cases[ranks].push_back(property::parse_case(text + optimizer + "/f64/400"));
  for (auto& [ranks, of_ranks] : cases) Proof(ranks).run(std::move(of_ranks));
}

TEST_CASE("matrices that replicas share out to decompose are what each would have made of them, on real ranks") {
  const std::string words = "tok.6.24.16+attention.2.1.1+dense.8+act.3+dense.6+class.5", layers = words + "/8/",
                    images = "img.4.6.6+conv.4.3.1.1.0.1.1+average+class.3/8/";
  std::map<int, std::vector<Case>> cases;
  for (const auto* optimizer : {"shampoo:lr=0.02:eps=1e-4:root_eps=1e-3:interval=2", "soap:lr=0.02:eps=1e-3:basis_eps=1e-2:interval=3",
                                "kfac:lr=0.02:damping=0.01:factor_interval=1:interval=2"})
    for (const auto& [ranks, text] : std::vector<std::pair<int, std::string>>{{2, layers + "dp=2"},
                                                                              {2, layers + "dp=2,zero=1,micro_batch=2"},
                                                                              {3, words + "/9/dp=3,zero=3"},
                                                                              {2, layers + "dp=2,overlap=off,offload=optimizer"},
                                                                              {2, images + "dp=2"},
                                                                              {4, layers + "dp=4,zero=2,zero_group=2"},
                                                                              {4, layers + "dp=2,tp=2,order=dp.tp.cp.ep.pp"},
                                                                              {4, layers + "dp=2,pp=2,micro_batch=2,schedule=dualpipe"}})
      cases[ranks].push_back(property::parse_case(text + ",decompositions=spread/" + optimizer + "/f64/400"));
  for (auto& [ranks, of_ranks] : cases) Proof(ranks).run(std::move(of_ranks));
}

TEST_CASE("what random cases once found") {
  struct Found {
    int ranks;
    std::vector<const char*> cases;
  };
  const std::vector<Found> all{
      {1, {"img.1.5.4+dropout+up3.7+l1.3/3/dp=1,micro_batch=2/novograd:lr=0.01/f32/400"}},  // a kernel that refused the smaller micro-batch
      {2,
       {"vec.6+tied.2+huber.1/2/tp=2,micro_batch=1,zero=2/sgd:lr=0.05/f64/100000",  // an activation's gradient added up
        "tok.1.1.2+class.2/1/pp=2,schedule=zb-v/sgd:lr=0.05/f64/100000",            // received after a late gradient had read it
        // a sum over micro-batches that arrive from another stage was half of it in each copy of the model
        "tok.7.19.9+token+shared.2/6/pp=2,micro_batch=1,schedule=dualpipe/sgd:lr=0.05:momentum=0.9/f64/2000",
        // signs of a result that is made into others again
        "seq.3.11+cumsum+gate.10+widened.6+layernorm+mse.11/5/tp=2,recompute=full,compression=gist/adam:lr=0.01:eps=1e-4/f64/100000"}},
      {4,
       {// rows and columns of images whose channels come last
        "nhwc.3.8.11+conv.5.3.1.1.0.1.1+batchnorm+maxpool.2.2.0+conv.4.3.2.1.0.1.1+average+class.3/3/spatial=1x2x2/"
        "sgd:lr=0.05:momentum=0.9/f64/2000",
        // two dimensions at one place: strips of a fused weight, and blocks of all of it
        "tok.3.18.11+lstm.3+cumsum+gate.3+dropout+dense.8+shared.6/9/dp=2,tp=2,zero=3,sequence_parallel=on/"
        "sgd:lr=0.05:momentum=0.9:clip=0.1/f64/100000",
        // a bucket summed before the gradients of an earlier chunk were in it
        "seq.2.1+attention.1.1.1.0+tied.1+own.1/1/pp=2,cp=2,interleave=2/sgd:lr=0.05/f64/100000"}},
      {3,
       {// rings of keys of which one has all the weight: sums in another order than that of the product
        "seq.3.9+attention.2.2.1.1+attention.3.1.0.0+fused.2+attention.4.2.1.0+dice.3/5/cp=3,attention=ring/"
        "adam:lr=0.01:eps=1e-4:clip=0.1/f64/400"}},
      {8,
       {"img.4.10.11+avgpool.2.2.0.1+act.3+pad.0.1.1.1+act.0+class.3/5/pp=8,micro_batch=1,schedule=dualpipe/sgd:lr=0.05/f64/400",
        // keys that tp splits another way went round as they lay, not as they were wanted
        "seq.3.9+attention.2.2.1.1+attention.3.1.0.0+fused.2+attention.4.2.1.0+dice.3/4/dp=2,tp=2,cp=2,attention=ring,zero=3/"
        "adam:lr=0.01:eps=1e-4:clip=0.1/f64/400",
        // equal parts of unequal blocks, gathered by ranks of one role
        "seq.3.9+experts.2.1.3+crop+mixer.2+mixer.7+rmsnorm+dice.3/9/dp=2,tp=2,cp=2,zero=1,sequence_parallel=on,allreduce=ring/"
        "adamw:lr=0.01/f64/100000"}},
  };
  for (const auto& found : all) {
    std::vector<Case> cases;
    for (const auto* text : found.cases) cases.push_back(property::parse_case(text));
    Proof(found.ranks).run(std::move(cases));
  }
}
