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

/// A window with one number per spatial axis; padding is the same at both ends.
struct FilterWindow {
  Shape size, stride, pad;
  std::int64_t groups = 1;
  [[nodiscard]] static FilterWindow of(const Square& s, std::int64_t groups = 1, std::size_t axes = 2) {
    return {Shape(axes, s.kernel), Shape(axes, s.stride), Shape(axes, s.pad), groups};
  }
};

class Layers {
 public:
  explicit Layers(DType dtype = DType::F32) : dtype_(dtype) {}

  [[nodiscard]] GraphBuilder& builder() { return builder_; }
  [[nodiscard]] Shape shape(TensorId x) const { return builder_.type(x).shape; }
  [[nodiscard]] TensorId image(std::int64_t batch, std::int64_t channels, std::int64_t size) {
    return input("input", {batch, channels, size, size});
  }
  [[nodiscard]] TensorId input(const std::string& name, Shape shape) { return builder_.add_input(name, {dtype_, std::move(shape)}); }
  /// Whole numbers, such as tokens.
  [[nodiscard]] TensorId indices(const std::string& name, Shape shape) { return builder_.add_input(name, {DType::I64, std::move(shape)}); }
  [[nodiscard]] TensorId constant(const std::string& name, double value) {
    return builder_.add_constant(name, Value::scalar(value, dtype_));
  }

  /// A trained tensor without values.
  TensorId parameter(const std::string& name, Shape shape);
  /// One node named `name`, in the forward pass.
  TensorId node(const std::string& name, std::string_view op, std::vector<TensorId> inputs, Attributes attributes = {});

  TensorId conv(const std::string& name, TensorId x, std::int64_t channels, Square window, bool bias) {
    return conv(name, x, channels, FilterWindow::of(window), bias);
  }
  TensorId conv(const std::string& name, TensorId x, std::int64_t channels, const FilterWindow& kernel, bool bias);
  TensorId conv_transpose(const std::string& name, TensorId x, std::int64_t channels, const FilterWindow& kernel, bool bias = true);
  TensorId conv_transpose(const std::string& name, TensorId x, std::int64_t channels, Square window) {
    return conv_transpose(name, x, channels, FilterWindow::of(window));
  }
  /// Running statistics included; momentum 0.1 in PyTorch's sense.
  TensorId batch_norm(const std::string& name, TensorId x, double epsilon = 1e-5);
  /// Statistics of each sample and group of channels; as many groups as channels: instance normalization.
  TensorId group_norm(const std::string& name, TensorId x, std::int64_t groups, double epsilon = 1e-5);
  TensorId relu(const std::string& name, TensorId x) { return node(name, "Relu", {x}); }
  /// x sigmoid(x) (Ramachandran et al. 2017).
  TensorId silu(const std::string& name, TensorId x);
  TensorId relu_squared(const std::string& name, TensorId x) {
    const TensorId y = relu(name + ".relu", x);
    return multiply(name, y, y);
  }
  /// Gelu by the error function, or by tanh.
  TensorId gelu(const std::string& name, TensorId x, bool by_tanh = false);
  TensorId max_pool(const std::string& name, TensorId x, Square window) { return max_pool(name, x, FilterWindow::of(window)); }
  TensorId max_pool(const std::string& name, TensorId x, const FilterWindow& kernel);
  /// Padding counts as zeros unless told otherwise.
  TensorId average_pool(const std::string& name, TensorId x, Square window, bool with_padding = true);
  /// The mean over all spatial axes: [n, c], or [n, c, 1, ...] where they are kept.
  TensorId global_average(const std::string& name, TensorId x, bool keep = false);
  TensorId flatten(const std::string& name, TensorId x);
  TensorId add(const std::string& name, TensorId a, TensorId b) { return node(name, "Add", {a, b}); }
  TensorId multiply(const std::string& name, TensorId a, TensorId b) { return node(name, "Mul", {a, b}); }
  TensorId concat(const std::string& name, std::vector<TensorId> parts, std::int64_t axis = 1);
  std::vector<TensorId> split(const std::string& name, TensorId x, std::int64_t axis, Shape sizes);
  TensorId transpose(const std::string& name, TensorId x, std::vector<std::int64_t> perm);
  TensorId reshape(const std::string& name, TensorId x, Shape shape);
  TensorId matmul(const std::string& name, TensorId a, TensorId b) { return node(name, "MatMul", {a, b}); }
  /// x [..., in] by the rows of a matrix [out, in], as logits are made with a table of words.
  TensorId product_with_rows(const std::string& name, TensorId x, TensorId rows) {
    return node(name, "MatMul", {x, rows}, {{"trans_b", std::int64_t{1}}});
  }
  TensorId dropout(const std::string& name, TensorId x, double ratio);
  /// x [n, in] by weight [out, in], plus bias [out].
  TensorId linear(const std::string& name, TensorId x, std::int64_t features);
  /// x [..., in] by weight [in, out], plus bias [out] unless told otherwise.
  TensorId dense(const std::string& name, TensorId x, std::int64_t features, bool bias = true);
  /// Rows of a table [rows, width] by index.
  TensorId embedding(const std::string& name, TensorId indices, std::int64_t rows, std::int64_t width);
  TensorId layer_norm(const std::string& name, TensorId x, bool bias = true);
  TensorId rms_norm(const std::string& name, TensorId x, bool weighted = true);

  /// Names the model's result and returns the graph.
  [[nodiscard]] Graph finish(TensorId result, const std::string& name) &&;
  /// Several results, the first being the one that is trained on; names in the same order.
  [[nodiscard]] Graph finish(const std::vector<TensorId>& results, const std::vector<std::string>& names) &&;

 private:
  DType dtype_;
  GraphBuilder builder_;
  std::int64_t dropouts_ = 0;
};

}  // namespace rehearsal::graph::zoo
