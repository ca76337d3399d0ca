#pragma once
// Who follows an import node by node, and may change what a node reads: how sizes follow another batch than the file's is found and done
// so.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "formats/onnx/node_import.hpp"

namespace rehearsal::formats {

class ImportWatcher {
 public:
  virtual ~ImportWatcher() = default;
  /// The batch that the file is written for, and the one in this import.
  [[nodiscard]] virtual std::int64_t written() const = 0;
  [[nodiscard]] virtual std::int64_t batch() const = 0;
  /// The type of a constant that follows the batch wherever it is read.
  [[nodiscard]] virtual std::optional<graph::TensorType> grown(graph::TensorId t) const = 0;
  /// A data input whose first dimension is the batch, with its shape in this import.
  virtual void note_input(graph::TensorId t, const graph::Shape& shape) = 0;
  /// Around the import of a node. `before` may replace operands. Returns the node's number.
  virtual std::size_t before(NodeImport& node, const onnx::NodeProto& proto) = 0;
  virtual void after(std::size_t visit, NodeImport& node) = 0;
};

}  // namespace rehearsal::formats
