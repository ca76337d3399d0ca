#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/traces/sample.hpp"
#include "traces/chrome.hpp"
#include "traces/page.hpp"

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
  CHECK(by_phase.size() == 2);          // complete events only: nothing begins without an end
  CHECK(used == std::set<int>{0, 1, 1000, 1001});
  CHECK(named == used);
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

TEST_CASE("the page shows every rank and stream and needs nothing else") {
  const std::vector<Trace> traces{two_ranks(), two_ranks()};
  const auto page = to_page(traces);
  CHECK(times(page, "<rect ") == 8);
  CHECK(times(page, ">rank 1 ") == 4);  // two streams of two traces
  CHECK(times(page, "<table>") == 1);   // both traces beside each other
  CHECK(times(page, "<tr>") == times(page, "</tr>"));
  CHECK(page.find("http") == std::string::npos);
  CHECK(page.find("layer &quot;1&quot;, first") != std::string::npos);
  CHECK(times(to_page({traces.data(), 1}), "<table>") == 1);
  CHECK(times(page, "different mathematics") == 0);
  auto delayed = two_ranks();
  delayed.plan = "pp=2,micro_batch=1,schedule=pipedream-2bw";
  CHECK(times(to_page({&delayed, 1}), "before the last update: different mathematics") == 1);
  auto other = two_ranks();
  other.plan = "dp=2,micro_batch=1";
  CHECK_THROWS_AS(to_page(std::vector<Trace>{two_ranks(), other}), BadInput);
}

}  // namespace
}  // namespace rehearsal::traces
