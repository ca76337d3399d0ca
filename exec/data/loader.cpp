#include "exec/data/loader.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>

#include "base/error.hpp"
#include "exec/data/ends.hpp"
#include "exec/data/read_ahead.hpp"
#include "exec/data/sample_reader.hpp"

namespace rehearsal::exec {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

constexpr std::int64_t kAheadBytes = std::int64_t{1} << 26;  // of an input: small steps are read further ahead
constexpr std::int64_t kLeastAhead = 2, kMostAhead = 8;

}  // namespace

class Loader::Impl {
 public:
  Impl(std::unique_ptr<const Dataset> dataset, std::vector<WantedTensor> wanted, const LoaderOptions& options)
      : options_(options),
        reader_(reader_of(std::move(dataset), std::move(wanted), options)),
        ahead_(reader_, reader_->dataset().in_memory() ? 0 : options.threads) {}

  void read(const SampleRequest& r, void* out) {
    const double begin = now();
    const auto wanted = reader_->index_of(r.input);
    auto* to = static_cast<std::byte*>(out);
    if (!reader_->wanted()[wanted].per_sample) {
      read_whole(wanted, r, to);
    } else {
      Stretch stretch{wanted, r.first, r.count, r.part == nullptr ? std::nullopt : std::optional(*r.part)};
      take(stretch, to);
      if (ahead_.threads() > 0) expect(stretch);
    }
    waited_ += now() - begin;
  }

  [[nodiscard]] const SampleReader& reader() const { return *reader_; }
  [[nodiscard]] DataFigures figures() const { return {reader_->bytes_read(), waited_}; }

 private:
  static std::shared_ptr<SampleReader> reader_of(std::unique_ptr<const Dataset> dataset, std::vector<WantedTensor> wanted,
                                                 const LoaderOptions& options) {
    const SampleOrder order(dataset->samples(), options.seed, options.shuffle);
    return std::make_shared<SampleReader>(std::move(dataset), std::move(wanted), order);
  }

  /// What is the same for all samples: rows of it where a rank has a part.
  void read_whole(std::size_t wanted, const SampleRequest& r, std::byte* to) const {
    const auto& w = reader_->wanted()[wanted];
    if (r.part != nullptr || graph::element_count(r.type.shape) != graph::element_count(w.type.shape))
      throw Refusal("input \"" + w.input + "\", one value for the whole batch, is not split over ranks when it comes from files");
    reader_->read({wanted, 0, nullptr}, to);
  }

  /// From what was read ahead, else now.
  void take(const Stretch& stretch, std::byte* to) {
    forget_what_is_past(stretch);
    const auto at = std::find_if(loads_.begin(), loads_.end(), [&](const auto& load) { return load->stretch == stretch; });
    if (at == loads_.end()) {
      auto load = ahead_.make(stretch, to);
      ahead_.begin(load);
      return ahead_.finish(*load);
    }
    const auto load = *at;
    loads_.erase(at);
    ahead_.finish(*load);
    std::memcpy(to, load->out, static_cast<std::size_t>(load->bytes));
    ahead_.give_back(*load);
  }

  void expect(Stretch stretch) {
    const auto bytes = std::max<std::int64_t>(1, stretch.count * reader_->bytes_of(stretch.wanted, stretch.region()));
    const auto steps = std::clamp(kAheadBytes / bytes, kLeastAhead, kMostAhead);
    for (std::int64_t n = 0; n < steps; ++n) {
      stretch.first += options_.batch;
      if (std::any_of(loads_.begin(), loads_.end(), [&](const auto& load) { return load->stretch == stretch; })) continue;
      loads_.push_back(ahead_.make(stretch, nullptr));
      ahead_.begin(loads_.back());
    }
  }

  /// Guesses that nobody asked for.
  void forget_what_is_past(const Stretch& now) {
    std::erase_if(loads_,
                  [&](const auto& load) { return load->stretch.wanted == now.wanted && load->stretch.first + options_.batch < now.first; });
  }

  LoaderOptions options_;
  std::shared_ptr<SampleReader> reader_;
  ReadAhead ahead_;
  std::list<std::shared_ptr<Load>> loads_;  ///< begun, and not taken yet
  double waited_ = 0;
};

Loader::Loader(std::unique_ptr<const Dataset> dataset, std::vector<WantedTensor> wanted, const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(wanted), options)) {}
Loader::~Loader() = default;
void Loader::read(const SampleRequest& request, void* out) { impl_->read(request, out); }
std::string Loader::origin_of(std::int64_t sample) { return impl_->reader().origin_of(sample); }
std::int64_t Loader::samples() const { return impl_->reader().dataset().samples(); }
DataFigures Loader::figures() const { return impl_->figures(); }
std::string Loader::checksum() const { return checksum_of_ends(impl_->reader().dataset(), impl_->reader().wanted()); }

}  // namespace rehearsal::exec
