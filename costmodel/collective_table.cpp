#include "costmodel/collective_table.hpp"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "costmodel/embedded_constants.hpp"
#include "platforms/object_reader.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::costmodel {
namespace {

using platforms::ObjectReader;

constexpr std::array<std::string_view, 2> kLinkNames{"nvlink", "pcie"};
constexpr std::array<std::string_view, 2> kStepNames{"form", "table"};
constexpr std::array<std::string_view, 3> kInsideNames{"ring", "switch", "pairs"};
constexpr std::array<std::string_view, 3> kBetweenNames{"ring", "tree", "switch"};
constexpr std::array<std::string_view, 4> kReachNames{"any", "node", "nodes", "lone-ranks"};
constexpr std::size_t kMostRows = 200;
constexpr double kMostMicroseconds = 1000, kMostBytes = 1e10, kLeastShare = 0.001, kMostShare = 1.2;

template <class Row>
struct CollectiveTableNumber {
  std::string_view key;
  double Row::*member;
  double low, high;
};
constexpr CollectiveTableNumber<FabricRow> kFabricNumbers[] = {
    {"start", &FabricRow::start, 0, kMostMicroseconds},       {"hop", &FabricRow::hop, 0, kMostMicroseconds},
    {"share", &FabricRow::share, kLeastShare, kMostShare},    {"turn", &FabricRow::turn, 0, 2},
    {"beyond_pair", &FabricRow::beyond_pair, kLeastShare, 1}, {"nvls", &FabricRow::nvls, 0, kMostShare},
};
constexpr CollectiveTableNumber<ProtocolRow> kRowNumbers[] = {
    {"start", &ProtocolRow::start, 0, kMostMicroseconds},         {"hop", &ProtocolRow::hop, 0, 10},
    {"share", &ProtocolRow::share, kLeastShare, kMostShare},      {"ramp", &ProtocolRow::ramp, 0, 10},
    {"ramp_time", &ProtocolRow::ramp_time, 0, kMostMicroseconds}, {"knee", &ProtocolRow::knee, 0, kMostMicroseconds},
    {"knee_bytes", &ProtocolRow::knee_bytes, 1, kMostBytes},      {"node_step", &ProtocolRow::node_step, 0, kMostMicroseconds},
    {"card_share", &ProtocolRow::card_share, kLeastShare, 1},
};
constexpr CollectiveTableNumber<CardFacts> kCardNumbers[] = {
    {"share", &CardFacts::share, kLeastShare, 1},
    {"ramp", &CardFacts::ramp, 0, 10},
    {"ramp_time", &CardFacts::ramp_time, 0, kMostMicroseconds},
    {"rest", &CardFacts::rest, 0, 1},
    {"usual_latency", &CardFacts::usual_latency, 0.1, kMostMicroseconds},
};

template <class Row, std::size_t N>
void read_numbers(ObjectReader& reader, Row& row, const CollectiveTableNumber<Row> (&numbers)[N]) {
  for (const auto& n : numbers)
    if (reader.has(n.key)) row.*n.member = reader.number(n.key, n.low, n.high).value;
}

FabricRow read_fabric(ObjectReader reader) {
  FabricRow row;
  row.name = reader.text("name");
  row.links = static_cast<LinkFamily>(reader.choice("links", kLinkNames));
  row.generations = reader.texts_or_none("generations", kMostRows);
  if (reader.has("steps")) row.steps = static_cast<StepModel>(reader.choice("steps", kStepNames));
  static_cast<void>(reader.text_or("source", ""));
  read_numbers(reader, row, kFabricNumbers);
  reader.finish();
  return row;
}

/// Absent: all but all-to-all, which needs an algorithm of its own.
void read_kinds(ObjectReader& reader, ProtocolRow& row) {
  const auto wanted = reader.texts_or_none("kinds", kCollectiveKinds);
  for (const auto& text : wanted) {
    int kind = 0;
    while (kind < kCollectiveKinds && name(static_cast<CollectiveKind>(kind)) != text) ++kind;
    if (kind == kCollectiveKinds) reader.refuse("kinds", "'" + text + "' is no collective; all-reduce, for one, is");
    row.kinds[static_cast<std::size_t>(kind)] = true;
  }
  if (!wanted.empty()) return;
  row.kinds.fill(true);
  row.kinds[static_cast<std::size_t>(CollectiveKind::AllToAll)] = false;
}

ProtocolRow read_row(ObjectReader reader) {
  ProtocolRow row;
  row.algorithm = reader.text("algorithm");
  row.protocol = reader.text("protocol");
  row.links = static_cast<LinkFamily>(reader.choice("links", kLinkNames));
  read_kinds(reader, row);
  row.inside = static_cast<Inside>(reader.choice("inside", kInsideNames));
  row.between = static_cast<Between>(reader.choice("between", kBetweenNames));
  row.where = static_cast<Reach>(reader.choice("where", kReachNames));
  const auto since = library_release(reader.text_or("since", "0.0"));
  if (!since) reader.refuse("since", "must be a release, such as \"2.18\"");
  row.since = *since;
  if (reader.has("least_ranks")) row.least_ranks = static_cast<int>(reader.integer("least_ranks", 2, 1000));
  read_numbers(reader, row, kRowNumbers);
  reader.finish();
  return row;
}

/// Every kind can be asked for over any links in any release.
void require_complete(const CollectiveTable& table, const std::string& where) {
  for (std::size_t link = 0; link < kLinkNames.size(); ++link) {
    const auto links = static_cast<LinkFamily>(link);
    const auto of_all = [&](const FabricRow& f) { return f.links == links && f.generations.empty(); };
    if (std::ranges::none_of(table.fabrics, of_all))
      throw BadInput(where, "fabrics: none of links '" + std::string(kLinkNames[link]) + "' is for every generation (without generations)");
    for (int kind = 0; kind < kCollectiveKinds; ++kind) {
      const auto serves = [&](const ProtocolRow& r) {
        return r.links == links && r.kinds[static_cast<std::size_t>(kind)] && r.where == Reach::Any && r.least_ranks == 1 &&
               r.since == LibraryRelease{};
      };
      if (std::ranges::none_of(table.rows, serves))
        throw BadInput(where, "rows: none of links '" + std::string(kLinkNames[link]) + "' does " +
                                  std::string(name(static_cast<CollectiveKind>(kind))) + " anywhere in every release");
    }
  }
}

}  // namespace

std::optional<LibraryRelease> library_release(std::string_view text) {
  LibraryRelease release;
  const char* end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, release.major);
  if (major.ec != std::errc{} || major.ptr == end || *major.ptr != '.') return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, end, release.minor);
  if (minor.ec != std::errc{} || minor.ptr != end || release.major < 0 || release.minor < 0) return std::nullopt;
  return release;
}

const FabricRow& CollectiveTable::fabric(LinkFamily links, std::string_view generation) const {
  return *std::ranges::find_if(fabrics, [&](const FabricRow& row) {
    return row.links == links && (row.generations.empty() || std::ranges::find(row.generations, generation) != row.generations.end());
  });
}

CollectiveTable collective_table_from_json_text(const std::string& text, const std::string& where) {
  const auto json = platforms::parse_strict_json(text, where);
  ObjectReader reader(json, where, "");
  static_cast<void>(reader.integer("schema", 1, 1));
  for (const char* key : {"description", "source", "licence"}) static_cast<void>(reader.text(key));
  CollectiveTable table;
  auto cards = reader.object("cards");
  read_numbers(cards, table.cards, kCardNumbers);
  cards.finish();
  for (auto& fabric : reader.objects("fabrics", 1, kMostRows)) table.fabrics.push_back(read_fabric(std::move(fabric)));
  for (auto& row : reader.objects("rows", 1, kMostRows)) table.rows.push_back(read_row(std::move(row)));
  reader.finish();
  require_complete(table, where);
  return table;
}

const CollectiveTable& collective_table() {
  static const CollectiveTable kTable =
      collective_table_from_json_text(std::string(embedded_collectives()), "costmodel/constants/collectives.json");
  return kTable;
}

double rounds(CollectiveKind kind) { return kind == CollectiveKind::AllReduce ? 2 : 1; }

bool passes_whole(CollectiveKind kind) { return kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce; }

}  // namespace rehearsal::costmodel
