// rehearse report --search, inspect --kernels and bench: what they print is there and adds up.
#include <cmath>

#include "tests/cli/rehearse.hpp"

TEST_CASE("the plans of a search make a page of their own") {
  const TemporaryFolder folder;
  const auto found =
      result_of(rehearse(std::string("search ") + kGpt + " --batch 8 --platform dgx-a100 --devices 4 --top 3 --format json"));
  write_text(folder / "search.json", found.dump());
  (void)result_of(rehearse("report --search " + (folder / "search.json") + " -o " + (folder / "page.html") + " --format json"));
  const auto page = text_of(folder / "page.html");
  for (const auto& plan : found.at("plans")) CHECK_THAT(page, contains(plan.at("plan").get<std::string>()));
  check_failure(rehearse("report --format json -o " + (folder / "page.html")), 2, {"--search"});
  write_text(folder / "other.json", "{\"schema\": 1}");
  check_failure(rehearse("report --format json --search " + (folder / "other.json") + " -o " + (folder / "page.html")), 1,
                {"other.json", "plans"});
}

TEST_CASE("the page and the search tell one loss of a plan") {
  const TemporaryFolder folder;
  const auto found = result_of(
      rehearse("search zoo:gpt2 --platform dgx-h100 --nodes 1 --batch 64 --dtype bf16 --optimizer adamw --tokens 1e9 --failures 0.1 "
               "--budget 500plans --top 8 --confirm 0 --format json"));
  write_text(folder / "search.json", found.dump());
  (void)result_of(rehearse("report --search " + (folder / "search.json") + " -o " + (folder / "page.html") + " --format json"));
  const auto page = text_of(folder / "page.html");
  int told = 0;
  for (const auto& plan : found.at("plans")) {
    const auto sentence = plan.at("why_not").get<std::string>();
    const auto loss = sentence.substr(0, sentence.find(':'));
    if (!loss.ends_with(" more time")) continue;
    ++told;
    INFO(plan.at("plan") << " " << sentence);
    CHECK_THAT(page, contains("<td class=\"text\">" + loss + ","));  // of what it gives up, the first
  }
  CHECK(told > 1);
}

TEST_CASE("every operator of a step has a kernel, and a reason where none faster took it") {
  const auto result = result_of(rehearse(std::string("inspect ") + kGpt + " --batch 4 --kernels --format json"));
  bool product = false;
  for (const auto& kernel : result.at("kernels")) {
    CHECK(kernel.at("nodes") > 0);
    product = product || kernel.at("op") == "MatMul";
    if (kernel.at("implementation") == "reference:any" && kernel.at("op") == "Softmax")
      CHECK_FALSE(kernel.at("why").get<std::string>().empty());
  }
  CHECK(product);
}

TEST_CASE("the shares of a benchmarked step sum to one") {
  const auto step = result_of(rehearse("bench step " + std::string(kGpt) + " --steps 2 --batch 4 --roofline --format json")).at("step");
  const auto& roofline = step.at("roofline");
  CHECK(roofline.at("memory_bytes_per_second") > 0);
  REQUIRE(roofline.at("losses").size() == 25);
  double lost = HUGE_VAL;
  for (const auto& row : roofline.at("losses")) {
    const double least = row.at("least_seconds"), measured = row.at("measured_seconds");
    CHECK(row.at("lost_seconds").get<double>() == Approx(measured - least).margin(1e-12));
    CHECK(row.at("lost_seconds") <= lost);  // the largest first
    lost = row.at("lost_seconds");
    CHECK((row.at("bound") == "memory" || row.at("bound") == "arithmetic"));
  }
  check_failure(rehearse("bench search --roofline --format json"), 1, {"--roofline", "bench step"});
  check_failure(rehearse("bench --roofline collectives"), 1, {"--roofline", "is no option of `bench collectives`"});
  check_failure(rehearse("bench step --steps 0 --format json"), 1, {"--steps 0", "at least 1"});
  for (const std::string type : {"fp8", "tf32"})
    check_failure(rehearse("bench step --format json --dtype " + type), 3, {"--dtype " + type});
  double sum = 0, reference = 0;
  for (const auto& op : step.at("operators")) {
    sum += op.at("share").get<double>();
    if (op.at("implementation").get<std::string>().find("reference:") != std::string::npos) reference += op.at("share").get<double>();
  }
  CHECK(std::abs(sum - 1) < 1e-9);
  CHECK(std::abs(reference - step.at("share_in_reference_kernels").get<double>()) < 1e-9);
  CHECK(step.at("ratio") > 0);
  CHECK(step.at("ratio") < 1.5);  // no more than the peak of the core, noise aside
  const auto search = result_of(rehearse(std::string("bench search --batch 8 --format json --model ") + kGpt)).at("search");
  CHECK(search.at("plans_per_second") > 0);
  check_failure(rehearse("bench nonsense --format json"), 1, {"nonsense", "import"});
}

TEST_CASE("the page of published runs has a picture for every family and quantity, and a point for every run that was answered") {
  const TemporaryFolder folder;
  const auto ended = rehearse("validate --format json --html " + (folder / "page.html"));
  REQUIRE(ended.status == 0);
  const auto summary = nlohmann::json::parse(ended.out.substr(ended.out.find("{\"summary\""))).at("summary");
  const auto page = text_of(folder / "page.html");
  const auto count = [&](const std::string& part) {
    std::size_t times = 0;
    for (auto at = page.find(part); at != std::string::npos; at = page.find(part, at + part.size())) ++times;
    return times;
  };
  CHECK(count("<circle ") == summary.at("all").at("answered").get<std::size_t>());
  CHECK(count("<figure>") >= summary.at("families").size());
  CHECK(count("<figure>") == count("role='img'"));
  CHECK(page.find("http") == std::string::npos);
  CHECK(page.find("nan") == std::string::npos);
}

TEST_CASE("a benchmark takes its own options alone, and --format behind its name") {
  for (const std::string option : {"--batch 7", "--dtype bf16", "--platform tpu-v4-pod", "--nodes 2", "--steps 9", "zoo:resnet18"})
    for (const std::string name : {"import", "estimate"})
      check_failure(rehearse("bench " + name + " " + option), 1, {"is of `bench s", "not of `bench " + name + "`"});
  check_failure(rehearse("bench search --steps 2"), 1, {"--steps", "`bench step`", "not of `bench search`"});
  for (const std::string option : {"--platform dgx-a100", "--nodes 2"})
    check_failure(rehearse("bench step " + option), 1, {option.substr(0, option.find(' ')), "`bench simulate`", "not of `bench step`"});
  CHECK(result_of(rehearse("bench STEP " + std::string(kGpt) + " --steps 1 --batch 2 --format json")).contains("step"));
  const std::string compression = "compression --elements 1000 --repetitions 1 ";
  CHECK(result_of(rehearse("bench " + compression + "--format json")).at("elements") == 1000);
  CHECK(result_of(rehearse("--format json bench " + compression)).at("elements") == 1000);
  CHECK(result_of(rehearse("bench data " + std::string(kResnet) + " --batch 2 --steps 1 --format json")).at("batch") == 2);
  check_failure(rehearse("bench collectives --format yaml"), 2, {"--format", "json"});
}
