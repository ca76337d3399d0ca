// What who has never used the program meets: help, completion, manual pages, misspelt words, tables in a narrow window.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "cli/text/result_text.hpp"
#include "cli/text/text_table.hpp"
#include "cli/text/wrap.hpp"
#include "tests/cli/rehearse.hpp"

using namespace rehearsal::cli;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Names of commands, from the help of the program: two blanks, the name, and blanks to the column of the texts.
std::vector<std::string> commands() {
  std::vector<std::string> names;
  for (const auto& line : lines_of(rehearse("--help").out)) {
    std::smatch found;
    if (std::regex_search(line, found, std::regex("^  ([a-z]+) {2,}\\S"))) names.push_back(found[1]);
  }
  return names;
}

/// What bash offers when this was typed.
std::set<std::string> completed(const std::string& typed) {
  const auto folder = std::filesystem::path(REHEARSAL_COMMAND).parent_path().string();
  const auto ended = run_shell("PATH='" + folder + "':$PATH bash -c 'source <(rehearse completion bash); COMP_LINE=\"" + typed +
                               "\"; COMP_POINT=" + std::to_string(typed.size()) + "; _rehearse; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
  INFO(ended.err);
  CHECK(ended.status == 0);
  const auto lines = lines_of(ended.out);
  return {lines.begin(), lines.end()};
}

}  // namespace

TEST_CASE("the version says which commit was built, where the sources are a repository") {
  const auto said = rehearse("--version").out;
  INFO(said);
  CHECK(std::regex_match(said, std::regex("\\d+\\.\\d+\\.\\d+( \\(commit [0-9a-f]{7,40}(-dirty)?\\))?\n")));
}

TEST_CASE("doctor says what of a machine works, and ends with 4 where something is broken") {
  const auto state = [](const Ended& ended, const std::string& check) {
    const auto said = nlohmann::json::parse(ended.out);
    for (const auto& row : said.at("checks"))
      if (row.at("check") == check) return row.at("state").get<std::string>() + ": " + row.at("found").get<std::string>();
    return std::string("not looked at");
  };
  const auto ended = rehearse("doctor --alone --format json");
  CHECK(ended.status == 0);
  CHECK_THAT(state(ended, "program"), contains("good: version"));
  CHECK(state(ended, "simulator") == "good: plays a step");
  CHECK_THAT(state(ended, "kernels"), contains("good: onednn"));
  CHECK(state(ended, "launcher") == "not looked at");
  const auto without = rehearse("doctor --alone --format json", 0, "REHEARSAL_SIM_MODULE=/nowhere/module.so ");
  CHECK(without.status == 4);
  CHECK_THAT(state(without, "simulator"), contains("broken: rehearse: error: the simulator is not installed: /nowhere/module.so"));
  CHECK(nlohmann::json::parse(without.out).at("works") == false);
}

TEST_CASE("text is broken behind blanks, commas and bars, and words stay whole") {
  CHECK(wrapped("a plan of ranks", 0) == std::vector<std::string>{"a plan of ranks"});
  CHECK(wrapped("a plan of ranks", 9) == std::vector<std::string>{"a plan of", "ranks"});
  CHECK(wrapped("dp=8,tp=2,zero=1", 10) == std::vector<std::string>{"dp=8,tp=2,", "zero=1"});
  CHECK(wrapped("unbreakable yes", 4) == std::vector<std::string>{"unbreakable", "yes"});
  CHECK(hanging("one two three", 2, 22) == "one two three");
  CHECK(hanging("one two three four five", 2, 22) == "one two three four\n  five");
}

TEST_CASE("a table is as wide as its cells where there is no window, and fits one that there is") {
  const TextTable table{{"plan", "step", "why not"},
                        {{{"dp=8,tp=2", true}, {"12.3 ms", false}, {"the quickest of all that were tried", true}},
                         {{"dp=16", true}, {"1.2 s", false}, {"", true}}}};
  CHECK(to_text(table, 0, 0) ==
        "plan       step     why not\n"
        "dp=8,tp=2  12.3 ms  the quickest of all that were tried\n"
        "dp=16      1.2 s\n");
  // 9 + 2 + 7 + 2 leave 20 of 40 columns for the sentence; a number keeps its unit.
  CHECK(to_text(table, 0, 40) ==
        "plan       step     why not\n"
        "dp=8,tp=2  12.3 ms  the quickest of all\n"
        "                    that were tried\n"
        "dp=16      1.2 s\n");
}

TEST_CASE("the three numbers of an interval have one unit") {
  // From 0.1 kWh = 360 kJ and from 10 min = 600 s on, people say kWh and min.
  const auto text = [](const char* key, double value, double low, double high) {
    return result_text({{key, {{"value", value}, {"low", low}, {"high", high}}}}, 0);
  };
  CHECK_THAT(text("energy_joules", 720e3, 180e3, 1440e3), contains("0.2 kWh  (90 %: 0.05 kWh to 0.4 kWh)"));
  CHECK_THAT(text("energy_joules", 180e3, 90e3, 720e3), contains("180 kJ  (90 %: 90 kJ to 720 kJ)"));
  CHECK_THAT(text("total_seconds", 660, 330, 1320), contains("11 min  (90 %: 5.5 min to 22 min)"));
}

TEST_CASE("columns that have no room stand below, behind the first one again") {
  const TextTable table{{"plan", "step", "memory", "energy"},
                        {{{"dp=8", true}, {"12.3 ms", false}, {"70.6 GB", false}, {"0.13 kWh", false}}}};
  // 4 + 2 + 7 = 13, and 22 with the memory; all four take 32.
  CHECK(to_text(table, 0, 24) ==
        "plan  step     memory\n"
        "dp=8  12.3 ms  70.6 GB\n"
        "\n"
        "plan  energy\n"
        "dp=8  0.13 kWh\n");
}

TEST_CASE("results fit the window") {
  for (const auto* command : {"search zoo:llama3-8b --platform dgx-h100 --batch 512 --dtype bf16 --optimizer adamw --budget 300plans",
                              "estimate zoo:resnet50 --platform dgx-a100 --batch 4096 --vary devices=8,16", "platform list"}) {
    const auto ended = rehearse(command, 0, "COLUMNS=100 ");
    INFO(command << "\n" << ended.out << ended.err);
    REQUIRE(ended.status == 0);
    const auto lines = lines_of(ended.out);
    CHECK(std::ranges::all_of(lines, [](const auto& line) { return line.size() <= 100; }));
    CHECK(rehearse(command).out.find("dgx-") != std::string::npos);
  }
}

TEST_CASE("the program alone says what to type first") {
  const auto ended = rehearse("");
  CHECK(ended.status == 2);
  for (const auto* words : {"Type first:", "rehearse inspect", "rehearse search", "rehearse run", "--help"})
    CHECK_THAT(ended.err, contains(words));
}

TEST_CASE("every command's help fits the window, has a title for every group, and an example") {
  const auto names = commands();
  REQUIRE(names.size() > 20);
  for (const auto& name : names) {
    const auto ended = rehearse(name + " --help", 0, "COLUMNS=90 ");
    INFO(ended.out);
    CHECK(ended.status == 0);
    CHECK_THAT(ended.out, contains("Usage: rehearse " + name) && contains("Output:\n") && contains("Example"));
    const auto lines = lines_of(ended.out);
    const auto examples = std::ranges::find_if(lines, [](const auto& line) { return line.starts_with("Example"); });
    CHECK(std::all_of(lines.begin(), examples, [](const auto& line) { return line.size() <= 90; }));
  }
}

TEST_CASE("usage has in brackets what may be left out") {
  const auto usage = [](const std::string& command) { return lines_of(rehearse(command + " --help").out).at(2); };
  CHECK(usage("zoo") == "Usage: rehearse zoo [NAME] [OPTIONS]");
  CHECK(usage("explain") == "Usage: rehearse explain PLAN [OPTIONS]");
  CHECK(usage("report") == "Usage: rehearse report [TRACE ...] [OPTIONS]");
  CHECK(usage("platform") == "Usage: rehearse platform COMMAND [OPTIONS]");
  CHECK_THAT(rehearse("platform --help").out, contains("\nCommands:\n  list "));
  CHECK(usage("bench") == "Usage: rehearse bench [WHAT] [COMMAND] [OPTIONS]");
}

TEST_CASE("help explains every option and argument that it lists") {
  for (const std::string command :
       {"explain", "inspect", "zoo", "report", "completion", "man", "doctor", "platform show", "platform check"})
    for (const auto& line : lines_of(rehearse(command + " --help").out)) {
      INFO(command << ": " << line);
      CHECK_FALSE(std::regex_match(line, std::regex("  (-o,)?(--[a-z-]+|[A-Z]+)( [A-Z]+)?( \\.\\.\\.)?")));
    }
}

TEST_CASE("a benchmark and a question about platforms have examples of their own") {
  for (const std::string name :
       {"bench collectives", "bench data", "bench compression", "platform list", "platform devices", "platform schema", "platform check"})
    CHECK_THAT(rehearse(name + " --help").out, contains("  rehearse " + name));
  CHECK_THAT(rehearse("evaluate --help").out, !contains("synthetic) (required)"));  // it refuses synthetic samples
}

TEST_CASE("help tells defaults, and the keys of a plan") {
  const auto help = rehearse("estimate --help").out;
  for (const auto* words : {"How it is trained:\n", "Where and how it runs:\n", "Prices:\n", "(default: sgd)", "(default: closed)",
                            "Keys of a plan", "  zero_group ", "(default: 1f1b)", "Keys of a recipe", "  frozen=16bit|fp8|int8|nf4|int4"})
    CHECK_THAT(help, contains(words));
}

TEST_CASE("every command has a manual page of what its help says") {
  const TemporaryFolder folder;
  REQUIRE(rehearse("man -o " + (folder / "man")).status == 0);
  for (const auto& name : commands()) {
    const auto page = text_of(folder / ("man/rehearse-" + name + ".1"));
    INFO(name);
    CHECK(page.starts_with(".TH REHEARSE"));
    for (const auto& line : lines_of(page))
      if (line.starts_with('.')) CHECK(std::regex_match(line, std::regex("\\.(TH|SH|B|TP|nf|fi)( .*)?")));
  }
  CHECK_THAT(rehearse("man estimate").out, contains("\\fB\\-\\-platform\\fR TEXT") && contains(".SH EXAMPLES"));
  CHECK(rehearse("man").out == text_of(folder / "man/rehearse.1"));
  if (run_shell("command -v groff").status == 0) {
    const auto drawn = run_shell("groff -man -ww -Tutf8 " + (folder / "man/rehearse-estimate.1"));
    CHECK(drawn.status == 0);
    CHECK(drawn.err.empty());
  }
}

TEST_CASE("bash completes commands, options, names and keys of plans") {
  CHECK(completed("rehearse est") == std::set<std::string>{"estimate"});
  CHECK(completed("rehearse platform s") == std::set<std::string>{"show", "schema"});
  CHECK(completed("rehearse estimate zoo:x --fid") == std::set<std::string>{"--fidelity"});
  CHECK(completed("rehearse estimate zoo:x --fidelity f") == std::set<std::string>{"folded", "full"});
  CHECK(completed("rehearse estimate zoo:x --platform dgx-a100 --dtype bf") == std::set<std::string>{"bf16"});
  CHECK(completed("rehearse launch s") == std::set<std::string>{"slurm"});
  CHECK(completed("rehearse estimate zoo:x --platform dgx-h") == std::set<std::string>{"dgx-h100", "dgx-h200", "dgx-h800"});
  // Bash has taken "zoo:" and what stands before a key's = for words of their own: only what follows is put in.
  CHECK(completed("rehearse estimate zoo:resnet5") == std::set<std::string>{"resnet50", "resnet50_v1", "resnet50_v2"});
  CHECK(completed("rehearse estimate zoo:x --plan dp=8,zero_") == std::set<std::string>{"8,zero_group="});
  CHECK(completed("rehearse search zoo:x --plan inter") == std::set<std::string>{"interleave="});
  CHECK(completed("rehearse jobs x.json --policy f") == std::set<std::string>{"fair-share", "fifo"});
  CHECK(completed("rehearse estimate zoo:x --law h") == std::set<std::string>{"hoffmann-3"});
  CHECK(completed("rehearse estimate zoo:x --fidelity=f") == std::set<std::string>{"folded", "full"});
  CHECK(completed("rehearse estimate zoo:x --fidelity=") == std::set<std::string>{"closed", "folded", "full"});
  // Before the first letter.
  CHECK(completed("rehearse estimate zoo:x --fidelity ") == std::set<std::string>{"closed", "folded", "full"});
  CHECK(completed("rehearse platform ") == std::set<std::string>{"list", "devices", "show", "schema", "check"});
  CHECK(completed("rehearse ").contains("estimate"));
  CHECK(completed("rehearse estimate zoo:RESNET5") == std::set<std::string>{"resnet50", "resnet50_v1", "resnet50_v2"});
  // A path is the shell's to complete.
  CHECK(completed("rehearse estimate ./mod") == std::set<std::string>{""});
}

TEST_CASE("arguments and options that are one of so many words are completed") {
  const auto offered = [](const std::string& words) {
    const auto ended = rehearse("complete -- " + words);
    CHECK(ended.status == 0);
    std::set<std::string> found;
    for (const auto& line : lines_of(ended.out)) found.insert(line.substr(0, line.find('\t')));
    return found;
  };
  using Words = std::set<std::string>;
  CHECK(offered("zoo resnet5") == Words{"resnet50", "resnet50_v1", "resnet50_v2"});
  CHECK(offered("platform show dgx-h") == Words{"dgx-h100", "dgx-h200", "dgx-h800"});
  CHECK(offered("platform check dgx-h").empty());  // a file
  CHECK(offered("man es") == Words{"estimate"});
  CHECK(offered("completion z") == Words{"zsh"});
  CHECK(offered("export dp=8 --for m") == Words{"megatron-core"});
  CHECK(offered("explain dp=8,zero_") == Words{"dp=8,zero_group="});
  CHECK(offered("validate --family transformer-fs") == Words{"transformer-fsdp"});
  CHECK(offered("validate --through fo") == Words{"folded"});
  CHECK(offered("collective --kind all") == Words{"all-gather", "all-reduce", "all-to-all"});
  CHECK(offered("inspect zoo:x --device h100-n") == Words{"H100-NVL-94GB"});  // as it is written, whatever case was typed
  CHECK(offered("explain dp=2 --after fo") == Words{"forward"});
  CHECK(offered("explain dp=2 --after rep") == Words{"report-loss"});
  CHECK(offered("estimate zoo:x --vary nic.l") == Words{"nic.latency="});
  CHECK(offered("estimate zoo:x --vary zero_") == Words{"zero_group="});
  CHECK(offered("search zoo:x --limit st") == Words{"step="});
  CHECK(offered("evaluate zoo:x --dtype f") == Words{"f32", "f64"});
  CHECK(offered("estimate zoo:x --dtype fp8-") == Words{"fp8-block", "fp8-rowwise"});
  CHECK(offered("run zoo:x --dtype fp").empty());  // no kernel computes in one of them
  CHECK(offered("calibrate --backend c") == Words{"cuda"});
}

TEST_CASE("words that completion offers are those that help tells") {
  for (const auto& [command, option] : {std::pair{"run zoo:x", "--schedule"},
                                        {"run zoo:x", "--on-nan"},
                                        {"run zoo:x", "--shuffle"},
                                        {"run zoo:x", "--augment"},
                                        {"run zoo:x", "--normalize"},
                                        {"run zoo:x", "--backend"},
                                        {"run zoo:x", "--lr-scaling"},
                                        {"run zoo:x", "--nesterov"},
                                        {"run zoo:x", "--dropout"},
                                        {"run zoo:x", "--loss-scale"},
                                        {"evaluate zoo:x", "--backend"},
                                        {"evaluate zoo:x", "--dtype"},
                                        {"calibrate", "--backend"},
                                        {"search zoo:x", "--allow"},
                                        {"search zoo:x", "--dataset"},
                                        {"bench step", "--dtype"}}) {
    const auto help = rehearse(std::string(command) + " --help").out;
    const auto begin = help.find(std::string("\n  ") + option + " ");
    REQUIRE(begin != std::string::npos);
    const auto entry = help.substr(begin, help.find("\n  -", begin + 1) - begin);
    const auto offered = lines_of(rehearse(std::string("complete -- ") + command + " " + option + " ''").out);
    INFO(entry);
    CHECK_FALSE(offered.empty());
    for (const auto& line : offered) CHECK_THAT(entry, contains(line.substr(0, line.find('\t'))));
  }
  const auto known = rehearse("bench nonsense --format json").err;
  for (const auto& line : lines_of(rehearse("complete -- bench ''").out)) CHECK_THAT(known, contains(line.substr(0, line.find('\t'))));
}

TEST_CASE("scripts for other shells ask the same") {
  for (const auto* shell : {"zsh", "fish"}) {
    const auto script = rehearse(std::string("completion ") + shell);
    CHECK(script.status == 0);
    CHECK_THAT(script.out, contains("rehearse complete -- "));
    const TemporaryFolder folder;
    write_text(folder / "script", script.out);
    if (run_shell(std::string("command -v ") + shell).status == 0)
      CHECK(run_shell(std::string(shell) + " -n " + (folder / "script")).status == 0);  // it can be read
  }
  check_failure(rehearse("man estimate -o /tmp/nowhere"), 2, {"--output", "COMMAND"});
  check_failure(rehearse("completion tcsh"), 1, {"tcsh", "bash, zsh, fish"});
}

TEST_CASE("a misspelt word is answered with the right one") {
  const struct {
    const char* words;
    int status;
    std::vector<std::string> said;
  } kCases[] = {
      {"estimte", 2, {"'estimte' is no command", "\"estimate\""}},
      {"platform lst", 2, {"'lst' is no command of platform", "\"list\""}},
      {"platform", 2, {"needs one of its commands: list"}},
      {"--formt json", 2, {"--formt is no option of rehearse", "\"--format\""}},
      {"estimate --platfrm x", 2, {"--platfrm is no option of estimate", "\"--platform\""}},
      {"estimate", 2, {"MODEL is required", "for example: rehearse estimate"}},
      {"estimate zoo:resnet50", 2, {"--platform is required", "platform list"}},
      {"estimate zoo:resnet50 --platform dgx-a100 --batch many", 2, {"--batch many: must be a whole number"}},
      {"estimate zoo:resnet50 --platform dgx-a100 --epochs many", 2, {"--epochs many: must be a number"}},
      {"estimate zoo:resnet50 --platform dgx-a100 --format jsn", 2, {"--format", "'jsn'", "\"json\""}},
      {"launch slrm plan.json", 2, {"'slrm'", "\"slurm\""}},
      {"estimate zoo:lama3-8b --platform dgx-a100", 1, {"\"llama3-8b\"", "`rehearse zoo` lists"}},
      {"estimate zoo:gpt4 --platform dgx-a100", 1, {"gpt2-xl", "gpt3-175b"}},
      {"estimate zoo:resnet50 --platform dgx-a10", 1, {"\"dgx-a100\"", "`rehearse platform list` lists"}},
      {"estimate zoo:resnet50 --platform dgx-a100 --plan zreo=1", 1, {"'zreo'", "\"zero\""}},
      {"estimate zoo:resnet50 --platform dgx-a100 --framework megatrn", 1, {"'megatrn'", "megatron"}},
      {"estimate zoo:resnet50 --platform dgx-a100 --dtype bf61", 1, {"bf61", "\"bf16\""}},
      {"man estimte", 1, {"'estimte'", "\"estimate\""}},
  };
  for (const auto& [words, status, said] : kCases) {
    INFO(words);
    check_failure(rehearse(words), status, said);
  }
}

TEST_CASE("the format may stand before the command, too") {
  const std::string command = "inspect zoo:resnet18 --batch 2";
  CHECK(rehearse("--format json " + command).out == rehearse(command + " --format json").out);
}
