// Changes to a Program's file. An input is a list of places (four bytes) and what is written there (one), because few bytes of such a long
// file matter at a time.

#include <fstream>
#include <iterator>

#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/program/program_json.hpp"
#include "tests/fuzz/target.hpp"

namespace {

using namespace rehearsal;

/// A small model and its Program, in memory and as a file.
struct Written {
  explicit Written(const fuzz::Scratch& scratch) {
    const std::string path = scratch.folder() + "/program.json";
    plan::write_program_file(path, program, training.graph, {"zoo:gpt", training.graph.hash(), 4, "auto", "f32"});
    std::ifstream in(path);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  graph::TrainingGraph training =
      graph::build_training_graph(graph::with_initial_values(graph::zoo::build("gpt?layers=1&hidden=8&heads=2&seq=4&vocab=11", 4)), {});
  plan::Program program = plan::lower(training, plan::parse_plan("dp=2"), plan::TableBackend(), {});
  std::string text;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Scratch scratch;
  static const Written written(scratch);
  std::string text = written.text;
  for (std::size_t i = 0; i + 5 <= size; i += 5) {
    const std::size_t at = data[i] | std::size_t{data[i + 1]} << 8 | std::size_t{data[i + 2]} << 16 | std::size_t{data[i + 3]} << 24;
    text[at % text.size()] = static_cast<char>(data[i + 4]);
  }
  const std::string path = scratch.write("changed.json", text);
  (void)fuzz::taken_or_refused([&] { (void)plan::read_program_heading(path); });
  return fuzz::taken_or_refused([&] { (void)plan::read_program_file(path, written.program, written.training.graph); });
}
