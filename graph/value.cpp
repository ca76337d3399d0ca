#include "graph/value.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "base/random.hpp"

namespace rehearsal::graph {
namespace {

/// How one element type is read and written. Rows stand in the order of DType.
struct Codec {
  double (*real)(const std::byte*) = nullptr;
  std::int64_t (*integer)(const std::byte*) = nullptr;
  void (*write)(double, std::int64_t, std::byte*) = nullptr;         ///< integers take the second argument
  void (*write_all)(std::span<const double>, std::byte*) = nullptr;  ///< of floats: one after the other
};

using Write = void (*)(double, std::int64_t, std::byte*);
/// A loop of which `kWrite` becomes part.
template <class T, Write kWrite>
void write_each(std::span<const double> reals, std::byte* at) {
  for (std::size_t i = 0; i < reals.size(); ++i) kWrite(reals[i], 0, at + i * sizeof(T));
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void write_plain(double real, std::int64_t integer, std::byte* at) {
  const T value = std::is_floating_point_v<T> ? static_cast<T>(real) : static_cast<T>(integer);
  std::memcpy(at, &value, sizeof value);
}

template <class T>
constexpr Codec plain_codec() {
  Codec codec{[](const std::byte* at) { return static_cast<double>(load<T>(at)); },
              [](const std::byte* at) { return static_cast<std::int64_t>(load<T>(at)); }, write_plain<T>};
  if constexpr (std::is_floating_point_v<T>) codec.write_all = write_each<T, write_plain<T>>;
  return codec;
}

/// A binary float of `exponent` and `mantissa` bits with IEEE bias and subnormals. `infinite`: the all-ones exponent means
/// infinity and NaN; without it (F8E4M3, OCP 8-bit floating point specification 1.0) only all ones are NaN.
double decode_float(std::uint32_t bits, int exponent, int mantissa, bool infinite) {
  const std::uint32_t fraction = bits & ((1U << mantissa) - 1), power = (bits >> mantissa) & ((1U << exponent) - 1),
                      top = (1U << exponent) - 1;
  const double sign = (bits >> (exponent + mantissa)) & 1U ? -1.0 : 1.0;
  const int bias = (1 << (exponent - 1)) - 1;
  if (power == top && infinite) return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  if (power == top && fraction == (1U << mantissa) - 1) return std::nan("");
  if (power == 0) return sign * std::ldexp(static_cast<double>(fraction), 1 - bias - mantissa);
  return sign * std::ldexp(static_cast<double>(fraction | (1U << mantissa)), static_cast<int>(power) - bias - mantissa);
}

template <class Storage, int kExponent, int kMantissa, bool kInfinite>
double decode(const std::byte* at) {
  return decode_float(load<Storage>(at), kExponent, kMantissa, kInfinite);
}

/// Exponent and mantissa of the nearest normal number (a carry out of the largest one is infinity), by the bits of the double alone;
/// nothing where there is none.
template <int kExponent, int kMantissa>
std::optional<std::uint32_t> normal_bits(double real) {
  constexpr int kOfDouble = 52, kBiasOfDouble = 1023, kBias = (1 << (kExponent - 1)) - 1, kDropped = kOfDouble - kMantissa;
  constexpr auto of_power = [](int power) { return static_cast<std::uint64_t>(kBiasOfDouble + power) << kOfDouble; };
  const auto bits = std::bit_cast<std::uint64_t>(std::fabs(real));
  if (bits < of_power(1 - kBias) || bits >= of_power(kBias + 1)) return std::nullopt;
  const std::uint64_t half = (1ULL << (kDropped - 1)) - 1 + ((bits >> kDropped) & 1);  // to nearest, to even where two are
  return static_cast<std::uint32_t>(((bits + half) >> kDropped) - (static_cast<std::uint64_t>(kBiasOfDouble - kBias) << kMantissa));
}

/// Rounds to nearest even; beyond the largest finite value lies infinity.
template <int kExponent, int kMantissa>
void encode(double real, std::int64_t, std::byte* at) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1, kSignShift = kExponent + kMantissa;
  constexpr std::uint32_t kInfinity = ((1U << kExponent) - 1) << kMantissa;
  const std::uint32_t sign = std::signbit(real) ? 1U << kSignShift : 0U;
  std::uint32_t bits = kInfinity;
  if (const auto rounded = normal_bits<kExponent, kMantissa>(real)) {
    bits = *rounded;
  } else if (std::isnan(real)) {
    bits |= 1U << (kMantissa - 1);
  } else if (std::isfinite(real) && real != 0) {
    const int power = std::max(std::ilogb(real), 1 - kBias);
    const double units = std::nearbyint(std::ldexp(std::fabs(real), kMantissa - power));  // a carry into the exponent adds up by itself
    bits = power > kBias ? kInfinity : static_cast<std::uint32_t>(units) + (static_cast<std::uint32_t>(power + kBias - 1) << kMantissa);
    bits = std::min(bits, kInfinity);
  } else if (real == 0) {
    bits = 0;
  }
  const auto value = static_cast<std::uint16_t>(bits | sign);
  std::memcpy(at, &value, sizeof value);
}

template <auto kDecode>
std::int64_t truncated(const std::byte* at) {
  return static_cast<std::int64_t>(kDecode(at));
}

constexpr auto kHalf = decode<std::uint16_t, 5, 10, true>;
constexpr auto kBrain = decode<std::uint16_t, 8, 7, true>;
constexpr auto kEighth43 = decode<std::uint8_t, 4, 3, false>;
constexpr auto kEighth52 = decode<std::uint8_t, 5, 2, true>;
constexpr Codec kBool = {[](const std::byte* at) { return *at == std::byte{0} ? 0.0 : 1.0; },
                         [](const std::byte* at) { return *at == std::byte{0} ? std::int64_t{0} : std::int64_t{1}; },
                         [](double, std::int64_t integer, std::byte* at) { *at = std::byte{integer != 0}; }};
constexpr std::array<Codec, static_cast<std::size_t>(DType::Count)> kCodecs = {
    plain_codec<float>(),
    plain_codec<double>(),
    Codec{kHalf, truncated<kHalf>, encode<5, 10>, write_each<std::uint16_t, encode<5, 10>>},
    Codec{kBrain, truncated<kBrain>, encode<8, 7>, write_each<std::uint16_t, encode<8, 7>>},
    plain_codec<std::int8_t>(),
    plain_codec<std::int16_t>(),
    plain_codec<std::int32_t>(),
    plain_codec<std::int64_t>(),
    plain_codec<std::uint8_t>(),
    plain_codec<std::uint16_t>(),
    plain_codec<std::uint32_t>(),
    plain_codec<std::uint64_t>(),
    kBool,
    Codec{},
    Codec{kEighth43, truncated<kEighth43>, nullptr},
    Codec{kEighth52, truncated<kEighth52>, nullptr}};

const Codec& codec(DType type) { return kCodecs[static_cast<std::size_t>(type)]; }

std::size_t bytes_of(const Contents& contents, const Shape& shape) {
  if (!codec(contents.stored).real) throw BadInput("elements of type " + std::string(name(contents.stored)) + " have no numeric values");
  return static_cast<std::size_t>(element_count(shape)) * size_of(contents.stored);
}

bool has_bytes(const Contents& contents) {
  return std::holds_alternative<FileRegion>(contents.source) || std::holds_alternative<InlineBytes>(contents.source);
}

void check_region(const FileRegion& region, std::size_t bytes) {
  std::error_code failure;
  const std::uintmax_t size = std::filesystem::file_size(region.path, failure);
  if (failure) throw BadInput(region.path, "cannot be read (" + failure.message() + "); it holds the values of a tensor");
  if (region.bytes != bytes) {
    throw BadInput(region.path,
                   "a tensor of " + std::to_string(bytes) + " bytes is stored in a region of " + std::to_string(region.bytes) + " bytes");
  }
  if (region.offset > size || region.bytes > size - region.offset) {
    throw BadInput(region.path, "the region of " + std::to_string(region.bytes) + " bytes at offset " + std::to_string(region.offset) +
                                    " lies outside the file of " + std::to_string(size) + " bytes");
  }
}

/// Before memory is taken for the elements: a broken file may claim any shape.
void check_stored(const Contents& contents, const Shape& shape) {
  if (!has_bytes(contents)) return;
  const std::size_t bytes = bytes_of(contents, shape);
  if (const auto* region = std::get_if<FileRegion>(&contents.source)) return check_region(*region, bytes);
  const std::size_t there = std::get<InlineBytes>(contents.source).data->size();
  if (there != bytes) {
    throw BadInput("a tensor of shape " + to_text(shape) + " and type " + std::string(name(contents.stored)) + " needs " +
                   std::to_string(bytes) + " bytes, its values have " + std::to_string(there));
  }
}

/// Copies the raw elements, which check_stored() has seen.
void copy_stored(const Contents& contents, std::size_t bytes, std::byte* out) {
  if (bytes == 0) return;
  if (const auto* held = std::get_if<InlineBytes>(&contents.source)) {
    std::memcpy(out, held->data->data(), bytes);
    return;
  }
  const auto& region = std::get<FileRegion>(contents.source);
  std::ifstream file(region.path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(region.offset));
  file.read(reinterpret_cast<char*>(out), static_cast<std::streamsize>(bytes));
  if (!file)
    throw BadInput(region.path,
                   "ended before " + std::to_string(bytes) + " bytes at offset " + std::to_string(region.offset) + " were read");
}

struct Draw {
  RandomStream random;
  double operator()(const std::monostate&, std::int64_t) const {
    throw InternalError("values are asked of a tensor whose contents are not known");
  }
  double operator()(const FileRegion&, std::int64_t) const { throw InternalError("a file region is read as bytes"); }
  double operator()(const InlineBytes&, std::int64_t) const { throw InternalError("inline bytes are read as bytes"); }
  double operator()(const Fill& fill, std::int64_t) const { return fill.value; }
  double operator()(const RandomNormal& normal, std::int64_t i) const {
    return normal.mean + normal.deviation * random_normal(random.seed, random.stream, static_cast<std::uint64_t>(i));
  }
  double operator()(const RandomUniform& uniform, std::int64_t i) const {
    return uniform.low + (uniform.high - uniform.low) * random_uniform(random.seed, random.stream, static_cast<std::uint64_t>(i));
  }

  /// Elements first, first + 1, ...
  template <class Source>
  void fill(const Source& source, std::int64_t first, std::span<double> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = (*this)(source, first + static_cast<std::int64_t>(i));
  }
  void fill(const RandomNormal& normal, std::int64_t first, std::span<double> out) const {
    fill_random_normal(random.seed, random.stream, static_cast<std::uint64_t>(first), out);
    for (double& value : out) value = normal.mean + normal.deviation * value;
  }
};

/// Calls take(i, real, integer, whether the stored type is integral) for every element, in order.
template <class Take>
void each_element(const Contents& contents, const Shape& shape, Draw draw, const Take& take) {
  const std::int64_t count = element_count(shape);
  if (has_bytes(contents)) {
    std::vector<std::byte> raw(bytes_of(contents, shape));
    copy_stored(contents, raw.size(), raw.data());
    const Codec& from = codec(contents.stored);
    const std::size_t step = size_of(contents.stored);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::byte* at = raw.data() + static_cast<std::size_t>(i) * step;
      const bool integral = is_integer(contents.stored);
      take(i, from.real(at), integral ? from.integer(at) : std::int64_t{0}, integral);
    }
    return;
  }
  std::visit(
      [&](const auto& source) {
        for (std::int64_t i = 0; i < count; ++i) take(i, draw(source, i), std::int64_t{0}, false);
      },
      contents.source);
}

/// Casting a float outside int64 is undefined in C++: saturate.
std::int64_t to_integer(double real) {
  if (std::isnan(real)) return 0;
  if (real >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  return real < -0x1p63 ? std::numeric_limits<std::int64_t>::min() : static_cast<std::int64_t>(real);
}

}  // namespace

double Value::real(std::int64_t i) const {
  return integral() ? static_cast<double>(integers[static_cast<std::size_t>(i)]) : reals[static_cast<std::size_t>(i)];
}
std::int64_t Value::integer(std::int64_t i) const {
  return integral() ? integers[static_cast<std::size_t>(i)] : to_integer(reals[static_cast<std::size_t>(i)]);
}

Value Value::of_integers(std::vector<std::int64_t> values, Shape shape, DType dtype) {
  ensure(static_cast<std::int64_t>(values.size()) == element_count(shape) && is_integer(dtype), "a value's elements must fit its type");
  return Value{{dtype, std::move(shape)}, std::move(values), {}};
}

Value Value::of_reals(std::vector<double> values, Shape shape, DType dtype) {
  ensure(static_cast<std::int64_t>(values.size()) == element_count(shape) && is_float(dtype), "a value's elements must fit its type");
  return Value{{dtype, std::move(shape)}, {}, std::move(values)};
}

Value Value::vector(std::vector<std::int64_t> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return of_integers(std::move(values), {size});
}

Value Value::scalar(double value, DType dtype) {
  return is_float(dtype) ? of_reals({value}, {}, dtype) : of_integers({to_integer(value)}, {}, dtype);
}

namespace {

bool is_causal_mask(const Value& value) {
  const auto& shape = value.type.shape;
  const bool boolean = value.type.dtype == DType::Bool;
  if (shape.size() < 2 || (value.integral() && !boolean)) return false;
  const std::int64_t size = shape.back();
  if (size < 2 || shape[shape.size() - 2] != size || value.count() != size * size) return false;
  for (std::int64_t row = 0; row < size; ++row)
    for (std::int64_t column = 0; column < size; ++column) {
      const auto i = static_cast<std::size_t>(row * size + column);
      const bool seen = boolean ? value.integers[i] != 0 : value.reals[i] == 0, hidden = boolean ? !seen : value.reals[i] <= kHidesScore;
      if (column <= row ? !seen : !hidden) return false;
    }
  return true;
}

}  // namespace

Contents contents_of(const Value& value) {
  const Codec& to = codec(value.type.dtype);
  if (!to.write) throw BadInput("values of type " + std::string(name(value.type.dtype)) + " cannot be stored");
  const std::size_t step = size_of(value.type.dtype);
  auto data = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(value.count()) * step);
  const auto count = static_cast<std::size_t>(value.count());
  if (value.integral())
    for (std::size_t i = 0; i < count; ++i) to.write(0, value.integers[i], data->data() + i * step);
  else
    for (std::size_t i = 0; i < count; ++i) to.write(value.reals[i], 0, data->data() + i * step);
  return {value.type.dtype, InlineBytes{std::move(data)}, is_causal_mask(value)};
}

std::vector<double> read_reals(const Contents& contents, const Shape& shape, std::uint64_t seed, std::uint64_t stream) {
  check_stored(contents, shape);
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  each_element(contents, shape, Draw{{seed, stream}},
               [&](std::int64_t i, double real, std::int64_t, bool) { values[static_cast<std::size_t>(i)] = real; });
  return values;
}

std::vector<std::int64_t> read_integers(const Contents& contents, const Shape& shape) {
  check_stored(contents, shape);
  std::vector<std::int64_t> values(static_cast<std::size_t>(element_count(shape)));
  each_element(contents, shape, Draw{}, [&](std::int64_t i, double real, std::int64_t integer, bool integral) {
    values[static_cast<std::size_t>(i)] = integral ? integer : to_integer(real);
  });
  return values;
}

namespace {

auto writer_of(DType target) {
  const auto write = codec(target).write;
  if (!write) throw BadInput("values cannot be converted to " + std::string(name(target)));
  return write;
}

}  // namespace

bool is_made(const Contents& contents) { return contents.known() && !has_bytes(contents); }

void make_into(const Contents& contents, ElementRange range, DType target, RandomStream random, void* out) {
  auto* to = static_cast<std::byte*>(out);
  const auto write = writer_of(target);
  const auto write_all = codec(target).write_all;
  const std::size_t step = size_of(target);
  const Draw draw{random};
  std::array<double, 512> block;
  for (std::int64_t done = 0; done < range.count;) {
    const auto reals = std::span(block).first(static_cast<std::size_t>(std::min<std::int64_t>(block.size(), range.count - done)));
    std::visit([&](const auto& source) { draw.fill(source, range.first + done, reals); }, contents.source);
    if (write_all != nullptr)
      write_all(reals, to);
    else
      for (std::size_t i = 0; i < reals.size(); ++i) write(reals[i], to_integer(reals[i]), to + i * step);
    done += static_cast<std::int64_t>(reals.size()), to += reals.size() * step;
  }
}

void read_into(const Contents& contents, const Shape& shape, DType target, RandomStream random, void* out) {
  check_stored(contents, shape);
  auto* to = static_cast<std::byte*>(out);
  if (is_made(contents)) return make_into(contents, {0, element_count(shape)}, target, random, out);
  if (contents.stored == target) return copy_stored(contents, bytes_of(contents, shape), to);
  const auto write = writer_of(target);
  const std::size_t step = size_of(target);
  each_element(contents, shape, Draw{random}, [&](std::int64_t i, double real, std::int64_t integer, bool integral) {
    write(real, integral ? integer : to_integer(real), to + static_cast<std::size_t>(i) * step);
  });
}

}  // namespace rehearsal::graph
