#include "exec/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exec/checkpoint/checkpoint_part.hpp"
#include "exec/checkpoint/checksum.hpp"
#include "exec/checkpoint/folder.hpp"
#include "exec/host/block_moves.hpp"
#include "graph/master_weights.hpp"
#include "plan/compressors.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::exec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

plan::Region region_from(const Json& dims) {
  plan::Region region;
  for (const auto& ranges : dims) {
    auto& set = region.emplace_back();
    for (const auto& r : ranges) set.push_back({r.at(0).get<std::int64_t>(), r.at(1).get<std::int64_t>()});
  }
  return region;
}

/// x, of which the weights y have `share`, and z the rest: y = (1 - share) z + share x.
template <class T>
void set_average(StoredValue& weights, const StoredValue& z, double share) {
  auto* y = reinterpret_cast<T*>(weights.bytes.data());
  const auto* from = reinterpret_cast<const T*>(z.bytes.data());
  for (std::size_t i = 0; i < weights.bytes.size() / sizeof(T); ++i)
    y[i] = static_cast<T>(static_cast<double>(y[i]) + (1 - 1 / share) * (static_cast<double>(from[i]) - static_cast<double>(y[i])));
}

/// Puts whole tensors together from the blocks of parts, slots left out: master weights stand for their parameter, and where a share of
/// the weights is their average, that average does.
class Whole {
 public:
  Whole(std::string where, double average_share) : where_(std::move(where)), share_(average_share) {}

  void add(const Json& tensors, std::string_view bytes) {
    for (const auto& t : tensors) {
      auto tensor_name = t.at("name").get<std::string>();
      const bool slot = t.value("role", "") == kSlot, averaged = slot && share_ > 0 && graph::is_averaged(tensor_name);
      const bool master = slot && graph::is_master(tensor_name);
      if ((slot && !master && !averaged) || t.value("role", "") == kOlder || t.value("role", "") == kKept) continue;
      if (slot) tensor_name = graph::parameter_of_slot(tensor_name);
      add_block(t, bytes, (master ? masters_ : averaged ? averaged_ : values_)[tensor_name]);
    }
  }

  StoredValues finish() && {
    for (auto& [tensor_name, found] : masters_) values_[tensor_name] = std::move(found);
    StoredValues values;
    for (auto& [tensor_name, found] : values_) {
      require_whole(tensor_name, found);
      if (const auto z = averaged_.find(tensor_name); z != averaged_.end()) average(tensor_name, found, z->second);
      values[tensor_name] = std::move(found.value);
    }
    return values;
  }

 private:
  struct Found {
    StoredValue value;
    std::vector<plan::Region> regions;
  };

  void require_whole(const std::string& tensor_name, const Found& found) const {
    std::int64_t elements = 0;
    for (const auto& region : found.regions) elements += plan::element_count(region);
    if (elements < graph::element_count(found.value.type.shape))
      throw BadInput(where_, "holds only " + std::to_string(elements) + " elements of tensor " + tensor_name + " of shape " +
                                 graph::to_text(found.value.type.shape));
  }

  void average(const std::string& tensor_name, Found& weights, const Found& z) const {
    require_whole(tensor_name, z);
    if (z.value.type != weights.value.type) throw BadInput(where_, "tensor " + tensor_name + " and its average are of different types");
    (z.value.type.dtype == DType::F64 ? set_average<double> : set_average<float>)(weights.value, z.value, share_);
  }

  void add_block(const Json& t, std::string_view bytes, Found& found) {
    const auto type = dtype_from_name(t.at("dtype").get<std::string>());
    const auto offset = t.at("offset").get<std::size_t>(), size = t.at("bytes").get<std::size_t>();
    const auto region = region_from(t.at("region"));
    const auto shape = t.at("shape").get<graph::Shape>();
    const bool fits = type && offset <= bytes.size() && size <= bytes.size() - offset && region.size() == shape.size() &&
                      plan::intersection(region, plan::whole_region(shape)) == region &&
                      plan::element_count(region) * static_cast<std::int64_t>(size_of(*type)) == static_cast<std::int64_t>(size);
    if (!fits) throw BadInput(where_, "tensor " + t.at("name").get<std::string>() + " is damaged");
    if (std::find(found.regions.begin(), found.regions.end(), region) != found.regions.end()) return;
    found.regions.push_back(region);
    found.value.type = {*type, shape};
    found.value.bytes.resize(static_cast<std::size_t>(graph::size_of(found.value.type).value()));
    run(plan::BlockCopy(region, plan::whole_region(shape)), size_of(*type), reinterpret_cast<const std::byte*>(bytes.data()) + offset,
        found.value.bytes.data());
  }

  std::string where_;
  double share_;
  std::map<std::string, Found> values_, masters_, averaged_;
};

/// Parts are distributed: whichever rank reads a part, one of them has looked at all of its bytes.
void check_parts(const Json& manifest, const fs::path& folder, const Communicator& world) {
  constexpr std::size_t kPiece = std::size_t{1} << 20U;
  const auto& parts = manifest.at("parts");
  std::string piece(kPiece, '\0');
  for (auto n = static_cast<std::size_t>(world.rank()); n < parts.size(); n += static_cast<std::size_t>(world.size())) {
    const auto file = part_file(folder, parts[n]);
    std::ifstream in(file, std::ios::binary);
    Checksum found;
    while (in.read(piece.data(), kPiece) || in.gcount() > 0) found.add({piece.data(), static_cast<std::size_t>(in.gcount())});
    require_checksum(file, parts[n], found.text());
  }
}

/// A block of a tensor in a part.
struct Entry {
  fs::path file;
  std::int64_t offset = 0, bytes = 0;
  std::string dtype;
  plan::Region region;
  bool kept = false;
};
using Entries = std::map<std::string, std::vector<Entry>>;

Entries entries_of(const Json& manifest, const fs::path& folder) {
  Entries entries;
  for (const auto& part : manifest.at("parts")) {
    const auto file = part_file(folder, part);
    std::error_code missing;
    if (fs::file_size(file, missing) != part.at("bytes").get<std::uintmax_t>() || missing)
      throw BadInput(file.string(), "is missing or has not the " + std::to_string(part.at("bytes").get<std::int64_t>()) +
                                        " bytes that the manifest says; the checkpoint is incomplete");
    for (const auto& t : part.at("tensors")) {
      auto& blocks = entries[t.at("name").get<std::string>()];
      Entry entry{file,
                  t.at("offset").get<std::int64_t>(),
                  t.at("bytes").get<std::int64_t>(),
                  t.at("dtype").get<std::string>(),
                  region_from(t.at("region")),
                  t.value("role", "") == kKept};
      // A weight that several pipeline stages use is held by each of them.
      const auto same = [&](const Entry& other) { return other.region == entry.region; };
      if (std::none_of(blocks.begin(), blocks.end(), same)) blocks.push_back(std::move(entry));
    }
  }
  return entries;
}

std::vector<std::byte> read_block(const Entry& entry, const graph::Tensor& tensor) {
  const auto expected = plan::element_count(entry.region) * static_cast<std::int64_t>(size_of(tensor.type.dtype));
  if (entry.dtype != name(tensor.type.dtype) || entry.region.size() != tensor.type.shape.size() || entry.bytes != expected)
    throw BadInput(entry.file.string(), "tensor " + tensor.name + " is " + entry.dtype + " of " + std::to_string(entry.bytes) +
                                            " bytes, the model wants " + std::string(name(tensor.type.dtype)) + " of shape " +
                                            graph::to_text(tensor.type.shape));
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.bytes));
  std::ifstream in(entry.file, std::ios::binary);
  in.seekg(entry.offset);
  if (!in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
    throw BadInput(entry.file.string(), "tensor " + tensor.name + " cannot be read");
  return bytes;
}

/// Fills this rank's block from the blocks that hold parts of it: the checkpoint may be of another plan.
void read_tensor(const std::vector<Entry>& entries, const graph::Tensor& tensor, const plan::Region& mine, std::span<std::byte> to) {
  std::int64_t found = 0;
  for (const auto& entry : entries) {
    const auto common = plan::element_count(plan::intersection(entry.region, mine));
    if (common == 0 && !mine.empty()) continue;
    const auto bytes = read_block(entry, tensor);
    run(plan::BlockCopy(entry.region, mine), size_of(tensor.type.dtype), bytes.data(), to.data());
    found += common;
  }
  if (found != plan::element_count(mine))
    throw BadInput(entries.front().file.parent_path().string(), "holds only " + std::to_string(found) + " of the " +
                                                                    std::to_string(plan::element_count(mine)) + " elements of tensor " +
                                                                    tensor.name + " that this rank needs");
}

/// The entry of what a rank keeps; nullptr where the checkpoint has none of as many bytes.
const Entry* entry_of(const Entries& entries, const KeptVector& vector, const plan::Buffer& buffer) {
  const auto at = entries.find(vector.name);
  if (at == entries.end()) return nullptr;
  const auto& entry = at->second.front();
  return entry.kept && entry.bytes == buffer.bytes && entry.dtype == name(buffer.dtype) ? &entry : nullptr;
}

/// What is not in the checkpoint begins at 0, as it was allocated.
void read_kept(const Entries& entries, const KeptVectors& all) {
  for (const auto& vector : all.all()) {
    const auto& buffer = all.buffer(vector);
    const auto* entry = entry_of(entries, vector, buffer);
    if (entry == nullptr) continue;
    graph::Tensor kept;
    kept.name = vector.name;
    kept.type = {buffer.dtype, buffer.shapes.front()};
    all.write(vector, read_block(*entry, kept));
  }
}

[[noreturn]] void refuse_without_versions(const std::string& folder, const plan::Program& program, const graph::Tensor& tensor) {
  throw BadInput("--resume " + folder, "has " + tensor.name + " only as the last update left it, but schedule=" + program.plan.schedule +
                                           " goes on with older weights too; use a checkpoint of the same pp and schedule, or a schedule "
                                           "with a flush");
}

}  // namespace

StoredValues trained_values(Executor& executor, const Training& training) {
  const PartPlan own(executor, training);
  const auto lists = training.world.gather(own.tensors());
  const auto bytes = training.world.gather(own.copy(executor));
  Whole whole("the trained values", graph::average_share(training.graph.optimizer));
  for (std::size_t rank = 0; rank < lists.size(); ++rank) whole.add(Json::parse(lists[rank]), bytes[rank]);
  return std::move(whole).finish();
}

StoredValues read_checkpoint(const std::string& folder) {
  const auto place = newest_checkpoint(folder, "--checkpoint");
  const auto manifest = read_manifest(place);
  try {
    (void)entries_of(manifest, place);
    Whole whole(folder, header_of(manifest).average_share);
    for (const auto& part : manifest.at("parts")) {
      const auto file = part_file(place, part);
      std::ifstream in(file, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      require_checksum(file, part, checksum_of(bytes));
      whole.add(part.at("tensors"), bytes);
    }
    return std::move(whole).finish();
  } catch (const nlohmann::json::exception& error) {
    throw BadInput((place / kManifest).string(), std::string("is damaged: ") + platforms::reason_of(error));
  }
}

CheckpointHeader read_checkpoint_header(const std::string& folder) {
  const auto place = newest_checkpoint(folder, "--resume");
  const auto manifest = read_manifest(place);
  try {
    return header_of(manifest);
  } catch (const nlohmann::json::exception& error) {
    throw BadInput((place / kManifest).string(), std::string("is damaged: ") + platforms::reason_of(error));
  }
}

namespace {

/// "; it holds fc.weight.momentum, which this training has not"; empty where the names are the same.
std::string what_differs(const Entries& entries, const graph::Graph& graph) {
  std::set<std::string> wanted, held;
  for (const auto& tensor : graph.tensors())
    if (is_saved(tensor)) wanted.insert(tensor.name);
  for (const auto& [name, entry] : entries)
    if (!wanted.contains(name) && !entry.front().kept) held.insert(name);
  const auto lacks = std::ranges::find_if(wanted, [&](const auto& name) { return !entries.contains(name); });
  std::string text;
  if (!held.empty()) text += "; it holds " + *held.begin() + ", which this training has not";
  if (lacks != wanted.end()) text += "; it lacks " + *lacks + ", which this training has";
  return text;
}

/// Adam and AdamW make the same graph, and mean something else by weight decay.
void require_same_optimizer(const TrainedAs& then, const TrainedAs& now, const std::string& folder) {
  constexpr auto* kOption = TrainedAs::kOptimizer;
  const auto was = then.options.find(kOption), is = now.options.find(kOption);
  if (was == then.options.end() || is == now.options.end() || was->second == is->second) return;
  throw BadInput(kOption + (" " + is->second),
                 "--resume " + folder + " was trained with " + was->second + ", and its state is of no use to another one");
}

/// Why a hash differs, as far as it is known.
std::string of_another_training(const CheckpointHeader& header, const TrainedAs& now, const std::string& otherwise) {
  const auto options = header.as.known() && now.known() ? differences(header.as.options, now.options) : std::string();
  return options.empty() ? otherwise : "was trained with " + options + "; what training goes on with must be the same";
}

/// Whatever the batch and the optimizer's numbers are now.
bool is_of_training(const CheckpointHeader& header, const Training& training, const HashAsThen& hash_as_then) {
  const auto& program = training.program;
  if (header.model_hash == program.model_hash && header.batch == program.batch) return true;
  return header.model_hash == (hash_as_then ? hash_as_then(header) : program.model_hash);
}

/// This rank's block, of every age.
void load_tensor(const std::string& folder, const Entries& entries, Executor& executor, const Training& training, graph::TensorId t) {
  const auto& tensor = training.graph.graph[t];
  std::vector<std::byte> block(static_cast<std::size_t>(executor.stored_bytes(t)));
  for (int age = 0; age < executor.versions(t); ++age) {
    auto at = entries.find(own_name(training.program, training.world.rank(), tensor));
    if (at == entries.end()) at = entries.find(aged(tensor.name, age));
    if (at == entries.end() && age > 0) refuse_without_versions(folder, training.program, tensor);
    if (at == entries.end()) throw BadInput("--resume " + folder, "holds no tensor " + tensor.name);
    read_tensor(at->second, tensor, executor.stored_region(t), block);
    executor.set_stored(t, block, age);
  }
}

}  // namespace

CheckpointHeader load_checkpoint(const std::string& folder, Executor& executor, const Training& training, const HashAsThen& hash_as_then,
                                 const TrainedAs& now) {
  const auto place = newest_checkpoint(folder, "--resume");
  const auto manifest = read_manifest(place);
  try {
    const auto header = header_of(manifest);
    const auto entries = entries_of(manifest, place);
    require_same_optimizer(header.as, now, folder);
    if (!is_of_training(header, training, hash_as_then))
      throw BadInput("--resume " + folder,
                     of_another_training(header, now, "is of another model" + std::string(hash_as_then ? "" : " or batch")) +
                         what_differs(entries, training.graph.graph));
    require_same_weights(header.as, now, "--resume " + folder);
    check_parts(manifest, place, training.world);
    executor.continue_after(header.step, header.samples);
    const auto slots = other_slots(header.as, now);
    for (auto t : executor.stored_tensors())
      if (const auto& tensor = training.graph.graph[t]; is_saved(tensor) && !slots.begins(tensor))
        load_tensor(folder, entries, executor, training, t);
    read_kept(entries, executor.kept());
    return header;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput((place / kManifest).string(), std::string("is damaged: ") + platforms::reason_of(error));
  }
}

namespace {

/// Names under which a Program's ranks look for what each keeps for itself, the optimizer's state of replicas included.
struct NamesOfKept {
  std::set<std::string> names;
  bool all_held = true;  ///< by a checkpoint
};

NamesOfKept names_of_kept(const Entries& entries, const plan::Program& program, const graph::Graph& graph, const OtherSlots& slots) {
  NamesOfKept found;
  const auto add = [&](std::string name, bool held) {
    found.names.insert(std::move(name));
    found.all_held = found.all_held && held;
  };
  for (int rank = 0; rank < program.ranks; ++rank) {
    const auto& buffers = program.role(rank).buffers;
    for (const auto& vector : kept_vectors(program, rank)) add(vector.name, entry_of(entries, vector, buffers[vector.buffer]) != nullptr);
    for (const auto& b : buffers)
      if (is_stored(b) && is_saved(graph[b.tensor]))
        if (auto own = own_name(program, rank, graph[b.tensor]); !own.empty())
          add(own, entries.contains(own) || slots.begins(graph[b.tensor]));
  }
  return found;
}

void note_loss(const std::string& name, const graph::Graph& graph, HeldKept& held) {
  if (name.starts_with(plan::kNotSent)) {
    held.loses_not_sent = true;
  } else if (const auto replica = name.rfind(kReplica); replica == std::string::npos) {
    held.loses_outer_momentum = true;
  } else if (!name.substr(replica).starts_with(kFirstReplica) && graph.find(name.substr(0, replica)) != graph::TensorId::None) {
    held.loses_state = true;
  }
}

}  // namespace

HeldKept held_kept(const std::string& folder, const plan::Program& program, const graph::Graph& graph, const TrainedAs& now) {
  const auto place = newest_checkpoint(folder, "--resume");
  const auto manifest = read_manifest(place);
  try {
    const auto entries = entries_of(manifest, place);
    const auto header = header_of(manifest);
    const auto wanted = names_of_kept(entries, program, graph, other_slots(header.as, now));
    HeldKept held;
    held.all = wanted.all_held;
    for (const auto& [name, blocks] : entries) {
      if (!blocks.front().kept) continue;
      held.not_sent = held.not_sent || name.starts_with(plan::kNotSent);
      if (header.is_apart() && !wanted.names.contains(name)) note_loss(name, graph, held);
    }
    return held;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput((place / kManifest).string(), std::string("is damaged: ") + platforms::reason_of(error));
  }
}

}  // namespace rehearsal::exec
