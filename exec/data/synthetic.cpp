#include <map>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/random.hpp"
#include "exec/data/data.hpp"
#include "exec/data/values/wanted.hpp"
#include "exec/kernels/narrow.hpp"

namespace rehearsal::exec {
namespace {

class Synthetic final : public DataSource {
 public:
  Synthetic(const graph::TrainingGraph& training, std::uint64_t seed) : seed_(seed), pool_(kDraws) {
    for (std::uint64_t i = 0; i < kDraws; ++i) pool_[i] = static_cast<float>(random_normal(seed, 0, i));
    constexpr std::int64_t kOtherwise = 2;
    for (const auto& w : wanted_of(training, {})) {
      classes_[w.input] = w.classes == 0 ? kOtherwise : w.classes;
      if (w.target && is_probability(training, training.target)) probabilities_.insert(w.input);
    }
  }

  [[nodiscard]] std::int64_t samples() const override { return 0; }

  void read(const SampleRequest& r, void* out) override {
    const auto elements = graph::element_count(r.type.shape);
    const auto per_sample = r.count > 0 ? elements / r.count : elements;
    const auto stream = Hasher().add(r.input).value();
    const auto at = r.first * per_sample;
    const auto bits = [&](std::int64_t i) { return static_cast<std::uint64_t>(at + i); };
    const bool probability = probabilities_.contains(r.input);
    const auto real = [&](std::int64_t i) {
      return probability ? static_cast<float>(whole(r.input, stream, bits(i))) : normal(stream, bits(i));
    };
    switch (r.type.dtype) {
      case DType::F32:
        return fill<float>(out, elements, real);
      case DType::F64:
        return fill<double>(out, elements, real);
      case DType::I64:
        return fill<std::int64_t>(out, elements, [&](std::int64_t i) { return whole(r.input, stream, bits(i)); });
      case DType::I32:
        return fill<std::int32_t>(out, elements,
                                  [&](std::int64_t i) { return static_cast<std::int32_t>(whole(r.input, stream, bits(i))); });
      case DType::Bool:
        return fill<std::uint8_t>(out, elements,
                                  [&](std::int64_t i) { return static_cast<std::uint8_t>(random_bits(seed_, stream, bits(i)) & 1U); });
      case DType::BF16:
      case DType::F16: {
        std::vector<float> wide(static_cast<std::size_t>(elements));
        fill<float>(wide.data(), elements, real);
        return narrow(wide.data(), r.type.dtype, out, elements);
      }
      default:
        throw Refusal("input " + r.input + ": synthetic data of type " + std::string(name(r.type.dtype)) +
                      " is not made; give --data FILE.npz");
    }
  }

 private:
  static constexpr std::uint64_t kDraws = std::uint64_t{1} << 16U;

  /// One of a pool of draws: a fresh one for every element would take longer than reading samples does, and hide what a step costs.
  [[nodiscard]] float normal(std::uint64_t stream, std::uint64_t i) const {
    const auto mixed = (i + stream) * 0x9E3779B97F4A7C15ULL;  // Knuth's multiplicative hashing by the golden ratio
    return pool_[mixed >> 48U];
  }
  template <class T, class Draw>
  static void fill(void* out, std::int64_t count, Draw draw) {
    constexpr std::int64_t kSmall = 16384;  // one thread has drawn so many before a team has met
    auto* to = static_cast<T*>(out);
#pragma omp parallel for schedule(static) if (count > kSmall)
    for (std::int64_t i = 0; i < count; ++i) to[i] = draw(i);
  }
  [[nodiscard]] std::int64_t whole(const std::string& input, std::uint64_t stream, std::uint64_t i) const {
    const auto at = classes_.find(input);
    const auto classes = at == classes_.end() ? 2 : at->second;
    return static_cast<std::int64_t>(random_uniform(seed_, stream, i) * static_cast<double>(classes));
  }

  std::uint64_t seed_;
  std::vector<float> pool_;
  std::map<std::string, std::int64_t> classes_;
  std::set<std::string> probabilities_;  ///< inputs that are 0 or 1
};

}  // namespace

std::unique_ptr<DataSource> synthetic_data(const graph::TrainingGraph& training, std::uint64_t seed) {
  return std::make_unique<Synthetic>(training, seed);
}

}  // namespace rehearsal::exec
