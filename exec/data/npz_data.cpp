#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "exec/data/data.hpp"
#include "exec/data/npz.hpp"
#include "exec/kernels/narrow.hpp"

namespace rehearsal::exec {
namespace {

template <class To, class From>
void convert(const std::byte* from, std::byte* to, std::int64_t count) {
  const auto* source = reinterpret_cast<const From*>(from);
  auto* target = reinterpret_cast<To*>(to);
  for (std::int64_t i = 0; i < count; ++i) target[i] = static_cast<To>(source[i]);
}

/// By way of f32, a block at a time.
template <DType kTo, class From>
void convert_narrow(const std::byte* from, std::byte* to, std::int64_t count) {
  std::vector<float> wide(static_cast<std::size_t>(count));
  convert<float, From>(from, reinterpret_cast<std::byte*>(wide.data()), count);
  narrow(wide.data(), kTo, to, count);
}

template <class To>
void convert_half(const std::byte* from, std::byte* to, std::int64_t count) {
  std::vector<float> wide(static_cast<std::size_t>(count));
  widen(from, DType::F16, wide.data(), count);
  convert<To, float>(reinterpret_cast<const std::byte*>(wide.data()), to, count);
}

using Converter = void (*)(const std::byte*, std::byte*, std::int64_t);

template <class To>
Converter converter_to(DType from) {
  switch (from) {
    case DType::F32:
      return convert<To, float>;
    case DType::F64:
      return convert<To, double>;
    case DType::F16:
      return convert_half<To>;
    case DType::I64:
      return convert<To, std::int64_t>;
    case DType::I32:
      return convert<To, std::int32_t>;
    case DType::I16:
      return convert<To, std::int16_t>;
    case DType::I8:
      return convert<To, std::int8_t>;
    case DType::U8:
    case DType::Bool:
      return convert<To, std::uint8_t>;
    default:
      return nullptr;
  }
}

template <DType kTo>
Converter converter_to_narrow(DType from) {
  switch (from) {
    case DType::F32:
      return convert_narrow<kTo, float>;
    case DType::F64:
      return convert_narrow<kTo, double>;
    case DType::I64:
      return convert_narrow<kTo, std::int64_t>;
    case DType::I32:
      return convert_narrow<kTo, std::int32_t>;
    case DType::U8:
    case DType::Bool:
      return convert_narrow<kTo, std::uint8_t>;
    default:
      return nullptr;
  }
}

Converter converter(DType from, DType to) {
  switch (to) {
    case DType::BF16:
      return converter_to_narrow<DType::BF16>(from);
    case DType::F16:
      return converter_to_narrow<DType::F16>(from);
    case DType::F32:
      return converter_to<float>(from);
    case DType::F64:
      return converter_to<double>(from);
    case DType::I64:
      return is_float(from) ? nullptr : converter_to<std::int64_t>(from);
    case DType::I32:
      return is_float(from) ? nullptr : converter_to<std::int32_t>(from);
    case DType::Bool:
      return from == DType::Bool ? converter_to<std::uint8_t>(from) : nullptr;
    default:
      return nullptr;
  }
}

struct Column {
  NpyArray array;
  Converter convert = nullptr;
  std::int64_t row_elements = 1;
  bool per_sample = true;
};

class NpzData final : public DataSource {
 public:
  NpzData(const std::string& path, const graph::TrainingGraph& training, const NpzOptions& options) : path_(path), options_(options) {
    auto arrays = read_npz(path);
    const auto& g = training.graph;
    for (auto t : g.inputs()) add(path, arrays, g[t], training.batch);
    if (training.target != graph::TensorId::None && !columns_.contains(g[training.target].name))
      add(path, arrays, g[training.target], training.batch);
    if (samples_ == 0) throw BadInput(path, "holds no samples");
    if (samples_ < training.batch)
      throw BadInput(path, "holds " + std::to_string(samples_) + " samples, fewer than the batch of " + std::to_string(training.batch) +
                               "; use --batch " + std::to_string(samples_) + " or less");
  }

  [[nodiscard]] std::int64_t samples() const override { return samples_; }
  [[nodiscard]] std::string origin_of(std::int64_t n) override { return "row " + std::to_string(sample(n)) + " of " + path_; }

  void read(const SampleRequest& r, void* out) override {
    const auto& column = columns_.at(r.input);
    auto* to = static_cast<std::byte*>(out);
    const auto in_size = static_cast<std::int64_t>(size_of(column.array.type.dtype)),
               out_size = static_cast<std::int64_t>(size_of(r.type.dtype));
    if (!column.per_sample) return column.convert(column.array.bytes.data(), to, graph::element_count(r.type.shape));
    for (std::int64_t i = 0; i < r.count; ++i) {
      const auto row = sample(r.first + i);
      column.convert(column.array.bytes.data() + row * column.row_elements * in_size, to + i * column.row_elements * out_size,
                     column.row_elements);
    }
  }

 private:
  void add(const std::string& path, std::map<std::string, NpyArray>& arrays, const graph::Tensor& tensor, std::int64_t batch) {
    const auto at = arrays.find(tensor.name);
    if (at == arrays.end()) {
      std::string names;
      for (const auto& [name, array] : arrays) names += (names.empty() ? "" : ", ") + name;
      throw BadInput(path, "holds no array for input \"" + tensor.name + "\" of the model; it holds " + names);
    }
    Column column;
    column.array = std::move(at->second);
    const auto& shape = column.array.type.shape;
    auto wanted = tensor.type.shape;
    column.per_sample = !wanted.empty() && wanted.front() == batch;
    const bool same_rank = shape.size() == wanted.size();
    const bool fits =
        same_rank && std::equal(shape.begin() + (column.per_sample ? 1 : 0), shape.end(), wanted.begin() + (column.per_sample ? 1 : 0));
    if (!fits)
      throw BadInput(path, "array \"" + tensor.name + "\" has shape " + graph::to_text(shape) + ", the model's input " +
                               graph::to_text(wanted) + " (first dimension: samples)");
    column.convert = converter(column.array.type.dtype, tensor.type.dtype);
    if (column.convert == nullptr)
      throw BadInput(path, "array \"" + tensor.name + "\" is " + std::string(row(column.array.type.dtype).numpy_name) +
                               ", the model wants " + std::string(row(tensor.type.dtype).numpy_name));
    if (column.per_sample) {
      column.row_elements = shape[0] == 0 ? 0 : graph::element_count(shape) / shape[0];
      if (samples_ >= 0 && shape[0] != samples_)
        throw BadInput(
            path, "array \"" + tensor.name + "\" has " + std::to_string(shape[0]) + " samples, another array " + std::to_string(samples_));
      samples_ = shape[0];
    }
    columns_[tensor.name] = std::move(column);
  }

  /// Row of the n-th sample that training sees.
  [[nodiscard]] std::int64_t sample(std::int64_t n) {
    const auto epoch = n / samples_, at = n % samples_;
    if (!options_.shuffle) return at;
    if (epoch != epoch_) {
      epoch_ = epoch;
      order_.resize(static_cast<std::size_t>(samples_));
      std::iota(order_.begin(), order_.end(), std::int64_t{0});
      for (auto i = samples_ - 1; i > 0; --i) {
        const auto j = static_cast<std::int64_t>(
            random_uniform(options_.seed, 0x5A0FF1EULL + static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(i)) *
            static_cast<double>(i + 1));
        std::swap(order_[static_cast<std::size_t>(i)], order_[static_cast<std::size_t>(j)]);
      }
    }
    return order_[static_cast<std::size_t>(at)];
  }

  std::string path_;
  NpzOptions options_;
  std::int64_t samples_ = -1, epoch_ = -1;
  std::map<std::string, Column> columns_;
  std::vector<std::int64_t> order_;
};

}  // namespace

std::unique_ptr<DataSource> npz_data(const std::string& path, const graph::TrainingGraph& training, const NpzOptions& options) {
  return std::make_unique<NpzData>(path, training, options);
}

}  // namespace rehearsal::exec
