#include <algorithm>
#include <array>
#include <iostream>
#include <new>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/names.hpp"
#include "cli/command.hpp"
#include "cli/conformance.hpp"

namespace {

using namespace rehearsal;
using namespace rehearsal::cli;

constexpr std::array kCommands{
    CommandRow{"inspect", "what a model is: parameters, FLOPs, memory, operators, and what cannot be trained",
               "rehearse inspect zoo:resnet50 --batch 32", add_inspect},
    CommandRow{"zoo", "models that Rehearsal writes itself", "rehearse zoo resnet50 -o resnet50.onnx", add_zoo},
    CommandRow{"platform", "the catalogue of machines, and checks of platform files", "rehearse platform show dgx-a100", add_platform},
    CommandRow{"calibrate", "measures this machine", "rehearse calibrate --quick -o machine.json", add_calibrate},
    CommandRow{"collective", "how long a collective takes, by algorithm and size",
               "rehearse collective --platform dgx-a100 --sizes 1MB,64MB", add_collective},
    CommandRow{"estimate", "what training will cost on a platform", "rehearse estimate zoo:resnet50 --platform dgx-a100 --batch 2048",
               add_estimate},
    CommandRow{"search", "the plan that costs least", "rehearse search zoo:resnet50 --platform dgx-a100 --batch 2048 --top 3", add_search},
    CommandRow{"simulate", "plays a plan on a modelled cluster",
               "rehearse simulate zoo:resnet50 --platform dgx-a100 --batch 2048 --plan dp=64", add_simulate},
    CommandRow{"run", "trains for real, under mpirun when on several ranks",
               "rehearse run zoo:resnet18?image=64 --batch 4 --data synthetic --steps 2", add_run},
    CommandRow{"launch", "a training as a job of Slurm, mpirun or Kubernetes, or started again whenever a rank is lost",
               "rehearse launch slurm plan.json --platform dgx-a100 --nodes 2 --steps 1000 --checkpoint saved", add_launch},
    CommandRow{"evaluate", "loss, accuracy and outputs of a model on a data file",
               "rehearse evaluate model.onnx --data test.npz --checkpoint trained --outputs outputs.npz", add_evaluate},
    CommandRow{"explain", "what a plan makes every stage do and send",
               "rehearse explain dp=2 --model zoo:resnet18 --batch 8 --platform xeon-2s-10gbe", add_explain},
    CommandRow{"compare", "a predicted trace against a measured one", "rehearse compare predicted.json measured.json", add_compare},
    CommandRow{"learn", "measurements back into the calibration", "rehearse learn trace.json --into machine.json", add_learn},
    CommandRow{"history", "what runs on a machine were predicted to take, what they took, and how that drifts from week to week",
               "rehearse run zoo:resnet18?image=64 --batch 4 --steps 5 --machine machine.json && rehearse history machine.json",
               add_history},
    CommandRow{"export", "a plan as flags or configuration of another framework",
               "rehearse export dp=8,tp=8,zero=1 --for megatron-core --model zoo:llama3-8b --batch 64 --dtype bf16 --optimizer adamw",
               add_export},
    CommandRow{"import",
               "what other programs wrote: logs of collectives into the links of a platform, profiles of PyTorch, configurations of "
               "Megatron-LM and torchtitan",
               "rehearse import tests/exchange/nccl-tests-2xh100-pcie.log --platform h100-pcie-8x", add_import},
    CommandRow{"validate", "predictions against published training runs", "rehearse validate --family collective", add_validate},
    CommandRow{"fit", "the constants of the accelerator model from published training runs, with errors of sources left out",
               "rehearse fit --measured records.jsonl -o accelerators.json", add_fit},
    CommandRow{"bench", "the project's own benchmarks, each against a yardstick of the same run",
               "rehearse bench collectives --bytes 4096 --repetitions 3", add_bench},
    CommandRow{"report", "traces or metrics as one page, traces for other programs", "rehearse report trace.json -o page.html", add_report},
    CommandRow{"conformance", "test cases of the ONNX project, forward and gradients",
               "rehearse conformance /usr/share/libonnx-testdata/data/node --gradients", add_conformance},
};

struct Parsed {
  CLI::App* parser = nullptr;
  Action action;
  std::string format = "text";
};

int run_command(const Parsed& parsed, Terminal& terminal) {
  try {
    terminal.set_json(parsed.format == "json");
    return parsed.action(terminal);
  } catch (const Error& error) {
    terminal.error(error.what());
    return static_cast<int>(error.status());
  } catch (const std::bad_alloc&) {
    terminal.error("memory ran out; use a smaller model or batch, or fewer ranks on this machine");
    return static_cast<int>(ExitStatus::Environment);
  } catch (const std::exception& error) {
    terminal.error(std::string("internal error: ") + error.what());
    return static_cast<int>(ExitStatus::Internal);
  }
}

/// Options that the command does not have, each with the nearest one: said before anything that seems to be missing.
std::string about_unknown_options(const CLI::App& app) {
  std::string sentence;
  for (const auto* command : app.get_subcommands()) {
    std::vector<std::string> options;
    for (const auto* option : command->get_options())
      for (const auto& name : option->get_lnames()) options.push_back("--" + name);
    for (const auto& word : command->remaining()) {
      if (!word.starts_with("--")) continue;
      const auto name = word.substr(0, word.find('='));
      sentence += (sentence.empty() ? "" : " ") + name + " is no option of " + command->get_name() +
                  suggestion(name, {options.begin(), options.end()}) + " `rehearse " + command->get_name() + " --help` lists them.";
    }
  }
  return sentence;
}

}  // namespace

int main(int argc, char** argv) {
  install_interrupt_handler();
  Terminal terminal(std::cout, std::cerr);
  CLI::App app{"Rehearsal: what training a neural network on a cluster will cost, the plan that costs least, and its real run."};
  app.name("rehearse");
  app.require_subcommand(1);
  app.set_version_flag("--version", REHEARSAL_VERSION);
  std::array<Parsed, kCommands.size()> parsed;
  for (std::size_t i = 0; i < kCommands.size(); ++i) {
    const auto& row = kCommands[i];
    auto* parser = app.add_subcommand(std::string(row.name), std::string(row.description));
    parser->footer("Example:\n  " + std::string(row.example));
    parser->add_option("--format", parsed[i].format, "text or json")->check(CLI::IsMember({"text", "json"}));
    parsed[i].parser = parser;
    parsed[i].action = row.add(*parser);
  }
  const std::string first = argc > 1 ? argv[1] : "";
  if (!first.empty() && first[0] != '-' && std::ranges::find(kCommands, first, &CommandRow::name) == kCommands.end()) {
    terminal.error("'" + first + "' is no command" + suggestion(first, names_of_rows(kCommands, &CommandRow::name)) +
                   " `rehearse --help` lists them");
    return static_cast<int>(ExitStatus::Usage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    if (const auto sentence = about_unknown_options(app); !sentence.empty())
      terminal.error(sentence);
    else
      app.exit(error, std::cout, std::cerr);
    return static_cast<int>(ExitStatus::Usage);
  } catch (const Error& error) {
    terminal.error(error.what());
    return static_cast<int>(error.status());
  }
  for (const auto& p : parsed)
    if (p.parser->parsed()) return run_command(p, terminal);
  return static_cast<int>(ExitStatus::Usage);
}
