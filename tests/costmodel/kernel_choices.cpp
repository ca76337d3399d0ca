// Which kernel is taken by its time, and what becomes of choices when others come.
#include "costmodel/kernel_choices.hpp"

#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

std::string chosen(double first, double second) {
  return choice_by_time("Conv", {{"first", Seconds(first)}, {"second", Seconds(second)}}).chosen;
}

const KernelHome kHere{"this processor", "avx2", "oneDNN 2.6.3"};

KernelChoice choice(const std::string& node, const std::string& taken) { return {node, taken, {{taken, Seconds(1)}}}; }

TEST_CASE("the first kernel stays unless another takes less than 97 % of its time") {
  CHECK(chosen(1.0, 0.96) == "second");
  CHECK(chosen(1.0, 0.98) == "first");
  CHECK(chosen(1.0, 2.0) == "first");
  CHECK(chosen(0.0, 0.0) == "first");
  const auto three = choice_by_time("Conv", {{"a", Seconds(3)}, {"b", Seconds(2)}, {"c", Seconds(1)}});
  CHECK(three.chosen == "c");
  REQUIRE(three.timed.size() == 3);
  CHECK(three.timed.front().implementation == "a");  // in the order of the rule still
}

TEST_CASE("newer choices take the place of what is known of their nodes, and of all where the machine is another") {
  KernelChoices choices{kHere, {choice("a", "x"), choice("b", "x")}};
  choices.take({});
  CHECK(choices.nodes.size() == 2);
  choices.take({kHere, {choice("b", "y"), choice("c", "z")}});
  REQUIRE(choices.nodes.size() == 3);
  CHECK(choices.nodes[0] == choice("a", "x"));
  CHECK(choices.nodes[1] == choice("b", "y"));
  CHECK(choices.nodes[2] == choice("c", "z"));
  for (auto part : {&KernelHome::cpu, &KernelHome::instructions, &KernelHome::libraries}) {
    auto elsewhere = kHere;
    elsewhere.*part = "another";
    auto changed = choices;
    changed.take({elsewhere, {choice("d", "x")}});
    CHECK(changed.nodes == std::vector{choice("d", "x")});
    CHECK(changed.home == elsewhere);
  }
  CHECK(kHere.text() == "this processor with avx2 and oneDNN 2.6.3");
}

}  // namespace
}  // namespace rehearsal::costmodel
