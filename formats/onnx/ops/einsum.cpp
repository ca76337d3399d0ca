#include "formats/onnx/ops/einsum.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "base/join.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorId;

/// A tensor and one letter per dimension.
struct EinsumTerm {
  TensorId tensor = TensorId::None;
  std::string letters;
};

constexpr char kFirstEllipsis = '0';  ///< the dimensions of "..." are written '0', '1', ...

class Summation {
 public:
  Summation(NodeImport& node, const std::string& equation) : n_(node) { parse(equation); }

  TensorId run() {
    EinsumTerm left = terms_.front();
    if (terms_.size() == 1) left = without_summed(left, result_);
    for (std::size_t i = 1; i < terms_.size(); ++i) left = product(left, terms_[i], wanted_after(i));
    return permuted(left, result_).tensor;
  }

 private:
  void parse(const std::string& equation) {
    std::string text;
    for (const char c : equation) {
      if (std::isspace(static_cast<unsigned char>(c)) == 0) text.push_back(c);
    }
    const std::size_t arrow = text.find("->");
    const auto operands = split(text.substr(0, arrow), ',');
    for (std::size_t i = 0; i < n_.input_count(); ++i) {
      if (i >= operands.size()) n_.fail("the equation '" + equation + "' has fewer terms than operands");
      terms_.push_back(diagonal({n_.input(i), letters_of(operands[i], n_.rank(i))}));
      note_sizes(terms_.back());
    }
    if (n_.input_count() < operands.size()) n_.fail("the equation '" + equation + "' has more terms than operands");
    result_ = arrow == std::string::npos ? implicit_result() : letters_of(text.substr(arrow + 2), std::string::npos);
    for (const char c : result_) {
      if (!sizes_.contains(c)) n_.fail("the equation '" + equation + "' has a letter in its result that no operand has");
    }
  }

  /// A term's letters with "..." written out; for a result the dimensions that operands gave it.
  std::string letters_of(const std::string& term, std::size_t rank) {
    const std::size_t dots = term.find("...");
    std::string letters = term;
    if (dots != std::string::npos) {
      letters.erase(dots, 3);
      const std::size_t count = rank == std::string::npos ? ellipsis_ : rank - std::min(rank, letters.size());
      ellipsis_ = std::max(ellipsis_, count);
      std::string digits;
      for (std::size_t i = 0; i < count; ++i)
        digits.push_back(static_cast<char>(kFirstEllipsis + static_cast<char>(ellipsis_ - count + i)));
      letters.insert(dots, digits);
    }
    if (rank != std::string::npos && letters.size() != rank)
      n_.fail("the term '" + term + "' does not fit an operand of " + std::to_string(rank) + " dimensions");
    return letters;
  }

  /// Two dimensions of one letter become their diagonal: every (size + 1)th element of both together.
  EinsumTerm diagonal(EinsumTerm term) {
    for (std::size_t first = 0; first < term.letters.size(); ++first) {
      const std::size_t second = term.letters.find(term.letters[first], first + 1);
      if (second == std::string::npos) continue;
      Shape shape = n_.builder().type(term.tensor).shape, perm;
      const std::int64_t size = shape[first];
      if (shape[second] != size) n_.fail(std::string("the letter '") + term.letters[first] + "' has two sizes");
      for (std::size_t d = 0; d < shape.size(); ++d)
        if (d != first && d != second) perm.push_back(static_cast<std::int64_t>(d));
      Shape flat;
      std::string letters;
      for (const std::int64_t d : perm) {
        flat.push_back(shape[static_cast<std::size_t>(d)]);
        letters.push_back(term.letters[static_cast<std::size_t>(d)]);
      }
      perm.insert(perm.end(), {static_cast<std::int64_t>(first), static_cast<std::int64_t>(second)});
      flat.push_back(size * size);
      const TensorId joined = n_.reshape(n_.emit("Transpose", {term.tensor}, {{"perm", perm}}), flat);
      const auto last = static_cast<std::int64_t>(flat.size()) - 1;
      const TensorId picked = n_.emit(
          "Slice", {joined}, {{"starts", Shape{0}}, {"ends", Shape{size * size}}, {"axes", Shape{last}}, {"steps", Shape{size + 1}}});
      return diagonal({picked, letters + term.letters[first]});
    }
    return term;
  }

  void note_sizes(const EinsumTerm& term) {
    const Shape shape = n_.builder().type(term.tensor).shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto [known, fresh] = sizes_.emplace(term.letters[d], shape[d]);
      if (!fresh && known->second == 1) known->second = shape[d];
      if (known->second != shape[d] && shape[d] != 1) {
        n_.fail(std::string("the letter '") + term.letters[d] + "' has sizes " + std::to_string(known->second) + " and " +
                std::to_string(shape[d]));
      }
    }
  }

  std::string implicit_result() const {
    std::map<char, int> counts;
    for (const EinsumTerm& term : terms_) {
      for (const char c : term.letters) ++counts[c];
    }
    std::string result;
    for (const auto& [c, count] : counts) {
      if (count == 1 || std::isdigit(static_cast<unsigned char>(c)) != 0) result.push_back(c);
    }
    return result;
  }

  /// Letters that the result or a later operand needs.
  std::string wanted_after(std::size_t i) const {
    std::string wanted = result_;
    for (std::size_t k = i + 1; k < terms_.size(); ++k) wanted += terms_[k].letters;
    return wanted;
  }

  static bool in(const std::string& letters, char c) { return letters.find(c) != std::string::npos; }

  std::int64_t count(const std::string& letters) const {
    std::int64_t product = 1;
    for (const char c : letters) product *= sizes_.at(c);
    return product;
  }

  Shape shape(const std::string& letters) const {
    Shape sizes;
    for (const char c : letters) sizes.push_back(sizes_.at(c));
    return sizes;
  }

  EinsumTerm without_summed(EinsumTerm term, const std::string& wanted) {
    std::vector<std::int64_t> axes;
    std::string kept;
    for (std::size_t d = 0; d < term.letters.size(); ++d) {
      if (in(wanted, term.letters[d]))
        kept.push_back(term.letters[d]);
      else
        axes.push_back(static_cast<std::int64_t>(d));
    }
    if (axes.empty()) return term;
    return {n_.emit("ReduceSum", {term.tensor}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}), kept};
  }

  EinsumTerm permuted(const EinsumTerm& term, const std::string& letters) {
    if (term.letters == letters) return term;
    std::vector<std::int64_t> perm;
    for (const char c : letters) perm.push_back(static_cast<std::int64_t>(term.letters.find(c)));
    return {n_.emit("Transpose", {term.tensor}, {{"perm", perm}}), letters};
  }

  TensorId matrices(const EinsumTerm& term, const std::array<std::string, 3>& groups) {
    const EinsumTerm ordered = permuted(term, groups[0] + groups[1] + groups[2]);
    TensorId t = ordered.tensor;
    if (n_.builder().type(t).shape != shape(ordered.letters)) t = n_.emit("Expand", {t}, {{"shape", shape(ordered.letters)}});
    Shape flat = shape(groups[0]);
    flat.push_back(count(groups[1]));
    flat.push_back(count(groups[2]));
    return n_.builder().type(t).shape == flat ? t : n_.reshape(t, flat);
  }

  EinsumTerm product(EinsumTerm left, EinsumTerm right, const std::string& wanted) {
    left = without_summed(left, right.letters + wanted);
    right = without_summed(right, left.letters + wanted);
    std::string batch, rows, columns, inner;
    for (const char c : left.letters) (!in(right.letters, c) ? rows : in(wanted, c) ? batch : inner).push_back(c);
    for (const char c : right.letters) {
      if (!in(left.letters, c)) columns.push_back(c);
    }
    const TensorId a = matrices(left, {batch, rows, inner}), b = matrices(right, {batch, inner, columns});
    const std::string letters = batch + rows + columns;
    const TensorId c = n_.emit("MatMul", {a, b});
    return {n_.builder().type(c).shape == shape(letters) ? c : n_.reshape(c, shape(letters)), letters};
  }

  NodeImport& n_;
  std::vector<EinsumTerm> terms_;
  std::string result_;
  std::map<char, std::int64_t> sizes_;
  std::size_t ellipsis_ = 0;
};

}  // namespace

TensorId import_einsum(NodeImport& node, const std::string& equation) { return Summation(node, equation).run(); }

}  // namespace rehearsal::formats
