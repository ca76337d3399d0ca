// Answers of another predictor: how their lines are read, and how two sets are scored on the same records.

#include "validation/answers.hpp"

#include <sstream>

#include "tests/catch.hpp"
#include "validation/comparison.hpp"

namespace rehearsal::validation {
namespace {

/// Four plans of one job that took 1, 2, 3 and 4 seconds, and a reading of memory.
std::vector<Record> records() {
  std::string lines;
  for (int i = 1; i <= 4; ++i)
    lines += R"({"id":"p)" + std::to_string(i) + R"(","family":"plans","source":"s","plan":{"tp":)" + std::to_string(i) +
             R"(},"measured":{"iteration_time_s":)" + std::to_string(i) + "}}\n";
  lines += R"({"id":"m","family":"memory","source":"s","measured":{"memory_gib":40}})";
  std::istringstream in(lines);
  return read_records(in, "records.jsonl").records;
}

AnswerFile read(const std::string& text) {
  std::istringstream in(text);
  return read_answers(in, "theirs.jsonl", records());
}

TEST_CASE("answers are found by the record's name, in the records' order") {
  const auto file = read(R"({"id":"p2","predicted":{"iteration_time_s":{"value":3,"low":1.5,"high":4}}}

{"id":"p1","predicted":{"iteration_time_s":1.5,"memory_gib":7}}
{"id":"p3","refused":"no such device"}
{"id":"p9","predicted":{"iteration_time_s":2,"time":4}}
{"summary":{}}
)");
  REQUIRE(file.verdicts.size() == 5);
  const auto& first = file.verdicts[0];
  CHECK(first.id == "p1");
  CHECK(first.predicted.at("iteration_time_s").low == 1.5);
  CHECK(first.errors.at("iteration_time_s") == 0.5);
  CHECK_FALSE(first.predicted.contains("memory_gib"));  // this record does not measure it
  CHECK(file.verdicts[1].predicted.at("iteration_time_s").high == 4);
  CHECK(file.verdicts[1].errors.at("iteration_time_s") == 0.5);
  CHECK(file.verdicts[2].refused == "no such device");
  CHECK(file.verdicts[3].refused == kNotAnswered);
  CHECK(file.verdicts[4].refused == kNotAnswered);
  CHECK(file.unknown_ids == std::set<std::string>{"p9"});
  CHECK(file.unknown_keys == std::set<std::string>{"time"});
}

TEST_CASE("a line that is wrong is named with its key") {
  const auto refused = [](const std::string& line, const std::string& words) {
    CHECK_THROWS_WITH(read("{\"id\":\"p1\",\"predicted\":{\"iteration_time_s\":1}}\n" + line),
                      contains("theirs.jsonl: line 2") && contains(words));
  };
  refused("{", "column 2");
  refused("[]", "an answer is an object");
  refused(R"({"predicted":{"iteration_time_s":1}})", "'id' is missing");
  refused(R"({"id":"p1","predicted":{"iteration_time_s":1}})", "'p1' is answered twice");
  refused(R"({"id":"p2"})", "either \"predicted\" or \"refused\"");
  refused(R"({"id":"p2","predicted":{"iteration_time_s":1},"refused":"no"})", "either \"predicted\" or \"refused\"");
  refused(R"({"id":"p2","refused":""})", "a text that says why");
  refused(R"({"id":"p2","predicted":3})", "predicted must be an object");
  refused(R"({"id":"p2","predicted":{"iteration_time_s":-1}})", "predicted.iteration_time_s must be a positive number, it is -1");
  refused(R"({"id":"p2","predicted":{"iteration_time_s":"1 s"}})", "it is \"1 s\"");
  refused(R"({"id":"p2","predicted":{"iteration_time_s":{"low":1}}})", "needs \"value\"");
  refused(R"({"id":"p2","predicted":{"iteration_time_s":{"value":1,"low":2,"high":3}}})", "must rise");
}

TEST_CASE("two sets are scored on what both answered") {
  const auto ours = read(R"({"id":"p1","predicted":{"iteration_time_s":{"value":1.1,"low":0.9,"high":1.3}}}
{"id":"p2","predicted":{"iteration_time_s":{"value":2.4,"low":2.1,"high":2.7}}}
{"id":"p3","predicted":{"iteration_time_s":{"value":3.3,"low":2.9,"high":3.6}}}
{"id":"p4","refused":"too many"}
{"id":"m","predicted":{"memory_gib":{"value":44,"low":38,"high":50}}})");
  const auto theirs = read(R"({"id":"p1","predicted":{"iteration_time_s":2}}
{"id":"p2","predicted":{"iteration_time_s":1}}
{"id":"p3","predicted":{"iteration_time_s":3.3}}
{"id":"p4","predicted":{"iteration_time_s":4}})");
  const auto all = records();
  const auto c = compare(ours.verdicts, theirs.verdicts, all);
  CHECK(c.first.all.answered == 4);
  CHECK(c.second.all.answered == 4);
  CHECK(c.second.refusals == std::map<std::string, int>{{kNotAnswered, 1}});
  REQUIRE(c.duels.size() == 3);
  CHECK(c.duels[1].id == "p2");
  CHECK(c.duels[1].measured == 2);
  // Ours: 10, 20, 10 % off. Theirs: 100, 50 and 10 %.
  CHECK(c.first_of_both.all.mean == Approx(0.4 / 3));
  CHECK(c.second_of_both.all.mean == Approx(1.6 / 3));
  CHECK(c.second_of_both.all.median == Approx(0.5));
  // Intervals hold 1 and 3, not 2 (2.1 to 2.7); theirs have none.
  CHECK(c.first_of_both.all.bounded == 3);
  CHECK(c.first_of_both.all.held == 2);
  CHECK(c.second_of_both.all.bounded == 0);
  // They would choose the second plan, which takes twice the first one's time; ours the first.
  CHECK(c.first_of_both.choice.sets == 1);
  CHECK(c.first_of_both.choice.mean_regret == 0);
  CHECK(c.second_of_both.choice.mean_regret == Approx(1));
  CHECK(c.nearer.first == 2);
  CHECK(c.nearer.second == 0);
  CHECK(c.nearer.alike == 1);
}

TEST_CASE("half and twice are equally far") {
  const auto halves = read(R"({"id":"p4","predicted":{"iteration_time_s":2}})"),
             twice = read(R"({"id":"p4","predicted":{"iteration_time_s":8}})");
  const auto all = records();
  CHECK(compare(halves.verdicts, twice.verdicts, all).nearer.alike == 1);
}

}  // namespace
}  // namespace rehearsal::validation
