#include "exec/checkpoint.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"

namespace rehearsal::exec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kManifest = "manifest.json";

/// One part per pipeline stage, written by the first replica of the stage: replicas hold the same.
std::string part_name(int stage) { return "stage-" + std::to_string(stage) + ".bin"; }

bool writes(const plan::Program& program, int rank) {
  for (std::size_t a = 0; a < program.axes.size(); ++a)
    if (program.axes[a].name != "pp" && plan::coordinate(program, rank, a) != 0) return false;
  return true;
}

bool is_state(graph::Role role) { return role == graph::Role::Parameter || role == graph::Role::Slot || role == graph::Role::State; }

/// Layout of a part: tensor entries for the manifest, and all bytes.
Json write_part(const fs::path& path, Executor& executor, const graph::TrainingGraph& training) {
  Json tensors = Json::array();
  std::string bytes;
  for (auto t : executor.stored_tensors()) {
    const auto& tensor = training.graph[t];
    if (!is_state(tensor.role)) continue;
    const auto data = executor.stored(t);
    tensors.push_back({{"name", tensor.name},
                       {"dtype", std::string(name(tensor.type.dtype))},
                       {"shape", tensor.type.shape},
                       {"offset", bytes.size()},
                       {"bytes", data.size()}});
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  write_file_atomically(path.string(), bytes);
  return {{"file", path.filename().string()}, {"bytes", bytes.size()}, {"tensors", tensors}};
}

Json read_manifest(const fs::path& folder) {
  const auto path = folder / kManifest;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(folder.string(), std::string("holds no checkpoint (no ") + kManifest + ")");
  try {
    return Json::parse(in);
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(path.string(), std::string("is damaged: ") + error.what());
  }
}

struct Entry {
  fs::path file;
  std::int64_t offset = 0, bytes = 0;
  std::string dtype;
};

std::map<std::string, Entry> entries_of(const Json& manifest, const fs::path& folder) {
  std::map<std::string, Entry> entries;
  for (const auto& part : manifest.at("parts")) {
    const auto file = folder / part.at("file").get<std::string>();
    std::error_code missing;
    if (fs::file_size(file, missing) != part.at("bytes").get<std::uintmax_t>() || missing)
      throw BadInput(file.string(), "is missing or has not the " + std::to_string(part.at("bytes").get<std::int64_t>()) +
                                        " bytes that the manifest says; the checkpoint is incomplete");
    for (const auto& t : part.at("tensors"))
      entries[t.at("name").get<std::string>()] = {file, t.at("offset").get<std::int64_t>(), t.at("bytes").get<std::int64_t>(),
                                                  t.at("dtype").get<std::string>()};
  }
  return entries;
}

void read_tensor(const Entry& entry, const graph::Tensor& tensor, std::span<std::byte> to) {
  if (entry.dtype != name(tensor.type.dtype) || entry.bytes != static_cast<std::int64_t>(to.size()))
    throw BadInput(entry.file.string(), "tensor " + tensor.name + " is " + entry.dtype + " of " + std::to_string(entry.bytes) +
                                            " bytes, the model wants " + std::string(name(tensor.type.dtype)) + " of " +
                                            std::to_string(to.size()));
  std::ifstream in(entry.file, std::ios::binary);
  in.seekg(entry.offset);
  if (!in.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size())))
    throw BadInput(entry.file.string(), "tensor " + tensor.name + " cannot be read");
}

}  // namespace

void save_checkpoint(const std::string& folder, const CheckpointHeader& header, Executor& executor, const Training& training) {
  const auto& program = training.program;
  auto& world = training.world;
  const fs::path final_place(folder), fresh(folder + ".new"), old(folder + ".old");
  if (world.rank() == 0) {
    if (fs::exists(final_place) && !fs::is_directory(final_place)) throw BadInput("--checkpoint " + folder, "is a file; give a folder");
    std::error_code failed;
    fs::remove_all(fresh, failed);
    fs::create_directories(fresh, failed);
    if (failed) throw EnvironmentFailure("--checkpoint " + folder + ": cannot be created: " + failed.message());
  }
  world.barrier("the folder of the checkpoint");
  Json part;
  if (writes(program, world.rank())) part = write_part(fresh / part_name(program.role(world.rank()).stage), executor, training.graph);
  const auto parts = world.gather(part.is_null() ? std::string() : part.dump());
  if (world.rank() == 0) {
    Json manifest{{"schema", 1},           {"model_hash", header.model_hash}, {"step", header.step},   {"seed", header.seed},
                  {"batch", header.batch}, {"dtype", header.dtype},           {"parts", Json::array()}};
    for (const auto& text : parts)
      if (!text.empty()) manifest["parts"].push_back(Json::parse(text));
    write_file_atomically((fresh / kManifest).string(), manifest.dump(1) + "\n");
    // The old checkpoint stands until the new one is whole; a crash between the two renames leaves it under ".old".
    std::error_code ignored, failed;
    fs::remove_all(old, ignored);
    if (fs::exists(final_place)) fs::rename(final_place, old, failed);
    if (!failed) fs::rename(fresh, final_place, failed);
    if (failed) throw EnvironmentFailure("--checkpoint " + folder + ": cannot be put in place: " + failed.message());
    fs::remove_all(old, ignored);
  }
  world.barrier("the checkpoint");
}

CheckpointHeader load_checkpoint(const std::string& folder, Executor& executor, const Training& training) {
  fs::path place(folder);
  if (!fs::exists(place) && fs::exists(folder + ".old")) place = folder + ".old";
  if (!fs::exists(place)) throw BadInput("--resume " + folder, "does not exist");
  const auto manifest = read_manifest(place);
  try {
    CheckpointHeader header{manifest.at("model_hash").get<std::string>(), manifest.at("step").get<std::int64_t>(),
                            manifest.at("seed").get<std::uint64_t>(), manifest.at("batch").get<std::int64_t>(),
                            manifest.at("dtype").get<std::string>()};
    if (header.model_hash != training.program.model_hash)
      throw BadInput("--resume " + folder,
                     "is of another model or batch (hash " + header.model_hash + ", this is " + training.program.model_hash + ")");
    const auto entries = entries_of(manifest, place);
    for (auto t : executor.stored_tensors()) {
      const auto& tensor = training.graph.graph[t];
      if (!is_state(tensor.role)) continue;
      const auto at = entries.find(tensor.name);
      if (at == entries.end()) throw BadInput("--resume " + folder, "holds no tensor " + tensor.name);
      read_tensor(at->second, tensor, executor.stored(t));
    }
    return header;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput((place / kManifest).string(), std::string("is damaged: ") + error.what());
  }
}

}  // namespace rehearsal::exec
