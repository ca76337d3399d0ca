#pragma once
// What a checkpoint says of itself: manifest.json, with a checksum of its own and one of every part.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "exec/checkpoint/trained_as.hpp"

namespace rehearsal::exec {

/// How well a training has done on data that it is not trained on.
struct EvaluatedSoFar {
  double lowest_loss = std::numeric_limits<double>::infinity();
  std::int64_t lowest_at = 0;     ///< step
  std::int64_t without_gain = 0;  ///< evaluations since
};

struct CheckpointHeader {
  std::string model_hash;
  std::int64_t step = 0, samples = 0;  ///< that are done; that were seen
  std::uint64_t seed = 0;
  std::int64_t batch = 0;
  std::string dtype;
  EvaluatedSoFar evaluated;
  double average_share = 0;  ///< of the average in the weights that training computes with (graph/optimizer.hpp); 0: there is none
  TrainedAs as;
  /// So many steps ranks kept nothing that differs from one to the other, such as an optimizer's state of a replica's own.
  std::int64_t apart_after = kNeverApart;

  static constexpr auto kNeverApart = std::numeric_limits<std::int64_t>::max();
  [[nodiscard]] bool is_apart() const { return step > apart_after; }
};

inline constexpr const char* kManifest = "manifest.json";

/// What a checkpoint is among those of its folder.
struct PlaceInFolder {
  std::int64_t number = 0;  ///< counts them in the order in which they were written; 0 of a version that did not count
  std::string training;     ///< that wrote it, and may remove it: all that go on with each other in this folder; empty: nobody said
};

/// `parts`: the entry of every part, as JSON.
[[nodiscard]] std::string manifest_text(const CheckpointHeader&, const PlaceInFolder&, const std::vector<std::string>& parts);
/// Throws BadInput naming the manifest when it is missing, of a newer version, or another than was written.
[[nodiscard]] nlohmann::ordered_json read_manifest(const std::filesystem::path& checkpoint);
[[nodiscard]] CheckpointHeader header_of(const nlohmann::ordered_json& manifest);
[[nodiscard]] PlaceInFolder place_in_folder(const nlohmann::ordered_json& manifest);
/// Where a part lies: beside its manifest, never elsewhere.
[[nodiscard]] std::filesystem::path part_file(const std::filesystem::path& checkpoint, const nlohmann::ordered_json& part);
/// Throws BadInput naming the file when the manifest's entry of the part says another checksum.
void require_checksum(const std::filesystem::path& file, const nlohmann::ordered_json& part, const std::string& found);

}  // namespace rehearsal::exec
