#pragma once
// Layers with PyTorch's parameter names, as the zoo's models use them.

#include <string>
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal::graph::zoo {

/// A square two-dimensional window.
struct Square {
  std::int64_t kernel = 3, stride = 1, pad = 1;
};

class Layers {
 public:
  explicit Layers(DType dtype = DType::F32) : dtype_(dtype) {}

  [[nodiscard]] GraphBuilder& builder() { return builder_; }
  [[nodiscard]] Shape shape(TensorId x) const { return builder_.type(x).shape; }
  [[nodiscard]] TensorId image(std::int64_t batch, std::int64_t channels, std::int64_t size);

  /// A trained tensor without values.
  TensorId parameter(const std::string& name, Shape shape);
  /// One node named `name`, in the forward pass.
  TensorId node(const std::string& name, std::string_view op, std::vector<TensorId> inputs, Attributes attributes = {});

  TensorId conv(const std::string& name, TensorId x, std::int64_t channels, Square window, bool bias);
  TensorId conv_transpose(const std::string& name, TensorId x, std::int64_t channels, Square window);
  /// Running statistics included; epsilon 1e-5, momentum 0.1 in PyTorch's sense.
  TensorId batch_norm(const std::string& name, TensorId x);
  TensorId relu(const std::string& name, TensorId x) { return node(name, "Relu", {x}); }
  TensorId max_pool(const std::string& name, TensorId x, Square window);
  /// The mean over height and width: [n, c].
  TensorId global_average(const std::string& name, TensorId x);
  TensorId flatten(const std::string& name, TensorId x);
  TensorId dropout(const std::string& name, TensorId x, double ratio);
  /// x [n, in] by weight [out, in], plus bias [out].
  TensorId linear(const std::string& name, TensorId x, std::int64_t features);
  TensorId layer_norm(const std::string& name, TensorId x);

  /// Names the model's result and returns the graph.
  [[nodiscard]] Graph finish(TensorId result, const std::string& name) &&;

 private:
  DType dtype_;
  GraphBuilder builder_;
  std::int64_t dropouts_ = 0;
};

}  // namespace rehearsal::graph::zoo
