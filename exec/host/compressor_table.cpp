#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "exec/host/compressors/compressor.hpp"

namespace rehearsal::exec {
namespace {

const CompressorCodes& codes_of(plan::CompressionRule rule) {
  static const std::array kCodes{
      sign_code(), terngrad_code(), qsgd_code(), random_k_code(), one_bit_code(), top_k_code(), random_k_with_memory_code()};
  const auto found = std::ranges::find(kCodes, rule, &CompressorCodes::rule);
  ensure(found != kCodes.end(), "every compressor has its arithmetic");
  return *found;
}

template <class T>
bool all_numbers(const T* gradient, std::int64_t elements) {
  bool finite = true;
#pragma omp parallel for schedule(static) reduction(&& : finite)
  for (std::int64_t e = 0; e < elements; ++e) finite = finite && std::isfinite(gradient[e]);
  return finite;
}

constexpr std::byte kNumbers{0}, kNotAllNumbers{1};

template <class T>
bool compress_as(const CompressorCode<T>& code, const CompressorTask& task, const T* gradient, std::byte* sent) {
  const bool numbers = all_numbers(gradient, task.elements);
  sent[0] = numbers ? kNumbers : kNotAllNumbers;
  if (numbers) code.compress(task, gradient, sent + 1);
  return numbers;
}

template <class T>
void decompress_as(const CompressorCode<T>& code, const CompressorTask& task, std::span<const std::byte* const> sent, T* sum) {
  if (std::ranges::any_of(sent, [](const std::byte* from) { return from[0] != kNumbers; })) {
    std::fill(sum, sum + task.elements, std::numeric_limits<T>::quiet_NaN());
    return;
  }
  std::vector<const std::byte*> codes;
  for (const auto* from : sent) codes.push_back(from + 1);
  code.decompress(task, codes, sum);
}

template <class T>
void compress_and_keep(const CompressorCode<T>& code, const CompressorTask& task, T* gradient, T* kept, std::byte* sent) {
#pragma omp parallel for schedule(static)
  for (std::int64_t e = 0; e < task.elements; ++e) gradient[e] += kept[e];
  if (!compress_as(code, task, gradient, sent)) return;
  const std::array<const std::byte*, 1> own{sent};
  decompress_as<T>(code, task, own, kept);
#pragma omp parallel for schedule(static)
  for (std::int64_t e = 0; e < task.elements; ++e) kept[e] = gradient[e] - kept[e];
}

/// Calls with the arithmetic in float or in double.
template <class Call>
void in_type(plan::CompressionRule rule, DType dtype, const Call& call) {
  ensure(dtype == DType::F32 || dtype == DType::F64, "compressors take f32 or f64");
  const auto& codes = codes_of(rule);
  dtype == DType::F32 ? call(codes.f32) : call(codes.f64);
}

}  // namespace

void compress(plan::CompressionRule rule, DType dtype, const CompressorTask& task, const void* gradient, std::byte* sent) {
  in_type(rule, dtype, [&]<class T>(const CompressorCode<T>& code) { compress_as(code, task, static_cast<const T*>(gradient), sent); });
}

void decompress(plan::CompressionRule rule, DType dtype, const CompressorTask& task, std::span<const std::byte* const> sent, void* sum) {
  in_type(rule, dtype, [&]<class T>(const CompressorCode<T>& code) { decompress_as(code, task, sent, static_cast<T*>(sum)); });
}

void compress_with_memory(plan::CompressionRule rule, DType dtype, const CompressorTask& task, WithMemory with, std::byte* sent) {
  in_type(rule, dtype, [&]<class T>(const CompressorCode<T>& code) {
    compress_and_keep(code, task, static_cast<T*>(with.gradient), static_cast<T*>(with.kept), sent);
  });
}

}  // namespace rehearsal::exec
