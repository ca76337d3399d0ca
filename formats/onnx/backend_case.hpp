#pragma once
// Test cases in the form of ONNX's backend tests: a folder with `model.onnx` and `test_data_set_*/{input,output}_k.pb`; or
// `NAME.onnx` beside `NAME_output_0.pb`, whose inputs count up from 0 to 1 (onnx.backend.test.runner, "light" models).

#include <cstddef>
#include <string>
#include <vector>

#include "formats/onnx/model_import.hpp"

namespace rehearsal::formats {

/// An input or output of a model with its values.
struct CaseValue {
  enum class Kind : std::uint8_t { Tensor, Sequence, Absent };
  std::string name;
  Kind kind = Kind::Tensor;
  std::vector<graph::Value> parts;  ///< one of a tensor
};

struct DataSet {
  std::vector<CaseValue> inputs, outputs;
};

struct BackendCase {
  std::string name, model;
  std::vector<std::string> data_sets;       ///< folders; empty: the light form
  std::string faulty;                       ///< why the published case contradicts itself; empty: it does not
  double relative = 1e-3, absolute = 1e-7;  ///< |result - expected| <= absolute + relative |expected|
  std::string unusable{};                   ///< why its folder is no case after all; empty: it is one
};

/// The case in `path`, or those in the folders below it, by name. Throws BadInput when there is none.
[[nodiscard]] std::vector<BackendCase> find_backend_cases(const std::string& path);

/// What a case is about; throws BadInput where the model cannot be read. The operators of its file when they are one kind, else what its
/// name says ("expanded" bodies of functions).
[[nodiscard]] std::string subject_of(const BackendCase& one);

/// Data set number i. Throws BadInput naming the file that is not there, or does not fit its model.
[[nodiscard]] DataSet read_data_set(const BackendCase& one, std::size_t i);
[[nodiscard]] inline std::size_t data_sets_of(const BackendCase& one) { return one.data_sets.empty() ? 1 : one.data_sets.size(); }

/// A tensor of a graph and the values to feed it with, or that it should have.
struct NamedValue {
  std::string tensor;
  graph::Value value;
};

struct ImportedCase {
  graph::Graph graph;
  std::vector<NamedValue> inputs;    ///< those that are still inputs: values on which shapes depend became constants
  std::vector<NamedValue> expected;  ///< of the outputs, sequences part by part
};

/// The model of a case in the form of inference, for inputs of this data set. Throws BadInput with the reason when it cannot be imported,
/// or when an output has another kind or length than expected.
[[nodiscard]] ImportedCase import_case(const BackendCase& one, const DataSet& data);

}  // namespace rehearsal::formats
