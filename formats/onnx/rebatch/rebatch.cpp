#include "formats/onnx/rebatch/rebatch.hpp"

#include "base/error.hpp"
#include "formats/onnx/importer.hpp"
#include "formats/onnx/rebatch/batch_trace.hpp"

namespace rehearsal::formats {
namespace {

constexpr int kMostProbes = 400;  ///< every one finds at least one constant that has to follow

ImportedModel pass(const ModelFile& file, ImportOptions options, BatchTrace& trace, BatchTrace::Pass which, std::int64_t batch) {
  options.batch = batch;
  trace.begin(which, batch);
  ImportedModel model = Importer(file, options, &trace).run();
  trace.end();
  return model;
}

void probe(const ModelFile& file, const ImportOptions& options, BatchTrace& trace) {
  const std::int64_t batch = trace.choose_probe();
  for (int round = 0; round < kMostProbes; ++round) {
    try {
      (void)pass(file, options, trace, BatchTrace::Pass::Probe, batch);
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

ImportedModel import_rebatched(const ModelFile& file, const ImportOptions& options, std::int64_t written) {
  BatchTrace trace(written);
  (void)pass(file, options, trace, BatchTrace::Pass::Written, written);
  std::string reason;
  try {
    probe(file, options, trace);
    ImportedModel model = pass(file, options, trace, BatchTrace::Pass::Wanted, *options.batch);
    const auto remarks = trace.remarks();
    model.warnings.insert(model.warnings.begin(), remarks.begin(), remarks.end());
    return model;
  } catch (const NotRebatchable& error) {
    reason = error.reason;
  } catch (const BadInput& error) {
    reason = error.what();
  }
  throw BadInput(file.path, "the model is written for a batch of " + std::to_string(written) + " and cannot be used with " +
                                std::to_string(*options.batch) + ": " + reason +
                                "; export it with a dynamic batch (dynamic_shapes or dynamic_axes) or with the batch that is wanted");
}

}  // namespace rehearsal::formats
