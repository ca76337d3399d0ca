// Programs as graphs, written out: places and transitions of a step's Petri net, and a drawing for Graphviz. Files as those of
// written_out.cpp.
#include <sstream>

#include "plan/lowering/lowering.hpp"
#include "plan/program/describe.hpp"
#include "plan/program/petri_net.hpp"
#include "tests/plan/lowering/written_program.hpp"
#include "tests/written_out.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using rehearsal::plan::test::written_training;

namespace {

std::string net_text(const char* model, const char* plan) {
  const auto training = written_training(model, plan, "");
  const auto net = petri_net_of(lower(training, parse_plan(plan), TableBackend(), {}), training.graph);
  std::ostringstream text;
  text << model << " under " << plan << "\n";
  for (std::size_t p = 0; p < net.places.size(); ++p)
    text << "  " << p << (net.places[p].tokens > 0 ? " (" + std::to_string(net.places[p].tokens) + ") " : " ") << net.places[p].name
         << "\n";
  for (const auto& t : net.transitions) {
    text << "  " << t.name << ":";
    for (const auto place : t.takes) text << " " << place;
    text << " ->";
    for (const auto place : t.gives) text << " " << place;
    text << "\n";
  }
  return text.str();
}

void check_picture(const char* file, const std::string& text) {
  rehearsal::test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/" + file, text);
}

}  // namespace

TEST_CASE("nets of steps are those that are written out") {
  check_picture("net-with-flush.txt", net_text("layers", "pp=2,micro_batch=3,zero=1,dp=2"));
  check_picture("net-without-flush.txt", net_text("layers", "pp=2,micro_batch=3,schedule=pipedream-2bw"));
}

TEST_CASE("a net in its markup language has an arc for everything taken and given, and the tokens that are there first") {
  PetriNet net;
  net.places = {{"a < b", 2}, {"c", 0}};
  net.transitions = {{"t & u", {0, 1}, {1}}};
  const auto text = to_pnml(net, "x > y");
  for (const char* line :
       {"<name><text>x &gt; y</text></name>",
        "<place id=\"p0\"><name><text>a &lt; b</text></name><initialMarking><text>2</text></initialMarking></place>",
        "<place id=\"p1\"><name><text>c</text></name></place>", "<transition id=\"t0\"><name><text>t &amp; u</text></name></transition>",
        "<arc id=\"a0\" source=\"p0\" target=\"t0\"/>", "<arc id=\"a1\" source=\"p1\" target=\"t0\"/>",
        "<arc id=\"a2\" source=\"t0\" target=\"p1\"/>"})
    CHECK_THAT(text, contains(line));
}

TEST_CASE("a Program drawn for Graphviz is what is written out") {
  const auto drawn = [](const char* plan) {
    const auto training = written_training("layers", plan, "");
    return to_dot(lower(training, parse_plan(plan), TableBackend(), {}), training.graph);
  };
  check_picture("drawing.dot", drawn("pp=2,dp=2"));
  check_picture("drawing-of-meetings.dot", drawn("dp=2,local_steps=2,outer=nesterov"));  // a body more, and so their numbers
}
