#include "graph/training.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "graph/loss_scaling.hpp"
#include "graph/op_schema.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;

namespace {

/// x [4, 3] times w [3, 2] plus b [2]; a mask constant; an unused branch from `spare`.
Graph linear_model(bool loss_output = false) {
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", {DType::F32, {4, 3}});
  const TensorId w = builder.add_stored("fc.weight", {DType::F32, {3, 2}}, TensorRole::Parameter, {}),
                 b = builder.add_stored("fc.bias", {DType::F32, {2}}, TensorRole::Parameter, {});
  const TensorId y = builder.add("Add", {builder.add1("MatMul", {x, w}), b}, {}, {"out", Phase::Forward, NodeId::None, {"y"}}).front();
  std::vector<TensorId> outputs = {y};
  if (loss_output) {
    outputs.push_back(builder
                          .add("ReduceSum", {y}, {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}},
                               {"sum", Phase::Forward, NodeId::None, {"my_loss"}})
                          .front());
  }
  builder.set_outputs(outputs);
  return std::move(builder).build();
}

TrainingOptions with_loss(std::string loss) {
  TrainingOptions options;
  options.loss = std::move(loss);
  return options;
}

std::vector<std::string> trained_names(const TrainingGraph& training) {
  std::vector<std::string> names;
  for (const TrainedParameter& p : training.parameters) names.push_back(training.graph[p.value].name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the default loss is cross-entropy on the first output") {
  const TrainingGraph training = build_training_graph(linear_model(), {});
  CHECK(trained_names(training) == Names{"fc.weight", "fc.bias"});
  CHECK(training.batch == 4);
  CHECK(training.graph[training.target].name == "target");
  CHECK(training.graph[training.target].type == TensorType{DType::I64, {4}});
  CHECK(training.graph[training.loss].type == TensorType{DType::F64, {}});
  CHECK(training.graph[training.loss].name == "loss");
  CHECK(training.step == TensorId::None);
  for (const TrainedParameter& p : training.parameters) {
    CHECK(training.graph[p.gradient].type == training.graph[p.value].type);
    CHECK(training.graph[p.gradient].name == training.graph[p.value].name + ".grad");
    CHECK(schema(training.graph[p.update]).name == "SgdUpdate");
    CHECK(p.slots.empty());  // no momentum, no buffer
    CHECK(training.graph[training.graph[p.update].outputs[0]].stored_in == p.value);
  }
}

TEST_CASE("a scalar output named like a loss is the loss") {
  const TrainingGraph training = build_training_graph(linear_model(true), {});
  CHECK(training.target == TensorId::None);
  CHECK(training.graph[training.loss].type == TensorType{DType::F64, {}});
  CHECK(build_training_graph(linear_model(true), with_loss("my_loss")).target == TensorId::None);
  CHECK(build_training_graph(linear_model(true), with_loss("mse")).target != TensorId::None);
}

TEST_CASE("every loss builds and asks for the target it needs") {
  for (const LossRow& row : loss_table()) {
    INFO(row.name);
    GraphBuilder builder;
    const TensorId x = builder.add_input("x", {DType::F32, {2, 3, 4, 4}}),
                   w = builder.add_stored("w", {DType::F32, {1}}, TensorRole::Parameter, {});
    builder.set_outputs({builder.add1("Mul", {x, w})});
    const TrainingGraph training = build_training_graph(std::move(builder).build(), with_loss(std::string(row.name)));
    const TensorType target = training.graph[training.target].type;
    const bool classes = row.name == "cross-entropy" || row.name == "nll";
    CHECK(target == (classes ? TensorType{DType::I64, {2, 4, 4}} : TensorType{DType::F32, {2, 3, 4, 4}}));
    CHECK(training.parameters.size() == 1);
  }
}

TEST_CASE("rank-3 outputs have their classes last") {
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", {DType::F32, {2, 5, 7}}),
                 w = builder.add_stored("w", {DType::F32, {1}}, TensorRole::Parameter, {});
  builder.set_outputs({builder.add1("Mul", {x, w})});
  const TrainingGraph training = build_training_graph(std::move(builder).build(), {});
  CHECK(training.graph[training.target].type.shape == Shape{2, 5});
}

TEST_CASE("globs freeze and train") {
  TrainingOptions options;
  options.freeze = {"fc.b*", "nothing*"};
  const TrainingGraph training = build_training_graph(linear_model(), options);
  CHECK(trained_names(training) == Names{"fc.weight"});
  CHECK(training.graph[training.graph.find("fc.bias")].role == TensorRole::Frozen);
  REQUIRE(training.warnings.size() == 1);
  CHECK_THAT(training.warnings[0], contains("nothing*"));
  options.train = {"fc.bias"};
  CHECK(trained_names(build_training_graph(linear_model(), options)) == Names{"fc.weight", "fc.bias"});
}

TEST_CASE("slots follow the optimizer and its hyperparameters") {
  const auto slots_of = [](const std::string& name, std::map<std::string, double> values) {
    TrainingOptions options;
    options.optimizer = {name, std::move(values)};
    const TrainingGraph training = build_training_graph(linear_model(), options);
    Names names;
    for (const TensorId slot : training.parameters[0].slots) {
      names.push_back(training.graph[slot].name);
      CHECK(training.graph[slot].role == TensorRole::Slot);
      CHECK(training.graph[slot].type == training.graph[training.parameters[0].value].type);
    }
    CHECK((training.step != TensorId::None) == (name.substr(0, 4) == "adam" || name == "nadam" || name == "lamb" || name == "novograd"));
    return names;
  };
  CHECK(slots_of("lion", {}) == Names{"fc.weight.exp_avg"});
  CHECK(slots_of("sgd", {}).empty());
  CHECK(slots_of("sgd", {{"momentum", 0.9}}) == Names{"fc.weight.momentum_buffer"});
  CHECK(slots_of("adam", {}) == Names{"fc.weight.exp_avg", "fc.weight.exp_avg_sq"});
  CHECK(slots_of("adamw", {}) == Names{"fc.weight.exp_avg", "fc.weight.exp_avg_sq"});
  CHECK(slots_of("rmsprop", {}) == Names{"fc.weight.square_avg"});
  CHECK(slots_of("rmsprop", {{"momentum", 0.5}}) == Names{"fc.weight.square_avg", "fc.weight.momentum_buffer"});
  CHECK(slots_of("adagrad", {}) == Names{"fc.weight.sum"});
  CHECK(slots_of("lars", {{"momentum", 0.9}}) == Names{"fc.weight.momentum_buffer"});
  CHECK(slots_of("lamb", {}) == Names{"fc.weight.exp_avg", "fc.weight.exp_avg_sq"});
}

namespace {

/// Of the n-th parameter: name and shape of every slot.
std::vector<std::pair<std::string, Shape>> shapes_of_slots(const TrainingGraph& training, std::size_t n) {
  std::vector<std::pair<std::string, Shape>> slots;
  for (const TensorId slot : training.parameters[n].slots) slots.emplace_back(training.graph[slot].name, training.graph[slot].type.shape);
  return slots;
}

TrainingGraph trained_by(const Graph& model, const std::string& optimizer) {
  TrainingOptions options = with_loss("mse");
  options.optimizer.name = optimizer;
  return build_training_graph(model, options);
}

using Slots = std::vector<std::pair<std::string, Shape>>;

}  // namespace

TEST_CASE("Adafactor keeps sums of rows and columns of what has two sides") {
  const auto training = trained_by(linear_model(), "adafactor");
  CHECK(shapes_of_slots(training, 0) == Slots{{"fc.weight.row_var", {3, 1}}, {"fc.weight.col_var", {1, 2}}});
  CHECK(shapes_of_slots(training, 1) == Slots{{"fc.bias.variance", {2}}});
  CHECK(training.step != TensorId::None);
}

TEST_CASE("schedule-free optimizers begin with z at the weights, whatever these are drawn from") {
  const auto training = trained_by(with_initial_values(linear_model()), "schedule-free-adamw");
  CHECK(shapes_of_slots(training, 0) == Slots{{"fc.weight.schedule_free.z", {3, 2}},
                                              {"fc.weight.exp_avg_sq", {3, 2}},
                                              {"fc.weight.weight_sum", {}},
                                              {"fc.weight.lr_max", {}}});
  const Graph& g = training.graph;
  const auto values = [&](const std::string& tensor) {
    const Tensor& t = g[g.find(tensor)];
    std::vector<float> numbers(6);
    read_into(t.contents, t.type.shape, t.type.dtype, {7, initial_stream(t.name)}, reinterpret_cast<std::byte*>(numbers.data()));
    return numbers;
  };
  CHECK(values("fc.weight.schedule_free.z") == values("fc.weight"));
  CHECK(values("fc.weight")[0] != values("fc.weight")[1]);
  CHECK_THROWS_WITH(completed({"schedule-free-sgd", {{"momentum", 0.0}}}), contains("momentum") && contains("between 0 and 1"));
}

TEST_CASE("Muon takes hidden matrices: no tables, no matrices that make outputs, no vectors") {
  GraphBuilder builder;
  const auto stored = [&](const char* name, Shape shape) {
    return builder.add_stored(name, {DType::F32, std::move(shape)}, TensorRole::Parameter, {});
  };
  const TensorId tokens = builder.add_input("tokens", {DType::I64, {4}}), table = stored("table", {10, 6}), inner = stored("inner", {6, 8}),
                 turned = stored("turned", {6, 8}), bias = stored("bias", {6}), head = stored("head", {6, 10}),
                 tied = stored("tied", {6, 6});
  TensorId x = builder.add("Gather", {table, tokens}).front();
  x = builder.add1("Tanh", {builder.add1("MatMul", {x, inner})});
  x = builder.add1("Add", {builder.add1("MatMul", {x, turned}, {{"trans_b", std::int64_t{1}}}), bias});
  x = builder.add1("Add", {builder.add1("MatMul", {x, tied}), x});  // a residual is no output of tied's product
  builder.set_outputs({builder.add1("Add", {builder.add1("MatMul", {x, head}), stored("head.bias", {10})})});
  const Graph model = std::move(builder).build();
  const auto uses = parameter_uses(model);
  const auto use = [&](const char* name) { return uses[index(model.find(name))]; };
  CHECK(!use("table").hidden_matrix);
  CHECK(!use("head").hidden_matrix);
  CHECK(!use("bias").hidden_matrix);
  CHECK(use("tied").hidden_matrix);
  CHECK((use("inner").hidden_matrix && !use("inner").outputs_are_rows && use("inner").rows == 6 && use("inner").columns == 8));
  CHECK((use("turned").hidden_matrix && use("turned").outputs_are_rows));
  const auto training = trained_by(model, "muon");
  std::map<std::string, std::string> updates;
  for (const auto& p : training.parameters) updates[training.graph[p.value].name] = schema(training.graph[p.update]).name;
  CHECK(updates == std::map<std::string, std::string>{{"table", "AdamUpdate"},
                                                      {"inner", "MuonUpdate"},
                                                      {"turned", "MuonUpdate"},
                                                      {"bias", "AdamUpdate"},
                                                      {"tied", "MuonUpdate"},
                                                      {"head", "AdamUpdate"},
                                                      {"head.bias", "AdamUpdate"}});
}

TEST_CASE("what an update takes is counted parameter by parameter") {
  const ParameterUse matrix{{4, 6}, true, 4, 6, false}, vector{{6}};
  const auto size = [](const char* optimizer, const ParameterUse& use) { return update_size(optimizer_row(optimizer), use); };
  CHECK(size("adamw", matrix).state == 48);
  CHECK(size("adamw", matrix).moved == 7 * 24);  // parameter, gradient, two moments; all but the gradient written
  CHECK(size("adamw", matrix).product_flops == 0);
  CHECK(size("sgd", matrix).moved == 5 * 24);  // parameter, gradient and momentum; all but the gradient written
  const auto plain = update_size(optimizer_row("sgd"), matrix, "momentum");
  CHECK(plain.state == 0);
  CHECK(plain.moved == 3 * 24);
  CHECK(size("lion", matrix).state == 24);
  CHECK(size("adafactor", matrix).state == 4 + 6);
  CHECK(size("adafactor", vector).state == 6);
  CHECK(size("schedule-free-sgd", matrix).state == 24 + 2);
  CHECK(size("muon", matrix).state == 24);
  CHECK(size("muon", vector).state == 12);
  // five times X X^T, its square, and their sum times X: 2 (4 4 6) + 2 (4 4 4) + 2 (4 4 6)
  CHECK(size("muon", matrix).product_flops == 5 * (192 + 128 + 192));
  CHECK(size("muon", vector).product_flops == 0);
  // The momentum, and of each side a factor and its root.
  CHECK(size("shampoo", matrix).state == 24 + 2 * (16 + 36));
  CHECK(size("shampoo", ParameterUse{{4, 1025}, true, 4, 1025, false}).state == 4 * 1025 + 2 * 16);
  CHECK(size("shampoo", ParameterUse{{1025, 6}, true, 1025, 6, false}).state == 1025 * 6 + 2 * 36);
  CHECK(size("shampoo", ParameterUse{{1025, 1025}, true, 1025, 1025, false}).state == 2 * 1025 * 1025);          // AdamW's
  CHECK(size("shampoo", ParameterUse{{2, 4, 6}, true, 4, 6, false}).state == 2 * (24 + 2 * (16 + 36)));          // two experts
  CHECK(size("shampoo", ParameterUse{{4, 2, 3, 1}, true, 4, 6, true, true, true}).state == 24 + 2 * (16 + 36));  // kernels of a convolution
  CHECK(size("shampoo", vector).state == 12);
  // Both moments, and of each side a factor and its basis.
  CHECK(size("soap", matrix).state == 2 * 24 + 2 * (16 + 36));
  CHECK(size("soap", ParameterUse{{4, 1025}, true, 4, 1025, false}).state == 2 * 4 * 1025 + 2 * 16);
  CHECK(size("soap", vector).state == 12);
  // Momentum, and of each side a factor and its inverse, where one product makes the gradient.
  CHECK(size("kfac", matrix).state == 24);
  CHECK(size("kfac", ParameterUse{{4, 6}, false, 4, 6, false, true}).state == 24 + 2 * (16 + 36));
  CHECK(size("kfac", ParameterUse{{4, 2, 3, 1}, true, 4, 6, true, true, true}).state == 24 + 2 * (16 + 36));
  CHECK(size("kfac", ParameterUse{{2, 4, 6}, true, 4, 6, false, true}).state == 48);           // experts
  CHECK(size("kfac", ParameterUse{{4609, 6}, true, 4609, 6, false, true}).state == 6 * 4609);  // too long
}

TEST_CASE("factors of K-FAC are made beside the gradient whose operands they read") {
  // Behind the whole backward pass, all activations would wait for them.
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", {DType::F32, {4, 3}});
  TensorId h = x;
  for (const char* name : {"a", "b", "c"})
    h = builder.add1("Relu", {builder.add1("MatMul", {h, builder.add_stored(name, {DType::F32, {3, 3}}, TensorRole::Parameter, {})})});
  builder.set_outputs({h});
  TrainingOptions options;
  options.loss = "mse";
  options.optimizer = {"kfac", {}};
  options.clip_norm = 1;
  const TrainingGraph training = build_training_graph(std::move(builder).build(), options);
  std::vector<std::string> products;
  const auto& nodes = training.graph.nodes();
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const bool is_gradient = std::ranges::any_of(
        training.parameters, [&](const TrainedParameter& p) { return training.graph[p.gradient].producer == static_cast<NodeId>(n); });
    if (is_gradient) {
      products.push_back(training.graph[nodes[n].outputs[0]].name);
      for (std::size_t next = n + 1; next <= n + 2; ++next) {
        REQUIRE(next < nodes.size());
        CHECK(schema(nodes[next]).name == "OuterProducts");
      }
    }
  }
  CHECK(products == std::vector<std::string>{"c.grad", "b.grad", "a.grad"});
}

TEST_CASE("an input of other rows than the batch is warned of by name") {
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", {DType::F32, {4, 3}}), bias = builder.add_input("bias", {DType::F32, {1, 2}});
  const TensorId w = builder.add_stored("w", {DType::F32, {3, 2}}, TensorRole::Parameter, {});
  builder.set_outputs({builder.add1("Add", {builder.add1("MatMul", {x, w}), bias})});
  const auto training = build_training_graph(std::move(builder).build(), {});
  CHECK(training.batch == 4);
  CHECK(training.warnings == std::vector<std::string>{"input 'bias' has 1 rows where the batch is 4"});
  CHECK(build_training_graph(linear_model(), {}).warnings.empty());
}

TEST_CASE("the step counter starts at 1 and is stored over itself") {
  TrainingOptions options;
  options.optimizer.name = "adam";
  const TrainingGraph training = build_training_graph(linear_model(), options);
  REQUIRE(training.step != TensorId::None);
  CHECK(read_integers(training.graph[training.step].contents, {}) == std::vector<std::int64_t>{1});
  const auto& tensors = training.graph.tensors();
  CHECK(std::count_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.stored_in == training.step; }) == 1);
}

TEST_CASE("a step that is not finite does not count") {
  TrainingOptions options;
  options.optimizer.name = "adam";
  const TrainingGraph training = build_training_graph(linear_model(), options, {1024, true});
  const Graph& graph = training.graph;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.stored_in == TensorId::None || graph[tensor.stored_in].name.starts_with("loss_scale")) continue;
    INFO(tensor.name);
    // Where(finite, new, old): old is what the storage holds
    const Node& node = graph[tensor.producer];
    CHECK(schema(node).name == "Where");
    CHECK(node.inputs[2] == tensor.stored_in);
  }
}

TEST_CASE("hyperparameters are checked and completed") {
  CHECK(completed({"adamw", {{"lr", 0.5}}}).values ==
        std::map<std::string, double>{{"lr", 0.5}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.01}});
  CHECK_THROWS_WITH(completed({"sgd", {{"beta1", 0.9}}}), contains("beta1") && contains("momentum"));
  CHECK_THROWS_WITH(completed({"adams", {}}), contains("adams") && contains("adamw"));
  CHECK_THROWS_AS(completed({"sgd", {{"lr", -1.0}}}), BadInput);
  CHECK_THROWS_AS(completed({"adam", {{"beta2", 1.0}}}), BadInput);
}

TEST_CASE("a parameter without a path to the loss is not updated, with a warning") {
  GraphBuilder builder(linear_model());
  const TensorId spare = builder.add_stored("spare", {DType::F32, {2}}, TensorRole::Parameter, {});
  const TensorId aside = builder.add1("Exp", {spare});
  builder.set_outputs({builder.find("y"), aside});
  const TrainingGraph training = build_training_graph(std::move(builder).build(), with_loss("mse"));
  CHECK(trained_names(training) == Names{"fc.weight", "fc.bias"});
  REQUIRE(training.warnings.size() == 1);
  CHECK_THAT(training.warnings[0], contains("'spare'"));
}

TEST_CASE("the noise scale is measured beside the training, from gradients that nothing multiplies") {
  TrainingOptions options = with_loss("mse");
  const TrainingGraph plain = build_training_graph(linear_model(), options);
  options.noise_scale = true;
  const TrainingGraph measured = build_training_graph(linear_model(), options);
  CHECK(measured.hash() == plain.hash());
  CHECK(measured.graph.hash() != plain.graph.hash());
  CHECK(plain.unmeasured_hash.empty());
  CHECK_THROWS_AS(build_training_graph(linear_model(), options, LossScale{1, false}), Refusal);
}

TEST_CASE("a model of numbers alone has no batch") {
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", {DType::F32, {}}), w = builder.add_stored("w", {DType::F32, {}}, TensorRole::Parameter, {});
  builder.set_outputs({builder.add("Mul", {x, w}, {}, {"product", Phase::Forward, NodeId::None, {"my_loss"}}).front()});
  CHECK(build_training_graph(std::move(builder).build(), with_loss("my_loss")).batch == 0);
}

TEST_CASE("when nothing can be trained, the answer is no, with the reason") {
  TrainingOptions options;
  options.freeze = {"*"};
  CHECK_THROWS_AS(build_training_graph(linear_model(), options), Refusal);
  GraphBuilder builder;
  const TensorId w = builder.add_stored("w", {DType::F32, {2, 3}}, TensorRole::Parameter, {}),
                 labels = builder.add_input("labels", {DType::I64, {2}});
  const TensorId one = builder.add_constant("one", Value::scalar(1, DType::F64));
  builder.set_outputs({builder.add("CrossEntropyGrad", {w, labels, one}, {}, {"wall", Phase::Forward, NodeId::None, {}}).front()});
  CHECK_THROWS_WITH(build_training_graph(std::move(builder).build(), with_loss("mse")), contains("wall") && contains("second derivatives"));
}

TEST_CASE("losses that are not there are refused with what there is") {
  CHECK_THROWS_WITH(build_training_graph(linear_model(), with_loss("hinge")),
                    contains("hinge") && contains("cross-entropy") && contains("'y'"));
  CHECK_THROWS_WITH(build_training_graph(linear_model(), with_loss("y")), contains("[4,2]"));
  TrainingOptions options;
  options.target_name = "fc.weight";
  CHECK_THROWS_WITH(build_training_graph(linear_model(), options), contains("fc.weight"));
}

TEST_CASE("outputs of the model can be added to a loss") {
  const auto text = std::string("cross-entropy+0.25*my_loss+my_loss");
  const TrainingGraph training = build_training_graph(linear_model(true), with_loss(text));
  CHECK(training.graph[training.loss].type == TensorType{DType::F64, {}});
  CHECK(training.graph[training.loss].name == "loss");
  CHECK(training.target != TensorId::None);
  for (const char* wrong : {"cross-entropy+x*my_loss", "cross-entropy+", "none+my_loss", "cross-entropy+2*hinge"})
    CHECK_THROWS_AS(build_training_graph(linear_model(true), with_loss(wrong)), BadInput);
}

TEST_CASE("loss none gives the forward pass alone") {
  CHECK(build_training_graph(linear_model(), with_loss("None")).loss == TensorId::None);
  const TrainingGraph training = build_training_graph(linear_model(), with_loss("none"));
  CHECK(training.loss == TensorId::None);
  CHECK(training.parameters.empty());
  CHECK(std::all_of(training.graph.nodes().begin(), training.graph.nodes().end(), [](const Node& n) { return n.phase == Phase::Forward; }));
}

TEST_CASE("dropout is left out on request") {
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", {DType::F32, {4, 2}}),
                 w = builder.add_stored("w", {DType::F32, {2}}, TensorRole::Parameter, {});
  const auto dropped = [&](TensorId t, std::int64_t stream) { return builder.add1("Dropout", {t}, {{"ratio", 0.5}, {"stream", stream}}); };
  const TensorId twice = dropped(dropped(builder.add1("Mul", {x, w}), 0), 1);
  builder.set_outputs({dropped(builder.add1("Tanh", {twice}), 2)});
  const Graph model = std::move(builder).build();
  TrainingOptions options = with_loss("mse");
  const auto dropouts_of = [&] {
    std::vector<double> ratios;
    const TrainingGraph training = build_training_graph(model, options);
    for (const Node& node : training.graph.nodes()) {
      if (schema(node).name == "Dropout") ratios.push_back(node.attributes.number("ratio", -1));
    }
    return ratios;
  };
  CHECK(dropouts_of() == std::vector<double>{0.5, 0.5, 0.5});
  options.dropout = false;
  CHECK(dropouts_of() == std::vector<double>{0});  // the model's output is a result of Dropout: the node stays and keeps everything
}

TEST_CASE("a graph in f64 keeps integers, numbers and contents") {
  const TrainingGraph training = build_training_graph(linear_model(true), {});
  const Graph wide = with_float_type(training.graph, DType::F64);
  REQUIRE(wide.tensors().size() == training.graph.tensors().size());
  for (std::size_t t = 0; t < wide.tensors().size(); ++t) {
    CHECK(wide.tensors()[t].name == training.graph.tensors()[t].name);
    CHECK(wide.tensors()[t].type.dtype != DType::F32);
  }
  // every row still infers the types that stand in the graph
  for (const Node& node : wide.nodes()) {
    const NodeTypes types(wide, node);
    const NodeView view = types.view();
    const auto inferred = schema(node).infer({view.inputs, {}, node.attributes});
    for (std::size_t i = 0; i < node.outputs.size(); ++i) CHECK(inferred[i] == view.output(i));
  }
}

TEST_CASE("parameters without values get them by what reads them") {
  const Graph graph = with_initial_values(linear_model());
  const auto& weight = graph[graph.find("fc.weight")].contents;
  REQUIRE(std::holds_alternative<RandomNormal>(weight.source));
  CHECK(std::get<RandomNormal>(weight.source).deviation == Approx(std::sqrt(2.0 / 3.0)));  // fan-in 3
  REQUIRE(std::holds_alternative<Fill>(graph[graph.find("fc.bias")].contents.source));
  CHECK(std::get<Fill>(graph[graph.find("fc.bias")].contents.source).value == 0);
  CHECK(initial_stream("a") != initial_stream("b"));
}
