// Bodies of GPU kernels that update, move and pick elements, in every floating-point type, on shapes that take more than one team, tile
// and pack: against the reference kernels in f64 on the same rounded operands, and the same bits in two runs.
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/compared.hpp"

namespace rehearsal::exec {
namespace {

using Integers = std::vector<std::int64_t>;
using Values = std::vector<double>;

/// Indices in [-size, size).
Array indices(graph::Shape shape, std::int64_t size, DType type = DType::I64) {
  Array array = Array::range(std::move(shape));
  for (double& v : array.values)
    v = std::floor((std::sin(v * 78.233) + 1) / 2 * 1.9999 * static_cast<double>(size)) - static_cast<double>(size);
  array.dtype = type;
  return array;
}

}  // namespace

TEST_CASE("optimizers step alike in every type, over more than a team and with a short last pack") {
  const graph::Shape shape{131, 67};  // 8777 elements: 2195 packs of f32, the last of one
  const Array p = numbers(shape, 1), g = numbers(shape, 2), first = numbers(shape, 3), second = positive(shape, 4);
  const Array step = scalar(3, DType::I64), p_square = scalar(12, DType::F64), g_square = scalar(5, DType::F64);
  const graph::Attributes decays{{"lr", 0.1}, {"weight_decay", 0.01}, {"momentum", 0.9}};
  compare({"SgdUpdate", decays, {p, g, step, first}});
  compare({"SgdUpdate", {{"lr", 0.1}}, {p, g, step}});
  compare({"SgdUpdate", {{"lr", 0.1}, {"momentum", 0.5}, {"nesterov", 1.0}}, {p, g, step, first}});
  compare({"AdamUpdate", decays, {p, g, step, first, second}});
  compare({"AdamUpdate", {{"lr", 0.1}, {"weight_decay", 0.5}, {"decoupled", 1.0}}, {p, g, step, first, second}});
  compare({"NadamUpdate", decays, {p, g, step, first, second}});
  compare({"RmspropUpdate", decays, {p, g, step, second, first}});
  compare({"AdagradUpdate", decays, {p, g, step, second}});
  compare({"LarsUpdate", decays, {p, g, p_square, g_square, first}});
  compare({"AdamUpdate", {{"lr", 0.1}, {"moments_from", std::int64_t{2}}}, {p, g, step, first, second}, {0, 2}});
  compare({"LambDirection", decays, {p, g, step, first, second}});
  compare({"LinearCombination", {{"alpha", 0.25}, {"beta", -2.0}}, {p, g}});
  compare({"LambUpdate", decays, {p, g, p_square, g_square}});
  compare({"LambUpdate", decays, {p, g, scalar(0, DType::F64), g_square}});
  compare({"NovogradUpdate", decays, {p, g, step, g_square, first, second}});
  compare({"NovogradUpdate", decays, {p, g, scalar(1, DType::I64), g_square, first, second}});
  compare({"AdamUpdate", decays, {Array{{0}, {}}, Array{{0}, {}}, step, Array{{0}, {}}, Array{{0}, {}}}});
}

TEST_CASE("optimizers read gradients of 16 bits, and f32 sums of such, beside parameters in f32, and round these") {
  const graph::Shape shape{131, 67};
  const Array p = numbers(shape, 1), first = numbers(shape, 3), second = positive(shape, 4), step = scalar(3, DType::I64);
  struct Types {
    DType gradient;
    bool rounds;
  };
  for (const DType narrow : {DType::BF16, DType::F16})
    for (const auto& [gradient, rounds] : {Types{narrow, false}, Types{narrow, true}, Types{DType::F32, true}}) {
      Array g = numbers(shape, 2);
      g.dtype = gradient;
      graph::Attributes decays{{"lr", 0.1}, {"weight_decay", 0.01}, {"momentum", 0.9}};
      if (rounds) decays.set("rounded_to", std::string(name(narrow)));
      compare_mixed({"SgdUpdate", decays, {p, g, step, first}});
      compare_mixed({"AdamUpdate", decays, {p, g, step, first, second}});
      compare_mixed({"NadamUpdate", decays, {p, g, step, first, second}});
      compare_mixed({"RmspropUpdate", decays, {p, g, step, second, first}});
      compare_mixed({"AdagradUpdate", decays, {p, g, step, second}});
      decays.set("momentum", 0.0);
      compare_mixed({"SgdUpdate", decays, {p, g, step}});
    }
}

TEST_CASE("updates of many tensors by one launch are those of each by itself") {
  // More than one launch has room for, of sizes from none to several teams, and of odd ones.
  const std::vector<std::int64_t> sizes{1, 3, 4096, 4097, 0, 9000, 64, 17, 5,  1024, 1,  2,  3, 4,
                                        5, 6, 7,    8,    9, 10,   11, 12, 13, 14,   15, 16, 33};
  for (const DType gradient : {DType::F32, DType::BF16})
    for (const std::string op : {"AdamUpdate", "SgdUpdate"}) {
      INFO(op << ", gradients in " << name(gradient));
      const bool rounds = gradient != DType::F32, adam = op == "AdamUpdate";
      std::vector<OneNode> nodes;
      for (std::size_t n = 0; n < sizes.size(); ++n) {
        const double seed = static_cast<double>(n) + 1;
        Array g = numbers({sizes[n]}, seed);
        g.dtype = gradient;
        graph::Attributes attributes{{"lr", 0.1 + 0.01 * seed}, {"momentum", 0.5}};
        if (rounds) attributes.set("rounded_to", std::string(name(gradient)));
        nodes.push_back({op, attributes, {numbers({sizes[n]}, 2 * seed), g, scalar(3, DType::I64), numbers({sizes[n]}, 3 * seed)}});
        if (adam) nodes.back().inputs.emplace_back(positive({sizes[n]}, seed));
      }
      const auto together = run_together(nodes, DType::F32);
      REQUIRE(together.size() == nodes.size());
      for (std::size_t n = 0; n < nodes.size(); ++n) {
        const auto alone = run(nodes[n], DType::F32);
        REQUIRE(together[n].size() == alone.size());
        for (std::size_t i = 0; i < alone.size(); ++i) CHECK(together[n][i].values == alone[i].values);
      }
    }
}

TEST_CASE("rows are picked by packs and by elements, and gradients of one row are added over pieces") {
  // 97 indices of 13 rows: most rows several times, in 4 pieces; runs that begin in one piece and end in a later one
  for (const std::int64_t inner : {16, 5}) {
    compare({"Gather", {}, {numbers({13, inner}), indices({97}, 13)}}, Accuracy::Exact);
    compare({"GatherGrad", {{"shape", Integers{13, inner}}}, {numbers({97, inner}), indices({97}, 13)}});
    compare({"GatherGrad", {{"shape", Integers{2, inner}}}, {numbers({300, inner}), indices({300}, 2)}});
  }
  compare({"Gather", {{"axis", std::int64_t{1}}}, {numbers({3, 7, 4}), indices({2, 5}, 7, DType::I32)}}, Accuracy::Exact);
  compare({"GatherGrad", {{"axis", std::int64_t{1}}, {"shape", Integers{3, 7, 4}}}, {numbers({3, 40, 4}), indices({40}, 7, DType::I32)}});
  // 1700 indices: 4 sorted runs, merged twice
  compare({"GatherGrad", {{"shape", Integers{1000, 3}}}, {numbers({1700, 3}), indices({1700}, 1000)}});
  compare({"GatherGrad", {{"shape", Integers{4, 3}}}, {Array{{0, 3}, {}}, Array{{0}, {}, DType::I64}}});
}

TEST_CASE("a block of a table answers for its rows only") {
  // rows 4 to 9 of 13
  const Block rows{{4, 0}, {13, 8}}, whole{{0, 0}, {97, 8}}, all{{0}, {97}};
  compare({"Gather", {}, {numbers({6, 8}), indices({97}, 13)}, {}, {rows, all}, {whole}}, Accuracy::Exact);
  compare({"GatherGrad", {{"shape", Integers{13, 8}}}, {numbers({97, 8}), indices({97}, 13)}, {}, {whole, all}, {rows}, {{6, 8}}});
  compare({"GatherElements", {}, {numbers({6, 8}), indices({97, 8}, 13)}, {}, {rows, whole}, {whole}}, Accuracy::Exact);
}

TEST_CASE("elements and slices at indices") {
  const Array at = indices({5, 11, 3}, 7);
  compare({"GatherElements", {{"axis", std::int64_t{0}}}, {numbers({7, 12, 4}), at}}, Accuracy::Exact);
  compare({"GatherElementsGrad", {{"shape", Integers{7, 12, 4}}}, {numbers({5, 11, 3}), at}});
  compare(
      {"GatherElementsGrad", {{"axis", std::int64_t{-1}}, {"shape", Integers{9, 11, 7}}}, {numbers({5, 11, 30}), indices({5, 11, 30}, 7)}});
  compare({"GatherND", {}, {numbers({7, 7, 9}), indices({4, 6, 2}, 7)}}, Accuracy::Exact);
  for (const char* reduction : {"none", "add", "mul", "max", "min"}) {
    const graph::Attributes by{{"reduction", std::string(reduction)}, {"axis", std::int64_t{1}}};
    compare({"ScatterElements", by, {numbers({4, 7, 9}), indices({4, 12, 8}, 7), numbers({4, 12, 8}, 2)}});
    compare({"ScatterND", {{"reduction", std::string(reduction)}}, {numbers({7, 7, 9}), indices({90, 2}, 7), numbers({90, 9}, 2)}});
  }
}

TEST_CASE("an index outside its dimension is found by every kernel that reads one") {
  const Array outside{{2}, {0, 4}, DType::I64}, below{{2, 1}, {0, -5}, DType::I64};
  CHECK_THROWS_WITH(run({"Gather", {}, {numbers({4, 3}), outside}}), "index 4 lies outside a dimension of size 4");
  CHECK_THROWS_AS(run({"GatherGrad", {{"shape", Integers{4, 3}}}, {numbers({2, 3}), outside}}), BadInput);
  CHECK_THROWS_WITH(run({"GatherElements", {}, {numbers({4, 1}), below}}), "index -5 lies outside a dimension of size 4");
  CHECK_THROWS_AS(run({"GatherElementsGrad", {{"shape", Integers{4, 1}}}, {numbers({2, 1}), below}}), BadInput);
  CHECK_THROWS_AS(run({"ScatterElements", {}, {numbers({4, 1}), below, numbers({2, 1})}}), BadInput);
  CHECK_THROWS_AS(run({"ScatterND", {}, {numbers({4, 3}), below, numbers({2, 3})}}), BadInput);
  CHECK_THROWS_AS(run({"GatherND", {}, {numbers({4, 3}), below}}), BadInput);
}

TEST_CASE("elements are moved by packs, by tiles and one by one") {
  const auto exact = [](const OneNode& node) { compare(node, Accuracy::Exact); };
  exact({"Reshape", {{"shape", Integers{7, 15}}}, {numbers({3, 5, 7})}});
  // the last dimension changes: tiles of 32 and 64, cut off at the end; [2, 70, 3, 33] has two more dimensions around them
  exact({"Transpose", {}, {numbers({130, 67})}});
  exact({"Transpose", {{"perm", Integers{2, 0, 3, 1}}}, {numbers({2, 70, 3, 33})}});
  exact({"Transpose", {}, {numbers({130, 3})}});                                     // too narrow for tiles
  exact({"Transpose", {{"perm", Integers{0, 2, 1, 3}}}, {numbers({2, 5, 3, 16})}});  // rows of whole packs
  exact({"Transpose", {{"perm", Integers{0, 2, 1, 3}}}, {numbers({2, 5, 3, 7})}});   // rows of no whole packs
  exact({"Expand", {{"shape", Integers{5, 3, 16}}}, {numbers({3, 1})}});
  exact({"Expand", {{"shape", Integers{5, 3, 16}}}, {numbers({3, 16})}});
  exact({"Tile", {{"repeats", Integers{2, 3}}}, {numbers({3, 8})}});
  exact({"Tile", {{"repeats", Integers{2, 3}}}, {numbers({3, 5})}});
  exact({"Slice", {{"starts", Integers{8}}, {"ends", Integers{24}}, {"axes", Integers{1}}}, {numbers({9, 40})}});
  exact({"Slice",
         {{"starts", Integers{30, 7}}, {"ends", Integers{3, 0}}, {"axes", Integers{1, 0}}, {"steps", Integers{-2, -1}}},
         {numbers({9, 40})}});
  exact({"SliceGrad",
         {{"starts", Integers{30}}, {"ends", Integers{3}}, {"axes", Integers{1}}, {"steps", Integers{-2}}, {"shape", Integers{9, 40}}},
         {numbers({9, 14})}});
  exact({"Split", {{"axis", std::int64_t{1}}, {"split", Integers{8, 3, 5}}}, {numbers({9, 16})}});
  exact({"Split", {{"axis", std::int64_t{0}}, {"split", Integers{2, 7}}}, {numbers({9, 16})}});
  exact({"Concat", {{"axis", std::int64_t{1}}}, {numbers({9, 8}), numbers({9, 3}, 2), numbers({9, 16}, 3)}});
  exact({"Roll", {{"axis", std::int64_t{1}}, {"shift", std::int64_t{-3}}}, {numbers({4, 9, 8})}});
  exact({"Roll", {{"axis", std::int64_t{0}}, {"shift", std::int64_t{0}}}, {numbers({4, 5})}});
  exact({"Trilu", {{"k", std::int64_t{-2}}}, {numbers({3, 21, 35})}});
  exact({"Trilu", {{"upper", std::int64_t{0}}}, {numbers({3, 21, 35})}});
  exact({"Transpose", {}, {Array{{0, 5}, {}}}});
}

TEST_CASE("slices and triangles of blocks lie where the whole one has them") {
  // columns 10 to 29 of 40; of the slice 4, 6, ... 38 columns 3 to 12, which are 10 to 28
  const Block whole{{0, 10}, {9, 40}}, piece{{0, 3}, {9, 18}};
  const graph::Attributes every_second{{"starts", Integers{4}}, {"ends", Integers{40}}, {"axes", Integers{1}}, {"steps", Integers{2}}};
  graph::Attributes back = every_second;
  back.set("shape", Integers{9, 40});
  compare({"Slice", every_second, {numbers({9, 20})}, {}, {whole}, {piece}, {{9, 10}}}, Accuracy::Exact);
  compare({"SliceGrad", back, {numbers({9, 10})}, {}, {piece}, {whole}, {{9, 20}}}, Accuracy::Exact);
  compare({"Trilu", {}, {numbers({9, 20})}, {}, {whole}, {whole}}, Accuracy::Exact);
}

TEST_CASE("constants and ranges in 16 bits") {
  for (const char* type : {"f16", "bf16", "f32", "i8", "bool"}) {
    const auto filled = run({"ConstantOfShape", {{"shape", Integers{37}}, {"value", 1.0}, {"dtype", std::string(type)}}, {}})[0];
    CHECK(filled.values == Values(37, 1.0));
  }
  for (const char* type : {"f16", "bf16", "f32", "i64"}) {
    const graph::Attributes odd{{"start", 3.0}, {"limit", 11.0}, {"delta", 2.0}, {"dtype", std::string(type)}};
    CHECK(run({"Range", odd, {}})[0].values == Values{3, 5, 7, 9});
  }
}

TEST_CASE("random numbers in every type are those of the reference") {
  const RunContext context{5, 7};
  const Block block{{1, 2, 1}, {4, 9, 21}};
  for (const char* op : {"Dropout", "DropoutGrad"}) {
    compare({op, {{"ratio", 0.3}, {"stream", std::int64_t{2}}}, {numbers({3, 7, 19})}, context});
    compare({op, {{"ratio", 0.3}, {"stream", std::int64_t{2}}}, {numbers({2, 3, 19})}, context, {block}, {block}});
  }
  for (const std::int64_t normal : {0, 1})
    compare({"Noise", {{"normal", normal}, {"stream", std::int64_t{3}}}, {}, context, {}, {block}, {{2, 3, 19}}});
}

TEST_CASE("rotation in every type, by tables with and without columns of their own") {
  for (const char* op : {"RotaryEmbedding", "RotaryEmbeddingGrad"}) {
    compare({op, {}, {numbers({2, 3, 5, 14}), numbers({5, 14}, 2), numbers({5, 14}, 3)}});
    compare({op, {}, {numbers({2, 3, 5, 14}), numbers({2, 1, 5, 14}, 2), numbers({5, 1}, 3)}});
  }
}

namespace {

/// Attention and its gradient, q [batch..., rows, depth], keys and values with batches of their own.
struct Attending {
  graph::Shape batch{2, 3}, key_batch{2, 3};
  std::int64_t rows = 70, keys = 133, depth = 20, width = 11;
  graph::Attributes attributes{};
  std::vector<std::optional<Array>> others{};
  bool keys_last = false;

  static Array matrix(graph::Shape batch, std::int64_t rows, std::int64_t columns, double seed) {
    batch.insert(batch.end(), {rows, columns});
    return numbers(std::move(batch), seed);
  }
  void compare_all(Accuracy accuracy = Accuracy::OfType) {
    if (keys_last) attributes.set("keys_last", std::int64_t{1});
    if (!attributes.has("steps")) attributes.set("steps", Integers{0, -1, 0}), attributes.set("numbers", Values{0.3});
    std::vector<std::optional<Array>> operands{matrix(batch, rows, depth, 1),
                                               keys_last ? matrix(key_batch, depth, keys, 2) : matrix(key_batch, keys, depth, 2),
                                               matrix(key_batch, keys, width, 3)};
    operands.insert(operands.end(), others.begin(), others.end());
    const RunContext context{3, 4};
    compare({"Attention", attributes, operands, context}, accuracy);
    operands.insert(operands.begin(), matrix(batch, rows, width, 4));
    compare({"AttentionGrad", attributes, operands, context}, accuracy);
  }
};

Array flags(graph::Shape shape, bool (*shown)(std::int64_t row, std::int64_t key)) {
  Array array{shape, {}, DType::Bool};
  const std::int64_t keys = shape.back(), rows = shape[shape.size() - 2];
  for (std::int64_t i = 0; i < graph::element_count(shape); ++i) array.values.push_back(shown(i / keys % rows, i % keys) ? 1 : 0);
  return array;
}

constexpr std::int64_t kScale = 0, kDivide = 1, kAdd = 2, kHideElse = 3, kHideWhere = 4;
const double kNever = -std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("attention over several tiles of rows, keys, depth and width") {
  Attending{}.compare_all();
  Attending{.batch = {2}, .key_batch = {2}, .rows = 5, .keys = 3, .depth = 4, .width = 6}.compare_all();
  Attending{.batch = {1}, .key_batch = {1}, .rows = 40, .keys = 50, .depth = 100, .width = 130}.compare_all();
  Attending{.keys_last = true}.compare_all();
}

TEST_CASE("several heads of queries share keys and values") { Attending{.batch = {2, 2, 3}, .key_batch = {2, 2, 1}}.compare_all(); }

TEST_CASE("scores are scaled, added to and hidden in order, and biases have gradients summed over what shares them") {
  Attending causal;
  causal.others = {flags({70, 133}, [](std::int64_t row, std::int64_t key) { return key <= row; }), numbers({3, 70, 133}, 5)};
  causal.attributes = {{"steps", Integers{kAdd, 1, 1, kDivide, -1, 0, kHideElse, 0, 0}}, {"numbers", Values{0, 2.5, -1e30}}};
  causal.compare_all();
  // broadcast along rows, keys, both; what is hidden has no gradient, so that those of a row's keys do not add up to 0
  for (const graph::Shape& shape : {graph::Shape{2, 1, 1, 133}, graph::Shape{3, 70, 1}, graph::Shape{1}, graph::Shape{2, 3, 70, 133}}) {
    Attending biased;
    biased.others = {numbers(shape, 5), flags({2, 1, 1, 133}, [](std::int64_t, std::int64_t key) { return key % 3 == 1; })};
    biased.attributes = {{"steps", Integers{kScale, -1, 0, kAdd, 0, 1, kHideWhere, 1, 0}}, {"numbers", Values{0.5, 0, 0.3}}};
    biased.compare_all();
  }
}

TEST_CASE("attention of sizes that libraries have kernels for") {
  const Attending square{.batch = {2, 4}, .key_batch = {2, 4}, .rows = 128, .keys = 128, .depth = 64, .width = 64};
  auto plain = square, transposed = square, grouped = square, causal = square, padded = square;
  plain.compare_all(Accuracy::OfWeights);
  transposed.keys_last = true;
  transposed.compare_all(Accuracy::OfWeights);
  grouped.batch = {2, 2, 2}, grouped.key_batch = {2, 2, 1};
  grouped.compare_all(Accuracy::OfWeights);
  causal.keys_last = true;
  causal.others = {flags({128, 128}, [](std::int64_t row, std::int64_t key) { return key <= row; })};
  causal.attributes = {{"steps", Integers{kScale, -1, 0, kHideElse, 0, 0}}, {"numbers", Values{0.125, -3.4028234663852886e38}}};
  causal.compare_all(Accuracy::OfWeights);
  causal.attributes.set("causal", std::int64_t{1});  // which libraries need no mask for
  causal.compare_all(Accuracy::OfWeights);
  // a bias of heads, and keys that a mask of each sample hides; of one sample all: its rows then see all alike
  padded.others = {numbers({4, 128, 128}, 5), flags({2, 1, 1, 128}, [](std::int64_t, std::int64_t key) { return key % 3 == 1; })};
  for (std::size_t i = 128; i < 256; ++i) padded.others[1]->values[i] = 1;
  padded.attributes = {{"steps", Integers{kAdd, 0, 0, kScale, -1, 0, kHideWhere, 1, 0}}, {"numbers", Values{0, 0.125, -1e35}}};
  padded.compare_all(Accuracy::OfWeights);
}

TEST_CASE("rows that see no key have no weights where attention is guarded") {
  const auto shown = [](std::int64_t row, std::int64_t key) { return row % 5 != 2 && key < row; };
  for (const std::int64_t guard : {1, 2}) {
    Attending guarded;
    guarded.others = {flags({70, 133}, shown)};
    guarded.attributes = {{"steps", Integers{kHideElse, 0, 0}}, {"numbers", Values{kNever}}, {"guarded", guard}};
    guarded.compare_all();
  }
}

TEST_CASE("attention drops the weights that the reference drops") {
  Attending dropping;
  dropping.attributes = {{"steps", Integers{}}, {"numbers", Values{}}, {"ratio", 0.4}, {"stream", std::int64_t{9}}};
  dropping.compare_all();
}

TEST_CASE("a block of attention drops its part of the weights") {
  const graph::Attributes attributes{{"steps", Integers{}}, {"numbers", Values{}}, {"ratio", 0.4}, {"stream", std::int64_t{9}}};
  const Block y{{1, 3, 0}, {4, 40, 6}}, q{{1, 3, 0}, {4, 40, 8}}, k{{1, 0, 0}, {4, 21, 8}}, v{{1, 0, 0}, {4, 21, 6}};
  const Array queries = numbers({2, 30, 8}, 1), keys = numbers({2, 21, 8}, 2), values = numbers({2, 21, 6}, 3);
  compare({"Attention", attributes, {queries, keys, values}, {3, 4}, {q, k, v}, {y}});
  compare({"AttentionGrad", attributes, {numbers({2, 30, 6}, 4), queries, keys, values}, {3, 4}, {y, q, k, v}, {q, k, v}});
}

TEST_CASE("images are resized and padded in every type, and their gradients") {
  const Array x = numbers({2, 3, 11, 14}), y = numbers({2, 3, 17, 9});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    graph::Attributes attributes{{"mode", std::string(mode)}, {"sizes", Integers{17, 9}}, {"shape", Integers{11, 14}}};
    compare({"Resize", attributes, {x}});
    compare({"ResizeGrad", attributes, {y}});
    if (mode == std::string("nearest")) continue;
    attributes.set("antialias", std::int64_t{1});
    compare({"Resize", attributes, {x}});
    compare({"ResizeGrad", attributes, {y}});
  }
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    const graph::Attributes attributes{
        {"mode", std::string(mode)}, {"pads", Integers{3, -2, 3, -3}}, {"value", 0.5}, {"shape", Integers{11, 14}}};
    compare({"Pad", attributes, {x}}, Accuracy::Exact);
    compare({"PadGrad", attributes, {y}});
  }
  // volumes, of which the first axis stays: 3 x 5 x 40, and a table of more taps than the arguments of a kernel hold
  compare({"Resize", {{"mode", std::string("linear")}, {"sizes", Integers{4, 5, 300}}}, {numbers({2, 3, 5, 40})}});
}

TEST_CASE("the largest elements of rows in every type, along every axis") {
  for (const std::int64_t axis : {-1, 0}) {
    for (const std::int64_t largest : {0, 1}) {
      const graph::Attributes attributes{{"k", std::int64_t{7}}, {"axis", axis}, {"largest", largest}};
      compare({"TopK", attributes, {numbers({9, 300})}}, Accuracy::Exact);
      Array ties = numbers({9, 40});
      for (double& v : ties.values) v = std::floor(v * 3);
      compare({"TopK", attributes, {ties}}, Accuracy::Exact);
    }
  }
}

TEST_CASE("determinants in every type, and their gradients") {
  Array x = positive({5000, 3, 3}, 1);  // more than threads; of sines in even steps, every three rows would depend on each other
  for (std::size_t i = 0; i < 9; ++i) x.values[i] = static_cast<double>(i % 3);  // one is singular
  compare({"Det", {}, {x}});
  compare({"DetGrad", {}, {numbers({5000}, 2), x}});
  Array large = numbers({6, 6});
  for (std::size_t i = 0; i < 6; ++i) large.values[7 * i] += 2;
  compare({"Det", {}, {large}});
}

}  // namespace rehearsal::exec
