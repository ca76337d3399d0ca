#include "costmodel/calibration.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::costmodel {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFamilyNames[] = {"convolution", "matmul", "normalization", "pooling",   "elementwise",  "reduction",
                                             "movement",    "gather", "view",          "optimizer", "decomposition"};
static_assert(std::size(kFamilyNames) == static_cast<std::size_t>(graph::CostFamily::Count));

/// What a key must hold to be read as that type.
template <class T>
constexpr const char* kHolds = "an object of texts";
template <>
constexpr const char* kHolds<std::string> = "a text";
template <>
constexpr const char* kHolds<bool> = "true or false";
template <>
constexpr const char* kHolds<double> = "a number";
template <>
constexpr const char* kHolds<int> = "a whole number";
template <>
constexpr const char* kHolds<std::int64_t> = "a whole number";

/// Reads keys of one object; a missing or wrong one is reported with the path to it.
class Reader {
 public:
  Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw BadInput(where_, "must be an object");
  }
  template <class T>
  [[nodiscard]] T get(const char* key) const {
    const auto at = object_.find(key);
    if (at == object_.end()) throw BadInput(where_, std::string("key \"") + key + "\" is missing");
    try {
      return at->get<T>();
    } catch (const nlohmann::json::exception&) {
      throw BadInput(where_ + "." + key, std::string("must be ") + kHolds<T> + ", as `rehearse calibrate` writes it");
    }
  }
  [[nodiscard]] double number(const char* key) const {
    const auto value = get<double>(key);
    if (!(value >= 0)) throw BadInput(where_ + "." + key, "must not be negative");
    return value;
  }
  [[nodiscard]] Reader child(const char* key) const { return Reader(get<Json>(key), where_ + "." + key, 0); }
  template <class Each>
  void each(const char* key, Each&& use) const {
    const auto at = object_.find(key);
    if (at == object_.end() || !at->is_array()) throw BadInput(where_, std::string("key \"") + key + "\" must be a list");
    std::size_t n = 0;
    for (const auto& item : *at) use(Reader(item, where_ + "." + key + "[" + std::to_string(n++) + "]"));
  }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  Reader(Json object, std::string where, int)
      : owned_(std::make_shared<Json>(std::move(object))), object_(*owned_), where_(std::move(where)) {}
  std::shared_ptr<Json> owned_;
  const Json& object_;
  std::string where_;
};

graph::CostFamily family_of(const std::string& name, const std::string& where) {
  for (std::size_t i = 0; i < std::size(kFamilyNames); ++i)
    if (kFamilyNames[i] == name) return static_cast<graph::CostFamily>(i);
  throw BadInput(where + ".family", "\"" + name + "\" is no family of operators");
}

DType dtype_of(const std::string& text, const std::string& where) {
  const auto type = dtype_from_name(text);
  if (!type) throw BadInput(where + ".dtype", "\"" + text + "\" is no element type");
  return *type;
}

Json json_of(const KernelCase& k) {
  return {{"op", k.op},
          {"implementation", k.implementation},
          {"signature", k.signature},
          {"family", kFamilyNames[static_cast<std::size_t>(k.family)]},
          {"flops", k.work.flops.value()},
          {"bytes", k.work.bytes.value()},
          {"dtype", name(k.dtype)},
          {"threads", k.threads}};
}

KernelCase kernel_of(const Reader& r) {
  KernelCase k;
  k.op = r.get<std::string>("op");
  k.implementation = r.get<std::string>("implementation");
  k.signature = r.get<std::string>("signature");
  k.family = family_of(r.get<std::string>("family"), r.where());
  k.work = {Flops(r.number("flops")), Bytes(r.number("bytes"))};
  k.dtype = dtype_of(r.get<std::string>("dtype"), r.where());
  k.threads = r.get<int>("threads");
  return k;
}

Json json_of(const Sample& s) {
  Json j = json_of(s.kernel);
  j.update({{"count", s.count},
            {"cpu_min_seconds", s.cpu_min.value()},
            {"cpu_quartile_seconds", s.cpu_quartile.value()},
            {"cpu_median_seconds", s.cpu_median.value()},
            {"wall_min_seconds", s.wall_min.value()},
            {"wall_median_seconds", s.wall_median.value()},
            {"spread", s.spread},
            {"from_training", s.from_training}});
  return j;
}

Sample sample_of(const Reader& r) {
  Sample s;
  s.kernel = kernel_of(r);
  s.count = r.get<std::int64_t>("count");
  s.cpu_min = Seconds(r.number("cpu_min_seconds"));
  s.cpu_quartile = Seconds(r.number("cpu_quartile_seconds"));
  s.cpu_median = Seconds(r.number("cpu_median_seconds"));
  s.wall_min = Seconds(r.number("wall_min_seconds"));
  s.wall_median = Seconds(r.number("wall_median_seconds"));
  s.spread = r.number("spread");
  s.from_training = r.get<bool>("from_training");
  return s;
}

Json json_of(const FamilyFit& f) {
  return {{"op", f.op},
          {"implementation", f.implementation},
          {"family", kFamilyNames[static_cast<std::size_t>(f.family)]},
          {"dtype", name(f.dtype)},
          {"threads", f.threads},
          {"flops_per_second", f.flop_rate.value()},
          {"bytes_per_second", f.byte_rate.value()},
          {"overhead_seconds", f.overhead.value()},
          {"log_error", f.log_error},
          {"samples", f.samples}};
}

FamilyFit fit_of(const Reader& r) {
  FamilyFit f;
  f.op = r.get<std::string>("op");
  f.implementation = r.get<std::string>("implementation");
  f.family = family_of(r.get<std::string>("family"), r.where());
  f.dtype = dtype_of(r.get<std::string>("dtype"), r.where());
  f.threads = r.get<int>("threads");
  f.flop_rate = FlopsPerSecond(r.number("flops_per_second"));
  f.byte_rate = BytesPerSecond(r.number("bytes_per_second"));
  f.overhead = Seconds(r.number("overhead_seconds"));
  f.log_error = r.number("log_error");
  f.samples = r.get<std::int64_t>("samples");
  return f;
}

Json json_of(const LinkSample& s) {
  return {{"what", s.what}, {"ranks", s.ranks}, {"bytes", s.size.value()}, {"seconds", s.seconds.value()}, {"spread", s.spread}};
}

LinkSample link_sample_of(const Reader& r) {
  return {r.get<std::string>("what"), r.get<int>("ranks"), Bytes(r.number("bytes")), Seconds(r.number("seconds")), r.number("spread")};
}

Json json_of(const LinkFit& l) {
  return {{"latency_seconds", l.latency.value()},
          {"bytes_per_second", l.bandwidth.value()},
          {"reduction_bytes_per_second", l.reduction.value()},
          {"log_error", l.log_error}};
}

LinkFit link_fit_of(const Reader& r) {
  return {Seconds(r.number("latency_seconds")), BytesPerSecond(r.number("bytes_per_second")),
          BytesPerSecond(r.number("reduction_bytes_per_second")), r.number("log_error")};
}

Json json_of(const Correction& c) {
  return {{"scope", c.scope}, {"threads", c.threads}, {"factor", c.factor}, {"log_error", c.log_error}, {"observations", c.observations}};
}

Correction correction_of(const Reader& r) {
  return {r.get<std::string>("scope"), r.get<int>("threads"), r.number("factor"), r.number("log_error"),
          r.get<std::int64_t>("observations")};
}

Json json_of(const KernelChoice& c) {
  Json kernels = Json::array();
  for (const auto& k : c.timed) kernels.push_back({{"implementation", k.implementation}, {"seconds", k.seconds.value()}});
  return {{"node", c.node}, {"chosen", c.chosen}, {"kernels", kernels}};
}

KernelChoice choice_of(const Reader& r) {
  KernelChoice c{r.get<std::string>("node"), r.get<std::string>("chosen"), {}};
  r.each("kernels", [&](const Reader& item) {
    c.timed.push_back({item.get<std::string>("implementation"), Seconds(item.number("seconds"))});
  });
  if (std::ranges::find(c.timed, c.chosen, &TimedKernel::implementation) == c.timed.end())
    throw BadInput(r.where() + ".chosen", "\"" + c.chosen + "\" is not among the kernels that were timed");
  return c;
}

KernelChoices choices_of(const Reader& r) {
  KernelChoices c{{r.get<std::string>("cpu"), r.get<std::string>("instructions"), r.get<std::string>("libraries")}, {}};
  std::set<std::string> known;
  r.each("nodes", [&](const Reader& item) {
    c.nodes.push_back(choice_of(item));
    if (!known.insert(c.nodes.back().node).second) throw BadInput(item.where() + ".node", "is there twice: " + c.nodes.back().node);
  });
  return c;
}

template <class T>
Json list_of(const std::vector<T>& items) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(json_of(item));
  return list;
}

Json json_of(const KernelChoices& c) {
  return {{"cpu", c.home.cpu}, {"instructions", c.home.instructions}, {"libraries", c.home.libraries}, {"nodes", list_of(c.nodes)}};
}

Json json_of(const Calibration& c) {
  Json j{{"schema", c.schema}, {"context", c.context.items}};
  j["link"] = json_of(c.link);
  if (c.node_link) j["node_link"] = json_of(*c.node_link);
  j["link_samples"] = list_of(c.link_samples);
  j["corrections"] = list_of(c.corrections);
  j["fits"] = list_of(c.fits);
  j["samples"] = list_of(c.samples);
  if (!c.choices.empty()) j["choices"] = json_of(c.choices);
  return j;
}

Calibration calibration_of(const Json& json, const std::string& where) {
  const Reader r(json, where);
  Calibration c;
  c.schema = r.get<int>("schema");
  if (c.schema != 1) throw BadInput(where + ".schema", "is version " + std::to_string(c.schema) + "; this program reads version 1");
  c.context.items = r.get<std::map<std::string, std::string>>("context");
  c.link = link_fit_of(r.child("link"));
  if (json.contains("node_link")) c.node_link = link_fit_of(r.child("node_link"));
  r.each("link_samples", [&](const Reader& item) { c.link_samples.push_back(link_sample_of(item)); });
  r.each("corrections", [&](const Reader& item) { c.corrections.push_back(correction_of(item)); });
  r.each("fits", [&](const Reader& item) { c.fits.push_back(fit_of(item)); });
  r.each("samples", [&](const Reader& item) { c.samples.push_back(sample_of(item)); });
  if (json.contains("choices")) c.choices = choices_of(r.child("choices"));
  return c;
}

}  // namespace

std::string_view family_name(graph::CostFamily family) { return kFamilyNames[static_cast<std::size_t>(family)]; }

std::string MachineContext::item(std::string_view name) const {
  const auto at = items.find(std::string(name));
  return at == items.end() ? std::string() : at->second;
}

const Correction* correction_for(const Calibration& c, const KernelCase& k) {
  for (const auto& scope : {"op:" + k.op, "family:" + std::string(family_name(k.family))})
    for (int threads : {k.threads, 0})
      for (const auto& correction : c.corrections)
        if (correction.scope == scope && correction.threads == threads) return &correction;
  return nullptr;
}

Calibration read_calibration(const std::string& path) {
  if (!std::ifstream(path)) throw BadInput(path, "cannot be read; `rehearse calibrate -o " + path + "` writes it");
  const Json json = platforms::read_json_file(path);
  if (!json.is_object() || !json.contains("calibration"))
    throw BadInput(path, "holds no key \"calibration\"; give a file that `rehearse calibrate` wrote");
  return calibration_of(json["calibration"], path + ": calibration");
}

bool holds_calibration(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  const Json json = platforms::read_json_file(path);
  return json.is_object() && json.contains("calibration");
}

std::string to_json_text(const Calibration& c) { return json_of(c).dump(1); }

Calibration calibration_from_json_text(const std::string& text, const std::string& where) {
  return calibration_of(platforms::parse_strict_json(text, where), where);
}

}  // namespace rehearsal::costmodel
