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

/// c = a · b + bias; an empty description where there is no bias.
struct ProductShape {
  dnnl::memory::desc a, b, bias, c;
};

#if DNNL_VERSION_MAJOR >= 3

inline dnnl::memory::dims dims_of(const dnnl::memory::desc& desc) { return desc.get_dims(); }
inline dnnl::memory::data_type type_of(const dnnl::memory::desc& desc) { return desc.get_data_type(); }
inline Forward forward(const ConvolutionShape& s, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  const auto kind = dnnl::prop_kind::forward_training;
  return {engine, kind, kDirect, s.image, s.weights, s.bias, s.windows, s.strides, s.dilations, s.low, s.high, attributes};
}
inline BackwardData backward_data(const ConvolutionShape& s, const Forward& hint, const dnnl::primitive_attr& attributes,
                                  const dnnl::engine& engine) {
  return {engine, kDirect, s.image, s.weights, s.windows, s.strides, s.dilations, s.low, s.high, hint, attributes};
}
inline BackwardWeights backward_weights(const ConvolutionShape& s, const Forward& hint, const dnnl::primitive_attr& attributes,
                                        const dnnl::engine& engine) {
  return {engine, kDirect, s.image, s.weights, s.bias, s.windows, s.strides, s.dilations, s.low, s.high, hint, attributes};
}
inline Matmul product(const ProductShape& s, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  return s.bias.get_size() == 0 ? Matmul(engine, s.a, s.b, s.c, attributes) : Matmul(engine, s.a, s.b, s.bias, s.c, attributes);
}

#else

inline dnnl::memory::dims dims_of(const dnnl::memory::desc& desc) { return desc.dims(); }
inline dnnl::memory::data_type type_of(const dnnl::memory::desc& desc) { return desc.data_type(); }
inline Forward forward(const ConvolutionShape& s, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  const auto kind = dnnl::prop_kind::forward_training;
  return {dnnl::convolution_forward::desc(kind, kDirect, s.image, s.weights, s.bias, s.windows, s.strides, s.dilations, s.low, s.high),
          attributes, engine};
}
inline BackwardData backward_data(const ConvolutionShape& s, const Forward& hint, const dnnl::primitive_attr& attributes,
                                  const dnnl::engine& engine) {
  return {dnnl::convolution_backward_data::desc(kDirect, s.image, s.weights, s.windows, s.strides, s.dilations, s.low, s.high), attributes,
          engine, hint};
}
inline BackwardWeights backward_weights(const ConvolutionShape& s, const Forward& hint, const dnnl::primitive_attr& attributes,
                                        const dnnl::engine& engine) {
  return {dnnl::convolution_backward_weights::desc(kDirect, s.image, s.weights, s.bias, s.windows, s.strides, s.dilations, s.low, s.high),
          attributes, engine, hint};
}
inline Matmul product(const ProductShape& s, const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  return s.bias.get_size() == 0 ? Matmul({s.a, s.b, s.c}, attributes, engine) : Matmul({s.a, s.b, s.bias, s.c}, attributes, engine);
}

#endif

}  // namespace rehearsal::exec::onednn
