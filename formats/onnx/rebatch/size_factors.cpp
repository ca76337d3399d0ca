#include "formats/onnx/rebatch/size_factors.hpp"

#include <algorithm>

namespace rehearsal::formats {

SizeFactors constant_size(std::int64_t size) { return size == 1 ? SizeFactors{} : SizeFactors{{Factor::Kind::Constant, size, size}}; }

SizeLaw constant_law(const graph::Shape& shape) {
  SizeLaw law;
  for (const std::int64_t d : shape) law.push_back(constant_size(d));
  return law;
}

bool varies(const SizeFactors& factors) {
  return std::any_of(factors.begin(), factors.end(), [](const Factor& f) { return f.kind != Factor::Kind::Constant; });
}

bool varies(const SizeLaw& law) {
  return std::any_of(law.begin(), law.end(), [](const SizeFactors& factors) { return varies(factors); });
}

std::int64_t written_size(const SizeFactors& factors) {
  std::int64_t size = 1;
  for (const Factor& f : factors) size *= f.written;
  return size;
}

std::int64_t probed_size(const SizeFactors& factors) {
  std::int64_t size = 1;
  for (const Factor& f : factors) size *= f.probed;
  return size;
}

graph::Shape written_shape(const SizeLaw& law) {
  graph::Shape shape;
  for (const SizeFactors& factors : law) shape.push_back(written_size(factors));
  return shape;
}

graph::Shape probed_shape(const SizeLaw& law) {
  graph::Shape shape;
  for (const SizeFactors& factors : law) shape.push_back(probed_size(factors));
  return shape;
}

std::optional<std::int64_t> size_at(const SizeFactors& factors, const Batches& batches, std::int64_t batch) {
  std::int64_t size = 1;
  for (const Factor& f : factors) {
    std::int64_t part = f.kind == Factor::Kind::Batch ? batch : f.written;
    if (f.kind == Factor::Kind::Other) {
      const std::int64_t rise = f.probed - f.written, run = batches.probe - batches.written;
      if (rise * (batch - batches.written) % run != 0) return std::nullopt;
      part += rise * (batch - batches.written) / run;
    }
    if (part < 0 || __builtin_mul_overflow(size, part, &size)) return std::nullopt;
  }
  return size;
}

namespace {

/// Takes factors of a tensor, in their order, for one dimension after the other.
class Regrouping {
 public:
  Regrouping(const SizeLaw& from, bool behind) : behind_(behind) {
    for (const SizeFactors& dim : from) {
      for (const Factor& f : dim) append(f);
    }
  }

  std::optional<Regrouped> to(const graph::Shape& written) {
    Regrouped result;
    for (std::size_t d = 0; d < written.size(); ++d) {
      if (behind_ && hidden() && d > 0 && written[d] != 1) {
        result.law.back().push_back(rest_[at_++]);
        result.assumed = true;
      }
      auto dim = take(written[d], result);
      if (!dim) return std::nullopt;
      if (written[d] == 1 && varies(*dim) && d + 1 < written.size() && written[d + 1] == 1) result.assumed = true;
      result.law.push_back(std::move(*dim));
    }
    for (; at_ < rest_.size(); ++at_) {
      if (!hidden() || result.law.empty()) return std::nullopt;
      result.law.back().push_back(rest_[at_]);
      result.assumed = true;
    }
    return result;
  }

 private:
  /// Neighbouring constants are one: a boundary may fall anywhere within their product.
  void append(const Factor& f) {
    const bool joins = f.kind == Factor::Kind::Constant && !rest_.empty() && rest_.back().kind == Factor::Kind::Constant;
    if (joins) {
      rest_.back().written *= f.written;
      rest_.back().probed *= f.probed;
    } else {
      rest_.push_back(f);
    }
  }

  /// The next factor was 1 in the file, so its sizes do not tell where it belongs.
  [[nodiscard]] bool hidden() const { return at_ < rest_.size() && rest_[at_].kind != Factor::Kind::Constant && rest_[at_].written == 1; }

  std::optional<SizeFactors> take(std::int64_t size, Regrouped& result) {
    SizeFactors dim;
    if (hidden()) {
      if (size != 1) result.assumed = true;
      dim.push_back(rest_[at_++]);
    }
    while (size != 1) {
      if (at_ == rest_.size() || size == 0) return std::nullopt;
      Factor& next = rest_[at_];
      if (next.written != 0 && size % next.written == 0) {
        dim.push_back(next);
        size /= next.written;
        ++at_;
      } else if (next.kind == Factor::Kind::Constant && next.written % size == 0) {
        dim.push_back({Factor::Kind::Constant, size, size});
        next.written /= size;
        next.probed = next.written;
        size = 1;
      } else {
        return std::nullopt;
      }
    }
    return dim;
  }

  std::vector<Factor> rest_;
  std::size_t at_ = 0;
  bool behind_;
};

}  // namespace

std::optional<Regrouped> regrouped(const SizeLaw& from, const graph::Shape& written, bool behind) {
  return Regrouping(from, behind).to(written);
}

}  // namespace rehearsal::formats
