#pragma once
// The part of a decoder's block that mixes tokens: an attention, of one of two kinds where some layers have a window, or a gated delta
// rule.

#include <string>
#include <string_view>

#include "graph/zoo/attention.hpp"
#include "graph/zoo/delta_rule.hpp"
#include "graph/zoo/latent_attention.hpp"
#include "graph/zoo/zoo.hpp"

namespace rehearsal::graph::zoo {

/// What distinguishes one decoder from another.
struct DecoderStyle {
  std::string_view model;
  bool rms = false;       ///< RMS instead of layer normalization
  bool bias = true;       ///< of products and layer normalizations
  bool parallel = false;  ///< attention and feed-forward layer both read the block's input
  bool gated = false;     ///< feed-forward layer silu(x A) * (x B) (Shazeer, "GLU Variants", 2020), else gelu
  bool alibi = false;     ///< scores fall with distance (Press et al. 2021)
  bool packed = true;     ///< one product gives queries, keys and values
};

/// A decoder's parameters, of which a row has some.
struct DecoderValues {
  const DecoderStyle& style;
  const ZooValues& values;

  [[nodiscard]] std::int64_t at(std::string_view name, std::int64_t otherwise = 0) const {
    const auto found = values.find(name);
    return found == values.end() ? otherwise : found->second;
  }
  [[nodiscard]] std::string text(std::string_view name) const { return std::string(name) + "=" + std::to_string(at(name)); }
  /// Throws BadInput naming the model.
  [[noreturn]] void refuse(const std::string& why) const;
};

class DecoderAttention {
 public:
  /// Throws BadInput where sizes do not fit each other, or parameters have no meaning together.
  DecoderAttention(Layers&, const DecoderValues&);

  /// Masks and tables of positions, which all blocks share.
  void prepare();
  /// x [batch, seq, hidden] to the same. prepare() first.
  TensorId build(const std::string& name, TensorId x, std::int64_t layer);

 private:
  /// Heads of layers with a window, or of those without.
  struct Kind {
    std::int64_t width = 1;   ///< of a head's queries and keys
    std::int64_t values = 1;  ///< of a head's values
    bool sinks = false;
    bool same_values = false;  ///< keys are the values
    Attention attention;
  };

  void check() const;
  void check_latent() const;
  void check_index() const;
  void set_heads();
  [[nodiscard]] std::int64_t turning(std::int64_t width, const char* own) const;
  [[nodiscard]] TensorId distance_bias();
  [[nodiscard]] bool has_window(std::int64_t layer) const;
  [[nodiscard]] Kind kind_of(std::int64_t layer) const;
  /// With what multiplies the result feature by feature, where the model has that.
  struct Projected {
    Projections heads{};
    TensorId gate = TensorId::None;
  };
  [[nodiscard]] Projected projections(const std::string& name, TensorId x, const Kind&);
  [[nodiscard]] TensorId gated(const std::string& name, TensorId x, TensorId mixed, TensorId gate, const Kind&);
  [[nodiscard]] TensorId seen_by(const std::string& name, const LatentInput&, std::int64_t layer);

  Layers& layers_;
  DecoderValues values_;
  LatentSizes latent_;
  DeltaRule delta_;
  std::int64_t hidden_ = 1, seq_ = 1;
  Kind far_, near_;                 ///< near_: of layers with a window
  TensorId seen_ = TensorId::None;  ///< the last mask that an index chose
};

}  // namespace rehearsal::graph::zoo
