// Traces of the PyTorch profiler: what is counted, and how time divides.

#include "exchange/kineto/kineto.hpp"

#include <sstream>

#include "tests/catch.hpp"

namespace rehearsal::exchange {
namespace {

std::string event(const std::string& category, const std::string& name, const std::string& times, const std::string& arguments = "") {
  return R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name + "\", " + times + ", \"args\": {" + arguments + "}}";
}
std::string file_of(const std::string& events) { return "{\"traceEvents\": [" + events + "]}"; }
GpuProfile read_text(const std::string& text) {
  std::istringstream in(text);
  return read_kineto(in, "a.json");
}
GpuProfile read(const std::string& events) { return read_text(file_of(events)); }

const std::string kReduce = R"("stream": 9, "correlation": 3, "Collective name": "allreduce", "In msg nelems": 10, "Out msg nelems": 10, )"
                            R"("Group size": 2, "dtype": "Float")";

TEST_CASE("time divides into idle, computing and what others take alone") {
  // computing 0-10 and 20-30 us, communication 5-25 (beside it 5-10 and 20-25), a copy 40-50: idle 30-40
  const auto trace = read(event("kernel", "gemm", R"("ts": 0, "dur": 10)") + "," + event("kernel", "gemm", R"("ts": 20, "dur": 10)") + "," +
                          event("kernel", "ncclDevKernel_AllReduce", R"("ts": 5, "dur": 20)", kReduce) + "," +
                          event("gpu_memcpy", "Memcpy DtoH", R"("ts": 40, "dur": 10)") + "," +
                          event("gpu_user_annotation", "forward", R"("ts": 0, "dur": 500)"));
  const auto times = breakdown(trace);
  CHECK(times.idle == 10);
  CHECK(times.compute == 20);
  CHECK(times.non_compute == 20);  // 10-20 and 40-50
  CHECK(times.total() == 50);
  CHECK(times.communication == 20);
  CHECK(times.overlap == 10);
}

TEST_CASE("what calls of the last of several steps started is left out") {
  const std::string events = event("user_annotation", "ProfilerStep#1", R"("ts": 0, "dur": 100)") + "," +
                             event("user_annotation", "ProfilerStep#2", R"("ts": 100, "dur": 100)") + "," +
                             event("cuda_runtime", "cudaLaunchKernel", R"("ts": 90, "dur": 1)", R"("correlation": 1)") + "," +
                             event("cuda_runtime", "cudaLaunchKernel", R"("ts": 110, "dur": 1)", R"("correlation": 2)") + "," +
                             event("kernel", "late", R"("ts": 120, "dur": 5)", R"("stream": 7, "correlation": 1)") + "," +
                             event("kernel", "next", R"("ts": 130, "dur": 5)", R"("stream": 7, "correlation": 2)");
  const auto trace = read(events);
  REQUIRE(trace.events.size() == 1);
  CHECK(trace.events[0].name == "late");  // started before the last step began, though it ran in it
}

TEST_CASE("steps last from one mark to the next, the last one left out") {
  const auto step = [](const std::string& number, const std::string& times) {
    return event("user_annotation", "ProfilerStep#" + number, times);
  };
  const std::string work = "," + event("cuda_runtime", "cudaLaunchKernel", R"("ts": 5, "dur": 1)", R"("correlation": 1)") + "," +
                           event("kernel", "gemm", R"("ts": 6, "dur": 5)", R"("stream": 7, "correlation": 1)");
  // ProfilerStep#10 comes after #9 whatever the order of their names; 100 and 120 us from mark to mark
  const auto several = read(step("9", R"("ts": 100, "dur": 90)") + "," + step("10", R"("ts": 220, "dur": 90)") + "," +
                            step("8", R"("ts": 0, "dur": 90)") + work);
  REQUIRE(several.step_seconds.size() == 2);
  CHECK(several.step_seconds[0] == Approx(100e-6));
  CHECK(several.step_seconds[1] == Approx(120e-6));
  const auto one = read(step("9", R"("ts": 100, "dur": 90)") + work);
  REQUIRE(one.step_seconds.size() == 1);
  CHECK(one.step_seconds[0] == Approx(90e-6));
  CHECK(read(work.substr(1)).step_seconds.empty());
}

TEST_CASE("times are whole microseconds inside of what was measured") {
  // 10.2 to 20.9 is counted as 11 to 20, 20.1 to 20.4 as 21 to 20: as long as nothing, and 1 us less than nothing
  const auto trace =
      read(event("kernel", "gemm", R"("ts": 10.2, "dur": 10.7)") + "," + event("kernel", "add", R"("ts": 30.1, "dur": 0.3)"));
  CHECK(trace.events[0].begin == 11);
  CHECK(trace.events[0].end == 20);
  CHECK(trace.events[1].begin == 31);
  CHECK(trace.events[1].end == 30);
  CHECK(breakdown(trace).total() == 19);  // 11 to 30
  CHECK(breakdown(trace).compute == 8);   // 9 - 1
  CHECK(breakdown(trace).idle == 11);
}

TEST_CASE("what streams wait for is no computing, and what the host waits for is nothing") {
  const auto trace = read(event("kernel", "gemm", R"("ts": 0, "dur": 10)") + "," +
                          event("cuda_sync", "Stream Wait Event", R"("ts": 10, "dur": 4)", R"("stream": 7)") + "," +
                          event("cuda_sync", "Context Sync", R"("ts": 10, "dur": 90)", R"("stream": -1)"));
  REQUIRE(trace.events.size() == 2);
  CHECK(breakdown(trace).non_compute == 4);
  CHECK(breakdown(trace).total() == 14);
}

TEST_CASE("categories of older releases are read, and ranks where they are written") {
  const auto old = read(event("Kernel", "gemm", R"("ts": 0, "dur": 10)") + "," + event("Memcpy", "Memcpy HtoD", R"("ts": 10, "dur": 1)"));
  CHECK(breakdown(old).compute == 10);
  CHECK(old.events[1].work == GpuWork::Memory);
  CHECK_FALSE(old.rank);
  const auto kernel = event("kernel", "gemm", R"("ts": 0, "dur": 10)");
  const auto ranked = read_text(R"({"distributedInfo": {"rank": 3}, "deviceProperties": [{"id": 0}], "traceEvents": [)" + kernel + "]}");
  CHECK(ranked.rank == 3);
  CHECK_FALSE(ranked.ranks);
  CHECK(ranked.events.size() == 1);
}

TEST_CASE("collectives have bytes and ranks, and are refused where the profiler did not write them") {
  const auto sums = collectives(read(event("kernel", "ncclDevKernel", R"("ts": 5, "dur": 20)", kReduce) + "," +
                                     event("kernel", "ncclDevKernel", R"("ts": 55, "dur": 10)", kReduce)));
  REQUIRE(sums.size() == 1);
  CHECK(sums[0].bytes == 40);  // 10 elements of 4 bytes
  CHECK(sums[0].group == 2);
  CHECK(sums[0].count == 2);
  CHECK(sums[0].microseconds == 30);
  CHECK_THROWS_WITH(collectives(read(event("kernel", "ncclKernel_SendRecv", R"("ts": 5, "dur": 20)"))),
                    contains("says of 'ncclKernel_SendRecv' neither its collective nor its bytes"));
}

TEST_CASE("a collective that is written in another way divides time all the same") {
  const auto trace = read(event("kernel", "nccl", R"("ts": 1, "dur": 4)", R"("Collective name": "allreduce", "dtype": "Quad")"));
  CHECK(breakdown(trace).communication == 4);
  CHECK_THROWS_WITH(collectives(trace), contains("a.json: traceEvents[0]: args.dtype: 'Quad' is no type"));
  CHECK_THROWS_WITH(collectives(read(event("kernel", "nccl", R"("ts": 1, "dur": 1)", R"("Collective name": "send", "dtype": "Float")"))),
                    contains("traceEvents[0]: In msg nelems: must be a number"));
}

TEST_CASE("a file is taken for a trace by its first signs") {
  CHECK(is_kineto(" {\n"));
  CHECK(is_kineto("[ {"));
  CHECK_FALSE(is_kineto("[job]\n"));
  CHECK_FALSE(is_kineto("# nccl-tests {"));
  CHECK_FALSE(is_kineto(""));
}

TEST_CASE("what is wrong with a trace is said with file, event and key") {
  CHECK_THROWS_WITH(read_text("{\"traceEvents\": 3}"), contains("a.json: traceEvents: must be a list"));
  CHECK_THROWS_WITH(read_text("[]"), contains("a.json: is no JSON object"));
  CHECK_THROWS_WITH(read(event("kernel", "gemm", R"("ts": "soon", "dur": 1)")), contains("a.json: traceEvents[0]: ts: must be a number"));
  CHECK_THROWS_WITH(read(event("cpu_op", "aten::mm", R"("ts": 1, "dur": 1)")), contains("a.json: has no work of a GPU"));
  const auto whole = file_of(event("kernel", "gemm", R"("ts": 0, "dur": 10)"));
  CHECK_THROWS_WITH(read_text(whole.substr(0, whole.size() - 5)),
                    contains("a.json: ends in the middle (byte " + std::to_string(whole.size() - 4)));
  CHECK_THROWS_WITH(read_text("{\"traceEvents\": [}"), contains("a.json: is no JSON at byte 18"));
  CHECK_THROWS_WITH(read(event("kernel", "gemm", R"("ts": 1e999, "dur": 1)")),
                    contains("a.json: traceEvents[0]: has a number that is too large"));
  CHECK_THROWS_WITH(read_text("{\"events\": []}"), contains("a.json: traceEvents: must be a list"));
  CHECK_THROWS_WITH(
      read(event("user_annotation", "ProfilerStep#1", R"("ts": 0, "dur": 9)") + "," +
           event("user_annotation", "ProfilerStep#2", R"("ts": 9, "dur": 9)") + "," + event("kernel", "a", R"("ts": 9, "dur": 9)")),
      contains("in its last step alone"));
}

}  // namespace
}  // namespace rehearsal::exchange
