// What is found to be attention, written out: nodes that one kernel computes, blocks of keys that go round in a ring, and what stands in
// the way of each. REHEARSAL_WRITE_OUT=1 writes the files anew (docs/testing.md).
#include <cmath>
#include <sstream>

#include "plan/sharding/fusion.hpp"
#include "tests/plan/sharding/attention_model.hpp"
#include "tests/written_out.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using graph::NodeId;
using graph::TensorId;
using rehearsal::plan::test::sharded;
using forms_model = rehearsal::plan::test::AttentionModel;

namespace {

struct Form {
  const char* name;
  TensorId (*write)(forms_model&);  ///< the result of attention
};

constexpr double kHidden = -HUGE_VAL;
bool up_to_own(std::int64_t row, std::int64_t key) { return key <= row; }

TensorId hidden_else(forms_model& m, TensorId scores) {
  return m.node("masked", "Where", {m.flags("flags", up_to_own), scores, m.number("low", kHidden)});
}
TensorId plain(forms_model& m, TensorId scores) { return m.mixed(m.softmax(scores)); }
TensorId guarded(forms_model& m, TensorId weights, double filling = 0) {
  return m.node("guarded", "Where", {m.node("nan", "IsNaN", {weights}), m.number("zero", filling), weights});
}
TensorId largest_is_hidden(forms_model& m, TensorId scores) {
  const std::vector<std::int64_t> last{-1};
  const auto largest = m.node("largest", "ReduceMax", {scores}, {{"axes", last}, {"keepdims", std::int64_t{1}}});
  return m.node("hidden", "Equal", {largest, m.number("never", kHidden)});
}

const std::vector<Form> kForms{
    {"plain", [](forms_model& m) { return plain(m, m.scores()); }},
    {"keys as rows",
     [](forms_model& m) {
       return plain(m, m.node("scores", "MatMul", {m.q(), m.k()}, {{"trans_b", std::int64_t{1}}}));
     }},
    {"scaled by a number in front",
     [](forms_model& m) {
       return plain(m, m.node("scaled", "Mul", {m.number("scale", 0.5), m.scores()}));
     }},
    {"scaled by a number behind",
     [](forms_model& m) {
       return plain(m, m.node("scaled", "Mul", {m.scores(), m.number("scale", 0.5)}));
     }},
    {"scaled by an attribute",
     [](forms_model& m) {
       return plain(m, m.node("scaled", "Scale", {m.scores()}, {{"factor", 0.25}}));
     }},
    {"divided",
     [](forms_model& m) {
       return plain(m, m.node("divided", "Div", {m.scores(), m.number("divisor", 4)}));
     }},
    {"a number divided by scores",
     [](forms_model& m) {
       return plain(m, m.node("divided", "Div", {m.number("one", 1), m.scores()}));
     }},
    {"hidden where flags are false", [](forms_model& m) { return plain(m, hidden_else(m, m.scores())); }},
    {"hidden where flags are true",
     [](forms_model& m) {
       return plain(m, m.node("masked", "Where", {m.flags("flags", up_to_own), m.number("low", -9), m.scores()}));
     }},
    {"scaled, hidden, and a table added",
     [](forms_model& m) {
       const auto table = m.reals("table", {6}, [](std::int64_t i) { return static_cast<double>(i); });
       return plain(m, m.node("added", "Add", {table, hidden_else(m, m.node("scaled", "Scale", {m.scores()}, {{"factor", 2.0}}))}));
     }},
    {"a learned bias of pairs",
     [](forms_model& m) {
       return plain(m, m.node("biased", "Add", {m.scores(), m.layers().parameter("bias", {6, 6})}));
     }},
    {"a learned bias of keys",
     [](forms_model& m) {
       return plain(m, m.node("biased", "Add", {m.layers().parameter("bias", {6}), m.scores()}));
     }},
    {"a bias of pairs and samples that is given",
     [](forms_model& m) {
       return plain(m, m.node("biased", "Add", {m.scores(), m.layers().input("pairs", {2, 6, 6})}));
     }},
    {"dropout", [](forms_model& m) { return m.mixed(m.layers().dropout("dropped", m.softmax(m.scores()), 0.25)); }},
    {"rows without numbers are nothing", [](forms_model& m) { return m.mixed(guarded(m, m.softmax(hidden_else(m, m.scores())))); }},
    {"rows without numbers are ones", [](forms_model& m) { return m.mixed(guarded(m, m.softmax(m.scores()), 1)); }},
    {"dropout behind a guard",
     [](forms_model& m) { return m.mixed(m.layers().dropout("dropped", guarded(m, m.softmax(m.scores())), 0.25)); }},
    {"rows that are all hidden are nothing",
     [](forms_model& m) {
       const auto masked = hidden_else(m, m.scores());
       const auto hidden = largest_is_hidden(m, masked);
       const auto weights = m.softmax(m.node("instead", "Where", {hidden, m.number("none", 0), masked}));
       return m.mixed(m.node("kept", "Where", {hidden, m.number("zero", 0), weights}));
     }},
    {"rows whose other scores are hidden are nothing",
     [](forms_model& m) {
       const auto scores = m.scores();
       const auto hidden = largest_is_hidden(m, scores);
       const auto weights = m.softmax(m.node("instead", "Where", {hidden, m.number("none", 0), hidden_else(m, scores)}));
       return m.mixed(m.node("kept", "Where", {hidden, m.number("zero", 0), weights}));
     }},
    {"hidden rows behind the softmax alone",
     [](forms_model& m) {
       const auto scores = m.scores();
       return m.mixed(m.node("kept", "Where", {largest_is_hidden(m, scores), m.number("zero", 0), m.softmax(scores)}));
     }},
    {"values are keys",
     [](forms_model& m) {
       const auto k = m.k();
       return m.layers().matmul("mix", m.softmax(m.node("scores", "MatMul", {m.q(), k}, {{"trans_b", std::int64_t{1}}})), k);
     }},
    {"queries are keys",
     [](forms_model& m) {
       const auto k = m.k();
       return plain(m, m.node("scores", "MatMul", {k, k}, {{"trans_b", std::int64_t{1}}}));
     }},
    {"queries stored the other way round",
     [](forms_model& m) {
       const auto turned = m.layers().transpose("columns", m.q(), {0, 2, 1});
       return plain(m,
                    m.node("scores", "MatMul", {turned, m.layers().transpose("turned", m.k(), {0, 2, 1})}, {{"trans_a", std::int64_t{1}}}));
     }},
    {"a learned temperature",
     [](forms_model& m) {
       return plain(m, m.node("scaled", "Mul", {m.scores(), m.layers().parameter("temperature", {1})}));
     }},
    {"bounded scores", [](forms_model& m) { return plain(m, m.node("bounded", "Tanh", {m.scores()})); }},
    {"two products added",
     [](forms_model& m) {
       const auto q = m.q(), k = m.k();
       const auto scores = m.layers().matmul("scores", q, m.layers().transpose("turned", k, {0, 2, 1}));
       const auto places = m.layers().matmul("places", m.layers().dense("p", q, 6), m.layers().transpose("columns", k, {0, 2, 1}));
       return plain(m, m.node("both", "Add", {scores, places}));
     }},
    {"softmax along rows", [](forms_model& m) { return m.mixed(m.softmax(m.scores(), -2)); }},
    {"weights squared",
     [](forms_model& m) {
       const auto weights = m.softmax(m.scores());
       return m.mixed(m.node("squared", "Mul", {weights, weights}));
     }},
    {"weights scaled",
     [](forms_model& m) {
       return m.mixed(m.node("half", "Scale", {m.softmax(m.scores())}, {{"factor", 0.5}}));
     }},
    {"weights turned",
     [](forms_model& m) {
       return m.layers().matmul("mix", m.layers().transpose("turned weights", m.softmax(m.scores()), {0, 2, 1}), m.v());
     }},
    {"scores that something else reads",
     [](forms_model& m) {
       const auto scores = m.scores();
       return m.node("with", "Add", {plain(m, scores), scores});
     }},
    {"weights that something else reads",
     [](forms_model& m) {
       const auto weights = m.softmax(m.scores());
       return m.node("with", "Add", {m.mixed(weights), weights});
     }},
    {"no product behind", [](forms_model& m) { return m.softmax(m.scores()); }},
    {"no product before", [](forms_model& m) { return m.mixed(m.softmax(m.q())); }},
};

std::string names_of(const graph::Graph& g, const std::vector<NodeId>& nodes) {
  std::string text;
  for (const NodeId n : nodes) text += " " + g[n].name;
  return text;
}

std::string operands_of(const graph::Graph& g, const std::vector<Use>& uses) {
  std::string text;
  for (const Use& use : uses) text += " " + g[use.node].name + "." + std::to_string(use.operand);
  return text;
}

std::string kernel_text(const graph::Graph& g, const FusedAttention& fused) {
  std::string gradients;
  for (const TensorId t : fused.gradients) gradients += " " + (t == TensorId::None ? "-" : g[t].name);
  return "  forward" + names_of(g, fused.forward) + "\n    reads" + operands_of(g, fused.operands) + "\n  backward" +
         names_of(g, fused.backward) + "\n    reads" + operands_of(g, fused.backward_operands) + "\n    makes" + gradients + "\n  " +
         fused.attributes.to_text() + "\n";
}

std::string uses_text(const std::vector<KeyUse>& uses) {
  constexpr std::string_view kNames[] = {"whole", "inside", "passed", "cut"};
  std::string text;
  for (const KeyUse& use : uses)
    text += " " + std::string(kNames[static_cast<std::size_t>(use.role)]) + (use.dim < 0 ? "" : std::to_string(use.dim));
  return text;
}

std::string ring_text(const graph::Graph& g, const AttentionRing& ring) {
  std::ostringstream text;
  text << "  " << ring.keys << " keys, makes " << g[ring.result].name << " and learns from "
       << (ring.result_gradient == TensorId::None ? "nothing" : g[ring.result_gradient].name) << "\n";
  for (const auto* nodes : {&ring.forward, &ring.backward})
    for (const RingNode& n : *nodes)
      text << (nodes == &ring.forward ? "  forward " : "  backward ") << g[n.node].name << ":" << uses_text(n.operands) << " ->"
           << uses_text(n.results) << "\n";
  for (const bool masked : ring.masked) text << (masked ? "  hidden" : "  seen");
  return text.str() + (ring.masked.empty() ? "" : "\n");
}

/// Of every form what `look` says.
template <class Look>
std::string forms_text(const Look& look) {
  std::string text;
  for (const Form& form : kForms) {
    forms_model m(6);
    const TensorId result = form.write(m);
    text += std::string(form.name) + "\n" + look(std::move(m).trained(result));
  }
  return text;
}

std::string fused_text(const graph::TrainingGraph& t, const char* plan) {
  auto s = sharded(t, plan);
  fuse_attention(t, s);
  std::string text;
  for (const auto& fused : s.fused) text += kernel_text(t.graph, fused);
  for (const auto& n : s.not_fused) text += "  not " + t.graph[n.softmax].name + ": " + n.reason + "\n";
  return text.empty() ? "  no attention\n" : text;
}

void check_written(const char* file, const std::string& text) {
  rehearsal::test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/" + file + ".txt", text);
}

}  // namespace

TEST_CASE("attention that one kernel computes is what is written out") {
  check_written("attention-kernels", forms_text([](const auto& t) { return fused_text(t, "dp=2"); }));
}

TEST_CASE("attention is one kernel where it lies alike, whatever is split") {
  // Rows: as where samples are.
  for (const Form& form : kForms) {
    forms_model m(6);
    const TensorId result = form.write(m);
    const auto t = std::move(m).trained(result);
    INFO(form.name);
    CHECK(fused_text(t, "cp=2") == fused_text(t, "dp=2"));
  }
  // The features of queries and keys: scores are sums over ranks.
  check_written("attention-kernels-apart", forms_text([](const auto& t) { return fused_text(t, "tp=2"); }));
}

TEST_CASE("attention that is a ring is what is written out") {
  check_written("attention-rings", forms_text([](const auto& t) {
                  const auto s = sharded(t, "cp=2,attention=ring");
                  std::string text;
                  for (const auto& ring : s.rings) text += ring_text(t.graph, ring);
                  for (const auto& n : s.no_rings) text += "  not " + t.graph[n.softmax].name + ": " + n.reason + "\n";
                  return text.empty() ? "  no attention\n" : text;
                }));
}

TEST_CASE("attention is no kernel where a pipeline stage ends within it") {
  forms_model m(6);
  const TensorId result = plain(m, m.scores());
  const auto t = std::move(m).trained(result);
  auto s = sharded(t, "dp=2");
  fuse_attention(t, s);
  REQUIRE(s.fused.size() == 1);
  split_apart(t.graph, s, [&](NodeId a, NodeId b) { return t.graph[a].name == t.graph[b].name; });
  CHECK(s.fused.empty());
  CHECK(s.fused_of_node.empty());
  REQUIRE(s.not_fused.size() == 1);
  CHECK(s.not_fused.front().reason == "a pipeline stage ends within it");
}
