#pragma once
// How a reference kernel is written: a struct with a static function template `run<T>(const Call&)`, and a row
//   {"Relu", "reference:any", make_by_output<Relu, Floats>}
// which instantiates it for the listed element types and picks one by the type of a result or operand.
// Tensors are whole or local blocks, row-major; T is the C++ type of an element (bool for DType::Bool).

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::reference {

/// What a kernel was made for, kept by value: the request's spans do not outlive the call that makes a kernel.
struct Problem {
  explicit Problem(const KernelRequest& request);
  const graph::OpSchema& schema;
  graph::Attributes attributes;
  std::vector<std::optional<graph::TensorType>> inputs, outputs;  ///< local types
  int threads;
  [[nodiscard]] graph::NodeView view() const { return {inputs, outputs, attributes}; }
};

/// One run of one kernel.
struct Call {
  const Problem& problem;
  std::span<const TensorView> inputs, outputs;
  const RunContext& context;

  [[nodiscard]] const graph::Attributes& attributes() const { return problem.attributes; }
  [[nodiscard]] int threads() const { return problem.threads; }
  [[nodiscard]] bool has_input(std::size_t i) const { return i < inputs.size() && inputs[i].data != nullptr; }
  [[nodiscard]] bool has_output(std::size_t i) const { return i < outputs.size() && outputs[i].data != nullptr; }
  template <class T>
  [[nodiscard]] const T* in(std::size_t i) const {
    require_width(inputs[i], sizeof(T));
    return inputs[i].as<const T>();
  }
  template <class T>
  [[nodiscard]] T* out(std::size_t i = 0) const {
    require_width(outputs[i], sizeof(T));
    return outputs[i].as<T>();
  }
  [[nodiscard]] const graph::Shape& in_shape(std::size_t i) const { return problem.inputs[i]->shape; }
  [[nodiscard]] const graph::Shape& out_shape(std::size_t i = 0) const { return problem.outputs[i]->shape; }
  /// First index of this block in the unsplit operand or result along `dim`; 0 when it is whole.
  [[nodiscard]] std::int64_t in_origin(std::size_t i, std::size_t dim) const { return inputs[i].origin ? (*inputs[i].origin)[dim] : 0; }
  [[nodiscard]] std::int64_t out_origin(std::size_t i, std::size_t dim) const { return outputs[i].origin ? (*outputs[i].origin)[dim] : 0; }
  /// Shape of the unsplit operand or result.
  [[nodiscard]] const graph::Shape& in_global(std::size_t i) const {
    return inputs[i].global_shape ? *inputs[i].global_shape : in_shape(i);
  }
  [[nodiscard]] const graph::Shape& out_global(std::size_t i = 0) const {
    return outputs[i].global_shape ? *outputs[i].global_shape : out_shape(i);
  }

 private:
  /// Throws std::logic_error where a kernel takes elements of so many bytes for those of a tensor that has others: it would read and write
  /// beyond it.
  void require_width(const TensorView&, std::size_t bytes) const;
};

using KernelBody = void (*)(const Call&);
/// A kernel that calls `body`; refuses operands or results that are not plain.
[[nodiscard]] std::unique_ptr<Kernel> make_kernel(const KernelRequest& request, KernelBody body, std::string& reason);
/// Refuses element type `type`, naming the operator.
[[nodiscard]] std::unique_ptr<Kernel> refuse_type(const KernelRequest& request, DType type, std::string& reason);

template <class... T>
struct Types {};
using Floats = Types<float, double>;
using Numbers = Types<float, double, std::int32_t, std::int64_t>;
using Integers = Types<std::int32_t, std::int64_t>;
using Everything = Types<float, double, std::int32_t, std::int64_t, bool, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t,
                         std::uint32_t, std::uint64_t>;

template <class T>
inline constexpr DType kTypeOf = DType::Count;
template <>
inline constexpr DType kTypeOf<float> = DType::F32;
template <>
inline constexpr DType kTypeOf<double> = DType::F64;
template <>
inline constexpr DType kTypeOf<std::int32_t> = DType::I32;
template <>
inline constexpr DType kTypeOf<std::int64_t> = DType::I64;
template <>
inline constexpr DType kTypeOf<bool> = DType::Bool;
template <>
inline constexpr DType kTypeOf<std::int8_t> = DType::I8;
template <>
inline constexpr DType kTypeOf<std::uint8_t> = DType::U8;
template <>
inline constexpr DType kTypeOf<std::int16_t> = DType::I16;
template <>
inline constexpr DType kTypeOf<std::uint16_t> = DType::U16;
template <>
inline constexpr DType kTypeOf<std::uint32_t> = DType::U32;
template <>
inline constexpr DType kTypeOf<std::uint64_t> = DType::U64;

/// The instantiation of B::run for `type`; nullptr when it is not among T.
template <class B, class... T>
[[nodiscard]] KernelBody body_for(DType type, Types<T...>) {
  KernelBody body = nullptr;
  ((type == kTypeOf<T> ? void(body = &B::template run<T>) : void()), ...);
  return body;
}

template <class B, class List>
[[nodiscard]] std::unique_ptr<Kernel> make_for(DType type, const KernelRequest& request, std::string& reason) {
  const KernelBody body = body_for<B>(type, List{});
  return body ? make_kernel(request, body, reason) : refuse_type(request, type, reason);
}

/// T is the element type of result 0.
template <class B, class List>
[[nodiscard]] std::unique_ptr<Kernel> make_by_output(const KernelRequest& request, std::string& reason) {
  return make_for<B, List>(request.view().output().dtype, request, reason);
}

/// T is the element type of operand `I`.
template <class B, class List, std::size_t I = 0>
[[nodiscard]] std::unique_ptr<Kernel> make_by_input(const KernelRequest& request, std::string& reason) {
  return make_for<B, List>(request.view().input(I).dtype, request, reason);
}

/// T is an unsigned integer as wide as an element of result 0: for kernels that only move elements.
template <class B>
[[nodiscard]] std::unique_ptr<Kernel> make_by_size(const KernelRequest& request, std::string& reason) {
  const DType type = request.view().output().dtype;
  switch (size_of(type)) {
    case 1:
      return make_kernel(request, &B::template run<std::uint8_t>, reason);
    case 2:
      return make_kernel(request, &B::template run<std::uint16_t>, reason);
    case 4:
      return make_kernel(request, &B::template run<std::uint32_t>, reason);
    case 8:
      return make_kernel(request, &B::template run<std::uint64_t>, reason);
    default:
      return refuse_type(request, type, reason);
  }
}

/// Calls body(first, last) on contiguous parts of [0, count), in parallel where there is enough to do: a part has at least `grain` items.
template <class F>
void parallel_ranges(int threads, std::int64_t count, std::int64_t grain, F&& body) {
  const std::int64_t parts = std::max<std::int64_t>(1, std::min<std::int64_t>(threads, count / std::max<std::int64_t>(1, grain)));
  if (parts == 1) {
    body(std::int64_t{0}, count);
    return;
  }
#ifdef _OPENMP
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static)
#endif
  for (std::int64_t p = 0; p < parts; ++p) body(p * count / parts, (p + 1) * count / parts);
}

/// As parallel_ranges, item by item.
template <class F>
void parallel_items(int threads, std::int64_t count, std::int64_t grain, F&& body) {
  parallel_ranges(threads, count, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) body(i);
  });
}

}  // namespace rehearsal::exec::reference
