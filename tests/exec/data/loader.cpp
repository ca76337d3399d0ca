// Samples read ahead: the same ones, whatever is asked for in which pieces, and errors when they are due.
#include "exec/data/loader.hpp"

#include "tests/exec/data/stored.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

/// Row r is {10 r, 10 r + 1, 10 r + 2}, and class r; row 13 cannot be read.
class Numbered final : public Dataset {
 public:
  explicit Numbered(std::int64_t samples, std::int64_t broken = -1) : samples_(samples), broken_(broken) {}
  [[nodiscard]] std::int64_t samples() const override { return samples_; }
  [[nodiscard]] std::string origin_of(std::int64_t row) const override { return "file " + std::to_string(row); }
  [[nodiscard]] std::int64_t read(const RowRequest& r, void* out) const override {
    if (r.row == broken_) throw BadInput(origin_of(r.row), "is broken");
    if (r.wanted == 1) {
      *static_cast<std::int64_t*>(out) = r.row;
      return 1;
    }
    for (std::int64_t n = 0; n < 3; ++n) static_cast<float*>(out)[n] = static_cast<float>(10 * r.row + n);
    return 3;
  }

 private:
  std::int64_t samples_, broken_;
};

const std::string kX = "x", kTarget = "target";

std::unique_ptr<Loader> loader(std::int64_t samples, LoaderOptions options, std::int64_t classes = 0, std::int64_t broken = -1) {
  return std::make_unique<Loader>(
      std::make_unique<Numbered>(samples, broken),
      std::vector<WantedTensor>{stored::input("x", DType::F32, {options.batch, 3}), stored::target({options.batch}, classes)}, options);
}

std::vector<float> rows(DataSource& data, std::int64_t first, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(3 * count));
  data.read({kX, {DType::F32, {count, 3}}, first, count}, out.data());
  return out;
}

std::int64_t label(DataSource& data, std::int64_t sample) {
  std::int64_t out = -1;
  data.read({kTarget, {DType::I64, {1}}, sample, 1}, &out);
  return out;
}

}  // namespace

TEST_CASE("samples are the same with any number of threads, and in any pieces") {
  const auto now = loader(23, {true, 5, 0, 6});
  for (const int threads : {1, 3}) {
    const auto ahead = loader(23, {true, 5, threads, 6});
    for (std::int64_t step = 0; step < 12; ++step) {
      const auto whole = rows(*now, 6 * step, 6);
      CHECK(rows(*ahead, 6 * step, 6) == whole);
      auto parts = rows(*ahead, 6 * step, 2);
      for (const float x : rows(*ahead, 6 * step + 2, 4)) parts.push_back(x);
      CHECK(parts == whole);
      CHECK(static_cast<float>(10 * label(*ahead, 6 * step)) == whole[0]);
    }
    CHECK(rows(*ahead, 6, 6) == rows(*now, 6, 6));  // back again
  }
}

TEST_CASE("a part of every sample") {
  const auto data = loader(4, {false, 0, 1, 2});
  const plan::Region part{{{0, 2}}, {{0, 1}, {2, 3}}};  // the first and the last number
  for (const std::int64_t first : {0, 2, 0}) {
    std::vector<float> out(4);
    data->read({kX, {DType::F32, {2, 2}}, first, 2, &part}, out.data());
    const auto row = static_cast<float>(10 * first);
    CHECK(out == std::vector<float>{row, row + 2, row + 10, row + 12});
  }
}

TEST_CASE("an error comes with the sample that has it, not when it is read ahead") {
  const auto data = loader(20, {false, 0, 2, 4}, 0, 13);
  for (const std::int64_t first : {0, 4, 8}) CHECK(rows(*data, first, 4)[0] == static_cast<float>(10 * first));
  stored::check_refused([&] { (void)rows(*data, 12, 4); }, {"file 13", "broken"});
  CHECK(rows(*data, 16, 4)[0] == 160.0F);
}

TEST_CASE("a class that the model does not have") {
  const auto data = loader(8, {false, 0, 1, 1}, 5);
  for (std::int64_t n = 0; n < 5; ++n) CHECK(label(*data, n) == n);
  stored::check_refused([&] { (void)label(*data, 5); }, {"file 5", "has 5", "\"target\"", "5 classes, 0 to 4"});
}

TEST_CASE("bytes that were read are counted") {
  const auto data = loader(8, {false, 0, 0, 4});
  (void)rows(*data, 0, 4);
  (void)label(*data, 0);
  CHECK(data->figures().bytes == 4 * 3 + 1);
  CHECK(data->figures().waited > 0);
  CHECK(data->origin_of(9) == "file 1");  // of the second epoch
}

TEST_CASE("a sample that cannot be read is no error where only a checksum is asked for") {
  CHECK_FALSE(loader(23, {})->checksum().empty());
  CHECK(loader(23, {}, 0, 22)->checksum().empty());
}
