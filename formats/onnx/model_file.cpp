#include "formats/onnx/model_file.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "formats/onnx/wire.hpp"

namespace rehearsal::formats {
namespace {

namespace files = std::filesystem;

struct External {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
};

std::uint64_t number(const std::string& text, const std::string& key, const std::string& tensor) {
  const auto value = parse_number<std::uint64_t>(text);
  if (!value) throw BadInput("tensor '" + tensor + "'", "external data: " + key + " is '" + text + "', it must be a number of bytes");
  return *value;
}

External external_of(const onnx::TensorProto& tensor, const std::string& name) {
  External external;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") external.location = entry.value();
    if (entry.key() == "offset") external.offset = number(entry.value(), "offset", name);
    if (entry.key() == "length") external.length = number(entry.value(), "length", name);
  }
  if (external.location.empty()) throw BadInput("tensor '" + name + "'", "its external data has no location");
  return external;
}

bool lies_in(const files::path& file, const files::path& folder) {
  const auto relative = file.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

/// The file beside the model. A location that leaves the model's folder could read any file of the machine.
files::path external_path(const std::string& model, const std::string& location, const std::string& tensor) {
  const files::path relative = files::path(location).lexically_normal();
  const files::path folder = files::path(model).parent_path();
  files::path path = folder / relative;
  std::error_code ignored;
  const files::path real = files::weakly_canonical(path, ignored);
  const bool inside = !relative.is_absolute() && !relative.empty() && *relative.begin() != ".." &&
                      (lies_in(real, files::weakly_canonical(folder.empty() ? "." : folder, ignored)) ||
                       lies_in(real, files::weakly_canonical(model, ignored).parent_path()));
  if (!inside) throw BadInput("tensor '" + tensor + "'", "its external data '" + location + "' must lie in the folder of the model");
  return path;
}

void require_bytes(const StoredTensor& stored, std::uint64_t found, const std::string& name) {
  const auto needed = static_cast<std::uint64_t>(graph::size_of(stored.type).value());
  if (found == needed) return;
  throw BadInput("tensor '" + name + "'", "its values have " + std::to_string(found) + " bytes, shape " +
                                              graph::to_text(stored.type.shape) + " of " + std::string(rehearsal::name(stored.type.dtype)) +
                                              " needs " + std::to_string(needed));
}

void read_external(const ModelFile& file, const onnx::TensorProto& tensor, const std::string& name, StoredTensor& stored) {
  const External external = external_of(tensor, name);
  const files::path path = external_path(file.path, external.location, name);
  std::error_code failure;
  const std::uint64_t size = files::is_regular_file(path, failure) ? files::file_size(path, failure) : 0;
  if (failure || !files::is_regular_file(path)) {
    stored.missing = path.string();
    return;
  }
  const std::uint64_t length = external.length.value_or(static_cast<std::uint64_t>(graph::size_of(stored.type).value()));
  if (external.offset > size || length > size - external.offset) {
    throw BadInput(path.string(), "tensor '" + name + "' has " + std::to_string(length) + " bytes at offset " +
                                      std::to_string(external.offset) + ", outside the file of " + std::to_string(size) + " bytes");
  }
  require_bytes(stored, length, name);
  stored.contents.source = graph::FileRegion{path.string(), external.offset, length};
}

template <class T>
std::shared_ptr<const std::vector<std::byte>> bytes_of(const T* data, std::size_t count) {
  auto bytes = std::make_shared<std::vector<std::byte>>(count * sizeof(T));
  if (count > 0) std::memcpy(bytes->data(), data, bytes->size());
  return bytes;
}

template <class To, class Field>
std::shared_ptr<const std::vector<std::byte>> narrowed(const Field& field) {
  std::vector<To> values;
  values.reserve(static_cast<std::size_t>(field.size()));
  for (const auto x : field) values.push_back(static_cast<To>(x));
  return bytes_of(values.data(), values.size());
}

/// Values in the field that the format assigns to the element type (TensorProto: "int32_data holds ... float16, bool ...").
std::shared_ptr<const std::vector<std::byte>> typed_data(const onnx::TensorProto& t, DType type) {
  switch (type) {
    case DType::F32:
      return narrowed<float>(t.float_data());
    case DType::F64:
      return narrowed<double>(t.double_data());
    case DType::I64:
      return narrowed<std::int64_t>(t.int64_data());
    case DType::U64:
      return narrowed<std::uint64_t>(t.uint64_data());
    case DType::U32:
      return narrowed<std::uint32_t>(t.uint64_data());
    case DType::I32:
      return narrowed<std::int32_t>(t.int32_data());
    default:
      break;
  }
  return size_of(type) == 2 ? narrowed<std::uint16_t>(t.int32_data()) : narrowed<std::uint8_t>(t.int32_data());
}

}  // namespace

ModelFile read_model(const std::string& path) {
  const MappedFile mapped(path);
  ModelFile file{path, mapped.bytes().size(), {}};
  const std::string small = without_payloads(mapped.bytes(), path);
  google::protobuf::io::ArrayInputStream stream(small.data(), static_cast<int>(small.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  if (!file.model.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    throw BadInput(path, "not a readable ONNX model: its fields do not follow the format");
  if (!file.model.has_graph()) throw BadInput(path, "holds no graph: this is no ONNX model");
  return file;
}

DType dtype_of(int code, const std::string& tensor) {
  const auto type = dtype_from_onnx(code);
  if (!type) throw BadInput("tensor '" + tensor + "'", "element type " + std::to_string(code) + " is not supported");
  return *type;
}

StoredTensor stored_tensor(const ModelFile& file, const onnx::TensorProto& tensor, const std::string& name) {
  StoredTensor stored;
  stored.type.dtype = stored.contents.stored = dtype_of(tensor.data_type(), name);
  stored.type.shape.assign(tensor.dims().begin(), tensor.dims().end());
  if (std::any_of(stored.type.shape.begin(), stored.type.shape.end(), [](std::int64_t d) { return d < 0; })) {
    throw BadInput("tensor '" + name + "'", "has the impossible shape " + graph::to_text(stored.type.shape));
  }
  (void)graph::element_count(stored.type.shape);
  if (stored.type.dtype == DType::String) return stored;
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    read_external(file, tensor, name, stored);
  } else if (tensor.has_payload_bytes() &&
             !tensor.has_raw_data()) {  // raw_data of any type, or float_data/double_data: sizes tell a misfit
    require_bytes(stored, tensor.payload_bytes(), name);
    stored.contents.source = graph::FileRegion{file.path, tensor.payload_offset(), tensor.payload_bytes()};
  } else {
    auto data =
        tensor.has_raw_data() ? bytes_of(tensor.raw_data().data(), tensor.raw_data().size()) : typed_data(tensor, stored.type.dtype);
    const bool none = data->empty() && !tensor.has_raw_data() && graph::element_count(stored.type.shape) > 0;
    if (none) return stored;  // a tensor without data: a weight whose values are not known
    require_bytes(stored, data->size(), name);
    stored.contents.source = graph::InlineBytes{std::move(data)};
  }
  return stored;
}

graph::Value value_of(const StoredTensor& stored) {
  if (is_integer(stored.type.dtype)) return {stored.type, graph::read_integers(stored.contents, stored.type.shape), {}};
  return {stored.type, {}, graph::read_reals(stored.contents, stored.type.shape, 0, 0)};
}

}  // namespace rehearsal::formats
