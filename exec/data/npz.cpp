#include "exec/data/npz.hpp"

#include <zip.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <regex>
#include <span>
#include <string_view>

#include "base/atomic_file.hpp"
#include "base/error.hpp"

namespace rehearsal::exec {
namespace {

struct NpyType {
  const char* code;  ///< after the byte order mark
  DType dtype;
};
constexpr NpyType kTypes[] = {{"f4", DType::F32}, {"f8", DType::F64}, {"f2", DType::F16}, {"i8", DType::I64},
                              {"i4", DType::I32}, {"i2", DType::I16}, {"i1", DType::I8},  {"u1", DType::U8},
                              {"u2", DType::U16}, {"u4", DType::U32}, {"u8", DType::U64}, {"b1", DType::Bool}};

DType dtype_of(const std::string& descr, const std::string& where) {
  if (!descr.empty() && descr[0] == '>' && descr.size() > 2 && descr[2] != '1')
    throw BadInput(where, "is big-endian; store it little-endian");
  for (const auto& t : kTypes)
    if (descr.size() == 3 && descr.substr(1) == t.code) return t.dtype;
  throw BadInput(where, "has element type \"" + descr + "\", which is not read; use float32, float64 or an integer type");
}

std::string descr_of(DType dtype) {
  for (const auto& t : kTypes)
    if (t.dtype == dtype) return (size_of(dtype) == 1 ? "|" : "<") + std::string(t.code);
  throw InternalError("an array of a type that .npy does not have");
}

std::string field(const std::string& header, const std::string& pattern, const std::string& where) {
  std::smatch match;
  if (!std::regex_search(header, match, std::regex(pattern))) throw BadInput(where, "has a header that is no .npy header");
  return match[1];
}

graph::Shape shape_of(const std::string& text, const std::string& where) {
  graph::Shape shape;
  std::int64_t count = 1;
  static const std::regex number("[0-9]+");
  for (std::sregex_iterator it(text.begin(), text.end(), number), end; it != end; ++it) {
    const auto digits = it->str();
    if (digits.size() > 15) throw BadInput(where, "has an absurd shape (" + text + ")");
    shape.push_back(std::stoll(digits));
    if (shape.back() != 0 && count > (std::int64_t{1} << 50) / std::max<std::int64_t>(shape.back(), 1))
      throw BadInput(where, "has an absurd shape (" + text + ")");
    count *= shape.back();
  }
  return shape;
}

struct ZipCloser {
  void operator()(zip_t* z) const { zip_discard(z); }
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};

std::string entry_bytes(zip_t* archive, zip_uint64_t index, const std::string& where) {
  zip_stat_t stat;
  if (zip_stat_index(archive, index, 0, &stat) != 0 || stat.size > (zip_uint64_t{1} << 40))
    throw BadInput(where, "cannot be read from the archive");
  constexpr zip_uint64_t kDeflate = 1032;  // nothing is packed more tightly: zlib's own technical notes
  if (stat.size > kDeflate * stat.comp_size) throw BadInput(where, "is damaged: it says to be larger than it can be");
  const std::unique_ptr<zip_file_t, ZipCloser> file(zip_fopen_index(archive, index, 0));
  if (file == nullptr) throw BadInput(where, "cannot be read: " + std::string(zip_strerror(archive)));
  std::string bytes(stat.size, '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto n = zip_fread(file.get(), bytes.data() + done, bytes.size() - done);
    if (n <= 0) throw BadInput(where, "is truncated or damaged");
    done += static_cast<std::size_t>(n);
  }
  char beyond = 0;  // the checksum is compared when the end is read
  if (zip_fread(file.get(), &beyond, 1) != 0) throw BadInput(where, "is damaged: its checksum is wrong");
  return bytes;
}

NpyHeader parse_header(std::string_view begin, const std::string& where) {
  if (begin.size() < 10 || !begin.starts_with("\x93NUMPY")) throw BadInput(where, "is no .npy array");
  const bool wide = begin[6] >= 2;
  const std::size_t start = wide ? 12 : 10;
  if (begin.size() < start) throw BadInput(where, "is truncated");
  std::uint32_t length = 0;
  std::memcpy(&length, begin.data() + 8, wide ? 4 : 2);
  if (length > begin.size() - start) throw BadInput(where, "is truncated");
  const std::string header(begin.substr(start, length));
  NpyHeader found{{dtype_of(field(header, "'descr'\\s*:\\s*'([^']*)'", where), where), {}}, start + length};
  if (field(header, "'fortran_order'\\s*:\\s*(True|False)", where) == "True")
    throw BadInput(where, "is stored column by column; store it in C order (numpy.ascontiguousarray)");
  found.type.shape = shape_of(field(header, "'shape'\\s*:\\s*\\(([^)]*)\\)", where), where);
  return found;
}

void require_elements(std::size_t bytes, const NpyHeader& header, const std::string& where) {
  const auto size = static_cast<std::size_t>(graph::size_of(header.type).value());
  if (bytes - header.end < size)
    throw BadInput(where, "is truncated: " + std::to_string(bytes - header.end) + " of " + std::to_string(size) + " bytes");
}

}  // namespace

NpyHeader npy_header(const StoredFile& file) {
  constexpr std::int64_t kLongest = 1 << 16;
  std::string begin(static_cast<std::size_t>(std::min(file.size(), kLongest)), '\0');
  file.read(0, std::as_writable_bytes(std::span(begin)));
  auto header = parse_header(begin, file.path());
  require_elements(static_cast<std::size_t>(file.size()), header, file.path());
  return header;
}

NpyArray parse_npy(const std::string& bytes, const std::string& where) {
  const auto header = parse_header(bytes, where);
  require_elements(bytes.size(), header, where);
  NpyArray array{header.type, std::vector<std::byte>(static_cast<std::size_t>(graph::size_of(header.type).value()))};
  std::memcpy(array.bytes.data(), bytes.data() + header.end, array.bytes.size());
  return array;
}

std::string npy_bytes(const NpyArray& array) {
  std::string shape;
  for (auto d : array.type.shape) shape += std::to_string(d) + ",";
  std::string header = "{'descr': '" + descr_of(array.type.dtype) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  while ((header.size() + 11) % 64 != 0) header += ' ';
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes.append(reinterpret_cast<const char*>(&length), 2);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  return bytes;
}

namespace {

std::string array_name(std::string entry) {
  if (entry.size() > 4 && entry.ends_with(".npy")) entry.resize(entry.size() - 4);
  return entry;
}

std::unique_ptr<zip_t, ZipCloser> open_archive(const std::string& path) {
  if (!std::filesystem::exists(path)) throw BadInput(path, "does not exist");
  int code = 0;
  std::unique_ptr<zip_t, ZipCloser> archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (archive == nullptr) throw BadInput(path, "is no .npz file (a zip archive of arrays, as numpy.savez writes it)");
  return archive;
}

}  // namespace

std::vector<std::string> npz_names(const std::string& path) {
  const auto archive = open_archive(path);
  std::vector<std::string> names;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i)
    names.push_back(array_name(zip_get_name(archive.get(), static_cast<zip_uint64_t>(i), 0)));
  return names;
}

std::map<std::string, NpyArray> read_npz(const std::string& path) {
  const auto archive = open_archive(path);
  std::map<std::string, NpyArray> arrays;
  const auto entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    const std::string name = zip_get_name(archive.get(), static_cast<zip_uint64_t>(i), 0);
    const auto where = path + ": array " + name;
    const auto bytes = entry_bytes(archive.get(), static_cast<zip_uint64_t>(i), where);
    arrays[array_name(name)] = parse_npy(bytes, where);
  }
  if (arrays.empty()) throw BadInput(path, "holds no arrays");
  return arrays;
}

void write_npz(const std::string& path, const std::map<std::string, NpyArray>& arrays) {
  if (!is_replaceable(path)) throw BadInput(path, "is no file on a disk, which an archive needs; name one");
  const auto temporary = path + ".part";
  int code = 0;
  zip_t* archive = zip_open(temporary.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (archive == nullptr) throw EnvironmentFailure(path + ": cannot be written");
  std::map<std::string, std::string> bytes;
  for (const auto& [name, array] : arrays) bytes[name] = npy_bytes(array);
  for (const auto& [name, data] : bytes) {
    auto* source = zip_source_buffer(archive, data.data(), data.size(), 0);
    const auto index = zip_file_add(archive, (name + ".npy").c_str(), source, ZIP_FL_OVERWRITE);
    if (index >= 0) zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  if (zip_close(archive) != 0) {
    zip_discard(archive);
    std::filesystem::remove(temporary);
    throw EnvironmentFailure(path + ": could not be written (is the disk full?)");
  }
  std::filesystem::rename(temporary, path);
}

}  // namespace rehearsal::exec
