// Of what kind a model is, as published runs are told apart.

#include "graph/adapters.hpp"
#include "graph/zoo/zoo.hpp"
#include "predict/frameworks/kind_of_model.hpp"
#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

namespace rehearsal::predict::frameworks {
namespace {

const std::string kSmall = "?layers=2&hidden=64&heads=2&seq=16&vocab=64";

FoldedModel folded(const std::string& zoo) { return {graph::zoo::build(zoo, 2), Grain::Blocks}; }

TEST_CASE("a model's kind follows from its operators") {
  CHECK(kind_of_model(folded("gpt" + kSmall)) == "decoder");
  CHECK(kind_of_model(folded("bert" + kSmall)) == "encoder");
  CHECK(kind_of_model(folded("resnet18?image=32")) == "image network");
  CHECK(kind_of_model(folded("vit?layers=2&hidden=64&heads=2&image=32")) == "image network with attention");
  CHECK(kind_of_model(folded("gnmt")) == "recurrent network");
  CHECK(kind_of_model(folded("moe?layers=2&hidden=64&heads=2&kv_heads=2&ffn=64&seq=16&vocab=64&experts=4")) == "decoder with experts");
  CHECK(kind_of_model(folded("nemotron3-nano")) == "decoder with state spaces and experts");
}

TEST_CASE("state-space layers convolve tokens, and are judged by transformers' runs") {
  const std::string hybrid = "zoo:hybrid?blocks=4&hidden=512&seq=256&vocab=32000&experts=8&top_k=2&batch=2";
  CHECK(sample::Sample(hybrid, platforms::load("dgx-h100"), "nemo").parts().time_group() == "transformer");
  CHECK(sample::Sample("zoo:resnet18?image=32&batch=2", platforms::load("dgx-h100"), "pytorch").parts().time_group() == "image");
}

TEST_CASE("weights that are not trained make another kind") {
  const auto adapted = graph::with_adapters(graph::zoo::build("gpt" + kSmall, 2), {4, 0, {}});
  CHECK(kind_of_model({adapted.graph, Grain::Blocks}) == "decoder with frozen weights");
}

TEST_CASE("all weights of a model are counted, of repeated blocks each") {
  // One layer of 64: 64 · 192 + 192 of queries, keys and values, 64 · 64 + 64 behind, 64 · 256 + 256 and 256 · 64 + 64 of its feed-forward
  // layer, twice 2 · 64 of its norms: 49,984.
  const auto with = [](const char* layers) {
    return parameters_of_model(folded(std::string("gpt?layers=") + layers + "&hidden=64&heads=2&seq=16&vocab=64"));
  };
  CHECK(with("5") - with("2") == 3 * 49984);
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
