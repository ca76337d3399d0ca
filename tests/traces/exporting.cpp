#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/traces/sample.hpp"
#include "traces/chrome.hpp"
#include "traces/html_page.hpp"
#include "traces/memory_levels.hpp"
#include "traces/timeline_data.hpp"

namespace rehearsal::traces {
namespace {

Trace two_ranks() {
  auto t = sample::empty_trace("measured");
  t.model = "quoted \"name\", with comma";
  t.steps = {{0, 0, 3, 0, false}};
  for (int rank : {0, 1}) {
    RankTrace r{rank,
                {sample::computing(sample::kernel("MatMul", graph::CostFamily::MatMul, 1000, 100), plan::BodyKind::Forward, 0),
                 sample::all_reduce(64, 1)},
                {}};
    r.kinds[0].name = "layer \"1\", first";
    r.events = {{0, 0, 0, plan::Stream::Compute, 0.5, 1.5, 0.75}, {1, 0, 0, plan::Stream::Collective, 1.5, 3, 0}};
    t.ranks.push_back(std::move(r));
  }
  return t;
}

TEST_CASE("Chrome export is valid JSON with everything that the format asks for") {
  const std::vector<Trace> traces{two_ranks(), two_ranks()};
  const auto json = nlohmann::json::parse(to_chrome_json(traces));
  std::map<std::string, int> by_phase;
  std::set<int> named, used;
  for (const auto& e : json.at("traceEvents")) {
    ++by_phase[e.at("ph").get<std::string>()];
    if (e.at("ph") == "M" && e.at("name") == "process_name") named.insert(e.at("pid").get<int>());
    if (e.at("ph") != "X") continue;
    used.insert(e.at("pid").get<int>());
    CHECK(e.at("dur").get<double>() > 0);
    CHECK(e.at("args").contains("bytes"));
    if (e.at("name") == "MatMul") {
      CHECK(e.at("ts").get<double>() == Approx(0.5e6));
      CHECK(e.at("dur").get<double>() == Approx(1e6));
    }
  }
  CHECK(by_phase["X"] == 8);            // two events on two ranks of two traces
  CHECK(by_phase["M"] == 4 * (1 + 5));  // a process and five streams each
  CHECK(by_phase["C"] == 4 * 2);        // a message each, that begins and ends
  CHECK(by_phase.size() == 3);          // complete events: nothing begins without an end
  CHECK(used == std::set<int>{0, 1, 1000, 1001});
  CHECK(named == used);
}

TEST_CASE("memory in use is a counter that changes when it does") {
  Trace t = sample::empty_trace("simulated");
  t.steps = {{0, 0, 4, 0, false}};
  RankTrace r{0, {sample::computing(sample::kernel("MatMul", graph::CostFamily::MatMul, 1000, 100), plan::BodyKind::Forward, 0)}, {}};
  const auto run = [&](double begin, std::int64_t in_use) {
    r.events.push_back({0, 0, 0, plan::Stream::Compute, begin, begin + 1, 1, in_use});
  };
  run(0, 500), run(1, 500), run(2, 900), run(3, 400);
  t.ranks.push_back(r);
  std::vector<std::pair<double, double>> counted;
  const auto exported = nlohmann::json::parse(to_chrome_json(std::vector{t}));
  for (const auto& e : exported.at("traceEvents"))
    if (e.at("ph") == "C" && e.at("name") == "memory in use, bytes")
      counted.emplace_back(e.at("ts").get<double>(), e.at("args").at("bytes").get<double>());
  CHECK(counted == std::vector<std::pair<double, double>>{{0, 500}, {2e6, 900}, {3e6, 400}});
  const auto levels = [&](std::size_t most) {
    std::vector<std::pair<double, std::int64_t>> found;
    for (const auto& level : memory_levels(r, t.steps[0], most)) found.emplace_back(level.begin, level.bytes);
    return found;
  };
  CHECK(levels(3) == std::vector<std::pair<double, std::int64_t>>{{0, 500}, {2, 900}, {3, 400}});
  // Two halves: 500 at most in the first, 900 in the second, which ends lower.
  CHECK(levels(2) == std::vector<std::pair<double, std::int64_t>>{{0, 500}, {2, 900}});
  CHECK(levels(1) == std::vector<std::pair<double, std::int64_t>>{{0, 900}});
}

TEST_CASE("an arrow leads from every send to its receive, and rates are those of what is on its way") {
  Trace t = sample::empty_trace("simulated");
  t.steps = {{0, 0, 4, 0, false}};
  for (int rank : {0, 1}) {
    RankTrace r{rank, {sample::all_reduce(64, 1)}, {}};
    r.kinds[0].identity.kind = rank == 0 ? plan::InstructionKind::Send : plan::InstructionKind::Receive;
    r.kinds[0].identity.tensor = 7;
    // Two micro-batches; the second one's message is received later than it is sent.
    for (int m : {0, 1})
      r.events.push_back({0, m, 0, rank == 0 ? plan::Stream::Send : plan::Stream::Receive, 1.0 * m, m + 0.5 + 0.5 * rank, 0});
    t.ranks.push_back(std::move(r));
  }
  const auto json = nlohmann::json::parse(to_chrome_json({&t, 1}));
  std::map<int, std::vector<nlohmann::json>> arrows;
  std::vector<double> rates;
  for (const auto& e : json.at("traceEvents")) {
    if (e.at("ph") == "s" || e.at("ph") == "f") arrows[e.at("id").get<int>()].push_back(e);
    if (e.at("ph") == "C" && e.at("pid") == 0) rates.push_back(e.at("args").at("bytes/s").get<double>());
  }
  REQUIRE(arrows.size() == 2);
  for (const auto& [id, ends] : arrows) {
    REQUIRE(ends.size() == 2);
    CHECK(ends[0].at("ph") == "s");
    CHECK(ends[0].at("pid") == 0);
    CHECK(ends[1].at("pid") == 1);
    CHECK(ends[0].at("ts").get<double>() == Approx(1e6 * id));          // the m-th is sent after m seconds
    CHECK(ends[1].at("ts").get<double>() == Approx(1e6 * (id + 0.5)));  // and received during a second
  }
  // 64 elements of four bytes in half a second, then nothing, twice.
  const double rate = static_cast<double>(t.ranks[0].kinds[0].message_bytes) / 0.5;
  CHECK(rates == std::vector<double>{rate, 0, rate, 0});
}

TEST_CASE("the table quotes what needs it") {
  const std::vector<Trace> traces{two_ranks()};
  const auto text = to_csv(traces);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 4);
  CHECK(text.find("0,1,0,0,compute,forward,MatMul,\"layer \"\"1\"\", first\",0.5,1.5,0.75,0\n") != std::string::npos);
  CHECK(text.find("collective,backward,") != std::string::npos);
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

nlohmann::json data_of(const std::string& page) {
  constexpr std::string_view kBegin = "id=\"data\">";
  const auto begin = page.find(kBegin) + kBegin.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST_CASE("the page has what its timelines show, and needs nothing else") {
  const std::vector<Trace> traces{two_ranks(), two_ranks()};
  const auto page = to_page(traces);
  CHECK(times(page, "<table>") == 2);  // both beside each other: their steps, and their instructions
  CHECK(times(page, "<tr>") + times(page, "<tr class=\"best\">") == times(page, "</tr>"));
  CHECK(page.find("http") == std::string::npos);
  CHECK(times(to_page({traces.data(), 1}), "<table>") == 1);
  CHECK(times(page, "different mathematics") == 0);
  // Both ranks do the same: one is shown. Its first event begins 0.5 s into the step and takes a second; the message follows at once.
  const auto shown = data_of(page).at("traces").at(0);
  CHECK(shown.at("step") == 3'000'000'000);
  CHECK(shown.at("roles").size() == 1);
  CHECK(shown.at("roles")[0].at("label") == "ranks 0 to 1 (2)");
  CHECK(shown.at("roles")[0].at("lanes")[0].at("events") == nlohmann::json({500'000'000, 1'000'000'000, 0, 0}));
  CHECK(shown.at("roles")[0].at("lanes")[1].at("name") == "messages");
  CHECK(shown.at("roles")[0].at("lanes")[1].at("events") == nlohmann::json({1'500'000'000, 1'500'000'000, 1, 0}));
  CHECK(shown.at("kinds")[0].at("name") == "layer \"1\", first");
  CHECK(page.find("Of 2 ranks those that do the same in the same time (within 5 %) are shown once, by the slowest of them, 1 in all.") !=
        std::string::npos);
}

TEST_CASE("of measured ranks a straggler is shown by itself, and tables say the mean of whom they have") {
  // Both do the same; rank 1 computes 1.2 s of it where rank 0 takes 1 s. A third one takes 1.04 s: as long as rank 0.
  auto t = two_ranks();
  t.ranks.push_back(t.ranks.front());
  t.ranks[2].rank = 2;
  t.ranks[1].events[0].end = 1.7;
  t.ranks[2].events[0].end = 1.54;
  const auto roles = rank_roles(t, t.steps.front());
  REQUIRE(roles.size() == 2);
  CHECK(roles[0].ranks == std::vector{0, 2});
  CHECK(roles[0].shown->rank == 2);
  CHECK(roles[1].ranks == std::vector{1});
  CHECK(roles[1].again);
  const auto page = to_page(std::vector{t, t});
  CHECK(page.find("2 in all. Computing, longest first: rank 1 1.2 s, ranks 0, 2 (2) 1.04 s.") != std::string::npos);
  const auto shown = data_of(page).at("traces").at(0).at("roles");
  CHECK(shown.at(1).at("again") == true);  // the same micro-batches as those of the first
  CHECK(!shown.at(0).contains("again"));
  // (1 + 1.2 + 1.04) / 3 = 1.08 s of 3 s, in the table of steps as in that of instructions.
  CHECK(times(page, "<td class=\"text\">ranks 0 to 2 (3)</td>") == 2);
  CHECK(times(page, "<td>1.08 s</td><td>36.00 %</td>") == 2);
  CHECK(times(page, "<td>1.08 s</td><td>1.08 s</td><td>") == 1);
  // What was simulated is the same where the instructions are.
  t.kind = "simulated";
  CHECK(rank_roles(t, t.steps.front()).size() == 1);
}

TEST_CASE("traces of other plans stand side by side, and mathematics that differ are named") {
  auto delayed = two_ranks();
  delayed.plan = "pp=2,micro_batch=1,schedule=pipedream-2bw";
  CHECK(times(to_page({&delayed, 1}), "before the last update: different mathematics") == 1);
  auto other = two_ranks();
  other.plan = "dp=2,micro_batch=1";
  other.steps = {{0, 0, 6, 0, false}};
  const auto page = to_page(std::vector<Trace>{two_ranks(), other});
  CHECK(times(page, "<table>") == 3);                 // side by side, and where the time of each goes
  CHECK(page.find("100.00 %") != std::string::npos);  // 6 s over 3 s
  // A second of computing and 1.5 s of waiting in each: of 6 s 16.67 % and 25 %.
  CHECK(page.find("16.67 %") != std::string::npos);
  CHECK(page.find("25.00 %") != std::string::npos);
}

TEST_CASE("steps of one plan under two frameworks stand side by side, each by its framework's name") {
  auto own = two_ranks(), other = two_ranks();
  own.kind = other.kind = "simulated";
  own.framework = "rehearse";
  other.framework = "megatron-core";
  other.model_hash = "4567";
  const auto page = to_page(std::vector<Trace>{own, other});
  CHECK(times(page, "<table>") == 3);  // side by side, and where the time of each goes
  CHECK(page.find("Where the two differ") == std::string::npos);
  for (const auto* name : {"simulated as rehearse", "simulated as megatron-core"}) CHECK(times(page, name) >= 3);
  CHECK(named(two_ranks()) == "measured");
  CHECK(times(to_chrome_json(std::vector{own, other}), "simulated as megatron-core") == 2);  // of each rank
}

TEST_CASE("many events are joined until they fit, by pass and micro-batch") {
  Trace t = sample::empty_trace("simulated");
  t.steps = {{0, 0, 10, 0, false}};
  RankTrace r{0, {sample::computing(sample::kernel("Add", graph::CostFamily::MatMul, 1, 1), plan::BodyKind::Forward, 0)}, {}};
  for (int n = 0; n < 1000; ++n) r.events.push_back({0, n / 500, 0, plan::Stream::Compute, n * 0.01, (n + 1) * 0.01, 0.01});
  t.ranks.push_back(r);
  const auto whole = nlohmann::json::parse(timeline_data({&t, 1}, 1000)), few = nlohmann::json::parse(timeline_data({&t, 1}, 10));
  CHECK(whole["traces"][0]["roles"][0]["lanes"][0]["events"].size() == 4 * 1000);
  // Two micro-batches of 500 instructions of 10 ms: two blocks of 5 s of a forward pass, -1 - 1.
  CHECK(few["traces"][0]["roles"][0]["lanes"][0]["events"] ==
        nlohmann::json({0, 5'000'000'000, -2, 0, 5'000'000'000, 5'000'000'000, -2, 1}));
}

TEST_CASE("names cannot end the script that holds them") {
  auto t = two_ranks();
  t.ranks[0].kinds[0].name = "</script><b>";
  const auto page = to_page({&t, 1});
  CHECK(times(page, "</script>") == 3);  // data, timelines and tokens
  CHECK(data_of(page).at("traces")[0].at("kinds")[0].at("name") == "</script><b>");
}

FoundPlans three_plans() {
  FoundPlans found{"zoo:x", "cluster", "bf16", "nemo", "time", 64, {}};
  found.plans = {{"dp=4", "", 1.0, 0.9, 1.1, 0.8, 0.1, 0, 0.1, 40e9, 2},
                 {"tp=4", "slow", 1.5, 1.4, 1.6, 0.8, 0.6, 0, 0.1, 10e9, 3},
                 {"pp=4", "slower", 2.0, 1.9, 2.1, 0.8, 0.6, 0.5, 0.1, 20e9, 4}};
  return found;
}

TEST_CASE("a search says what was asked, what nothing beats, and what each plan gives up") {
  const auto page = plans_section(three_plans());
  for (const auto* words : {"Plans for zoo:x on cluster", "batch 64, bf16, as nemo runs it; least time first",
                            // 1.5 s over 1 s, 10 GB under 40 GB, $3 over $2
                            "50.0 % more time, 75.0 % less memory, 50.0 % more money"})
    CHECK(page.find(words) != std::string::npos);
  // pp=4 is beaten by tp=4 in both: two of three points are on the front, and one line of key has the colour of computing, too.
  CHECK(times(page, "r=\"5\" fill=\"var(--forward)\"") == 2);
  CHECK(times(page, "r=\"5\" fill=\"var(--prologue)\"") == 1);
}

TEST_CASE("money on a page says what it is of") {
  auto found = three_plans();
  CHECK(plans_section(found).find("Money:") == std::string::npos);
  found.price_basis = "10 $/h for a node of 8, yours (a quote)";
  CHECK(plans_section(found).find("<p>Money: 10 $/h for a node of 8, yours (a quote)</p>") != std::string::npos);
}

TEST_CASE("the plans of a front have no best one, and the quickest stands first") {
  auto found = three_plans();
  found.objective = "pareto";
  const auto page = plans_section(found);
  CHECK(page.find("none is beaten in time, energy, money and memory at once; the quickest first</p>") != std::string::npos);
  CHECK(page.find(">the quickest<") != std::string::npos);
  CHECK(page.find("least pareto") == std::string::npos);
  CHECK(page.find(">the best<") == std::string::npos);
}

TEST_CASE("plans are compared as the search ranks them: with failures and checkpoints, where it knows them") {
  auto found = three_plans();
  CHECK(plans_section(found).find("count failures") == std::string::npos);
  // 1.5 s and a tenth lost to failures over 1 s with a quarter lost: 1.65 over 1.25.
  found.plans[0].stretch = 1.25;
  found.plans[1].stretch = 1.1;
  const auto page = plans_section(found);
  CHECK(page.find("32.0 % more time, 75.0 % less memory, 50.0 % more money") != std::string::npos);
  CHECK(page.find("count failures and checkpoints") != std::string::npos);
}

}  // namespace
}  // namespace rehearsal::traces
