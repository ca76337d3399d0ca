#pragma once
// What layers that scan a sequence by chunks have in common.

#include <algorithm>
#include <string>
#include <utility>

#include "graph/zoo/layers.hpp"

namespace rehearsal::graph::zoo {

/// x [batch, tokens, channels] to the same: every channel by itself over the `kernel` tokens up to a token, then silu of it.
[[nodiscard]] TensorId causal_convolution(Layers&, const std::string& name, TensorId x, std::int64_t kernel, bool bias);

enum class Triangle : std::uint8_t { WithDiagonal, BelowDiagonal };
/// exp(row - column) in the lower triangle of [..., length, length], else 0; rows [..., length, 1], columns [..., 1, length].
[[nodiscard]] TensorId decays(Layers&, const std::string& name, TensorId rows, TensorId columns, Triangle);

/// A layer that computes a sequence chunk by chunk. Its nodes are named after it.
class ChunkedLayer {
 protected:
  /// Of x [batch, tokens, ...]; `shared`: heads that share what a group of heads has.
  ChunkedLayer(Layers& layers, std::string name, const Shape& x, std::int64_t longest_chunk, std::int64_t shared)
      : layers_(layers),
        name_(std::move(name)),
        batch_(x[0]),
        chunk_(std::min(longest_chunk, x[1])),
        chunks_(x[1] / chunk_),
        shared_(shared) {}

  TensorId turned(const std::string& part, TensorId t) { return layers_.transpose(name_ + part, t, {0, 1, 2, 3, 5, 4}); }
  TensorId exp(const std::string& part, TensorId t) { return layers_.node(name_ + part, "Exp", {t}); }
  TensorId times(const std::string& part, TensorId a, TensorId b) { return layers_.multiply(name_ + part, a, b); }
  TensorId product(const std::string& part, TensorId a, TensorId b) { return layers_.matmul(name_ + part, a, b); }
  TensorId difference(const std::string& part, TensorId a, TensorId b) { return layers_.node(name_ + part, "Sub", {a, b}); }
  /// Over the tokens of a chunk.
  TensorId cumulated(TensorId decays) { return layers_.node(name_ + ".sums", "CumSum", {decays}, {{"axis", std::int64_t{4}}}); }
  /// Of these sums [..., chunk, 1], from token to token.
  TensorId decay_between(TensorId sums) {
    return decays(layers_, name_ + ".decay", sums, turned(".sums.turned", sums), Triangle::WithDiagonal);
  }
  TensorId last_of_chunk(TensorId sums) { return layers_.split(name_ + ".ends", sums, 4, {chunk_ - 1, 1}).back(); }

  Layers& layers_;
  std::string name_;
  std::int64_t batch_, chunk_, chunks_, shared_;
};

}  // namespace rehearsal::graph::zoo
