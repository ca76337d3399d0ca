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
