#include "exec/checkpoint/manifest.hpp"

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exec/checkpoint/checkpoint_part.hpp"
#include "exec/checkpoint/checksum.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::exec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kSchema = 2, kWithoutChecksums = 1;
constexpr std::string_view kOwnChecksum = "\"checksum\": \"", kNoDigits = "0000000000000000";

/// The manifest's text with its own checksum, which is that of the text with zeros in its place.
std::string signed_text(Json manifest) {
  manifest["checksum"] = kNoDigits;
  auto text = manifest.dump(1) + "\n";
  const auto digits = checksum_of(text);
  return text.replace(text.rfind(kOwnChecksum) + kOwnChecksum.size(), digits.size(), digits);
}

bool is_as_signed(std::string text) {
  const auto key = text.rfind(kOwnChecksum);
  if (key == std::string::npos) return false;
  const auto at = key + kOwnChecksum.size();
  const auto digits = text.substr(at, kNoDigits.size());
  return checksum_of(text.replace(at, digits.size(), kNoDigits.substr(0, digits.size()))) == digits;
}

/// Whether there is something of a rank's own. A version that did not say since when meant: from the first step on.
bool holds_kept(const Json& manifest) {
  for (const auto& part : manifest.at("parts"))
    for (const auto& tensor : part.at("tensors"))
      if (tensor.value("role", "") == kKept) return true;
  return false;
}

}  // namespace

std::string manifest_text(const CheckpointHeader& header, const PlaceInFolder& place, const std::vector<std::string>& parts) {
  Json manifest{{"schema", kSchema},   {"model_hash", header.model_hash}, {"step", header.step},   {"samples", header.samples},
                {"seed", header.seed}, {"batch", header.batch},           {"dtype", header.dtype}, {"number", place.number}};
  if (!place.training.empty()) manifest["training"] = place.training;
  if (const auto& e = header.evaluated; std::isfinite(e.lowest_loss))
    manifest["evaluated"] = {{"lowest_loss", e.lowest_loss}, {"lowest_at", e.lowest_at}, {"without_gain", e.without_gain}};
  if (header.apart_after != CheckpointHeader::kNeverApart) manifest["apart_after"] = header.apart_after;
  if (header.average_share > 0) manifest["average_share"] = header.average_share;
  if (const auto& as = header.as; as.known())
    manifest["trained_as"] = {{"network", as.network},
                              {"untrained", as.untrained},
                              {"untrained_checksum", as.untrained_checksum},
                              {"options", as.options},
                              {"course", as.course}};
  if (header.as.adapter_factor > 0) manifest["adapter_factor"] = header.as.adapter_factor;
  auto& entries = manifest["parts"] = Json::array();
  for (const auto& part : parts) entries.push_back(Json::parse(part));
  return signed_text(std::move(manifest));
}

Json read_manifest(const fs::path& checkpoint) {
  const auto path = checkpoint / kManifest;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(checkpoint.string(), std::string("holds no checkpoint (no ") + kManifest + ")");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  try {
    auto manifest = Json::parse(text);
    const auto schema = manifest.at("schema").get<int>();
    if (schema > kSchema) throw BadInput(path.string(), "has schema " + std::to_string(schema) + ", of a newer version of rehearse");
    if ((schema != kWithoutChecksums || text.find(kOwnChecksum) != std::string::npos) && !is_as_signed(text))
      throw BadInput(path.string(), "is damaged: its checksum is another than that of its text; use an older checkpoint");
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(path.string(), std::string("is damaged: ") + platforms::reason_of(error));
  }
}

CheckpointHeader header_of(const Json& manifest) {
  CheckpointHeader header;
  header.model_hash = manifest.at("model_hash").get<std::string>();
  header.step = manifest.at("step").get<std::int64_t>();
  header.seed = manifest.at("seed").get<std::uint64_t>();
  header.batch = manifest.at("batch").get<std::int64_t>();
  header.samples = manifest.value("samples", header.step * header.batch);
  header.dtype = manifest.at("dtype").get<std::string>();
  header.average_share = manifest.value("average_share", 0.0);
  header.apart_after = manifest.value("apart_after", holds_kept(manifest) ? 0 : CheckpointHeader::kNeverApart);
  if (const auto at = manifest.find("trained_as"); at != manifest.end())
    header.as = {at->at("network").get<std::string>(),
                 at->at("untrained").get<std::vector<std::string>>(),
                 at->at("untrained_checksum").get<std::string>(),
                 0,
                 at->at("options").get<TrainedAs::Texts>(),
                 at->at("course").get<TrainedAs::Texts>()};
  header.as.adapter_factor = manifest.value("adapter_factor", 0.0);
  if (const auto at = manifest.find("evaluated"); at != manifest.end())
    header.evaluated = {at->at("lowest_loss").get<double>(), at->at("lowest_at").get<std::int64_t>(),
                        at->at("without_gain").get<std::int64_t>()};
  return header;
}

PlaceInFolder place_in_folder(const Json& manifest) {
  return {manifest.value("number", std::int64_t{0}), manifest.value("training", std::string())};
}

fs::path part_file(const fs::path& checkpoint, const Json& part) {
  const auto file = part.at("file").get<std::string>();
  if (file.empty() || file == ".." || file == "." || fs::path(file).filename() != file)
    throw BadInput((checkpoint / kManifest).string(), "is damaged: a part's file \"" + file + "\" must be a name in this folder");
  return checkpoint / file;
}

void require_checksum(const fs::path& file, const Json& part, const std::string& found) {
  if (part.contains("checksum") && part.at("checksum").get<std::string>() != found)
    throw BadInput(file.string(), "is damaged: its checksum is " + found + ", the manifest says " + part.at("checksum").get<std::string>() +
                                      "; use an older checkpoint");
}

}  // namespace rehearsal::exec
