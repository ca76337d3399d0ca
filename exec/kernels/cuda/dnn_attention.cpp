// Attention and its gradient in 16 bits by cuDNN's fused kernels (flash attention, Dao et al. 2022). Causal masks are cuDNN's own; others,
// and biases, become one tensor that it adds to the scores. The gradient computes the result once more: the graph keeps neither it nor the
// sums of its rows.

#include <cudnn_frontend.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "exec/kernels/cuda/attention_parts.hpp"
#include "exec/kernels/cuda/attention_scores.hpp"
#include "exec/kernels/cuda/libraries.hpp"
#include "exec/kernels/cuda/nvidia_gpu.hpp"
#include "exec/kernels/cuda/workspace_parts.hpp"

namespace rehearsal::exec::cuda {
namespace {

namespace fe = cudnn_frontend;
using graph::AttentionProblem;
using Kind = graph::AttentionStep::Kind;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Pointers = std::unordered_map<std::int64_t, void*>;

enum Id : std::int64_t { kQ = 1, kK, kV, kAdded, kY, kRowSums, kDy, kDq, kDk, kDv };

/// The batch dimensions of an attention as cuDNN has them: queries have `batches` x `heads` matrices, keys and values fewer heads where
/// several heads share theirs.
struct HeadLayout {
  std::int64_t batches = 1, heads = 1, shared = 1;  ///< shared: heads that share one of the keys
  [[nodiscard]] std::int64_t key_heads() const { return heads / shared; }
};

/// False where the batch dimensions are no such ones.
bool lay_out(const AttentionProblem& p, const std::array<graph::Shape, 3>& shapes, HeadLayout& layout) {
  std::array<std::vector<std::int64_t>, 3> strides;
  for (std::size_t i = 0; i < shapes.size(); ++i) strides[i] = graph::attention_strides(p, shapes[i], true).batch;
  std::size_t first = p.batch.size();  // of the dimensions along which keys and values are shared
  const auto is_broadcast = [&](std::size_t operand, std::size_t d) { return p.batch[d] > 1 && strides[operand][d] == 0; };
  while (first > 0 && (p.batch[first - 1] == 1 || (is_broadcast(1, first - 1) && is_broadcast(2, first - 1)))) --first;
  for (std::size_t d = 0; d < p.batch.size(); ++d) {
    if (is_broadcast(0, d)) return false;
    if (d < first && (is_broadcast(1, d) || is_broadcast(2, d))) return false;
    (d == 0 && first > 0 && p.batch.size() > 1 ? layout.batches : layout.heads) *= p.batch[d];
    if (d >= first) layout.shared *= p.batch[d];
  }
  return true;
}

/// What of the steps cuDNN can do: products times a factor, then something is added.
struct Steps {
  double factor = 1;
  bool adds = false, batched = false, headed = false;  ///< what is added differs among batches, among heads
  bool causal = false;                                 ///< keys behind a row's own are hidden, by the library itself
};

bool take_steps(const AttentionProblem& p, const KernelRequest& r, std::size_t queries, Steps& steps, std::string& reason) {
  bool hid = false;
  for (const auto& step : p.steps) {
    if (step.kind == Kind::Scale) steps.factor *= step.number;
    if (step.kind == Kind::Divide) steps.factor /= step.number;
    if (step.operand < 0) {
      if (hid) return reason = "scores are scaled after some were hidden", false;
      continue;
    }
    if (step.differentiated) return reason = "a bias of scores wants its gradient", false;
    hid = hid || step.kind != Kind::Add;
    if (step.kind != Kind::Add && !(step.number <= kHidden)) return reason = "hidden scores still count", false;
    steps.causal = p.causal && p.rows == p.keys;
    if (steps.causal) continue;
    const auto strides = graph::attention_strides(p, r.view().input(queries + 3 + static_cast<std::size_t>(step.operand)).shape, false);
    steps.adds = true;
    for (std::size_t d = 0; d < strides.batch.size(); ++d)
      if (strides.batch[d] != 0) (d == 0 && p.batch.size() > 1 ? steps.batched : steps.headed) = true;
  }
  return true;
}

Tensor tensor_of(fe::graph::Graph& graph, Id id, const std::array<std::int64_t, 4>& sizes) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(id)
                          .set_name("t" + std::to_string(id))
                          .set_dim({sizes.begin(), sizes.end()})
                          .set_stride({sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}));
}
void make_result(const Tensor& tensor, Id id, const std::array<std::int64_t, 4>& sizes) {
  tensor->set_output(true)
      .set_uid(id)
      .set_dim({sizes.begin(), sizes.end()})
      .set_stride({sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1});
}

struct Problem16 {
  AttentionProblem attention;
  HeadLayout layout;
  Steps steps;
  DType type;

  [[nodiscard]] std::array<std::int64_t, 4> sizes(std::int64_t heads, std::int64_t rows, std::int64_t columns) const {
    return {layout.batches, heads, rows, columns};
  }
  [[nodiscard]] auto queries() const { return sizes(layout.heads, attention.rows, attention.depth); }
  [[nodiscard]] auto keys() const { return sizes(layout.key_heads(), attention.keys, attention.depth); }
  [[nodiscard]] auto values() const { return sizes(layout.key_heads(), attention.keys, attention.width); }
  [[nodiscard]] auto results() const { return sizes(layout.heads, attention.rows, attention.width); }
  [[nodiscard]] auto row_sums() const { return sizes(layout.heads, attention.rows, 1); }
  [[nodiscard]] AddedScores added() const {
    if (!steps.adds) return {};
    return {steps.batched ? layout.batches : 1, steps.headed ? layout.heads : 1, attention.rows, attention.keys};
  }
};

/// One graph of cuDNN's, planned.
class Planned {
 public:
  explicit Planned(const Problem16& p) {
    graph_.set_io_data_type(p.type == DType::F16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    q_ = tensor_of(graph_, kQ, p.queries()), k_ = tensor_of(graph_, kK, p.keys()), v_ = tensor_of(graph_, kV, p.values());
    const auto added = p.added();
    if (p.steps.adds) added_ = tensor_of(graph_, kAdded, {added.batches, added.heads, added.rows, added.keys});
  }
  void forward(const Problem16& p, bool keep_sums, NvidiaGpu& gpu) {
    auto how =
        fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(keep_sums).set_attn_scale(static_cast<float>(p.steps.factor));
    if (added_) how.set_bias(added_);
    how.set_causal_mask(p.steps.causal);
    const auto [y, sums] = graph_.sdpa(q_, k_, v_, how);
    make_result(y, kY, p.results());
    if (keep_sums) {
      make_result(sums, kRowSums, p.row_sums());
      sums->set_data_type(fe::DataType_t::FLOAT);
    }
    plan(gpu);
  }
  void backward(const Problem16& p, NvidiaGpu& gpu) {
    auto how = fe::graph::SDPA_backward_attributes()
                   .set_name("gradient")
                   .set_attn_scale(static_cast<float>(p.steps.factor))
                   .set_deterministic_algorithm(true);
    if (added_) how.set_bias(added_);
    how.set_causal_mask(p.steps.causal);
    const auto y = tensor_of(graph_, kY, p.results()), dy = tensor_of(graph_, kDy, p.results()),
               sums = tensor_of(graph_, kRowSums, p.row_sums());
    sums->set_data_type(fe::DataType_t::FLOAT);
    const auto [dq, dk, dv] = graph_.sdpa_backward(q_, k_, v_, y, dy, sums, how);
    make_result(dq, kDq, p.queries());
    make_result(dk, kDk, p.keys());
    make_result(dv, kDv, p.values());
    plan(gpu);
  }
  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_; }
  void run(NvidiaGpu& gpu, Pointers& pointers, void* workspace) const {
    if (auto status = graph_.execute(gpu.dnn(), pointers, workspace); status.is_bad())
      throw EnvironmentFailure("GPU: cuDNN: attention: " + status.get_message());
  }

 private:
  void plan(NvidiaGpu& gpu) {
    auto status = graph_.build(gpu.dnn(), {fe::HeurMode_t::A});
    if (!status.is_bad()) status = graph_.get_workspace_size(workspace_);
    if (status.is_bad()) throw Refused{status.get_message()};
  }

  mutable fe::graph::Graph graph_;
  Tensor q_, k_, v_, added_;
  std::int64_t workspace_ = 0;
};

std::int64_t bytes_of(const std::array<std::int64_t, 4>& sizes, std::int64_t element = 2) {
  return sizes[0] * sizes[1] * sizes[2] * sizes[3] * element;
}

/// Forward, and where `gradient` is set backward, too.
class DnnAttention final : public Kernel {
 public:
  DnnAttention(const KernelRequest& r, Problem16 p, bool gradient)
      : gpu_(gpu_of(r)), node_(r), p_(std::move(p)), gradient_(gradient), forward_(p_), backward_(p_) {
    forward_.forward(p_, gradient, gpu_);
    if (gradient) backward_.backward(p_, gpu_);
    const bool adds = p_.steps.adds, turns_keys = p_.attention.keys_last;
    const auto room = [&](bool needed, std::int64_t bytes) { return needed ? parts_.add(bytes) : kNowhere; };
    at_ = {.added = room(adds, 2 * p_.added().elements()),
           .seen = room(adds, p_.added().all_rows()),
           .queries = room(adds, bytes_of(p_.queries())),
           .keys = room(turns_keys, bytes_of(p_.keys())),
           .key_gradients = room(gradient && turns_keys, bytes_of(p_.keys())),
           .result = room(gradient, bytes_of(p_.results())),
           .row_sums = room(gradient, bytes_of(p_.row_sums(), 4)),
           .library = parts_.add(std::max(forward_.workspace_bytes(), backward_.workspace_bytes()))};
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override { return parts_.bytes(); }
  [[nodiscard]] bool is_shareable() const override { return true; }

  void run(std::span<const TensorView> in, std::span<const TensorView> out, const RunContext& context) override {
    auto* memory = WorkspaceParts::begin(context.workspace);
    auto pointers = operands({node_, in, out, context}, memory);
    pointers[kY] = gradient_ ? memory + at_.result : out[0].data;
    if (gradient_) pointers[kRowSums] = memory + at_.row_sums;
    forward_.run(gpu_, pointers, memory + at_.library);
    if (gradient_) run_backward({node_, in, out, context}, memory, pointers);
  }

 private:
  static constexpr std::int64_t kNowhere = -1;
  struct Places {
    std::int64_t added, seen, queries, keys, key_gradients, result, row_sums, library;
  };

  /// Of keys that are stored the other way round.
  [[nodiscard]] Matrices16 turned_keys() const {
    return {p_.layout.batches * p_.layout.key_heads(), p_.attention.depth, p_.attention.keys};
  }
  [[nodiscard]] SeenRows query_rows() const { return {p_.added(), p_.layout.batches, p_.layout.heads, p_.attention.depth}; }

  /// Queries, keys and values as the library wants them, and what is added to scores.
  [[nodiscard]] Pointers operands(const Call& call, std::byte* memory) const {
    const std::size_t queries = gradient_ ? 1 : 0;
    const DeviceStream stream = call.context.stream;
    Pointers pointers{{kQ, call.inputs[queries].data}, {kK, call.inputs[queries + 1].data}, {kV, call.inputs[queries + 2].data}};
    if (p_.steps.adds) {
      auto* seen = reinterpret_cast<std::uint8_t*>(memory + at_.seen);
      write_added_scores(call, queries, p_.added(), p_.layout.heads, {memory + at_.added, seen});
      clear_unseen_rows(stream, query_rows(), seen, pointers[kQ], memory + at_.queries);
      pointers[kAdded] = memory + at_.added;
      pointers[kQ] = memory + at_.queries;
    }
    if (at_.keys != kNowhere) {
      transpose_matrices(stream, turned_keys(), pointers[kK], memory + at_.keys);
      pointers[kK] = memory + at_.keys;
    }
    return pointers;
  }

  void run_backward(const Call& call, std::byte* memory, Pointers& pointers) const {
    const DeviceStream stream = call.context.stream;
    pointers[kDy] = call.inputs[0].data;
    pointers[kDq] = call.outputs[0].data;
    pointers[kDk] = at_.key_gradients != kNowhere ? memory + at_.key_gradients : call.outputs[1].data;
    pointers[kDv] = call.outputs[2].data;
    backward_.run(gpu_, pointers, memory + at_.library);
    if (p_.steps.adds)
      clear_unseen_rows(stream, query_rows(), reinterpret_cast<std::uint8_t*>(memory + at_.seen), pointers[kDq], pointers[kDq]);
    if (at_.key_gradients == kNowhere) return;
    const auto keys = turned_keys();
    transpose_matrices(stream, {keys.count, keys.columns, keys.rows}, pointers[kDk], call.outputs[1].data);
  }

  NvidiaGpu& gpu_;
  reference::Problem node_;
  Problem16 p_;
  bool gradient_;
  Planned forward_, backward_;
  WorkspaceParts parts_;
  Places at_{};
};

bool is_wanted_whole(const KernelRequest& r) {
  return std::all_of(r.outputs.begin(), r.outputs.end(), [](const auto& type) { return type.has_value(); });
}

std::unique_ptr<Kernel> make(const KernelRequest& r, std::string& reason, std::size_t queries) {
  const auto view = r.view();
  const auto type = view.input(queries).dtype;
  if (type != DType::BF16 && type != DType::F16) return reason = "cuDNN's attention is in 16 bits", nullptr;
  if (gpu_of(r).dnn_target().described != nullptr) return reason = "cuDNN plans attention on the GPU itself", nullptr;
  if (!is_wanted_whole(r)) return reason = "not all gradients are wanted", nullptr;
  Problem16 p{graph::attention_problem(view, queries), {}, {}, type};
  if (!fits(p.attention, reason)) return nullptr;
  if (p.attention.ratio > 0) return reason = "weights are dropped as on every other device", nullptr;
  if (p.attention.guard != AttentionProblem::Guard::None) return reason = "rows without weights are guarded", nullptr;
  if (!lay_out(p.attention, {view.input(queries).shape, view.input(queries + 1).shape, view.input(queries + 2).shape}, p.layout))
    return reason = "matrices are shared otherwise than among heads", nullptr;
  if (queries == 1 && p.layout.shared > 1)
    return reason = "cuDNN's gradients of keys that heads share came out wrong where it was tried", nullptr;
  if (!take_steps(p.attention, r, queries, p.steps, reason)) return nullptr;
  try {
    return std::make_unique<DnnAttention>(r, std::move(p), queries == 1);
  } catch (const Refused& refused) {
    return reason = "cuDNN: " + refused.why, nullptr;
  }
}

std::unique_ptr<Kernel> make_forward(const KernelRequest& r, std::string& reason) { return make(r, reason, 0); }
std::unique_ptr<Kernel> make_backward(const KernelRequest& r, std::string& reason) { return make(r, reason, 1); }

constexpr KernelRow kRows[] = {{"Attention", "cudnn:attention", make_forward}, {"AttentionGrad", "cudnn:attention", make_backward}};

}  // namespace

std::span<const KernelRow> dnn_attention_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
