#include "tests/exec/property/models.hpp"

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "tests/exec/property/layer_rows.hpp"

namespace rehearsal::property {
namespace {

constexpr std::int64_t kMostElements = 4000;  // of a sample: cases are small, there are many of them

const LayerRow* find_layer(const std::string& name) {
  for (auto table : {feature_layers(), sequence_layers(), image_layers()})
    for (const auto& row : table)
      if (row.name == name) return &row;
  return nullptr;
}

struct Begun {
  TensorId x = TensorId::None, table = TensorId::None;
};

Begun begin(Layers& layers, const Word& input, std::int64_t batch) {
  const auto& n = input.numbers;
  if (input.name == "tok") {
    const auto table = layers.parameter("embedding.weight", {n[1], n[2]});
    return {layers.node("embedding", "Gather", {table, layers.indices("input", {batch, n[0]})}, {{"axis", std::int64_t{0}}}), table};
  }
  Shape shape{batch};
  if (input.name == "nhwc") {  // an image with its channels last, as Keras has it
    const auto image = layers.input("input", {batch, n[1], n[2], n[0]});
    return {layers.transpose("channels", image, {0, 3, 1, 2}), TensorId::None};
  }
  shape.insert(shape.end(), n.begin(), n.end());
  return {layers.input("input", shape), TensorId::None};
}

TensorId end(const Site& s, const Word& head) {
  auto& l = s.layers;
  const auto rank = s.shape().size();
  const auto classes = head.numbers.empty() ? std::int64_t{3} : head.numbers[0];
  if (head.name == "own") {
    Shape all;
    for (std::size_t d = 0; d < rank; ++d) all.push_back(static_cast<std::int64_t>(d));
    return l.node("sum", "ReduceSum", {l.multiply("square", s.x, s.x)}, {{"axes", all}, {"keepdims", std::int64_t{0}}, {"scale", 0.01}});
  }
  if (head.name == "shared" && s.table != TensorId::None && l.shape(s.table)[1] == s.shape().back())
    return l.matmul("head", s.x, l.transpose("table", s.table, {1, 0}));
  if (rank == 4) return l.conv("head", s.x, classes, {1, 1, 0}, true);
  return dense_or_linear(l, "head", s.x, classes);
}

Word random_input(Draws& d) {
  switch (d.between(0, 4)) {
    case 0:
      return {"vec", {d.between(4, 14)}};
    case 1:
      return {"seq", {d.between(2, 7), d.between(4, 12)}};
    case 2:
    case 3:
      return {"tok", {d.between(2, 7), d.between(7, 24), d.between(4, 12)}};
    default:
      return {d.between(0, 2) == 0 ? "nhwc" : "img", {d.between(1, 4), d.between(4, 11), d.between(4, 11)}};
  }
}

Word random_head(Draws& d) {
  static const std::vector<std::string> kHeads{"class", "class", "shared", "mse", "l1", "huber", "bce", "dice", "own"};
  return {d.one_of(kHeads), {d.between(2, 13)}};
}

}  // namespace

std::vector<Word> words_of(const std::string& text) {
  std::vector<Word> words;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, '+');) {
    std::istringstream inner(part);
    Word word;
    std::getline(inner, word.name, '.');
    for (std::string number; std::getline(inner, number, '.');) word.numbers.push_back(std::stoll(number));
    words.push_back(std::move(word));
  }
  return words;
}

std::string to_text(const Word& word) {
  std::string text = word.name;
  for (const auto n : word.numbers) text += "." + std::to_string(n);
  return text;
}

graph::Graph build_model(const std::string& text, std::int64_t batch) {
  const auto words = words_of(text);
  Layers layers;
  auto [x, table] = begin(layers, words.front(), batch);
  for (std::size_t n = 1; n + 1 < words.size(); ++n) {
    const auto* row = find_layer(words[n].name);
    if (row == nullptr) throw BadInput("model " + text, "there is no layer " + words[n].name);
    const auto shape = layers.shape(x);
    if (graph::element_count(shape) > kMostElements * batch || !row->fits(shape, words[n].numbers)) continue;
    x = row->add({layers, words[n].name + std::to_string(n), x, words[n].numbers, table});
  }
  const auto result = end({layers, "head", x, {}, table}, words.back());
  return std::move(layers).finish(result, words.back().name == "own" ? "loss" : "output");
}

std::string loss_of(const std::string& text) {
  const auto head = words_of(text).back().name;
  if (head == "class" || head == "shared") return "cross-entropy";
  return head == "own" ? "loss" : head;
}

std::string random_model(Draws& d, std::int64_t length) {
  std::vector<LayerRow> rows;
  for (auto table : {feature_layers(), sequence_layers(), image_layers()}) rows.insert(rows.end(), table.begin(), table.end());
  const auto input = random_input(d);
  auto text = to_text(input);
  for (std::int64_t n = 0; n < length;) {
    const auto shape_now = [&] {
      Layers layers;
      auto [x, table] = begin(layers, input, 1);
      const auto words = words_of(text);
      for (std::size_t w = 1; w < words.size(); ++w)
        x = find_layer(words[w].name)->add({layers, words[w].name + std::to_string(w), x, words[w].numbers, table});
      return layers.shape(x);
    }();
    if (graph::element_count(shape_now) > kMostElements) break;
    const auto& row = d.one_of(rows);
    if (!row.fits(shape_now, {})) continue;
    const auto numbers = row.draw(d, shape_now);
    if (!row.fits(shape_now, numbers)) continue;
    text += "+" + to_text({std::string(row.name), numbers});
    ++n;
  }
  return text + "+" + to_text(random_head(d));
}

}  // namespace rehearsal::property
