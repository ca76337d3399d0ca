#pragma once
// All ranks of a mesh played in this process with the reference kernels, to compare with the unsplit run.

#include <cmath>
#include <cstring>
#include <random>

#include "exec/play/interpreter.hpp"
#include "graph/op_schema.hpp"
#include "plan/sharding/sharding.hpp"
#include "tests/catch.hpp"

namespace rehearsal::plan::test {

using graph::Graph;
using graph::index;
using graph::Node;
using graph::NodeId;
using graph::Shape;
using graph::Tensor;
using graph::TensorDims;
using graph::TensorId;
using graph::TensorRole;
using graph::TensorType;
using graph::TrainingGraph;

using Bytes = std::vector<std::byte>;

inline std::size_t element_bytes(const TensorType& type) { return size_of(type.dtype); }
inline Bytes zeros(const TensorType& type) {
  return Bytes(static_cast<std::size_t>(graph::element_count(type.shape)) * element_bytes(type));
}

/// Calls visit(index in the local block, index in the whole tensor) for every element of a region.
template <class Visit>
void for_each_element(const std::vector<IndexSet>& region, const Shape& global, const Visit& visit) {
  std::vector<std::int64_t> offsets = {0};
  for (std::size_t d = 0; d < global.size(); ++d) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t base : offsets) {
      for (const Range& r : region[d]) {
        for (std::int64_t i = r.begin; i < r.end; ++i) longer.push_back(base * global[d] + i);
      }
    }
    offsets = std::move(longer);
  }
  for (std::size_t local = 0; local < offsets.size(); ++local) visit(local, static_cast<std::size_t>(offsets[local]));
}

/// All ranks (and micro-batches) of a mesh in one process.
class Mesh {
 public:
  Mesh(const Graph& graph, const Sharding& s) : g_(graph), s_(s), local_(g_.tensors().size()) {
    at_ = {{}};
    for (const MeshAxis& a : s.axes) {
      std::vector<Coordinates> longer;
      for (const Coordinates& c : at_) {
        for (std::int64_t r = 0; r < a.size; ++r) {
          longer.push_back(c);
          longer.back().push_back(r);
        }
      }
      at_ = std::move(longer);
    }
  }

  /// `start`: the values of stored tensors and inputs before the step.
  void run(const std::vector<Bytes>& start) {
    for (std::size_t i = 0; i < g_.tensors().size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      if (g_[id].producer != NodeId::None) continue;
      if (g_[id].role == TensorRole::Constant) constants_.resize(g_.tensors().size()), constants_[i] = start[i];
      for (const Coordinates& at : at_) local_[i].push_back(cut(start[i], g_[id].type, s_.region(s_.dims->of(id), s_.layout(id), at)));
    }
    for (std::size_t n = 0; n < g_.nodes().size(); ++n) run_node(static_cast<NodeId>(n));
  }

  /// The whole tensor from its parts; copies must agree.
  Bytes assembled(TensorId t) const {
    const Layout all_replicated(s_.axes.size());
    return wanted_at(t, all_replicated, 0, s_.region(s_.dims->of(t), all_replicated, at_[0]));
  }

  /// Largest difference between copies of a replicated part.
  double disagreement(TensorId t) const {
    double worst = 0;
    const Layout& layout = s_.layout(t);
    for (std::size_t a = 0; a < at_.size(); ++a) {
      std::size_t twin = 0;
      while (!same_part(layout, at_[a], at_[twin])) ++twin;
      worst = std::max(worst, difference(local_[index(t)][a], local_[index(t)][twin], g_[t].type.dtype));
    }
    return worst;
  }

  static double difference(const Bytes& a, const Bytes& b, DType type) {
    if (type != DType::F64) return a == b ? 0 : 1;
    REQUIRE(a.size() == b.size());
    double worst = 0;
    for (std::size_t i = 0; i < a.size() / 8; ++i) worst = std::max(worst, std::abs(real(a, i) - real(b, i)));
    return worst;
  }

  static double real(const Bytes& bytes, std::size_t i) {
    double x = 0;
    std::memcpy(&x, bytes.data() + 8 * i, 8);
    return x;
  }

 private:
  const Graph& g_;
  const Sharding& s_;
  std::vector<Coordinates> at_;
  std::vector<std::vector<Bytes>> local_;  ///< [tensor][coordinate]
  std::vector<Bytes> constants_;

  /// Do two coordinates own the same part: equal wherever the layout is not replicated?
  static bool same_part(const Layout& layout, const Coordinates& a, const Coordinates& b) {
    for (std::size_t x = 0; x < layout.size(); ++x) {
      if (!layout[x].replicated() && a[x] != b[x]) return false;
    }
    return true;
  }

  Bytes cut(const Bytes& global, const TensorType& type, const std::vector<IndexSet>& region) const {
    const std::size_t size = element_bytes(type);
    Bytes out;
    for_each_element(region, type.shape, [&](std::size_t, std::size_t from) {
      out.insert(out.end(), global.begin() + static_cast<std::ptrdiff_t>(from * size),
                 global.begin() + static_cast<std::ptrdiff_t>((from + 1) * size));
    });
    return out;
  }

  /// What coordinate number c holds of `t` under layout `want`, `region`, gathered from the parts under its own layout.
  Bytes wanted_at(TensorId t, const Layout& want, std::size_t c, const Region& region) const {
    const Layout& have = s_.layout(t);
    const TensorType& type = g_[t].type;
    if (have == want) return local_[index(t)][c];
    Bytes global = zeros(type);
    // Of a whole tensor that is wanted as a sum, coordinate 0 keeps it and the others hold zero.
    for (std::size_t a = 0; a < have.size(); ++a) {
      if (have[a].replicated() && want[a].partial() && at_[c][a] != 0) return cut(global, type, region);
    }
    for (std::size_t from = 0; from < at_.size(); ++from) {
      bool counts = true;
      for (std::size_t a = 0; a < have.size(); ++a) {
        const bool stays = have[a].partial() && want[a].partial();
        if ((stays || have[a].replicated()) && at_[from][a] != at_[c][a]) counts = false;
      }
      if (!counts) continue;
      const Bytes bytes = part(t, have, from);
      for_each_element(s_.region(s_.dims->of(t), have, at_[from]), type.shape,
                       [&](std::size_t local, std::size_t to) { add(global, to, bytes, local, type.dtype); });
    }
    if (adds_exponentials(have)) apply(global, [](double x) { return std::log(x); });
    return cut(global, type, region);
  }

  static bool adds_exponentials(const Layout& have) {
    return std::any_of(have.begin(), have.end(),
                       [](const AxisLayout& l) { return l.partial() && l.reduction == graph::LabelKind::LogSumExp; });
  }

  template <class F>
  static void apply(Bytes& reals, const F& f) {
    for (std::size_t i = 0; i < reals.size() / 8; ++i) {
      const double y = f(real(reals, i));
      std::memcpy(reals.data() + 8 * i, &y, 8);
    }
  }

  /// What a coordinate brings to the sum of all.
  Bytes part(TensorId t, const Layout& have, std::size_t from) const {
    Bytes bytes = local_[index(t)][from];
    if (adds_exponentials(have)) apply(bytes, [](double x) { return std::exp(x); });
    return bytes;
  }

  static void add(Bytes& into, std::size_t to, const Bytes& from, std::size_t i, DType type) {
    const std::size_t size = size_of(type);
    if (type != DType::F64) {
      std::memcpy(into.data() + to * size, from.data() + i * size, size);
      return;
    }
    const double sum = real(into, to) + real(from, i);
    std::memcpy(into.data() + to * size, &sum, size);
  }

  void run_node(NodeId id) {
    for (std::size_t c = 0; c < at_.size(); ++c) run_at(id, c);
  }

  struct Operand {
    TensorType type;
    Shape origin;
    Bytes bytes;
  };

  std::vector<std::optional<Operand>> operands_at(NodeId id, std::size_t c) const {
    const Node& node = g_[id];
    std::vector<std::optional<Operand>> operands;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId t = node.inputs[i];
      if (t == TensorId::None) {
        operands.emplace_back();
        continue;
      }
      const Layout& want = s_.wanted[index(id)][i];
      const Region region = s_.operand_region(id, i, want, at_[c]);
      const Bytes bytes =
          g_[t].role == TensorRole::Constant ? cut(constants_[index(t)], g_[t].type, region) : wanted_at(t, want, c, region);
      operands.push_back(Operand{{g_[t].type.dtype, s_.operand_shape(id, i, at_[c])}, Shape(region.size()), bytes});
      for (std::size_t d = 0; d < region.size(); ++d) operands.back()->origin[d] = region[d].empty() ? 0 : region[d].front().begin;
    }
    return operands;
  }

  void run_at(NodeId id, std::size_t c) {
    const Node& node = g_[id];
    auto operands = operands_at(id, c);
    std::vector<std::optional<TensorType>> in, out;
    for (const auto& o : operands) in.push_back(o ? std::optional(o->type) : std::nullopt);
    std::vector<Bytes> results;
    std::vector<Shape> origins;
    for (const TensorId t : node.outputs) {
      out.push_back(t == TensorId::None ? std::nullopt : std::optional(TensorType{g_[t].type.dtype, s_.result_shape(t, at_[c])}));
      results.push_back(out.back() ? zeros(*out.back()) : Bytes{});
      auto& origin = origins.emplace_back();  // exact where what the coordinate has is one range
      for (const IndexSet& set : t == TensorId::None ? Region{} : s_.region(s_.dims->of(t), s_.layout(t), at_[c]))
        origin.push_back(set.empty() ? 0 : set.front().begin);
    }
    const std::vector<Format> in_formats(in.size()), out_formats(out.size());
    const auto attributes = s_.attributes_on(id, at_[c]).value_or(node.attributes);
    const auto kernel = exec::make_reference_kernel({graph::schema(node), attributes, in, out, in_formats, out_formats, 1});
    std::vector<exec::TensorView> in_views, out_views;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i])
        in_views.push_back({operands[i]->bytes.data(), &*in[i], Format::Plain, &operands[i]->origin, &g_[node.inputs[i]].type.shape});
      else
        in_views.emplace_back();
    }
    for (std::size_t o = 0; o < out.size(); ++o) {
      if (out[o])
        out_views.push_back({results[o].data(), &*out[o], Format::Plain, &origins[o], &g_[node.outputs[o]].type.shape});
      else
        out_views.emplace_back();
    }
    Bytes workspace(static_cast<std::size_t>(kernel->workspace_bytes()));
    kernel->run(in_views, out_views, {0, 0, workspace.data()});
    for (std::size_t o = 0; o < out.size(); ++o) {
      if (out[o]) local_[index(node.outputs[o])].push_back(std::move(results[o]));
    }
  }
};

inline Bytes random_values(const Tensor& tensor, std::mt19937& random, std::int64_t classes) {
  Bytes bytes = zeros(tensor.type);
  std::uniform_real_distribution<double> real(-1, 1);
  for (std::size_t i = 0; i < bytes.size() / element_bytes(tensor.type); ++i) {
    const double x = real(random) + (tensor.role == TensorRole::State ? 2 : 0);
    const std::int64_t k = static_cast<std::int64_t>(random()) % classes;
    if (tensor.type.dtype == DType::F64) std::memcpy(bytes.data() + 8 * i, &x, 8);
    if (tensor.type.dtype == DType::I64) std::memcpy(bytes.data() + 8 * i, &k, 8);
  }
  return bytes;
}

/// Plays `t` on the mesh and on one rank; all tensors must agree to 1e-12 of their largest entry. `classes` bounds integer inputs.
inline void check_equal(TrainingGraph t, const std::vector<MeshAxis>& axes, std::int64_t classes) {
  t.graph = graph::with_float_type(t.graph, DType::F64);
  const Sharding s = shard(t, axes);
  exec::Interpreter whole(t.graph);
  std::mt19937 random(3);
  std::vector<Bytes> start(t.graph.tensors().size());
  for (std::size_t i = 0; i < start.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    const Tensor& tensor = t.graph[id];
    if (tensor.producer != NodeId::None) continue;
    if (!tensor.contents.known()) whole.set(id, start[i] = random_values(tensor, random, classes));
    const auto held = whole.get(id);
    start[i].assign(held.begin(), held.end());
  }
  whole.run();
  Mesh mesh(t.graph, s);
  mesh.run(start);
  for (std::size_t i = 0; i < start.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    const Tensor& tensor = t.graph[id];
    if (tensor.producer == NodeId::None) continue;
    const auto held = whole.get(id);
    const Bytes expected(held.begin(), held.end());
    double largest = 1e-3;
    for (std::size_t e = 0; tensor.type.dtype == DType::F64 && e < expected.size() / 8; ++e)
      largest = std::max(largest, std::abs(Mesh::real(expected, e)));
    INFO("tensor " << tensor.name << " of " << t.graph[tensor.producer].name);
    REQUIRE(Mesh::difference(mesh.assembled(id), expected, tensor.type.dtype) <= 1e-12 * largest);
    REQUIRE(mesh.disagreement(id) <= 1e-12 * largest);
  }
}

}  // namespace rehearsal::plan::test
