#pragma once
// Small ONNX files for tests, written with the same messages that the importer reads.

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "formats/onnx/model_import.hpp"
#include "formats/onnx/rehearsal_onnx.pb.h"

namespace rehearsal::formats::testing {

/// A folder of this test process that goes away with it.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("rehearsal-formats-" + std::to_string(::getpid()) + "-" + std::to_string(counter++))) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  static inline int counter = 0;
  std::filesystem::path path_;
};

inline void write_bytes(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// Builds a model node by node. Dimensions are numbers or symbols: {"batch", "3"}.
class ModelBuilder {
 public:
  explicit ModelBuilder(std::int64_t opset = 17) {
    model_.set_ir_version(8);
    auto& import = *model_.add_opset_import();
    import.set_domain("");
    import.set_version(opset);
  }

  ModelBuilder& input(const std::string& name, const std::vector<std::string>& dims, int type = 1) {
    describe(*graph().add_input(), name, dims, type);
    return *this;
  }
  ModelBuilder& declare(const std::string& name, const std::vector<std::string>& dims, int type = 1) {
    describe(*graph().add_value_info(), name, dims, type);
    return *this;
  }
  ModelBuilder& output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }
  ModelBuilder& floats(const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<float>& values) {
    auto& t = tensor(name, dims, 1);
    for (const float v : values) t.add_float_data(v);
    return *this;
  }
  ModelBuilder& integers(const std::string& name, const std::vector<std::int64_t>& values) {
    auto& t = tensor(name, {static_cast<std::int64_t>(values.size())}, 7);
    for (const std::int64_t v : values) t.add_int64_data(v);
    return *this;
  }
  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
    auto& n = *graph().add_node();
    n.set_op_type(op);
    n.set_name("the_" + op);
    for (const auto& name : inputs) n.add_input(name);
    for (const auto& name : outputs) n.add_output(name);
    return n;
  }
  onnx::TensorProto& tensor(const std::string& name, const std::vector<std::int64_t>& dims, int type) {
    auto& t = *graph().add_initializer();
    t.set_name(name);
    t.set_data_type(type);
    for (const std::int64_t d : dims) t.add_dims(d);
    return t;
  }
  onnx::ModelProto& model() { return model_; }
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  [[nodiscard]] std::string bytes() const { return model_.SerializeAsString(); }

  ImportedModel import(const ImportOptions& options = {}) {
    const TemporaryFolder folder;
    const std::string path = folder.file("model.onnx");
    write_bytes(path, bytes());
    return import_onnx(path, options);
  }

 private:
  static void describe(onnx::ValueInfoProto& info, const std::string& name, const std::vector<std::string>& dims, int type) {
    info.set_name(name);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (const std::string& dim : dims) {
      auto& d = *tensor.mutable_shape()->add_dim();
      if (dim.find_first_not_of("0123456789") == std::string::npos && !dim.empty())
        d.set_dim_value(std::stoll(dim));
      else if (!dim.empty())
        d.set_dim_param(dim);
    }
  }

  onnx::ModelProto model_;
};

inline onnx::AttributeProto& set(onnx::NodeProto& node, const std::string& key, std::int64_t value) {
  auto& a = *node.add_attribute();
  a.set_name(key);
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(value);
  return a;
}
inline void set(onnx::NodeProto& node, const std::string& key, float value) {
  auto& a = *node.add_attribute();
  a.set_name(key);
  a.set_type(onnx::AttributeProto::FLOAT);
  a.set_f(value);
}
inline void set(onnx::NodeProto& node, const std::string& key, const std::vector<std::int64_t>& values) {
  auto& a = *node.add_attribute();
  a.set_name(key);
  a.set_type(onnx::AttributeProto::INTS);
  for (const std::int64_t v : values) a.add_ints(v);
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The message of the BadInput that the action throws; empty when it throws none.
template <class Action>
std::string bad_input(Action&& action) {
  try {
    action();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

}  // namespace rehearsal::formats::testing
