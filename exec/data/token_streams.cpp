#include "exec/data/token_streams.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "exec/data/values/convert.hpp"

namespace rehearsal::exec {
namespace {

enum Array : std::uint8_t { kTokens, kNext, kPositions, kOnes };
const ArrayNames kArrays{{"tokens", "next", "positions", "ones"}, "tokens", "next"};

/// Tokens of a sample: those of the model's first input that has any.
std::int64_t length_of(const DatasetRequest& r, const std::string& where) {
  std::int64_t length = 0;
  for (const auto& w : r.wanted) {
    const auto shape = w.sample_shape();
    const auto called = "input \"" + w.input + "\" of the model, " + graph::to_text(w.type.shape);
    if (shape.size() != 1 || is_float(w.type.dtype))
      throw BadInput(where, "holds tokens, and " + called + ", is no row of whole numbers: [batch, length]");
    if (length != 0 && shape[0] != length)
      throw BadInput(where, called + ", is not as long as the others, of " + std::to_string(length) + " tokens");
    length = shape[0];
  }
  const auto said = r.place.keys.find("seq");
  if (said == r.place.keys.end()) return length;
  const auto seq = parse_number<std::int64_t>(said->second);
  if (!seq || *seq < 1) throw BadInput(where, "seq=" + said->second + " is no number of tokens");
  if (*seq != length)
    throw BadInput(
        where, "seq=" + said->second + ", and samples of the model have " + std::to_string(length) + " tokens; give that, or leave it out");
  return length;
}

class TokenData final : public Dataset {
 public:
  TokenData(std::vector<TokenStream> streams, const DatasetRequest& r)
      : wanted_(r.wanted), chosen_(chosen_arrays(r.place.paths.front(), r.wanted, kArrays)), length_(length_of(r, r.place.paths.front())) {
    for (auto& stream : streams) {
      const auto samples = (stream.tokens - 1) / length_;
      if (samples < 1)
        throw BadInput(stream.file->path(), "holds " + std::to_string(stream.tokens) + " tokens, and a sample with its target takes " +
                                                std::to_string(length_ + 1));
      first_.push_back(samples_);
      samples_ += samples;
      streams_.push_back(std::move(stream));
    }
    for (const auto& w : wanted_) convert_.push_back(converter_for(w));
  }

  [[nodiscard]] std::int64_t samples() const override { return samples_; }
  [[nodiscard]] std::string origin_of(std::int64_t row) const override {
    const auto stream = stream_of(row);
    const auto token = (row - first_[stream]) * length_;
    return "tokens " + std::to_string(token) + " to " + std::to_string(token + length_) + " of " + streams_[stream].file->path();
  }

  [[nodiscard]] std::int64_t read(const RowRequest& r, void* out) const override {
    const auto array = chosen_[r.wanted];
    if (array == kPositions || array == kOnes) {
      std::vector<std::int64_t> numbers(static_cast<std::size_t>(length_), 1);
      for (std::size_t n = 0; n < numbers.size() && array == kPositions; ++n) numbers[n] = static_cast<std::int64_t>(n);
      convert_[r.wanted].plain(reinterpret_cast<const std::byte*>(numbers.data()), static_cast<std::byte*>(out), length_);
      return 0;
    }
    const auto stream = stream_of(r.row);
    const auto& s = streams_[stream];
    const auto bytes = static_cast<std::int64_t>(size_of(s.dtype));
    const auto first = (r.row - first_[stream]) * length_ + (array == kNext ? 1 : 0);
    std::vector<std::byte> tokens(static_cast<std::size_t>(length_ * bytes));
    s.file->read(s.offset + first * bytes, tokens);
    convert_[r.wanted].by_stream[stream](tokens.data(), static_cast<std::byte*>(out), length_);
    return length_ * bytes;
  }

 private:
  struct Converters {
    Converter plain = nullptr;  ///< from whole numbers of 64 bits
    std::vector<Converter> by_stream;
  };

  [[nodiscard]] Converters converter_for(const WantedTensor& w) const {
    Converters all{converter(DType::I64, w.type.dtype), {}};
    for (const auto& s : streams_) {
      all.by_stream.push_back(converter(s.dtype, w.type.dtype));
      if (all.by_stream.back() == nullptr)
        throw BadInput(s.file->path(), "holds " + std::string(row(s.dtype).numpy_name) + ", and input \"" + w.input +
                                           "\" of the model is " + std::string(row(w.type.dtype).numpy_name));
    }
    return all;
  }

  [[nodiscard]] std::size_t stream_of(std::int64_t row) const {
    return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), row) - first_.begin() - 1);
  }

  std::vector<WantedTensor> wanted_;
  std::vector<std::size_t> chosen_;
  std::int64_t length_;
  std::vector<TokenStream> streams_;
  std::vector<std::int64_t> first_;  ///< sample of each stream
  std::int64_t samples_ = 0;
  std::vector<Converters> convert_;
};

}  // namespace

DType token_type(const std::string& name, const std::string& where) {
  const auto dtype = dtype_from_name(name);
  constexpr DType kTypes[] = {DType::U8, DType::I8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64};
  if (!dtype || std::find(std::begin(kTypes), std::end(kTypes), *dtype) == std::end(kTypes))
    throw BadInput(where, "dtype " + name + " is none of tokens: use uint8, uint16, int16, int32, uint32 or int64");
  return *dtype;
}

std::unique_ptr<Dataset> token_data(std::vector<TokenStream> streams, const DatasetRequest& r) {
  return std::make_unique<TokenData>(std::move(streams), r);
}

}  // namespace rehearsal::exec
