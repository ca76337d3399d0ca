// Two sets of answers to the same records: validate --answers and --against.
#include <fstream>
#include <sstream>

#include "tests/cli/rehearse.hpp"
#include "tests/process.hpp"

namespace {

/// Our own answers to the families of collectives, as a file.
std::string own_answers(const TemporaryFolder& folder) {
  auto path = folder / "ours.jsonl";
  const auto ended = rehearse("validate --family collective --format json");
  REQUIRE(ended.status == 0);
  write_text(path, ended.out);
  return path;
}

nlohmann::json summary_of(const Ended& ended) {
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  std::istringstream lines(ended.out);
  std::string line, last;
  while (std::getline(lines, line)) last = line;
  return nlohmann::json::parse(last).at("summary");
}

}  // namespace

TEST_CASE("our answers, written and read again, are ours") {
  const TemporaryFolder folder;
  const auto ours = own_answers(folder);
  const auto direct = summary_of(rehearse("validate --family collective --format json")),
             again = summary_of(rehearse("validate --family collective --answers " + ours + " --format json"));
  for (const char* key : {"answered", "mean_error", "median_error", "held_by_interval", "median_interval_factor"})
    CHECK(again.at("all").at(key) == direct.at("all").at(key));
  const auto compared = summary_of(rehearse("validate --family collective --against " + ours + " --format json"));
  const auto& both = compared.at("of_these");
  CHECK(compared.at("records_that_both_answered") == direct.at("all").at("answered"));
  CHECK(both.at(0).at("of") == "rehearse");
  CHECK(both.at(1).at("of") == "ours");
  CHECK(both.at(0).at("mean_error") == both.at(1).at("mean_error"));
  CHECK(both.at(0).at("nearer") == 0);
  CHECK(both.at(1).at("nearer") == 0);
}

TEST_CASE("another predictor is compared on what it answers, and its mistakes are named") {
  const TemporaryFolder folder;
  const auto records = folder / "records.jsonl", theirs = folder / "theirs.jsonl", mine = folder / "mine.jsonl";
  write_text(records, R"({"id":"a","family":"f","measured":{"iteration_time_s":10}}
{"id":"b","family":"f","measured":{"iteration_time_s":10}}
)");
  write_text(mine, R"({"id":"a","predicted":{"iteration_time_s":{"value":11,"low":9,"high":13}}}
{"id":"b","predicted":{"iteration_time_s":{"value":12,"low":11,"high":13}}}
)");
  write_text(theirs, R"({"id":"b","predicted":{"iteration_time_s":10.5}}
{"id":"c","predicted":{"seconds":4}}
)");
  const std::string question = "validate --measured " + records + " --answers " + mine;
  const auto ended = rehearse(question + " --against " + theirs + " --format json");
  CHECK_THAT(ended.err, contains("answers records that are not there: c"));
  CHECK_THAT(ended.err, contains("predicts what no record measures: seconds"));
  const auto compared = summary_of(ended);
  CHECK(compared.at("answers").at(0).at("mean_error").get<double>() == Approx(0.15));
  CHECK(compared.at("answers").at(0).at("held_by_interval") == 0.5);
  CHECK(compared.at("answers").at(1).at("answered") == 1);
  CHECK(compared.at("answers").at(1).at("held_by_interval").is_null());
  CHECK(compared.at("records_that_both_answered") == 1);
  CHECK(compared.at("of_these").at(0).at("mean_error").get<double>() == Approx(0.2));
  CHECK(compared.at("of_these").at(1).at("mean_error").get<double>() == Approx(0.05));
  CHECK(compared.at("of_these").at(1).at("nearer") == 1);
  CHECK(compared.at("families").at(0).at("theirs_nearer") == 1);
  CHECK(compared.at("refusals").at("theirs").at("no answer") == 1);
}

TEST_CASE("options that would change nothing are refused") {
  const TemporaryFolder folder;
  const auto ours = own_answers(folder);
  const auto refused = [](const std::string& words, const std::string& sentence) {
    check_failure(rehearse("validate " + words), 1, {sentence});
  };
  refused("--answers " + ours + " --through folded", "--through: changes our own predictions");
  refused("--answers " + ours + " --machine site.json", "--machine: changes our own predictions");
  refused("--against " + ours + " --html page.html", "--html: draws one set of answers");
  refused("--against nothing.jsonl", "nothing.jsonl: cannot be read; a file of answers");
}

TEST_CASE("a set that answers nothing has no errors, and a family that is not there is refused by name") {
  const TemporaryFolder folder;
  const auto records = folder / "records.jsonl", none = folder / "none.jsonl";
  write_text(records, R"({"id":"a","family":"first","measured":{"iteration_time_s":10}}
)");
  write_text(none, R"({"id":"a","refused":"too large"}
)");
  const auto summary = summary_of(rehearse("validate --measured " + records + " --answers " + none + " --format json"));
  CHECK(summary.at("all").at("mean_error").is_null());
  CHECK(summary.at("families").at(0).at("median_error").is_null());
  const auto page = folder / "page.html";
  CHECK(rehearse("validate --measured " + records + " --answers " + none + " --html " + page).status == 0);
  std::stringstream drawn;
  drawn << std::ifstream(page).rdbuf();
  CHECK_THAT(drawn.str(), contains("<td>1</td><td></td><td></td><td></td>"));
  check_failure(rehearse("validate --measured " + records + " --family frist"), 1, {"--family", "frist", "first"});
  const auto asked = "validate --measured " + records + " --answers " + none + " --format json --family ";
  CHECK(summary_of(rehearse(asked + "FIRST")) == summary_of(rehearse(asked + "first")));  // whatever case it is written in
  CHECK(summary_of(rehearse(asked + "FIRST")).at("all").at("refused") == 1);
}

TEST_CASE("an id that two lines have counts twice, and a warning says so") {
  const TemporaryFolder folder;
  const auto records = folder / "records.jsonl", none = folder / "none.jsonl";
  const std::string line = R"({"id":"a","family":"first","measured":{"iteration_time_s":10}})";
  write_text(records, line + "\n" + line + "\n");
  write_text(none, R"({"id":"a","refused":"too large"})");
  const auto ended = rehearse("validate --measured " + records + " --answers " + none + " --format json");
  CHECK(summary_of(ended).at("all").at("refused") == 2);
  CHECK_THAT(ended.err, contains("records.jsonl: several lines have one id, and each counts: a (lines 1 and 2)"));
  write_text(records, line + "\n{\"id\":\n");
  check_failure(rehearse("validate --measured " + records), 1, {"records.jsonl: line 2: is not JSON: parse error at column "});
}

TEST_CASE("figures of nothing are none") {
  const TemporaryFolder folder;
  const auto records = folder / "records.jsonl", answers = folder / "answers.jsonl";
  write_text(records, R"({"id":"a","family":"first","measured":{"iteration_time_s":10}}
)");
  write_text(answers, R"({"id":"a","predicted":{"iteration_time_s":11}}
)");
  const std::string asked = "validate --measured " + records + " --answers " + answers;
  const auto summary = summary_of(rehearse(asked + " --format json"));
  CHECK(summary.at("all").at("median_interval_factor").is_null());
  CHECK(summary.at("families").at(0).at("median_interval_factor").is_null());
  CHECK(summary.at("regret").at("sets") == 0);
  for (const auto* key : {"mean", "worst"}) CHECK(summary.at("regret").at(key).is_null());
  CHECK(summary.at("rank_correlation").at("mean").is_null());
  CHECK_THAT(rehearse(asked).out, contains("mean   unknown"));
  // Three plans of one job are a choice.
  const auto published = summary_of(rehearse("validate --format json"));
  CHECK(published.at("regret").at("sets") > 0);
  CHECK(published.at("regret").at("worst").is_number());
  CHECK(published.at("rank_correlation").at("mean").is_number());
}

TEST_CASE("records of which none can be answered validate nothing, and nothing is fitted to them") {
  const TemporaryFolder folder;
  const auto empty = folder / "empty.jsonl", unknown = folder / "unknown.jsonl";
  write_text(empty, "");
  write_text(unknown, R"({"id":"x","hardware":{"gpu":"nonesuch"},"model":{"name":"foo"},"measured":{"iteration_time_s":1}})");
  check_failure(rehearse("validate --measured " + empty), 1, {"empty.jsonl", "has no record"});
  check_failure(rehearse("validate --measured " + unknown), 3, {"none of the 1 records is answered", "nonesuch"});
  check_failure(rehearse("fit --measured " + unknown), 3, {"nothing to fit"});
  check_failure(rehearse("fit --measured " + empty), 1, {"empty.jsonl", "has no record"});
  check_failure(rehearse("learn " + empty + " --into " + (folder / "site.json")), 1, {"empty.jsonl", "has no record"});
}
