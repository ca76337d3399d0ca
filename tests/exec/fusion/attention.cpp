// Attention as one kernel computes and learns what its nodes do, and what only looks like it stays as it is.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "exec/data/data.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/play/executor.hpp"
#include "plan/lowering/lowering.hpp"
#include "tests/catch.hpp"
#include "tests/exec/comm/session.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using graph::Shape;
using graph::TensorId;
using Values = std::vector<double>;

namespace {

/// Queries, keys and values are parameters; queries differ from sample to sample.
class Model {
 public:
  explicit Model(DType dtype) : dtype_(dtype) {}

  TensorId parameter(const std::string& name, const Shape& shape, double size = 1) {
    return builder_.add_stored(name, {dtype_, shape}, graph::TensorRole::Parameter, contents(shape, size));
  }
  /// Known numbers that are not trained.
  TensorId table(const Shape& shape, double size = 1) {
    return builder_.add_stored("table" + std::to_string(++named_), {dtype_, shape}, graph::TensorRole::Constant, contents(shape, size));
  }
  TensorId number(double value) { return builder_.add_constant("c" + std::to_string(++named_), graph::Value::scalar(value, dtype_)); }
  /// True where shown(row, key).
  TensorId flags(std::int64_t rows, std::int64_t keys, const std::function<bool(std::int64_t, std::int64_t)>& shown) {
    graph::Value value{{DType::Bool, {rows, keys}}, {}, {}};
    for (std::int64_t i = 0; i < rows * keys; ++i) value.integers.push_back(shown(i / keys, i % keys) ? 1 : 0);
    return builder_.add_stored("flags" + std::to_string(++named_), value.type, graph::TensorRole::Constant, graph::contents_of(value));
  }
  TensorId add(const char* op, std::vector<TensorId> inputs, graph::Attributes attributes = {}) {
    return builder_.add(op, std::move(inputs), std::move(attributes)).front();
  }

  /// The first dimension counts samples.
  TensorId queries(const Shape& shape, double size = 1) {
    const Shape one(shape.begin() + 1, shape.end());
    return add("Add", {builder_.add_input("input", {dtype_, shape}), parameter("q", one, size)});
  }
  TensorId softmax(TensorId scores) { return add("Softmax", {scores}, {{"axis", std::int64_t{-1}}}); }
  graph::Graph with_loss(TensorId y) {
    const Shape shape = builder_.type(y).shape;
    const TensorId product = add("Mul", {y, parameter("weights", Shape(shape.begin() + 1, shape.end()))});
    std::vector<std::int64_t> axes;
    for (std::size_t d = 0; d < shape.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
    graph::GraphBuilder::NodeOptions options;
    options.output_names = {"loss"};
    builder_.set_outputs({builder_.add("ReduceSum", {product}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}, options).front()});
    return std::move(builder_).build();
  }

 private:
  graph::Contents contents(const Shape& shape, double size) {
    Values values;
    for (std::int64_t i = 0; i < graph::element_count(shape); ++i) values.push_back(size * std::sin(++drawn_));
    return graph::contents_of(graph::Value::of_reals(std::move(values), shape, dtype_));
  }

  graph::GraphBuilder builder_;
  DType dtype_;
  double drawn_ = 0;
  int named_ = 0;
};

struct Trained {
  Values losses;
  std::vector<Values> stored;  ///< parameters after the steps of SGD with rate 0.5: what they were less their gradients
  std::map<std::string, int> kernels;
  std::vector<plan::NotFused> not_fused;
  std::int64_t arena = 0;
};

Values reals(std::span<const std::byte> bytes, DType dtype) {
  Values values(bytes.size() / size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    float narrow = 0;
    if (dtype == DType::F64)
      std::memcpy(&values[i], bytes.data() + i * sizeof(double), sizeof(double));
    else
      std::memcpy(&narrow, bytes.data() + i * sizeof(float), sizeof(float)), values[i] = static_cast<double>(narrow);
  }
  return values;
}

Trained train(const graph::Graph& graph, DType dtype, const std::string& plan_text, int threads) {
  graph::TrainingOptions options;
  options.loss = "loss";
  options.optimizer = {"sgd", {{"lr", 0.5}}};
  const auto training = graph::build_training_graph(graph, options);
  const CpuBackend backend(dtype == DType::F64 ? "reference" : "onednn");
  plan::LoweringOptions lowering;
  lowering.threads = threads;
  const auto program = plan::lower(training, plan::parse_plan(plan_text), backend, lowering);
  const Training job{program, training, world()};
  Executor executor(job, backend, {threads, 7});
  const auto data = synthetic_data(training, 3);
  Trained result;
  for (std::int64_t step = 0; step < 2; ++step) result.losses.push_back(executor.step(step, *data).loss);
  for (const auto& p : training.parameters) result.stored.push_back(reals(executor.stored(p.value), dtype));
  const auto& role = program.roles.front();
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions)
      if (i.kind == plan::InstructionKind::Kernel) ++result.kernels[std::string(plan::schema_of(role, i, training.graph[i.node]).name)];
  result.not_fused = program.sharding->not_fused;
  result.arena = role.memory.arena_bytes;
  return result;
}

void check_equal(const Values& a, const Values& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  double largest = 1e-3, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    apart = std::max(apart, std::isnan(a[i]) && std::isnan(b[i]) ? 0 : std::isfinite(a[i] - b[i]) ? std::abs(a[i] - b[i]) : HUGE_VAL);
  }
  CHECK(apart <= tolerance * largest);
}

struct Case {
  const char* name;
  std::function<TensorId(Model&)> write;  ///< to the result
  double tolerance_f32 = 1e-5;
};

constexpr double kLeast = -3.4028234663852886e38;
const double kNever = -std::numeric_limits<double>::infinity();

/// Scores of queries [3, 2, rows, 8] and keys, and what follows a step that a case adds.
struct Sizes {
  std::int64_t rows = 13, keys = 13, depth = 8, width = 8;
};
TensorId scores(Model& m, const Sizes& s, double size = 1) {
  return m.add("MatMul", {m.queries({3, 2, s.rows, s.depth}, size), m.parameter("k", {2, s.depth, s.keys}, size)});
}
TensorId mixed(Model& m, TensorId weights, const Sizes& s) { return m.add("MatMul", {weights, m.parameter("v", {2, s.keys, s.width})}); }
TensorId plain(Model& m, TensorId masked, const Sizes& s) { return mixed(m, m.softmax(masked), s); }

TensorId guarded(Model& m, TensorId weights) { return m.add("Where", {m.add("IsNaN", {weights}), m.number(0), weights}); }
bool causal(std::int64_t row, std::int64_t key) { return key <= row; }

const std::vector<Case> kFused{
    {"alone", [](Model& m) { return plain(m, scores(m, {}), {}); }},
    {"keys as rows",
     [](Model& m) {
       return plain(m, m.add("MatMul", {m.queries({3, 2, 13, 8}), m.parameter("k", {2, 13, 8})}, {{"trans_b", std::int64_t{1}}}), {});
     }},
    {"more keys than a block, more rows than a block",
     [](Model& m) {
       const Sizes s{211, 307, 10, 20};
       return plain(m, scores(m, s), s);
     }},
    {"scaled",
     [](Model& m) {
       return plain(m, m.add("Mul", {m.number(0.3), scores(m, {})}), {});
     }},
    {"divided",
     [](Model& m) {
       return plain(m, m.add("Div", {scores(m, {}), m.number(2.5)}), {});
     }},
    {"causal by a choice",
     [](Model& m) {
       return plain(m, m.add("Where", {m.flags(13, 13, causal), scores(m, {}), m.number(kLeast)}), {});
     }},
    {"causal over several blocks of rows",
     [](Model& m) {
       const Sizes s{290, 290, 8, 8};
       return plain(m, m.add("Where", {m.flags(290, 290, causal), m.add("Mul", {scores(m, s), m.number(0.5)}), m.number(kNever)}), s);
     }},
    {"hidden where true, by a number that hides nothing",
     [](Model& m) {
       return plain(m, m.add("Where", {m.flags(13, 13, causal), m.number(-1.5), scores(m, {})}), {});
     }},
    {"a mask is added",
     [](Model& m) {
       const auto mask = m.add("Where", {m.flags(13, 13, causal), m.table({13, 13}), m.number(kNever)});
       return plain(m, m.add("Add", {scores(m, {}), mask}), {});
     }},
    {"one mask of keys for every sample",
     [](Model& m) {
       return plain(m, m.add("Where", {m.flags(1, 13, [](auto, auto key) { return key < 9 && key > 1; }), scores(m, {}), m.number(kNever)}),
                    {});
     }},
    {"two masks of which one row sees nothing: all keys alike",
     [](Model& m) {
       const auto first = m.add("Where", {m.flags(13, 13, causal), scores(m, {}), m.number(kLeast)});
       return plain(m, m.add("Where", {m.flags(13, 13, [](auto row, auto key) { return row != 4 || key > 6; }), first, m.number(kLeast)}),
                    {});
     }},
    {"a row that sees nothing, and is guarded",
     [](Model& m) {
       const auto flags = m.flags(13, 13, [](auto row, auto key) { return row != 5 && key != 12; });
       return mixed(m, guarded(m, m.softmax(m.add("Where", {flags, scores(m, {}), m.number(kNever)}))), {});
     }},
    {"rows that see nothing are found by their largest score",
     [](Model& m) {
       const auto flags = m.flags(13, 13, [](auto row, auto key) { return row != 5 && key != 12; });
       const auto masked = m.add("Where", {flags, scores(m, {}), m.number(kNever)});
       const auto largest = m.add("ReduceMax", {masked}, {{"axes", std::vector<std::int64_t>{-1}}, {"keepdims", std::int64_t{1}}});
       const auto hidden = m.add("Equal", {largest, m.number(kNever)});
       const auto weights = m.softmax(m.add("Where", {hidden, m.number(0), masked}));
       return mixed(m, m.add("Where", {hidden, m.number(0), weights}), {});
     }},
    {"a bias is learned for every pair",
     [](Model& m) {
       return plain(m, m.add("Add", {scores(m, {}), m.parameter("b", {13, 13})}), {});
     }},
    {"a bias is learned for every head",
     [](Model& m) {
       const auto biased = m.add("Add", {m.parameter("b", {2, 13, 1}), m.add("Mul", {scores(m, {}), m.number(0.5)})});
       return plain(m, m.add("Where", {m.flags(13, 13, causal), biased, m.number(-2)}), {});
     }},
    {"dropout",
     [](Model& m) {
       return mixed(m, m.add("Dropout", {m.softmax(scores(m, {}))}, {{"ratio", 0.3}, {"stream", std::int64_t{5}}}), {});
     }},
    {"dropout behind a guard, masked",
     [](Model& m) {
       const auto masked =
           m.add("Where", {m.flags(13, 13, [](auto row, auto key) { return row != 5 && key <= row; }), scores(m, {}), m.number(kNever)});
       return mixed(m, m.add("Dropout", {guarded(m, m.softmax(masked))}, {{"ratio", 0.5}, {"stream", std::int64_t{6}}}), {});
     }},
    // scores reach 8 * 300 * 300 = 7.2e5, which f32 rounds by up to 0.03 (half of 2^-4): weights near each other are off by as much
    {"very large scores", [](Model& m) { return plain(m, scores(m, {}, 300), {}); }, 1e-2},
    {"rows of another number than keys",
     [](Model& m) {
       const Sizes s{5, 37, 3, 6};
       return plain(m, scores(m, s), s);
     }},
    {"one key",
     [](Model& m) {
       const Sizes s{5, 1, 3, 6};
       return plain(m, scores(m, s), s);
     }},
    {"one row",
     [](Model& m) {
       const Sizes s{1, 19, 16, 1};
       return plain(m, scores(m, s), s);
     }},
    {"no heads",
     [](Model& m) {
       const auto product = m.add("MatMul", {m.queries({3, 9, 4}), m.parameter("k", {1, 4, 11})});
       return m.add("MatMul", {m.softmax(product), m.parameter("v", {1, 11, 4})});
     }},
    {"grouped queries",
     [](Model& m) {
       const auto product = m.add("MatMul", {m.queries({3, 2, 4, 7, 8}), m.parameter("k", {2, 1, 8, 9})});
       return m.add("MatMul", {m.softmax(product), m.parameter("v", {2, 1, 9, 8})});
     }},
    {"values are the keys",
     [](Model& m) {
       const auto k = m.parameter("k", {2, 9, 8});
       return m.add("MatMul", {m.softmax(m.add("MatMul", {m.queries({3, 2, 7, 8}), k}, {{"trans_b", std::int64_t{1}}})), k});
     }},
    {"values are not trained",
     [](Model& m) {
       return m.add("MatMul", {m.softmax(scores(m, {})), m.table({2, 13, 5})});
     }},
};

/// What stands in the way, as far as it is said.
struct Refused {
  const char* name;
  std::function<TensorId(Model&)> write;
  const char* reason;  ///< nullptr: it does not even look like attention
};

const std::vector<Refused> kNotFused{
    {"a learned temperature",
     [](Model& m) {
       return plain(m, m.add("Mul", {scores(m, {}), m.parameter("t", {1})}), {});
     },
     "no known number"},
    {"scores that something else reads",
     [](Model& m) {
       const auto s = scores(m, {});
       return m.add("Add", {plain(m, s, {}), m.add("Slice", {s},
                                                   {{"starts", std::vector<std::int64_t>{0}},
                                                    {"ends", std::vector<std::int64_t>{8}},
                                                    {"axes", std::vector<std::int64_t>{3}},
                                                    {"steps", std::vector<std::int64_t>{1}}})});
     },
     "reads"},
    {"softmax along rows",
     [](Model& m) {
       return mixed(m, m.add("Softmax", {scores(m, {})}, {{"axis", std::int64_t{-2}}}), {});
     },
     "not the last dimension"},
    {"a bounded score", [](Model& m) { return plain(m, m.add("Tanh", {scores(m, {})}), {}); }, "no scale and no mask"},
    {"a bias for every pair of every sample",
     [](Model& m) {
       const auto q = m.queries({3, 2, 13, 8});
       const auto other = m.add("MatMul", {q, m.parameter("r", {2, 8, 13})});
       return plain(m, m.add("Add", {m.add("MatMul", {q, m.parameter("k", {2, 8, 13})}), other}), {});
     },
     "no scale and no mask"},
    {"keys for all samples in one product",
     [](Model& m) {
       const auto product = m.add("MatMul", {m.queries({3, 9, 4}), m.parameter("k", {4, 11})});
       return m.add("MatMul", {m.softmax(product), m.parameter("v", {11, 4})});
     },
     "reads"},
    {"no product behind", [](Model& m) { return m.softmax(scores(m, {})); }, nullptr},
};

}  // namespace

TEST_CASE("attention in one kernel trains as its nodes do") {
  for (const auto& c : kFused)
    for (const auto dtype : {DType::F64, DType::F32})
      for (const int threads : {1, 3}) {
        INFO(c.name << ' ' << name(dtype) << ' ' << threads << " threads");
        Model model(dtype);
        const graph::Graph graph = model.with_loss(c.write(model));
        const auto fused = train(graph, dtype, "dp=1", threads), parts = train(graph, dtype, "fuse=none", threads);
        for (const auto& n : fused.not_fused) FAIL_CHECK(n.reason);
        CHECK(fused.kernels.at("Attention") == 1);
        CHECK(fused.kernels.at("AttentionGrad") == 1);
        CHECK(fused.kernels.count("Softmax") + fused.kernels.count("SoftmaxGrad") + parts.kernels.count("Attention") == 0);
        const double tolerance = dtype == DType::F64 ? 1e-12 : c.tolerance_f32;
        for (const double loss : parts.losses) CHECK(std::isfinite(loss));
        check_equal(fused.losses, parts.losses, tolerance);
        for (std::size_t p = 0; p < parts.stored.size(); ++p) check_equal(fused.stored[p], parts.stored[p], tolerance);
      }
}

TEST_CASE("micro-batches, recomputation and offloading change nothing about attention in one kernel") {
  for (const auto* plan : {"micro_batch=1", "micro_batch=2", "recompute=full", "recompute=selective", "offload=activations"}) {
    Model model(DType::F64);
    const auto biased = model.add("Add", {scores(model, {}), model.parameter("b", {13, 13})});
    const auto weights = model.add("Dropout", {model.softmax(biased)}, {{"ratio", 0.3}, {"stream", std::int64_t{5}}});
    const graph::Graph graph = model.with_loss(mixed(model, weights, {}));
    INFO(plan);
    const auto fused = train(graph, DType::F64, plan, 1), parts = train(graph, DType::F64, "fuse=none", 1);
    CHECK(fused.kernels.at("Attention") >= 1);
    check_equal(fused.losses, parts.losses, 1e-12);
    for (std::size_t p = 0; p < parts.stored.size(); ++p) check_equal(fused.stored[p], parts.stored[p], 1e-12);
  }
}

TEST_CASE("what only looks like attention stays as it is") {
  for (const auto& c : kNotFused) {
    INFO(c.name);
    Model model(DType::F64);
    const auto found = train(model.with_loss(c.write(model)), DType::F64, "dp=1", 1);
    CHECK(!found.kernels.contains("Attention"));
    CHECK(found.kernels.at("Softmax") == 1);
    CHECK(found.not_fused.empty() == (c.reason == nullptr));
    for (const auto& n : found.not_fused) CHECK(n.reason.find(c.reason) != std::string::npos);
  }
}

TEST_CASE("nothing of the size rows x keys is left in memory") {
  // 6 matrices of 211 x 307 scores of 8 bytes are 3.1 MB; queries, keys, values and result are 6 x (2 x 211 + 2 x 307) x 10 x 8 = 0.5 MB.
  const Sizes s{211, 307, 10, 10};
  Model model(DType::F64);
  const auto graph = model.with_loss(plain(model, scores(model, s), s));
  const auto fused = train(graph, DType::F64, "dp=1", 1), parts = train(graph, DType::F64, "fuse=none", 1);
  const std::int64_t one = 6 * s.rows * s.keys * 8;
  CHECK(fused.arena < one);
  CHECK(parts.arena > 2 * one);
}

TEST_CASE("a mask that hides just the keys behind each row is told to kernels, and no other") {
  std::vector<std::string> told;
  for (const auto& c : kFused) {
    Model model(DType::F32);
    const TensorId result = c.write(model);
    graph::TrainingOptions options;
    options.loss = "loss";
    const auto training = graph::build_training_graph(model.with_loss(result), options);
    const CpuBackend backend("onednn");
    const auto program = plan::lower(training, plan::Plan{}, backend, {});
    const auto& role = program.roles.front();
    for (const auto& body : role.bodies)
      for (const auto& i : body.instructions)
        if (i.kind == plan::InstructionKind::Kernel && i.attributes >= 0 &&
            role.attributes[static_cast<std::size_t>(i.attributes)].integer("causal", 0) == 1)
          told.emplace_back(c.name);
  }
  // Forward and backward of each.
  CHECK(told == std::vector<std::string>{"causal by a choice", "causal by a choice", "causal over several blocks of rows",
                                         "causal over several blocks of rows"});
}
