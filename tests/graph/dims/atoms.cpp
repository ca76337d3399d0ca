// Unifying, cutting and slicing dimensions, each case by hand.

#include "graph/dims/atoms.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "tests/catch.hpp"

using namespace rehearsal::graph;

namespace {

std::vector<std::int64_t> sizes(const Atoms& atoms, const Factors& dimension) {
  std::vector<std::int64_t> out;
  for (const AtomId a : atoms.leaves(dimension)) out.push_back(atoms.size(a));
  return out;
}

using Sizes = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a dimension of size 1 has no factors") {
  Atoms atoms;
  CHECK(atoms.fresh(1).empty());
  CHECK(atoms.size(Factors{}) == 1);
  CHECK(atoms.unify(atoms.fresh(1), atoms.fresh(1)));
}

TEST_CASE("unifying leaves of one size makes them one") {
  Atoms atoms;
  const Factors a = atoms.fresh(6), b = atoms.fresh(6), c = atoms.fresh(6);
  CHECK(atoms.unify(a, b));
  CHECK(atoms.find(a[0]) == atoms.find(b[0]));
  CHECK(atoms.find(a[0]) != atoms.find(c[0]));
  CHECK_FALSE(atoms.unify(a, atoms.fresh(5)));
}

TEST_CASE("unifying 12 with [3, 4] splits the 12, everywhere") {
  Atoms atoms;
  const Factors whole = atoms.fresh(12), outer = atoms.fresh(3), inner = atoms.fresh(4), elsewhere(whole.begin(), whole.end());
  CHECK(atoms.unify(whole, {outer[0], inner[0]}));
  CHECK(atoms.leaves(elsewhere) == Factors{atoms.find(outer[0]), atoms.find(inner[0])});
}

TEST_CASE("[2, 6] and [6, 2] have no common refinement beyond what divides") {
  // 2 against 6 splits 6 = 2 x 3; then 6 against 3 splits 6 = 3 x 2; then 2 against 2: [2, 3, 2].
  Atoms atoms;
  const Factors x = {atoms.fresh(2)[0], atoms.fresh(6)[0]}, y = {atoms.fresh(6)[0], atoms.fresh(2)[0]};
  CHECK(atoms.unify(x, y));
  CHECK(sizes(atoms, x) == Sizes{2, 3, 2});
  CHECK(atoms.leaves(x) == atoms.leaves(y));
}

TEST_CASE("[8, 7] does not align with [7, 8]") {
  Atoms atoms;
  const Factors x = {atoms.fresh(8)[0], atoms.fresh(7)[0]}, y = {atoms.fresh(7)[0], atoms.fresh(8)[0]};
  CHECK_FALSE(atoms.unify(x, y));
}

TEST_CASE("cutting distributes leaves and splits where the target divides") {
  Atoms atoms;
  const Factors batch = atoms.fresh(6), rows = atoms.fresh(10);
  const Factors flat = {batch[0], rows[0]};
  const auto back = atoms.cut(flat, Sizes{6, 5, 2});
  REQUIRE(back);
  CHECK((*back)[0] == batch);
  CHECK(sizes(atoms, (*back)[1]) == Sizes{5});
  CHECK(sizes(atoms, flat) == Sizes{6, 5, 2});
  CHECK_FALSE(atoms.cut(atoms.fresh(6), Sizes{4, 2}).has_value());  // 4 does not divide 6
  const auto ones = atoms.cut(batch, Sizes{1, 6, 1});
  REQUIRE(ones);
  CHECK((*ones)[0].empty());
  CHECK((*ones)[1] == batch);
}

TEST_CASE("slicing a leaf makes it a sum of segments") {
  Atoms atoms;
  const Factors qkv = atoms.fresh(12);
  const auto q = atoms.segment(qkv, 0, 4), k = atoms.segment(qkv, 4, 8), v = atoms.segment(qkv, 8, 12);
  REQUIRE((q && k && v));
  CHECK(atoms.is_sum(qkv[0]));
  CHECK(atoms.segments(qkv[0]).size() == 3);
  const auto first_two = atoms.segment(qkv, 0, 8);
  REQUIRE(first_two);
  CHECK(atoms.size(*first_two) == 8);
  CHECK_FALSE(atoms.segment({atoms.fresh(3)[0], atoms.fresh(4)[0]}, 0, 6).has_value());  // cuts through the inner 4
}

TEST_CASE("a piece of nothing cuts nothing") {
  Atoms atoms;
  const Factors whole = atoms.fresh(12);
  CHECK_FALSE(atoms.segment(whole, 4, 4).has_value());
  CHECK_FALSE(atoms.segment(whole, 8, 4).has_value());
  CHECK_FALSE(atoms.is_sum(whole[0]));
  CHECK_FALSE(atoms.segment(Factors{}, 0, 0).has_value());  // of one element, too
  CHECK(atoms.segment(whole, 0, 12) == whole);
}

TEST_CASE("a sum can be split by what stands in every segment") {
  // q|k|v of 3 x 8, each 8 = 2 heads x 4: splitting by heads takes one head of q, of k and of v.
  Atoms atoms;
  const Factors qkv = atoms.fresh(24), heads = atoms.fresh(2);
  for (int i = 0; i < 3; ++i) {
    const auto part = atoms.segment(qkv, 8 * i, 8 * i + 8);
    REQUIRE(part);
    CHECK(atoms.unify(*part, {heads[0], atoms.fresh(4)[0]}));
  }
  const std::vector<AtomId> splits = atoms.splits_of(qkv[0]);
  CHECK(splits == std::vector<AtomId>{atoms.find(heads[0]), qkv[0]});  // by heads, or as one contiguous block
}

TEST_CASE("an atom that stands twice in a segment does not split the sum") {
  Atoms atoms;
  const Factors a = atoms.fresh(3);
  const Factors sum = atoms.join({{a[0], a[0]}, a});
  CHECK(atoms.size(sum) == 12);
  CHECK(atoms.splits_of(sum[0]) == std::vector<AtomId>{sum[0]});
}

TEST_CASE("two sums are cut at the union of their boundaries") {
  // 4 + 8 against 6 + 6: boundaries 4, 6 -> segments 4, 2, 6.
  Atoms atoms;
  const Factors a = atoms.join({atoms.fresh(4), atoms.fresh(8)}), b = atoms.join({atoms.fresh(6), atoms.fresh(6)});
  CHECK(atoms.unify(a, b));
  CHECK(atoms.find(a[0]) == atoms.find(b[0]));
  Sizes lengths;
  for (const Factors& s : atoms.segments(a[0])) lengths.push_back(atoms.size(s));
  CHECK(lengths.size() >= 2);
  const auto piece = atoms.segment(b, 4, 6);
  REQUIRE(piece);
  CHECK(atoms.size(*piece) == 2);
}

TEST_CASE("a product against a sum pushes the inner factor into every segment") {
  // (6 + 12) = 9 x 2: every segment divides by 2, so 2 is common: (3 + 6) x 2.
  Atoms atoms;
  const Factors sum = atoms.join({atoms.fresh(6), atoms.fresh(12)}), outer = atoms.fresh(9), inner = atoms.fresh(2);
  CHECK(atoms.unify(sum, {outer[0], inner[0]}));
  CHECK(sizes(atoms, sum) == Sizes{9, 2});
  CHECK(atoms.leaves(sum)[1] == atoms.find(inner[0]));
  // (5 + 13) does not divide by 2.
  CHECK_FALSE(atoms.unify(atoms.join({atoms.fresh(5), atoms.fresh(13)}), {atoms.fresh(9)[0], atoms.fresh(2)[0]}));
}

TEST_CASE("image rows never merge with a concatenation") {
  Atoms atoms;
  const Factors rows = atoms.fresh(8), sum = atoms.join({atoms.fresh(3), atoms.fresh(5)});
  atoms.mark_window(rows[0]);
  CHECK_FALSE(atoms.unify(rows, sum));
  CHECK_FALSE(atoms.segment(rows, 0, 3).has_value());
}

TEST_CASE("families join the outer factor and other resolutions") {
  Atoms atoms;
  const Factors rows = atoms.fresh(8), half = atoms.fresh(4);
  atoms.relate(rows[0], half[0]);
  CHECK(atoms.family(rows[0]) == atoms.family(half[0]));
  const auto parts = atoms.cut(rows, Sizes{2, 4});
  REQUIRE(parts);
  CHECK(atoms.family((*parts)[0][0]) == atoms.family(half[0]));
  CHECK(atoms.family((*parts)[1][0]) != atoms.family(half[0]));
}

TEST_CASE("uniting members of one family leaves a family") {
  for (const bool first_stands : {true, false}) {
    INFO((first_stands ? "a and b" : "b and a"));
    Atoms atoms;
    const Factors a = atoms.fresh(8), b = atoms.fresh(8), half = atoms.fresh(4);
    atoms.relate(a[0], half[0]);
    atoms.relate(half[0], b[0]);
    CHECK((first_stands ? atoms.unify(a, b) : atoms.unify(b, a)));
    CHECK(atoms.family(a[0]) == atoms.family(half[0]));
    CHECK(atoms.family(b[0]) == atoms.family(half[0]));
    CHECK(atoms.find(a[0]) == atoms.find(b[0]));
  }
}

TEST_CASE("families are those of the relations, in whatever order atoms are united") {
  // c belongs to b, b to a; then b and c become one atom: from c the family was reached through b.
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    Atoms atoms;
    std::vector<AtomId> all;
    std::vector<int> family;
    for (int n = 0; n < 7; ++n) all.push_back(atoms.fresh(8)[0]), family.push_back(n);
    for (std::uint64_t step = 0; step < 12; ++step) {
      const auto pick = [&](std::uint64_t stream, std::size_t of) {
        return static_cast<std::size_t>(rehearsal::random_bits(seed, stream, step) % of);
      };
      const auto a = pick(0, all.size()), b = pick(1, all.size());
      if (pick(2, 2) == 0)
        atoms.relate(all[a], all[b]);
      else
        CHECK(atoms.unify({all[a]}, {all[b]}));
      std::ranges::replace(family, int{family[b]}, int{family[a]});
      for (std::size_t x = 0; x < all.size(); ++x)
        for (std::size_t y = 0; y < x; ++y) CHECK((atoms.family(all[x]) == atoms.family(all[y])) == (family[x] == family[y]));
    }
  }
}

TEST_CASE("empty dimensions stay opaque") {
  Atoms atoms;
  const Factors none = atoms.fresh(0);
  CHECK(atoms.size(none) == 0);
  CHECK_FALSE(atoms.cut(none, Sizes{0, 3}).has_value());
  CHECK(atoms.unify(none, atoms.fresh(0)));
}
