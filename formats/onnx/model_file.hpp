#pragma once
// The parsed messages of a model file, and the tensors stored in it or beside it.

#include <cstdint>
#include <string>

#include "formats/onnx/model_import.hpp"
#include "formats/onnx/rehearsal_onnx.pb.h"
#include "graph/value.hpp"

namespace rehearsal::formats {

struct ModelFile {
  std::string path;
  std::uint64_t bytes = 0;
  onnx::ModelProto model;  ///< long payloads left out (wire.hpp)
};

/// Throws BadInput naming the file and, where there is one, the byte at fault.
[[nodiscard]] ModelFile read_model(const std::string& path);

/// Throws BadInput when the code of the element type is not known.
[[nodiscard]] DType dtype_of(int code, const std::string& tensor);

/// A tensor stored in a model: its type, and where its values are.
struct StoredTensor {
  graph::TensorType type;
  graph::Contents contents;
  std::string missing;  ///< the external file that holds the values when it does not exist, else empty
};
/// `name` is what messages call the tensor. Throws BadInput naming it when the payload does not fit its type, or lies outside the model's
/// folder.
[[nodiscard]] StoredTensor stored_tensor(const ModelFile& file, const onnx::TensorProto& tensor, const std::string& name);

/// All values of a stored tensor.
[[nodiscard]] graph::Value value_of(const StoredTensor& stored);

}  // namespace rehearsal::formats
