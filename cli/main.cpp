#include <algorithm>
#include <array>
#include <iostream>
#include <new>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/names.hpp"
#include "cli/command.hpp"
#include "cli/commit.hpp"
#include "cli/conformance_answer.hpp"
#include "cli/help/help_page.hpp"
#include "cli/help/wrong_words.hpp"
#include "cli/text/wrap.hpp"

namespace {

using namespace rehearsal;
using namespace rehearsal::cli;

constexpr std::string_view kKnown = "Models and machines", kBefore = "Before you spend", kTraining = "Training",
                           kAfter = "Measuring and learning", kOthers = "Other programs", kRight = "How right and how fast it is",
                           kShell = "Your shell";

constexpr std::array kCommands{
    CommandRow{"inspect", "what a model is: parameters, FLOPs, memory, operators, and what cannot be trained",
               "rehearse inspect zoo:resnet50 --batch 32", kKnown, add_inspect},
    CommandRow{"zoo", "models that Rehearsal writes itself", "rehearse zoo resnet50 -o resnet50.onnx", kKnown, add_zoo},
    CommandRow{"platform", "the catalogue of machines, and checks of platform files", "rehearse platform show dgx-a100", kKnown,
               add_platform},
    CommandRow{"collective", "how long a collective takes, by algorithm and size",
               "rehearse collective --platform dgx-a100 --sizes 1MB,64MB", kKnown, add_collective},
    CommandRow{"estimate", "what training will cost on a platform", "rehearse estimate zoo:resnet50 --platform dgx-a100 --batch 2048",
               kBefore, add_estimate},
    CommandRow{"search", "the plan that costs least", "rehearse search zoo:resnet50 --platform dgx-a100 --batch 2048 --top 3", kBefore,
               add_search},
    CommandRow{"simulate", "plays a plan on a modelled cluster",
               "rehearse simulate zoo:resnet50 --platform dgx-a100 --batch 2048 --plan dp=64", kBefore, add_simulate},
    CommandRow{"explain", "what a plan makes every stage do and send",
               "rehearse explain dp=2 --model zoo:resnet18 --batch 8 --platform xeon-2s-10gbe", kBefore, add_explain},
    CommandRow{"jobs", "several trainings on one cluster: who runs when under which policy, how long they wait, how fair that is",
               "rehearse jobs jobs.json --platform dgx-a100 --nodes 4 --policy fifo --policy easy --svg jobs.svg", kBefore, add_jobs},
    CommandRow{"run", "trains for real, under mpirun when on several ranks",
               "rehearse run zoo:resnet18?image=64 --batch 4 --data synthetic --steps 2", kTraining, add_run},
    CommandRow{"launch", "a training as a job of Slurm, mpirun or Kubernetes, or started again whenever a rank is lost",
               "rehearse launch slurm plan.json --platform dgx-a100 --nodes 2 --steps 1000 --checkpoint saved", kTraining, add_launch},
    CommandRow{"evaluate", "loss, accuracy and outputs of a model on a data file",
               "rehearse evaluate model.onnx --data test.npz --checkpoint trained --outputs outputs.npz", kTraining, add_evaluate},
    CommandRow{"calibrate", "measures this machine", "rehearse calibrate --quick -o machine.json", kAfter, add_calibrate},
    CommandRow{"compare", "a predicted trace against a measured one", "rehearse compare predicted.json measured.json", kAfter, add_compare},
    CommandRow{"learn", "measurements back into the calibration", "rehearse learn trace.json --into machine.json", kAfter, add_learn},
    CommandRow{"history", "what runs on a machine were predicted to take, what they took, and how that drifts from week to week",
               "rehearse run zoo:resnet18?image=64 --batch 4 --steps 5 --machine machine.json && rehearse history machine.json", kAfter,
               add_history},
    CommandRow{"report", "traces or metrics as one page, traces for other programs", "rehearse report trace.json -o page.html", kAfter,
               add_report},
    CommandRow{"export", "a plan as flags or configuration of another framework",
               "rehearse export dp=8,tp=8,zero=1 --for megatron-core --model zoo:llama3-8b --batch 64 --dtype bf16 --optimizer adamw",
               kOthers, add_export},
    CommandRow{"import",
               "what other programs wrote: logs of collectives into the links of a platform, profiles of PyTorch, configurations of "
               "Megatron-LM and torchtitan",
               "rehearse import tests/exchange/nccl-tests-2xh100-pcie.log --platform h100-pcie-8x", kOthers, add_import},
    CommandRow{"validate", "predictions against published training runs", "rehearse validate --family collective", kRight, add_validate},
    CommandRow{"fit", "the constants of the accelerator model from published training runs, with errors of sources left out",
               "rehearse fit --measured records.jsonl -o accelerators.json", kRight, add_fit},
    CommandRow{"bench", "the project's own benchmarks, each against a yardstick of the same run",
               "rehearse bench collectives --bytes 4096 --repetitions 3", kRight, add_bench},
    CommandRow{"conformance", "test cases of the ONNX project, forward and gradients",
               "rehearse conformance /usr/share/libonnx-testdata/data/node --gradients", kRight, add_conformance},
    CommandRow{"completion", "a script by which bash, zsh or fish complete commands, options and names",
               "source <(rehearse completion bash)", kShell, add_completion},
    CommandRow{"man", "the manual page of a command", "rehearse man estimate | man -l -", kShell, add_man},
    CommandRow{"complete", "what may stand next on a command line", "rehearse complete -- estimate zoo:res", "", add_complete},
};

struct Parsed {
  CLI::App* parser = nullptr;
  Action action;
};

int run_command(const Parsed& parsed, Terminal& terminal) {
  try {
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

void say_what_to_type_first(std::ostream& out) {
  out << "Rehearsal tells what training a neural network on a cluster costs, finds the plan that costs least, and trains by it.\n\n"
         "Type first:\n"
         "  rehearse inspect zoo:resnet50\n"
         "      what a model is\n"
         "  rehearse search zoo:llama3-8b --platform dgx-h100 --nodes 4 --batch 256 --dtype bf16 --optimizer adamw --tokens 1e11\n"
         "      the best plan, with its time, memory and money\n"
         "  rehearse run 'zoo:resnet18?image=32' --batch 4 --steps 5 --data synthetic\n"
         "      a training on this machine\n\n"
         "Models are ONNX files, zoo:NAME (rehearse zoo) or hf:config.json; machines are JSON files or names (rehearse platform list).\n"
         "`rehearse --help` lists all commands, `rehearse COMMAND --help` their options.\n"
      << std::flush;
}

/// --help and --format, which stand before or behind a command.
void add_output_to(CLI::App& app, std::string& format) {
  const OptionGroup group(app, kOutputGroup);
  app.get_help_ptr()->group(kOutputGroup)->description("says this");
  app.add_option("--format", format, "text or json")->check(one_of({"text", "json"}))->capture_default_str();
}

std::array<Parsed, kCommands.size()> add_commands(CLI::App& app, std::string& format) {
  std::array<Parsed, kCommands.size()> parsed;
  for (std::size_t i = 0; i < kCommands.size(); ++i) {
    const auto& row = kCommands[i];
    auto* parser = app.add_subcommand(std::string(row.name), std::string(row.description))->group(std::string(row.group));
    parser->footer(std::string(row.example));
    parser->option_defaults()->always_capture_default();
    add_output_to(*parser, format);
    parsed[i] = {parser, row.add(*parser)};
  }
  return parsed;
}

}  // namespace

int main(int argc, char** argv) {
  install_interrupt_handler();
  Terminal terminal(std::cout, std::cerr);
  CLI::App app{"Rehearsal: what training a neural network on a cluster will cost, the plan that costs least, and its real run."};
  app.name("rehearse");
  app.formatter_fn(
      [](const CLI::App* command, const std::string&, CLI::AppFormatMode) { return help_text(help_page(*command), window_columns()); });
  app.require_subcommand(1);
  std::string format = "text";
  add_output_to(app, format);
  const auto built = commit().empty() ? std::string() : " (commit " + std::string(commit()) + ")";
  app.set_version_flag("--version", REHEARSAL_VERSION + built, "says which version this is")->group(kOutputGroup);
  const auto parsed = add_commands(app, format);
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.empty()) {
    say_what_to_type_first(terminal.err());
    return static_cast<int>(ExitStatus::Usage);
  }
  if (first[0] != '-' && std::ranges::find(kCommands, first, &CommandRow::name) == kCommands.end()) {
    terminal.error("'" + first + "' is no command" + suggestion(first, names_of_rows(kCommands, &CommandRow::name)) +
                   " `rehearse --help` lists them");
    return static_cast<int>(ExitStatus::Usage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    terminal.error(about_wrong_words(app, error));
    return static_cast<int>(ExitStatus::Usage);
  } catch (const Error& error) {
    terminal.error(error.what());
    return static_cast<int>(error.status());
  }
  terminal.set_json(format == "json");
  for (const auto& p : parsed)
    if (p.parser->parsed()) return run_command(p, terminal);
  return static_cast<int>(ExitStatus::Usage);
}
