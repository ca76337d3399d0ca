#pragma once
// The commands: each is a function in a file of commands/, and a row here.

#include <array>
#include <string_view>

#include "cli/command.hpp"

namespace rehearsal::cli {

Action add_inspect(CLI::App&);
Action add_zoo(CLI::App&);
Action add_platform(CLI::App&);
Action add_collective(CLI::App&);
Action add_estimate(CLI::App&);
Action add_search(CLI::App&);
Action add_simulate(CLI::App&);
Action add_explain(CLI::App&);
Action add_jobs(CLI::App&);
Action add_run(CLI::App&);
Action add_launch(CLI::App&);
Action add_evaluate(CLI::App&);
Action add_calibrate(CLI::App&);
Action add_compare(CLI::App&);
Action add_learn(CLI::App&);
Action add_history(CLI::App&);
Action add_report(CLI::App&);
Action add_export(CLI::App&);
Action add_import(CLI::App&);
Action add_validate(CLI::App&);
Action add_fit(CLI::App&);
Action add_bench(CLI::App&);
Action add_conformance(CLI::App&);
Action add_doctor(CLI::App&);
Action add_completion(CLI::App&);
Action add_man(CLI::App&);
Action add_complete(CLI::App&);

/// Groups of `rehearse --help`.
inline constexpr std::string_view kKnown = "Models and machines", kBefore = "Before you spend", kTraining = "Training",
                                  kAfter = "Measuring and learning", kOthers = "Other programs", kRight = "How right and how fast it is",
                                  kShell = "Your shell";

/// In the order of `rehearse --help`.
inline constexpr std::array kCommands{
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
    CommandRow{"doctor", "what works on this machine: memory, kernels, GPU, simulator, ranks under mpirun", "rehearse doctor", kRight,
               add_doctor},
    CommandRow{"completion", "a script by which bash, zsh or fish complete commands, options and names",
               "source <(rehearse completion bash)", kShell, add_completion},
    CommandRow{"man", "the manual page of a command", "rehearse man estimate | man -l -", kShell, add_man},
    CommandRow{"complete", "what may stand next on a command line", "rehearse complete -- estimate zoo:res", "", add_complete},
};

}  // namespace rehearsal::cli
