#pragma once
// oneDNN 2.x and 3.x build the same primitives with different calls; every difference is in this file.

#include <dnnl.hpp>

namespace rehearsal::exec::onednn {

/// A convolution as oneDNN describes it: memory descriptions, and one entry per spatial axis (dilations count from 0).
struct ConvolutionShape {
  dnnl::memory::desc image, weights, bias, windows;  ///< bias: zero when there is none
  dnnl::memory::dims strides, dilations, low, high;
};

using Forward = dnnl::convolution_forward::primitive_desc;
using BackwardData = dnnl::convolution_backward_data::primitive_desc;
using BackwardWeights = dnnl::convolution_backward_weights::primitive_desc;
using Matmul = dnnl::matmul::primitive_desc;

inline constexpr auto kDirect = dnnl::algorithm::convolution_direct;

#if DNNL_VERSION_MAJOR >= 3

inline Forward forward(const ConvolutionShape& s, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  const auto kind = dnnl::prop_kind::forward_training;
  return {engine, kind, kDirect, s.image, s.weights, s.bias, s.windows, s.strides, s.dilations, s.low, s.high, attributes};
}
inline BackwardData backward_data(const ConvolutionShape& s, const Forward& hint, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  return {engine, kDirect, s.image, s.weights, s.windows, s.strides, s.dilations, s.low, s.high, hint, attributes};
}
inline BackwardWeights backward_weights(const ConvolutionShape& s, const Forward& hint, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  return {engine, kDirect, s.image, s.weights, s.bias, s.windows, s.strides, s.dilations, s.low, s.high, hint, attributes};
}
inline Matmul product(const dnnl::memory::desc& a, const dnnl::memory::desc& b, const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  return {engine, a, b, c, attributes};
}
inline Matmul product(const dnnl::memory::desc& a, const dnnl::memory::desc& b, const dnnl::memory::desc& bias, const dnnl::memory::desc& c,
                      const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  return {engine, a, b, bias, c, attributes};
}

#else

inline Forward forward(const ConvolutionShape& s, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  const auto kind = dnnl::prop_kind::forward_training;
  return {dnnl::convolution_forward::desc(kind, kDirect, s.image, s.weights, s.bias, s.windows, s.strides, s.dilations, s.low, s.high), attributes, engine};
}
inline BackwardData backward_data(const ConvolutionShape& s, const Forward& hint, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  return {dnnl::convolution_backward_data::desc(kDirect, s.image, s.weights, s.windows, s.strides, s.dilations, s.low, s.high), attributes, engine, hint};
}
inline BackwardWeights backward_weights(const ConvolutionShape& s, const Forward& hint, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  return {dnnl::convolution_backward_weights::desc(kDirect, s.image, s.weights, s.bias, s.windows, s.strides, s.dilations, s.low, s.high), attributes, engine, hint};
}
inline Matmul product(const dnnl::memory::desc& a, const dnnl::memory::desc& b, const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
}
inline Matmul product(const dnnl::memory::desc& a, const dnnl::memory::desc& b, const dnnl::memory::desc& bias, const dnnl::memory::desc& c,
                      const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  return {dnnl::matmul::desc(a, b, bias, c), attributes, engine};
}

#endif

}  // namespace rehearsal::exec::onednn
