#include "formats/onnx/backend_case.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "formats/onnx/model_file.hpp"
#include "formats/onnx/node_import.hpp"

namespace rehearsal::formats {
namespace {

namespace fs = std::filesystem;
using BackendCaseKind = CaseValue::Kind;

// Finding

struct FaultyCase {
  std::string_view name, reason;
};
constexpr FaultyCase kFaulty[] = {
    {"test_adam_multiple", "the case is faulty: its results were made with an epsilon of 0.01, which its node does not have"},
};

/// Tolerances beside a model, where there are some.
void read_tolerances(const fs::path& file, BackendCase& one) {
  std::ifstream in(file);
  if (!in) return;
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object()) throw BadInput(file.string(), "must hold an object with rtol and atol");
  one.relative = json.value("rtol", one.relative);
  one.absolute = json.value("atol", one.absolute);
}

void read_folder(const fs::path& folder, BackendCase& one) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set"))
      one.data_sets.push_back(entry.path().string());
  }
  std::sort(one.data_sets.begin(), one.data_sets.end());
  if (one.data_sets.empty()) throw BadInput(folder.string(), "has a model, but no folder test_data_set_0 with its inputs and outputs");
  for (const auto& [name, reason] : kFaulty)
    if (one.name == name) one.faulty = reason;
  read_tolerances(folder / "data.json", one);
}

/// One that is broken leaves those beside it alone.
BackendCase folder_case(const fs::path& folder) {
  BackendCase one;
  one.name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  one.model = (folder / "model.onnx").string();
  try {
    read_folder(folder, one);
  } catch (const BadInput& error) {
    one.unusable = error.what();
  }
  return one;
}

std::string expected_file(const fs::path& model) { return (model.parent_path() / (model.stem().string() + "_output_0.pb")).string(); }

void collect(const fs::path& folder, std::vector<BackendCase>& cases) {
  if (fs::exists(folder / "model.onnx")) return cases.push_back(folder_case(folder));
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  for (const fs::path& path : entries) {
    if (fs::is_directory(path) && !fs::is_symlink(path)) collect(path, cases);
    if (path.extension() == ".onnx" && fs::exists(expected_file(path))) cases.push_back({path.stem().string(), path.string(), {}, {}});
  }
}

// Reading

template <class Message>
Message read_message(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(path, "cannot be read");
  Message message;
  if (!message.ParseFromIstream(&in)) throw BadInput(path, "does not hold the value that the model's type asks for");
  return message;
}

/// Reads one value for an input or output of the model.
class ValueReader {
 public:
  explicit ValueReader(std::string path) : file_{std::move(path), 0, {}} {}

  CaseValue read(const onnx::ValueInfoProto& info) const {
    CaseValue value{info.name(), BackendCaseKind::Tensor, {}};
    const auto& type = info.type();
    if (type.has_sequence_type()) {
      set(value, read_message<onnx::SequenceProto>(file_.path));
    } else if (type.has_optional_type()) {
      set(value, read_message<onnx::OptionalProto>(file_.path));
    } else {
      auto proto = read_message<onnx::TensorProto>(file_.path);
      // ONNX's own cases store bfloat16 as the 16-bit integers that they generated it from
      if (type.tensor_type().elem_type() == row(DType::BF16).onnx_code && proto.data_type() == row(DType::U16).onnx_code)
        proto.set_data_type(row(DType::BF16).onnx_code);
      value.parts.push_back(tensor(proto));
    }
    return value;
  }

 private:
  void set(CaseValue& value, const onnx::SequenceProto& sequence) const {
    value.kind = BackendCaseKind::Sequence;
    for (const auto& part : sequence.tensor_values()) value.parts.push_back(tensor(part));
  }
  void set(CaseValue& value, const onnx::OptionalProto& optional) const {
    if (optional.has_sequence_value()) return set(value, optional.sequence_value());
    if (optional.has_tensor_value()) return value.parts.push_back(tensor(optional.tensor_value()));
    value.kind = BackendCaseKind::Absent;
  }
  [[nodiscard]] graph::Value tensor(const onnx::TensorProto& proto) const {
    const StoredTensor stored = stored_tensor(file_, proto, file_.path);
    if (stored.type.dtype == DType::String) throw BadInput(file_.path, "holds text; tensors of text are not supported");
    if (!stored.contents.known()) return {stored.type, {}, {}};
    return value_of(stored);
  }

  ModelFile file_;
};

std::string numbered(const std::string& folder, const char* side, std::size_t i) {
  return (fs::path(folder) / (std::string(side) + "_" + std::to_string(i) + ".pb")).string();
}

/// `stored`: names of inputs that have their values in the model, and need no file.
std::vector<CaseValue> read_side(const std::string& folder, const char* side,
                                 const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& infos,
                                 const std::set<std::string>& stored) {
  std::vector<CaseValue> values;
  for (std::size_t i = 0; fs::exists(numbered(folder, side, i)); ++i) {
    const std::string path = numbered(folder, side, i);
    if (i >= static_cast<std::size_t>(infos.size()))
      throw BadInput(path, "the model has " + std::to_string(infos.size()) + " of these only");
    values.push_back(ValueReader(path).read(infos[static_cast<int>(i)]));
  }
  for (std::size_t i = values.size(); i < static_cast<std::size_t>(infos.size()); ++i)
    if (const auto& name = infos[static_cast<int>(i)].name(); !stored.contains(name))
      throw BadInput(numbered(folder, side, i), "is not there, and the model has '" + name + "'");
  return values;
}

std::set<std::string> stored_names(const onnx::GraphProto& graph) {
  std::set<std::string> stored;
  for (const auto& tensor : graph.initializer()) stored.insert(tensor.name());
  return stored;
}

/// 0, 1/n, 2/n, ... in the shape of the input; open dimensions are 1.
CaseValue counting_input(const onnx::ValueInfoProto& info) {
  graph::TensorType type{dtype_of(info.type().tensor_type().elem_type(), info.name()), {}};
  for (const auto& dim : info.type().tensor_type().shape().dim()) type.shape.push_back(dim.has_dim_value() ? dim.dim_value() : 1);
  const std::int64_t count = graph::element_count(type.shape);
  graph::Value value{type, {}, {}};
  for (std::int64_t i = 0; i < count; ++i) value.reals.push_back(static_cast<double>(i) / static_cast<double>(count));
  return {info.name(), BackendCaseKind::Tensor, {std::move(value)}};
}

DataSet light_data_set(const BackendCase& one, const onnx::GraphProto& graph) {
  const auto stored = stored_names(graph);
  DataSet data;
  for (const auto& info : graph.input()) {
    if (!stored.contains(info.name())) data.inputs.push_back(counting_input(info));
  }
  if (graph.output().empty()) throw BadInput(one.model, "has no output");
  data.outputs.push_back(ValueReader(expected_file(one.model)).read(graph.output(0)));
  return data;
}

// Importing

GivenInput given_by(const CaseValue& value, bool known) {
  GivenInput given{{}, value.kind == BackendCaseKind::Sequence, value.kind == BackendCaseKind::Absent, {}};
  for (const graph::Value& part : value.parts) given.types.push_back(part.type);
  if (known) given.known = value.parts;
  return given;
}

/// What to take for known next, after an import that found something to depend on `tensor`; false when everything is.
bool know_more(const DataSet& data, const std::string& tensor, std::set<std::string>& known) {
  const std::size_t before = known.size();
  for (const CaseValue& input : data.inputs) {
    if (input.name == tensor) known.insert(tensor);
  }
  if (known.size() > before) return true;
  for (const CaseValue& input : data.inputs) {
    if (std::none_of(input.parts.begin(), input.parts.end(), [](const graph::Value& part) { return is_float(part.type.dtype); }))
      known.insert(input.name);
  }
  if (known.size() > before) return true;
  for (const CaseValue& input : data.inputs) known.insert(input.name);
  return known.size() > before;
}

ImportedModel import_knowing(const BackendCase& one, const DataSet& data, std::set<std::string>& known) {
  for (;;) {
    ImportOptions options;
    options.training_form = false;
    for (const CaseValue& input : data.inputs) options.given[input.name] = given_by(input, known.contains(input.name));
    try {
      return import_onnx(one.model, options);
    } catch (const DependsOnData& error) {
      if (!know_more(data, error.tensor(), known)) throw;
    }
  }
}

void expect(const CaseValue& value, const ImportedModel& model, ImportedCase& result) {
  const auto length = model.sequence_outputs.find(value.name);
  const bool sequence = length != model.sequence_outputs.end();
  if (sequence != (value.kind == BackendCaseKind::Sequence))
    throw BadInput("output '" + value.name + "'", "is of another kind than expected");
  if (sequence && length->second != value.parts.size())
    throw BadInput("output '" + value.name + "'",
                   "has " + std::to_string(length->second) + " parts, not " + std::to_string(value.parts.size()) + " as expected");
  for (std::size_t i = 0; i < value.parts.size(); ++i) {
    const std::string tensor = sequence ? part_name(value.name, i) : value.name;
    if (model.graph.find(tensor) == graph::TensorId::None) throw BadInput("output '" + tensor + "'", "is not computed");
    result.expected.push_back({tensor, value.parts[i]});
  }
}

}  // namespace

std::vector<BackendCase> find_backend_cases(const std::string& path) {
  if (!fs::is_directory(path)) throw BadInput(path, "is no folder of test cases (model.onnx and test_data_set_0)");
  std::vector<BackendCase> cases;
  collect(path, cases);
  if (cases.empty()) throw BadInput(path, "holds no test case (model.onnx and test_data_set_0)");
  return cases;
}

std::string subject_of(const BackendCase& one) {
  std::set<std::string> kinds;
  const ModelFile file = read_model(one.model);
  for (const auto& node : file.model.graph().node()) kinds.insert(node.op_type());
  if (kinds.size() == 1) return *kinds.begin();
  return one.name.find("_expanded") != std::string::npos ? "bodies of functions" : "several operators";
}

DataSet read_data_set(const BackendCase& one, std::size_t i) {
  const ModelFile file = read_model(one.model);
  if (one.data_sets.empty()) return light_data_set(one, file.model.graph());
  const std::string& folder = one.data_sets.at(i);
  const auto& graph = file.model.graph();
  DataSet data{read_side(folder, "input", graph.input(), stored_names(graph)), read_side(folder, "output", graph.output(), {})};
  if (data.outputs.empty()) throw BadInput(folder, "holds no expected output");
  return data;
}

ImportedCase import_case(const BackendCase& one, const DataSet& data) {
  std::set<std::string> known;
  ImportedModel model = import_knowing(one, data, known);
  ImportedCase result;
  for (const CaseValue& input : data.inputs) {
    for (std::size_t i = 0; i < input.parts.size() && !known.contains(input.name); ++i)
      result.inputs.push_back({input.kind == BackendCaseKind::Sequence ? part_name(input.name, i) : input.name, input.parts[i]});
  }
  for (const CaseValue& output : data.outputs) expect(output, model, result);
  result.graph = std::move(model.graph);
  return result;
}

}  // namespace rehearsal::formats
