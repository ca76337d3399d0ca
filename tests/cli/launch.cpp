// rehearse launch: scripts and manifests as printed, and trainings that are started again when a rank is lost.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "tests/cli/rehearse.hpp"

namespace {

namespace fs = std::filesystem;

/// A folder with a plan for ranks of dgx-a100.
struct Planned {
  TemporaryFolder folder;
  std::string plan = folder / "plan.json", saved = folder / "saved", metrics = folder / "my metrics&1.jsonl";
  explicit Planned(int ranks) {
    (void)result_of(rehearse(std::string("search ") + kGpt + " --batch 16 --platform dgx-a100 --devices " + std::to_string(ranks) +
                             " --plan dp=" + std::to_string(ranks) + " --format json -o " + plan));
  }
  [[nodiscard]] std::string words() const { return " --steps 100 --checkpoint " + saved + " --metrics '" + metrics + "'"; }
  [[nodiscard]] Ended launch(const std::string& kind, const std::string& more) const {
    return rehearse("launch " + kind + " " + plan + " " + more);
  }
  /// A script in the place of a program; returns what stands before a command that is to find it.
  [[nodiscard]] std::string stand_in(const std::string& program, const std::string& script) const {
    fs::create_directory(folder / "bin");
    const auto file = folder / "bin/" + program;
    write_text(file, script);
    fs::permissions(file, fs::perms::owner_all);
    return "PATH=" + (folder / "bin") + ":$PATH ";
  }
};

}  // namespace

TEST_CASE("doctor has two ranks take a step, and quotes the launcher where they do not") {
  const auto found = [](const Ended& ended) { return nlohmann::json::parse(ended.out).at("checks").back(); };
  const auto launcher = fs::path(REHEARSAL_MPIRUN).parent_path().string();
  const auto good = rehearse("doctor --format json", 0, "PATH=" + launcher + ":$PATH ");
  CHECK(good.status == 0);
  CHECK(found(good).at("check") == "two ranks");
  CHECK(found(good).at("state") == "good");

  const TemporaryFolder bin;
  write_text(bin / "mpirun", "#!/bin/sh\n[ $1 = --version ] && echo stand-in 1 && exit\necho ------\necho no slots >&2\nexit 1\n");
  fs::permissions(bin / "mpirun", fs::perms::owner_all);
  const auto broken = rehearse("doctor --format json", 0, "PATH=" + (bin / "") + ":$PATH ");
  CHECK(broken.status == 4);
  CHECK(found(broken).at("found") == "do not run: no slots");

  write_text(bin / "mpirun", "#!/bin/sh\necho nothing works >&2\nexit 3\n");
  const auto absent = rehearse("doctor --format json", 0, "PATH=" + (bin / "") + ":$PATH ");
  CHECK(absent.status == 0);  // one rank trains without
  CHECK(found(absent).at("check") == "launcher");
  CHECK(found(absent).at("state") == "absent");
  CHECK_THAT(found(absent).at("found").get<std::string>(), contains("nothing works"));
}

TEST_CASE("a job's time limit is that of our own execution") {
  const Planned job(16);
  const std::string where = " --platform dgx-a100 --nodes 2 ";
  const auto step =
      result_of(rehearse(std::string("estimate ") + kGpt + " --batch 16 --framework rehearse --format json --plan " + job.plan + where))
          .at("step_seconds")
          .at("high")
          .get<double>();
  const auto minutes = static_cast<long long>(std::ceil((1e7 * step * 1.1 + 600) / 60));
  char limit[32];
  std::snprintf(limit, sizeof limit, "--time=%lld-%02lld:%02lld:00", minutes / 1440, minutes % 1440 / 60, minutes % 60);
  CHECK_THAT(job.launch("slurm", where + "--steps 10M").out, contains(limit));
}

TEST_CASE("a script for Slurm has what the queue must know, and hands every option on") {
  const Planned job(16);
  const auto ended = job.launch("slurm", "--platform dgx-a100 --nodes 2" + job.words());
  REQUIRE(ended.status == 0);
  for (const auto* line : {"#SBATCH --nodes=2\n", "#SBATCH --ntasks-per-node=8\n", "#SBATCH --cpus-per-task=16\n", "#SBATCH --gres=gpu:8\n",
                           "#SBATCH --signal=USR1@120\n", "#SBATCH --requeue\n", "#SBATCH --time=0-00:1"})
    CHECK_THAT(ended.out, contains(line));
  // What srun is called with, by a stand-in; the job was told to end, and goes back to the queue.
  write_text(job.folder / "job.sh", ended.out);
  (void)job.stand_in("srun", "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 75\n");
  const auto played = run_shell(job.stand_in("scontrol", "#!/bin/sh\necho scontrol \"$@\"\n") +
                                "SLURM_JOB_ID=7 SLURM_SUBMIT_DIR=" + (job.folder / "") + " bash " + (job.folder / "job.sh"));
  CHECK(played.status == 75);
  CHECK_THAT(played.out, contains("--mpi=pmix\n") && contains("run\n" + job.plan + "\n--steps\n100\n") &&
                             contains("\n" + job.metrics + "\n--backend\ncuda\n--continue\n"));
  CHECK_THAT(played.out, contains("scontrol requeue 7"));
}

TEST_CASE("a job trains on the devices of its platform, or says that it does not") {
  const Planned job(2);
  const auto on = [&](const std::string& words) { return job.launch("slurm", "--steps 5 --platform " + words); };
  const auto processors = on("xeon-2s-10gbe --nodes 1");
  CHECK(processors.status == 0);
  CHECK_THAT(processors.out, !contains("--backend") && !contains("gpu:"));
  const auto named = on("dgx-a100 --backend onednn");
  CHECK_THAT(named.out, contains("--backend onednn\n") && !contains("cuda") && !contains("gpu:"));
  CHECK_THAT(named.err, contains("--backend onednn trains on the processors") && contains("predicted for A100-SXM4-80GB"));
  const auto wanted = on("xeon-2s-10gbe --nodes 1 --backend cuda");
  CHECK_THAT(wanted.out, contains("--gres=gpu:2\n") && contains("--backend cuda\n"));
  CHECK_THAT(wanted.err, contains("a GPU is asked for each rank, while xeon-2s-10gbe has Xeon-Gold-6248"));
  for (const std::string without : {"mi300x-8x", "tpu-v4-pod", "gaudi2-8x", "dgx1-v100"})
    check_failure(on(without), 3, {without, "no kernels"});
  CHECK_THAT(on("mi300x-8x --backend auto").err, contains("predicted for MI300X-192GB"));
  CHECK_THAT(job.launch("mpirun", "--steps 5 --platform dgx-a100 --nodes 1").out, contains("--backend cuda\n"));
  CHECK_THAT(job.launch("mpirun", "--steps 5").out, !contains("--backend"));
}

TEST_CASE("a job whose steps are long is told so long before its end that it can save") {
  const TemporaryFolder folder;
  const auto plan = folder / "plan.json";
  const std::string where = " --platform xeon-2s-10gbe --devices 1 ",
                    model = "'zoo:gpt?layers=12&hidden=768&heads=12&seq=512&vocab=8000' --batch 1024 ";
  REQUIRE(rehearse("search " + model + "--plan dp=1,micro_batch=8 -o " + plan + where).status == 0);
  const auto estimate = result_of(rehearse("estimate " + model + "--format json --plan " + plan + where));
  const double step = estimate.at("step_seconds").at("high");
  REQUIRE(step > 60);
  const auto seconds_behind = [](const std::string& text, const std::string& words) {
    const auto at = text.find(words);
    REQUIRE(at != std::string::npos);
    return std::stod(text.substr(at + words.size()));
  };
  const auto words = plan + where + "--steps 100 --checkpoint saved";
  const auto notice = seconds_behind(rehearse("launch slurm " + words).out, "--signal=USR1@");
  CHECK(notice > 2 * step);
  CHECK(notice < 2 * step + 60);
  CHECK(seconds_behind(rehearse("launch kubernetes " + words).out, "terminationGracePeriodSeconds: ") == notice);
  CHECK(seconds_behind(rehearse("launch mpirun " + words).out, "sigkill_timeout ") + 10 == notice);
}

TEST_CASE("nodes that are not equal are a hostfile's matter, not a queue's") {
  const TemporaryFolder folder;
  const auto platform = folder / "two.json", plan = folder / "plan.json";
  auto two = nlohmann::json::parse(rehearse("platform show dgx-a100").out);
  two["name"] = "two";
  two["nodes"][0]["count"] = 1;
  two["nodes"].push_back(two["nodes"][0]);
  two["nodes"][1].update({{"name", "half"}, {"devices", 4}});
  two["nodes"][1]["nic"]["count"] = 4;
  write_text(platform, two.dump());
  REQUIRE(rehearse(std::string("search ") + kGpt + " --batch 24 --plan dp=12 --framework rehearse --platform " + platform + " -o " + plan)
              .status == 0);
  const auto where = " " + plan + " --steps 5 --platform " + platform;
  for (const std::string kind : {"slurm", "kubernetes"})
    check_failure(rehearse("launch " + kind + where), 3, {"1 with 8 ranks on A100", "1 with 4 ranks on A100", "launch mpirun"});
  const auto script = rehearse("launch mpirun" + where);
  CHECK(script.status == 0);
  CHECK_THAT(script.out, contains("#   1 x NAME slots=8 ") && contains("#   1 x NAME slots=4 ") && contains("exec mpirun -n 12 "));
  // Twelve ranks do not fill two nodes of one kind either.
  check_failure(rehearse("launch slurm " + plan + " --platform dgx-a100 --nodes 2"), 3, {"1 with 8 ranks", "1 with 4 ranks"});
  check_failure(rehearse("launch slurm " + plan + " --platform dgx-a100 --nodes 1"), 3, {"12 ranks", "8 devices", "--nodes"});
}

TEST_CASE("a manifest for Kubernetes is YAML with launcher and workers") {
  const Planned job(16);
  const auto ended = job.launch("kubernetes", "--platform dgx-a100 --nodes 2 --image registry/rehearsal:1 --volume scratch" + job.words());
  REQUIRE(ended.status == 0);
  for (const auto* words :
       {"kind: MPIJob\n", "slotsPerWorker: 8\n", "replicas: 2\n", "image: \"registry/rehearsal:1\"\n", "claimName: \"scratch\"\n",
        "- \"--continue\"\n", "- \"-n\"\n", "- \"16\"\n", "- \"cuda\"\n", "nvidia.com/gpu: 8\n", "activeDeadlineSeconds: "})
    CHECK_THAT(ended.out, contains(words));
  CHECK_THAT(ended.out, contains("- \"" + job.metrics + "\"\n"));
  write_text(job.folder / "job.yaml", ended.out);
  const auto parsed = run_shell(
      "/usr/bin/python3 -c 'import yaml, sys; d = yaml.safe_load(open(sys.argv[1])); "
      "print(d[\"spec\"][\"mpiReplicaSpecs\"][\"Worker\"][\"replicas\"])' " +
      (job.folder / "job.yaml"));
  if (parsed.err.find("No module named") == std::string::npos) CHECK(parsed.out == "2\n");
}

TEST_CASE("launch answers in JSON, too: with the script, or with what the training that it started answers") {
  const Planned job(2);
  for (const std::string words : {"slurm --platform dgx-a100", "kubernetes --platform dgx-a100", "mpirun"}) {
    const auto kind = words.substr(0, words.find(' '));
    const auto more = words.substr(kind.size()) + " --steps 5";
    const auto result = result_of(job.launch(kind, more + " --format json"));
    CHECK(result.at("schema") == 1);
    CHECK(result.at("kind") == kind);
    CHECK(result.at("script") == job.launch(kind, more).out);
  }
  const auto trained = result_of(job.launch("mpirun", "--restarts 1 --steps 5 --format json --checkpoint " + job.saved));
  CHECK(trained.at("steps") == 5);
}

TEST_CASE("pods see the volume alone, and a manifest has paths that they can see") {
  const Planned job(8);
  const auto ended =
      job.launch("kubernetes", "--platform dgx-a100 --checkpoint saved --data tokens:/data/a.bin --metrics=/elsewhere/m.jsonl");
  REQUIRE(ended.status == 0);
  CHECK_THAT(ended.out, contains("- \"plan.json\"\n") && !contains(job.plan) && contains("- \"saved\"\n"));
  CHECK_THAT(ended.err, contains("copy " + job.plan + " to its top") && contains("/data/a.bin, /elsewhere/m.jsonl should be below it"));
  const auto there =
      run_shell("cd " + (job.folder / "") +
                " && \"" REHEARSAL_COMMAND "\" launch kubernetes plan.json --platform dgx-a100 --checkpoint /training/saved --steps 5");
  CHECK(there.status == 0);
  CHECK(there.err.empty());
  for (const std::string bad : {"'Bad Name!'", "-a", "a_b", "Training"})
    check_failure(job.launch("kubernetes", "--platform dgx-a100 --volume=" + bad), 1, {"--volume", "no name of Kubernetes"});
}

TEST_CASE("a script for mpirun trains as printed, and goes on when it is started again") {
  const Planned job(2);
  const auto ended = job.launch("mpirun", "--steps 6e0 --continue --checkpoint " + job.saved);
  REQUIRE(ended.status == 0);
  write_text(job.folder / "job.sh", ended.out);
  const auto first = run_shell("bash " + (job.folder / "job.sh"));
  INFO(first.err);
  CHECK(first.status == 0);
  CHECK(fs::exists(job.saved + "/step-6/manifest.json"));
  const auto again = run_shell("bash " + (job.folder / "job.sh"));
  CHECK(again.status == 0);
  CHECK_THAT(again.err, contains("step 6 is done in " + job.saved + ": nothing is left to train"));
}

TEST_CASE("a rank that is lost costs a restart, and the losses are those of a training that nobody disturbed") {
  const Planned job(2);
  const auto metrics = job.folder / "m.jsonl";
  const std::string options = " --optimizer adam --lr 0.01 --steps 400 --metrics ";
  // One rank is killed when there are 30 lines of metrics, another one later.
  const auto killer = [&](int lines) {
    return "( while [ \"$(wc -l < " + metrics + ")\" -lt " + std::to_string(lines) + " ]; do sleep 0.02; done; kill -9 $(pgrep -f 'run " +
           job.plan + "' | tail -1) ) & ";
  };
  const auto ended = run_shell("touch " + metrics + "; " + killer(30) + "\"" REHEARSAL_COMMAND "\" launch mpirun " + job.plan +
                               " --restarts 2 --checkpoint-every 5 --checkpoint " + job.saved + options + metrics);
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err, contains("restart 1 of 2"));
  const auto whole = job.folder / "whole.jsonl";
  REQUIRE(rehearse("run " + job.plan + options + whole, 2).status == 0);
  const auto losses_in = [](const std::string& path) {
    std::vector<double> losses;
    std::istringstream lines(text_of(path));
    for (std::string line; std::getline(lines, line);) losses.push_back(nlohmann::json::parse(line).at("loss"));
    return losses;
  };
  CHECK(losses_in(metrics).size() == 400);
  CHECK(losses_in(metrics) == losses_in(whole));
}

TEST_CASE("what ends a supervised job is the status of its ranks: an error is no reason for a restart, and a lost rank is 4 at last") {
  const Planned job(2);
  const std::string supervised = "--restarts 2 --steps 20 --checkpoint " + job.saved;
  const auto [option, status] = GENERATE(table<std::string, int>({{" --lr 1e30", 3}, {" --data nowhere.npz", 1}}));
  const auto ended = job.launch("mpirun", supervised + option);
  INFO(ended.err);
  CHECK(ended.status == status);
  CHECK_THAT(ended.err, !contains("restart 1") && !contains("was killed"));

  const auto with = [&](const std::string& mpirun) {
    return rehearse("launch mpirun " + job.plan + " " + supervised, 0, job.stand_in("mpirun", "#!/bin/sh\n" + mpirun + "\n"));
  };
  check_failure(with("kill -KILL $$"), 4, {"restart 2 of 2", "a rank was lost (mpirun ended with 137)", "2 restarts are used up"});
  check_failure(with("exit 127"), 4, {"mpirun could not be started"});
}

TEST_CASE("Ctrl-C at a terminal, which every process of a command gets, ends a supervised job with a checkpoint") {
  const Planned job(2);
  const auto metrics = job.folder / "m.jsonl";
  // Its group is that of `setsid`; INT goes to all of it when there are ten lines of metrics.
  const auto ended = run_shell("touch " + metrics + "; setsid --wait sh -c '( while [ \"$(wc -l < " + metrics +
                               ")\" -lt 10 ]; do sleep 0.05; done; kill -INT 0 ) & exec \"" REHEARSAL_COMMAND "\" launch mpirun " +
                               job.plan + " --restarts 1 --steps 100000000 --checkpoint " + job.saved + " --metrics " + metrics + "'");
  INFO(ended.err);
  CHECK(ended.status == 75);
  CHECK_THAT(ended.err, contains("interrupted after step ") && contains("saved in " + job.saved) && !contains("was killed"));
  CHECK(fs::exists(job.saved));
}

TEST_CASE("a launcher that hangs when all its ranks have ended is ended, and the job goes on") {
  const Planned job(1);
  const auto times = job.folder / "times";
  // Stands still behind the first job, as Open MPI's may; the next one it only counts.
  const auto path = job.stand_in("mpirun", "#!/bin/bash\necho started >> " + times + "\n[ $(wc -l < " + times +
                                               ") -gt 1 ] && exit 0\nsleep 0.3\nkill -STOP $$\nexit 0\n");
  const auto ended = run_shell(path + "timeout 30 \"" REHEARSAL_COMMAND "\" launch mpirun " + job.plan +
                               " --restarts 1 --steps 4 --checkpoint " + job.saved);
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err, contains("all ranks have ended, and mpirun did not within 5 s: it was killed") && contains("restart 1 of 1"));
  CHECK(text_of(times) == "started\nstarted\n");
  // Interrupted meanwhile: the ranks had ended, and what they did is saved.
  const auto interrupted =
      run_shell("rm " + times + "; " + path + "timeout --foreground --preserve-status -s INT 3 \"" REHEARSAL_COMMAND "\" launch mpirun " +
                job.plan + " --restarts 1 --steps 4 --checkpoint " + job.saved);
  CHECK(interrupted.status == 75);
  CHECK(text_of(times) == "started\n");
}

TEST_CASE("a plan for the hosts that are left is searched as our own execution") {
  const Planned job(2);
  const auto path = job.stand_in("mpirun",
                                 "#!/bin/sh\ncase \"$*\" in\n*'--host a -n 1 true') exit 0;;\n*'--host b -n 1 true') exit 1;;\n"
                                 "*'--host a:1,b:1 '*) kill -KILL $$;;\nesac\nprintf '%s\\n' \"$@\"\n");
  const auto ended = rehearse("launch mpirun " + job.plan + " --restarts 1 --hosts a:1,b:1 --platform dgx-a100 --devices 2 --steps 4" +
                                  " --checkpoint " + job.saved,
                              0, path);
  INFO(ended.err);
  CHECK(ended.status == 0);
  const auto plan = job.saved + ".plan-1-ranks.json";
  CHECK_THAT(ended.out, contains("--host\na:1\n") && contains("run\n" + plan + "\n"));
  CHECK(nlohmann::json::parse(text_of(plan)).at("context").at("searched_on").at("framework") == "rehearse");
}

TEST_CASE("a plan that was searched on another machine, or does not fit this one, is started with a warning") {
  const Planned job(2);
  CHECK_THAT(job.launch("slurm", "--platform a100-80gb --nodes 1").err, !contains("warning"));  // dgx-a100 by its device
  const auto other = job.launch("slurm", "--platform dgx-h100 --nodes 1");
  REQUIRE(other.status == 0);
  CHECK_THAT(other.err, contains("was searched on dgx-a100; on dgx-h100 another plan may be quicker"));
  const TemporaryFolder folder;
  const auto large = folder / "large.json";
  (void)rehearse(
      "search zoo:llama3-8b --batch 2 --platform dgx-h200 --devices 2 --dtype f16 --optimizer sgd --plan dp=2 --framework rehearse -o " +
      large);
  CHECK_THAT(rehearse("launch slurm " + large + " --platform aws-g4dn.12xlarge --nodes 1").err,
             contains("on aws-g4dn.12xlarge the plan needs "));
}

TEST_CASE("what launch cannot do is said before anything starts") {
  const Planned job(2);
  check_failure(job.launch("slurm", "--steps 5"), 1, {"--platform"});
  check_failure(job.launch("slurm", "--platform dgx-a100 --stepz 5"), 2, {"--stepz", "did you mean \"--steps\"?", "rehearse run --help"});
  check_failure(job.launch("slurm", "--platform dgx-a100 --plan dp=2"), 1, {"--plan", job.plan});
  check_failure(job.launch("slurm", "--platform dgx-a100 --continue"), 1, {"--continue", "--checkpoint"});
  check_failure(job.launch("mpirun", "--restarts 2 --steps 5"), 1, {"--restarts", "--checkpoint"});
  check_failure(job.launch("slurm", "--platform dgx-a100 --restarts 2"), 1, {"--restarts", "launch mpirun"});
  check_failure(job.launch("mpirun", "--image mine --steps 5"), 1, {"--image", "launch kubernetes"});
  check_failure(job.launch("slurm", "--platform dgx-a100 --volume mine"), 1, {"--volume", "launch kubernetes"});
  check_failure(job.launch("slurm", "--platform dgx-a100 --volume training"), 1, {"--volume", "launch kubernetes"});  // its default
  check_failure(job.launch("mpirun", "--resume x"), 1, {"--resume", "--checkpoint"});
  check_failure(job.launch("mpirun", "--lora 4"), 1, {job.plan, "was made for another training"});  // as the job would
  check_failure(job.launch("mpirun", "--restarts 1 --checkpoint c --hosts node1:none --platform dgx-a100"), 1, {"--hosts", "node1:8"});
  check_failure(job.launch("mpirun", "--nodes 77"), 1, {"--nodes", "--platform"});
  check_failure(job.launch("mpirun", "--devices 77"), 1, {"--devices", "--platform"});
  const std::string saved = " --restarts 1 --checkpoint " + job.saved;
  check_failure(job.launch("mpirun", "--platform nosuch" + saved), 1, {"nosuch"});
  check_failure(job.launch("mpirun", "--platform nosuch --hosts a:1,b:1" + saved), 1, {"nosuch"});
  check_failure(job.launch("mpirun", "--platform dgx-a100 --hosts a" + saved), 1, {"--hosts a", "1 of the 2 slots"});
  CHECK_THAT(job.launch("slurm", "--platform dgx-a100 --nodes 7").err, contains("--nodes 7: the plan has 2 ranks on 1 node"));
  check_failure(rehearse("launch slurm nowhere.json"), 1, {"nowhere.json"});
}

TEST_CASE("what run would refuse hours later is refused before there is a script") {
  const Planned job(2);
  const auto [words, status, named] = GENERATE(table<std::string, int, std::string>({
      {"--steps -5", 1, "--steps -5"},
      {"--steps 0", 1, "--steps 0"},
      {"--on-nan foo", 1, "--on-nan foo"},
      {"--schedule foo", 1, "--schedule"},
      {"--warmup -7", 1, "--warmup"},
      {"--keep -3 --checkpoint saved", 1, "--keep -3"},
      {"--checkpoint-every garbage --checkpoint saved", 1, "--checkpoint-every garbage"},
      {"--checkpoint-every 5", 1, "--checkpoint DIR"},
      {"--backend zork", 1, "zork"},
      {"--shuffle maybe", 1, "--shuffle maybe"},
      {"--stop-after 3", 1, "--eval-every"},
      {"--dtype fp8", 3, "--dtype fp8"},
      {"--dtype tf32 --backend onednn", 3, "--dtype tf32"},
      {"--optimizer rprop --warmup 5", 3, "--warmup"},
  }));
  INFO(words);
  check_failure(job.launch("slurm", "--platform dgx-a100 " + words), status, {named});
  check_failure(job.launch("mpirun", words), status, {named});
  check_failure(rehearse("run " + job.plan + " " + words), status, {named});
}

TEST_CASE("ranks that do not know each other refuse to train") {
  for (const std::string variable : {"SLURM_NTASKS", "PMI_SIZE"})
    check_failure(rehearse(std::string("run ") + kGpt + " --batch 4 --steps 1", 0, variable + "=2 "), 2,
                  {variable + "=2", "this process is alone"});
  CHECK(rehearse(std::string("run ") + kGpt + " --batch 4 --steps 1", 0, "SLURM_NTASKS=1 ").status == 0);
}
