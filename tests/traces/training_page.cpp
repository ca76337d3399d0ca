// Metrics of a training: what is read of them, and what their page shows.
#include "traces/training_page.hpp"

#include "tests/catch.hpp"
#include "tests/process.hpp"

using namespace rehearsal;
using namespace rehearsal::traces;

namespace {

std::string file_with(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  write_text(folder / name, text);
  return folder / name;
}

}  // namespace

TEST_CASE("JSON lines are read; what is null or left out is missing") {
  const TemporaryFolder folder;
  const auto file =
      read_metrics(file_with(folder, "m.jsonl",
                             "{\"step\": 1, \"loss\": 2.5, \"seconds\": 0.5, \"samples_per_second\": 8, \"resident_bytes\": 1000}\n"
                             "{\"step\": 2, \"loss\": null}\n{\"step\": 2, \"eval_loss\": 2.25}\n{\"step\": 3, \"lo"));
  REQUIRE(file.entries.size() == 3);  // the last line is not whole
  CHECK(file.entries[0].loss == 2.5);
  CHECK(file.entries[0].resident_bytes == 1000);
  CHECK(!file.entries[1].loss);
  CHECK(file.entries[2].eval_loss == 2.25);
}

TEST_CASE("a page says from which step on the loss was not finite, and shows these steps, too") {
  const TemporaryFolder folder;
  const auto lines = file_with(folder, "nan.jsonl",
                               "{\"step\": 1, \"loss\": 4.626, \"seconds\": 0.5, \"samples_per_second\": 8}\n"
                               "{\"step\": 2, \"loss\": 2.103e20, \"seconds\": 0.5, \"samples_per_second\": 8}\n"
                               "{\"step\": 2, \"eval_loss\": null}\n"
                               "{\"step\": 3, \"loss\": null, \"seconds\": 0.5, \"samples_per_second\": 8}\n"
                               "{\"step\": 5, \"loss\": null, \"seconds\": 0.5, \"samples_per_second\": 8}\n");
  // What run writes as a table has an empty cell there; what others write may have a word.
  const auto table = file_with(folder, "nan.csv",
                               "step,loss,seconds,samples_per_second,eval_loss\n1,4.626,0.5,8,\n2,2.103e20,0.5,8,\n2,,,,1.5\n3,,0.5,8,\n"
                               "5,nan,0.5,8,\n");
  for (const auto& file : {lines, table}) {
    INFO(file);
    const auto training = read_metrics(file);
    REQUIRE(training.entries.size() == 5);
    CHECK(!training.entries[2].loss_not_finite);  // of an evaluation
    CHECK(training.entries[3].loss_not_finite);
    CHECK(training.entries[4].loss_not_finite);
    const auto page = to_page(std::vector{training});
    CHECK_THAT(page, contains("steps 1 to 5, loss from 4.626 to 2.103e20, not finite from step 3 on"));
    // Charts reach from 70 to 750: step 2 of 1 to 5 is a quarter of the way, the lowest loss at 176 and the highest at 10.
    CHECK_THAT(page, contains("70.0,176.0 240.0,10.0 "));
  }
  auto again = read_metrics(lines);
  again.entries.back().loss = 3;
  again.entries.back().loss_not_finite = false;
  CHECK_THAT(to_page(std::vector{again}), contains("not finite at 1 step, step 3"));
  for (auto& e : again.entries) e.loss.reset(), e.loss_not_finite = true;
  CHECK_THAT(to_page(std::vector{again}), contains("steps 1 to 5, loss not finite from step 1 on"));
}

TEST_CASE("a table says the same") {
  const TemporaryFolder folder;
  const auto file = read_metrics(file_with(folder, "m.csv", "step,loss,eval_loss\n1,2.5,\n1,,2.25\n"));
  REQUIRE(file.entries.size() == 2);
  CHECK(file.entries[0].loss == 2.5);
  CHECK(!file.entries[0].eval_loss);
  CHECK(file.entries[1].eval_loss == 2.25);
  // As a spreadsheet writes it again.
  const auto again = read_metrics(file_with(folder, "again.csv", "\xEF\xBB\xBFstep,loss\r\n1,2.5\r\n"));
  REQUIRE(again.entries.size() == 1);
  CHECK(again.entries[0].loss == 2.5);
}

TEST_CASE("files that are no metrics are refused with the line") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& text, const std::string& words) {
    CHECK_THROWS_WITH(read_metrics(file_with(folder, name, text)), contains(name) && contains(words));
  };
  refused("a.jsonl", "{\"step\": 1, \"loss\": 1}\nhello\n", "line 2");
  refused("b.jsonl", "{\"loss\": 1}\n", "line 1: is no JSON object with a step");
  refused("c.jsonl", "{\"step\": 1, \"loss\": \"high\"}\n", "loss must be a number");
  refused("d.csv", "step,loss\n1,2,3\n", "line 2: has 3 cells, the heading 2");
  refused("e.csv", "loss\n1\n", "names no column step");
  refused("f.csv", "step,loss\n1,high\n", "loss is no number");
  refused("g.jsonl", "", "has no line of a step");
}

TEST_CASE("the page draws what there is, and a spike among many steps is seen") {
  MetricsFile training{"a<b>.jsonl", {}};
  for (int step = 1; step <= 20'000; ++step) {
    MetricsEntry entry;
    entry.step = step;
    entry.loss = step == 777 ? 50.0 : 1.0;
    training.entries.push_back(entry);
  }
  const auto page = to_page(std::vector{training});
  CHECK_THAT(page, contains("loss by step") && contains("a&lt;b&gt;.jsonl") && contains("<polyline"));
  CHECK_THAT(page, !contains("samples per second"));
  CHECK(page.size() < 60'000);
  // The highest value is at the top of the chart, the others at its bottom: 10 and 200 - 24.
  CHECK_THAT(page, contains(",10.0 ") && contains(",176.0 "));
}
