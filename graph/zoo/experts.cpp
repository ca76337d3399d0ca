#include "graph/zoo/experts.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "graph/zoo/attention.hpp"

namespace rehearsal::graph::zoo {
namespace {

class Mixture {
 public:
  Mixture(Layers& layers, std::string name, const Shape& x, const Experts& experts)
      : layers_(layers),
        name_(std::move(name)),
        experts_(experts),
        batch_(x[0]),
        seq_(x[1]),
        width_(x[2]),
        hidden_(experts.latent > 0 ? experts.latent : x[2]) {
    const std::int64_t choices = seq_ * experts.top_k, parts = 100 * experts.count;
    capacity_ = std::min(seq_, (choices * experts.capacity + parts - 1) / parts);
  }

  Mixed build(TensorId x) {
    const TensorId gate =
        layers_.dense(name_ + ".gate", experts_.routed_by == TensorId::None ? x : experts_.routed_by, experts_.count, experts_.bias);
    const auto chosen = choices_of(gate);
    const TensorId weight = layers_.reshape(name_ + ".weight", weights(chosen[0], chosen[1]), {batch_, seq_, experts_.top_k, 1});
    const bool before = experts_.gate == Gate::SigmoidOfInput;
    const TensorId slots = slots_of(layers_.reshape(name_ + ".choice", chosen[1], {batch_, choices(), 1}));
    const TensorId index = layers_.node(name_ + ".index", "Expand", {slots}, {{"shape", Shape{batch_, choices(), hidden_}}});
    if (experts_.latent > 0) x = layers_.dense(name_ + ".to_latent", x, hidden_, false);
    const TensorId rows = dispatched(x, index, before ? weight : TensorId::None);
    const TensorId results = layers_.node(name_ + ".collect", "GatherElements", {experts(rows), index}, {{"axis", std::int64_t{1}}});
    TensorId by_choice = layers_.reshape(name_ + ".by_choice", results, {batch_, seq_, experts_.top_k, hidden_});
    if (!before) by_choice = layers_.multiply(name_ + ".weighed", by_choice, weight);
    TensorId result = layers_.node(name_ + ".sum", "ReduceSum", {by_choice}, {{"axes", Shape{2}}, {"keepdims", std::int64_t{0}}});
    if (experts_.latent > 0) result = layers_.dense(name_ + ".from_latent", result, width_, false);
    return {result, experts_.balance ? balance(gate) : TensorId::None};
  }

 private:
  [[nodiscard]] std::int64_t choices() const { return seq_ * experts_.top_k; }
  [[nodiscard]] std::int64_t slots() const { return experts_.count * capacity_; }
  TensorId sum(const std::string& name, TensorId x, const Shape& axes, double scale) {
    return layers_.node(name, "ReduceSum", {x}, {{"axes", axes}, {"keepdims", std::int64_t{0}}, {"scale", scale}});
  }
  TensorId likely(TensorId gate) {
    if (likely_ == TensorId::None) likely_ = layers_.node(name_ + ".likely", "Softmax", {gate}, {{"axis", std::int64_t{-1}}});
    return likely_;
  }
  TensorId balance(TensorId gate) {
    const TensorId share = sum(name_ + ".share", is_chosen_, Shape{1}, 1.0 / static_cast<double>(choices()));
    const TensorId weight = sum(name_ + ".mean", likely(gate), Shape{1}, 1.0 / static_cast<double>(seq_));
    return sum(name_ + ".balance", layers_.multiply(name_ + ".uneven", share, weight), Shape{0, 1},
               static_cast<double>(experts_.count) / static_cast<double>(batch_));
  }
  /// Scores and numbers of the chosen.
  std::vector<TensorId> choices_of(TensorId gate) {
    if (experts_.chosen != TensorId::None)
      return {layers_.node(name_ + ".top", "GatherElements", {gate, experts_.chosen}, {{"axis", std::int64_t{2}}}), experts_.chosen};
    return layers_.builder().add("TopK", {experts_.gate == Gate::SoftmaxOfAll ? likely(gate) : gate},
                                 {{"axis", std::int64_t{-1}}, {"k", experts_.top_k}}, {name_ + ".top", Phase::Forward, NodeId::None, {}});
  }
  /// Of the chosen scores [batch, seq, top_k], and the numbers of the chosen.
  TensorId weights(TensorId scores, TensorId numbers) {
    const TensorId weight = shares(scores);
    if (!experts_.factors) return weight;
    const TensorId factors = layers_.node(name_ + ".factors.chosen", "Gather",
                                          {layers_.parameter(name_ + ".factors", {experts_.count}), numbers}, {{"axis", std::int64_t{0}}});
    return layers_.multiply(name_ + ".weights.by_expert", weight, factors);
  }
  TensorId shares(TensorId scores) {
    TensorId weight = scores;
    if (experts_.gate == Gate::Softmax) {
      weight = layers_.node(name_ + ".weights", "Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    } else if (experts_.gate != Gate::SoftmaxOfAll) {
      const bool root = experts_.gate == Gate::RootShares;
      weight = root ? layers_.node(name_ + ".weights", "Sqrt", {layers_.node(name_ + ".weights.size", "Softplus", {scores})})
                    : layers_.node(name_ + ".weights", "Sigmoid", {scores});
      if (root || experts_.gate == Gate::SigmoidShares) {
        const TensorId all =
            layers_.node(name_ + ".weights.all", "ReduceSum", {weight}, {{"axes", Shape{2}}, {"keepdims", std::int64_t{1}}});
        weight = layers_.node(name_ + ".weights.shares", "Div", {weight, all});
      }
    }
    return experts_.scale == 1 ? weight
                               : layers_.multiply(name_ + ".weights.scaled", weight, layers_.constant(name_ + ".scale", experts_.scale));
  }
  TensorId cast(const std::string& name, TensorId x, const char* type) {
    return layers_.node(name, "Cast", {x}, {{"to", std::string(type)}});
  }

  /// The row of each choice in the experts' input: expert · capacity + how many chose that expert before; the last row where it is full.
  TensorId slots_of(TensorId choice) {
    const TensorId numbers = positions(layers_, name_ + ".numbers", {1, 1, experts_.count});
    is_chosen_ = cast(name_ + ".is_chosen", layers_.node(name_ + ".equal", "Equal", {choice, numbers}), "f32");
    const TensorId before =
        layers_.node(name_ + ".before", "CumSum", {is_chosen_}, {{"axis", std::int64_t{1}}, {"exclusive", std::int64_t{1}}});
    const TensorId place = layers_.node(name_ + ".place", "ReduceSum", {layers_.multiply(name_ + ".own", before, is_chosen_)},
                                        {{"axes", Shape{2}}, {"keepdims", std::int64_t{1}}});
    const TensorId capacity = layers_.constant(name_ + ".capacity", static_cast<double>(capacity_));
    const TensorId first = layers_.multiply(name_ + ".first", cast(name_ + ".expert", choice, "f32"), capacity);
    const TensorId fits = layers_.node(name_ + ".fits", "Less", {place, capacity});
    const TensorId full = layers_.constant(name_ + ".full", static_cast<double>(slots()));
    return cast(name_ + ".slot", layers_.node(name_ + ".where", "Where", {fits, layers_.add(name_ + ".row", first, place), full}), "i64");
  }

  /// [batch, slots + 1, hidden]: tokens, multiplied by `weight` where there is one, in the rows of their choices.
  TensorId dispatched(TensorId x, TensorId index, TensorId weight) {
    const TensorId apart = layers_.reshape(name_ + ".apart", x, {batch_, seq_, 1, hidden_});
    TensorId repeated = layers_.node(name_ + ".repeated", "Expand", {apart}, {{"shape", Shape{batch_, seq_, experts_.top_k, hidden_}}});
    if (weight != TensorId::None) repeated = layers_.multiply(name_ + ".weighed", repeated, weight);
    const TensorId copies = layers_.reshape(name_ + ".copies", repeated, {batch_, choices(), hidden_});
    const TensorId empty =
        layers_.node(name_ + ".empty", "ConstantOfShape", {}, {{"shape", Shape{batch_, slots() + 1, hidden_}}, {"value", 0.0}});
    return layers_.node(name_ + ".dispatch", "ScatterElements", {empty, index, copies},
                        {{"axis", std::int64_t{1}}, {"reduction", std::string("add")}});
  }

  /// rows [experts, n, in] by a matrix of each expert's own.
  TensorId product(const std::string& part, TensorId rows, std::int64_t out) {
    const TensorId weight = layers_.parameter(name_ + part + ".weight", {experts_.count, layers_.shape(rows).back(), out});
    const TensorId result = layers_.matmul(name_ + part, rows, weight);
    return experts_.bias ? layers_.add(name_ + part + ".add", result, layers_.parameter(name_ + part + ".bias", {experts_.count, 1, out}))
                         : result;
  }

  TensorId gated(TensorId x) {
    const TensorId open = product(".gate_proj", x, experts_.ffn);
    const TensorId gate = experts_.gelu ? layers_.gelu(name_ + ".act", open, true) : layers_.silu(name_ + ".act", open);
    return layers_.multiply(name_ + ".gated", gate, product(".up_proj", x, experts_.ffn));
  }

  /// Every expert's layer over its own rows; the last row is nobody's and becomes zero.
  TensorId experts(TensorId rows) {
    const TensorId own = layers_.split(name_ + ".own_rows", rows, 1, {slots(), 1}).front();
    const TensorId apart = layers_.reshape(name_ + ".rows", own, {batch_, experts_.count, capacity_, hidden_});
    const TensorId x = layers_.reshape(name_ + ".input", layers_.transpose(name_ + ".by_expert", apart, {1, 0, 2, 3}),
                                       {experts_.count, batch_ * capacity_, hidden_});
    const TensorId wide = experts_.gated ? gated(x) : layers_.relu_squared(name_ + ".act", product(".up_proj", x, experts_.ffn));
    const TensorId y = product(".down_proj", wide, hidden_);
    const TensorId back = layers_.transpose(
        name_ + ".by_sample", layers_.reshape(name_ + ".output", y, {experts_.count, batch_, capacity_, hidden_}), {1, 0, 2, 3});
    const TensorId joined = layers_.reshape(name_ + ".results", back, {batch_, slots(), hidden_});
    return layers_.node(name_ + ".padded", "Pad", {joined},
                        {{"pads", Shape{0, 0, 1, 0}}, {"mode", std::string("constant")}, {"value", 0.0}});
  }

  Layers& layers_;
  std::string name_;
  Experts experts_;
  std::int64_t batch_, seq_, width_, hidden_, capacity_ = 1;  ///< hidden_: of what goes to experts
  TensorId is_chosen_ = TensorId::None;                       ///< [batch, choices, experts], 1 where a choice is of an expert
  TensorId likely_ = TensorId::None;                          ///< [batch, seq, experts], softmax over all scores
};

}  // namespace

Mixed mixture_of_experts(Layers& layers, const std::string& name, TensorId x, const Experts& experts) {
  if (experts.top_k > experts.count)
    throw BadInput("zoo:moe", "top_k=" + std::to_string(experts.top_k) + " is more than experts=" + std::to_string(experts.count));
  return Mixture(layers, name, layers.shape(x), experts).build(x);
}

}  // namespace rehearsal::graph::zoo
