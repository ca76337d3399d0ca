// Which blocks of keys a ring need not pass on, since a constant mask hides all of them from a rank's rows: every pair is looked at here.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/plan/sharding/attention_model.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using graph::TensorId;
using test_model = rehearsal::plan::test::AttentionModel;

namespace {

using Shown = std::function<bool(std::int64_t row, std::int64_t key)>;

/// [coordinate * blocks + block] where no row of the coordinate sees a key of the block; empty: nothing is hidden so, or a row sees
/// nothing.
std::vector<bool> hidden_blocks(std::int64_t rows, std::int64_t blocks, const Shown& shown) {
  std::vector<bool> seen(static_cast<std::size_t>(blocks * blocks), false), row_sees(static_cast<std::size_t>(rows), false);
  for (std::int64_t c = 0; c < blocks; ++c)
    for (std::int64_t b = 0; b < blocks; ++b)
      for (std::int64_t r = block(rows, blocks, c).begin; r < block(rows, blocks, c).end; ++r)
        for (std::int64_t k = block(rows, blocks, b).begin; k < block(rows, blocks, b).end; ++k)
          if (shown(r, k)) seen[static_cast<std::size_t>(c * blocks + b)] = row_sees[static_cast<std::size_t>(r)] = true;
  const bool all = std::ranges::all_of(seen, [](bool b) { return b; });
  if (all || !std::ranges::all_of(row_sees, [](bool b) { return b; })) return {};
  seen.flip();
  return seen;
}

using Masked = std::function<TensorId(test_model&, TensorId scores)>;

std::vector<bool> found(std::int64_t rows, std::int64_t ranks, const Masked& mask) {
  test_model m(rows);
  const auto weights = m.softmax(mask(m, m.scores()));
  const auto result = m.mixed(weights);
  const auto s = rehearsal::plan::test::sharded(std::move(m).trained(result), ("cp=" + std::to_string(ranks) + ",attention=ring").c_str());
  REQUIRE(s.rings.size() == 1);
  return s.rings.front().masked;
}

constexpr double kNever = -HUGE_VAL, kLow = -3e38;

/// Numbers of rows, or of keys, one after the other.
TensorId numbers_of(test_model& m, const char* name, bool of_rows, double first, double step) {
  return m.reals(name, of_rows ? graph::Shape{m.rows(), 1} : graph::Shape{m.rows()},
                 [&](std::int64_t i) { return first + step * static_cast<double>(i); });
}

bool compare(std::string_view op, double a, double b) {
  if (op == "Less") return a < b;
  if (op == "LessOrEqual") return a <= b;
  return op == "Greater" ? a > b : a >= b;
}

}  // namespace

TEST_CASE("what rows see by a table of flags, or of numbers that are added") {
  const std::vector<Shown> masks{[](auto row, auto key) { return key <= row; },
                                 [](auto row, auto key) { return key <= row && key > row - 3; },
                                 [](auto, auto key) { return key < 4; },
                                 [](auto row, auto key) { return (row < 6) == (key < 6); },
                                 [](auto row, auto) { return row != 5; },
                                 [](auto, auto) { return true; },
                                 [](auto row, auto key) { return key == 11 - row; }};
  for (std::size_t n = 0; n < masks.size(); ++n)
    for (const std::int64_t ranks : {2, 3, 5}) {
      INFO("mask " << n << ", " << ranks << " ranks");
      const auto expected = hidden_blocks(12, ranks, masks[n]);
      const auto& shown = masks[n];
      CHECK(found(12, ranks, [&](test_model& m, TensorId scores) {
              return m.node("seen", "Where", {m.flags("flags", shown), scores, m.number("low", kNever)});
            }) == expected);
      CHECK(found(12, ranks, [&](test_model& m, TensorId scores) {
              const auto hidden = m.flags("flags", [&](auto row, auto key) { return !shown(row, key); });
              return m.node("seen", "Where", {hidden, m.number("low", kLow), scores});
            }) == expected);
      CHECK(found(12, ranks, [&](test_model& m, TensorId scores) {
              const auto table = m.reals("table", {12, 12}, [&](std::int64_t i) { return shown(i / 12, i % 12) ? 0.25 : kNever; });
              return m.node("seen", "Add", {table, scores});
            }) == expected);
    }
}

TEST_CASE("what rows see by their numbers, compared with those of keys") {
  for (const char* op : {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    for (const bool rows_first : {true, false})
      for (const bool shown_where : {true, false})
        for (const double first_key : {-1.0, 0.0, 1.0}) {
          INFO(op << (rows_first ? " of rows and keys" : " of keys and rows") << (shown_where ? "" : " hides") << ", keys from "
                  << first_key);
          const auto shown = [&](auto row, auto key) {
            const auto r = static_cast<double>(row), k = first_key + static_cast<double>(key);
            return compare(op, rows_first ? r : k, rows_first ? k : r) == shown_where;
          };
          CHECK(found(10, 3, [&](test_model& m, TensorId scores) {
                  const auto rows = numbers_of(m, "rows", true, 0, 1), keys = numbers_of(m, "keys", false, first_key, 1);
                  const auto compared = m.node("compared", op, rows_first ? std::vector{rows, keys} : std::vector{keys, rows});
                  const auto low = m.number("low", kNever);
                  return m.node("seen", "Where", shown_where ? std::vector{compared, scores, low} : std::vector{compared, low, scores});
                }) == hidden_blocks(10, 3, shown));
        }
}

TEST_CASE("rows and keys that are too many for every pair are compared by the extremes of their blocks") {
  constexpr std::int64_t kRows = 4098, kRanks = 3;  // more than 2^24 pairs
  for (const char* op : {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    for (const bool rows_first : {true, false})
      for (const bool shown_where : {true, false})
        for (const double step : {1.0, -1.0})
          for (const double first_key : {-1.0, 0.0, 1.0}) {
            INFO(op << (rows_first ? " of rows and keys" : " of keys and rows") << (shown_where ? "" : " hides") << ", keys from "
                    << first_key << ", step " << step);
            // Numbers go up or down alike, so that of a block's keys the first or the last is the one that a row sees, if any.
            const auto sees = [&](std::int64_t row, std::int64_t key) {
              const double r = step * static_cast<double>(row), k = first_key + step * static_cast<double>(key);
              return compare(op, rows_first ? r : k, rows_first ? k : r) == shown_where;
            };
            std::vector<bool> hidden(kRanks * kRanks, true), row_sees(kRows, false);
            for (std::int64_t r = 0; r < kRows; ++r)
              for (std::int64_t b = 0; b < kRanks; ++b)
                if (sees(r, block(kRows, kRanks, b).begin) || sees(r, block(kRows, kRanks, b).end - 1))
                  hidden[static_cast<std::size_t>(r / (kRows / kRanks) * kRanks + b)] = false, row_sees[static_cast<std::size_t>(r)] = true;
            const bool told = std::ranges::all_of(row_sees, [](bool sees_any) { return sees_any; });
            CHECK(found(kRows, kRanks, [&](test_model& m, TensorId scores) {
                    const auto rows = numbers_of(m, "rows", true, 0, step), keys = numbers_of(m, "keys", false, first_key, step);
                    const auto compared = m.node("compared", op, rows_first ? std::vector{rows, keys} : std::vector{keys, rows});
                    const auto low = m.number("low", kNever);
                    return m.node("seen", "Where", shown_where ? std::vector{compared, scores, low} : std::vector{compared, low, scores});
                  }) == (told ? hidden : std::vector<bool>()));
          }
}

TEST_CASE("numbers of rows in any order, and steps between scores and softmax") {
  // Rows see the keys behind the half of their number; even rows come first.
  const auto row_number = [](std::int64_t row) { return row < 5 ? 2 * row : 2 * (row - 5) + 1; };
  const auto shown = [&](auto row, auto key) { return 2 * key > row_number(row); };
  const auto mask = [&](test_model& m, TensorId scores) {
    const auto rows = m.reals("rows", {10, 1}, [&](std::int64_t i) { return static_cast<double>(row_number(i)); });
    return m.node("seen", "Where",
                  {m.node("compared", "Less", {rows, numbers_of(m, "keys", false, 0, 2)}), scores, m.number("low", kNever)});
  };
  CHECK(found(10, 4, mask) == hidden_blocks(10, 4, shown));
  CHECK(found(10, 4, [&](test_model& m, TensorId scores) {
          return mask(m, m.node("scaled", "Mul", {scores, m.number("scale", 0.5)}));
        }) == hidden_blocks(10, 4, shown));
  // Behind the mask hidden scores are other numbers, and what nobody can know beforehand hides what it likes.
  CHECK(found(10, 4, [&](test_model& m, TensorId scores) { return m.node("bound", "Tanh", {mask(m, scores)}); }).empty());
  CHECK(found(10, 4, [&](test_model& m, TensorId scores) {
          return m.node("given", "Add", {mask(m, scores), m.layers().input("pairs", {2, 10, 10})});
        }).empty());
}

TEST_CASE("two masks together, a number that hides nothing, a bias") {
  const auto causal = [](test_model& m, TensorId scores) {
    return m.node("causal", "Where", {m.flags("flags", [](auto row, auto key) { return key <= row; }), scores, m.number("low", kNever)});
  };
  const auto expected = hidden_blocks(12, 3, [](auto row, auto key) { return key <= row; });
  CHECK(found(12, 3, [&](test_model& m, TensorId scores) {
          const auto bias = m.reals("bias", {12, 12}, [](std::int64_t i) { return 0.1 * static_cast<double>(i % 7); });
          return causal(m, m.node("biased", "Add", {scores, bias}));
        }) == expected);
  // A row might see nothing of both together.
  CHECK(found(12, 3, [&](test_model& m, TensorId scores) {
          const auto even = m.flags("even", [](auto, auto key) { return key % 2 == 0; });
          return m.node("second", "Where", {even, causal(m, scores), m.number("lowest", kNever)});
        }).empty());
  CHECK(found(12, 3, [&](test_model& m, TensorId scores) {
          return m.node("shown", "Where", {m.flags("flags", [](auto row, auto key) { return key <= row; }), scores, m.number("low", -2)});
        }).empty());
}
