#include "formats/onnx/rebatch/rebatch.hpp"

#include "base/error.hpp"
#include "formats/onnx/importer.hpp"
#include "formats/onnx/rebatch/batch_trace.hpp"

namespace rehearsal::formats {
namespace {

constexpr int kMostProbes = 400;  ///< every one finds at least one constant that has to follow

void pass(const ModelFile& file, const ImportOptions& wanted, BatchTrace& trace, BatchTrace::Pass which, std::int64_t batch) {
  ImportOptions options = wanted;
  options.batch = batch;
  options.after_pass = {};
  trace.begin(which, batch);
  Importer importer(file, options, &trace);
  importer.bind_sizes();
  importer.add_inputs();
  importer.import_nodes();
  importer.add_outputs();
  trace.end();
}

void probe(const ModelFile& file, const ImportOptions& options, BatchTrace& trace) {
  const std::int64_t batch = trace.choose_probe();
  for (int round = 0; round < kMostProbes; ++round) {
    try {
      pass(file, options, trace, BatchTrace::Pass::Probe, batch);
      return;
    } catch (const BatchTrace::Again&) {
      continue;
    } catch (const NotRebatchable&) {
      if (!trace.try_another_place()) throw;
    } catch (const BadInput&) {
      if (!trace.try_another_place()) throw;
    }
  }
  throw NotRebatchable{"too many constants have it written out"};
}

}  // namespace

BatchTrace sizes_that_follow(const ModelFile& file, const ImportOptions& options, std::int64_t written) {
  BatchTrace trace(written);
  pass(file, options, trace, BatchTrace::Pass::Written, written);
  try {
    probe(file, options, trace);
    return trace;
  } catch (const NotRebatchable& error) {
    refuse_batch(file, options, trace, error.reason);
  } catch (const BadInput& error) {
    refuse_batch(file, options, trace, error.what());
  }
}

void refuse_batch(const ModelFile& file, const ImportOptions& options, const BatchTrace& trace, const std::string& reason) {
  throw BadInput(file.path, "the model is written for a batch of " + std::to_string(trace.written()) + " and cannot be used with " +
                                std::to_string(*options.batch) + ": " + reason +
                                "; export it with a dynamic batch (dynamic_shapes or dynamic_axes) or with the batch that is wanted");
}

}  // namespace rehearsal::formats
