// Real et al., "Regularized Evolution for Image Classifier Architecture Search", AAAI 2019: AmoebaNet-D, with the convolutions and the
// concatenation that Huang et al., "GPipe", NeurIPS 2019, trained; they follow from the parameters in its table 1 (code of torchgpipe).

#include <array>

#include "base/error.hpp"
#include "graph/zoo/cells.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kAmoebanetParameters[] = {
    {"image", 224, 32, 4096, "height and width, a multiple of 32"},
    {"layers", 18, 3, 10'000, "normal cells, a multiple of 3"},
    {"filters", 256, 4, 100'000, "the size D of the published models, a multiple of 4"},
    {"classes", 1000, 1, 1'000'000, "size of the result"},
    {"batch", 8, 1, 1'000'000'000, "samples"},
};

enum class Operation { Skip, Average3, Max2, Conv1, Conv3, Conv7 };
struct AmoebanetChoice {
  int state;  ///< 0 and 1 are the results of the two cells before
  Operation operation;
};
using Genotype = std::array<AmoebanetChoice, 10>;
constexpr Genotype kNormal{{{1, Operation::Conv1},
                            {1, Operation::Average3},
                            {1, Operation::Skip},
                            {0, Operation::Conv7},
                            {0, Operation::Conv1},
                            {0, Operation::Conv7},
                            {2, Operation::Average3},
                            {2, Operation::Skip},
                            {1, Operation::Average3},
                            {5, Operation::Conv1}}};
constexpr Genotype kReduction{{{0, Operation::Max2},
                               {0, Operation::Average3},
                               {2, Operation::Skip},
                               {1, Operation::Conv3},
                               {2, Operation::Conv7},
                               {2, Operation::Average3},
                               {3, Operation::Skip},
                               {1, Operation::Max2},
                               {2, Operation::Average3},
                               {3, Operation::Conv1}}};

class AmoebaNet {
 public:
  explicit AmoebaNet(const ZooValues& values) : values_(values), channels_(values.at("filters") / 4) {}

  Graph build() && {
    const TensorId image = net_.layers().image(values_.at("batch"), 3, values_.at("image"));
    TensorId x = net_.unit("stem", image, channels_, FilterWindow::of({3, 2, 1}));
    before_ = x;
    x = cell("stem2", cell("stem1", x, true), true);
    const std::int64_t each = values_.at("layers") / 3;
    for (int stage = 0; stage < 3; ++stage) {
      for (std::int64_t i = 0; i < each; ++i) x = cell("cell" + std::to_string(stage) + "." + std::to_string(i), x, false);
      if (stage < 2) x = cell("reduction" + std::to_string(stage), x, true);
    }
    return std::move(net_.net()).classified(x, "fc", values_.at("classes"));
  }

 private:
  TensorId apply(const std::string& name, TensorId x, Operation operation, std::int64_t stride) {
    const std::int64_t quarter = channels_ / 4;
    switch (operation) {
      case Operation::Skip:
        return stride == 1 ? x : net_.factorized_reduction(name, x, channels_);
      case Operation::Average3:
        return net_.average(name, x, stride);
      case Operation::Max2:
        return net_.layers().max_pool(name, x, {2, stride, 0});
      case Operation::Conv1:
        return net_.pointwise(name, x, channels_, stride);
      case Operation::Conv3:
        x = net_.unit(name + ".2", net_.pointwise(name + ".1", x, quarter), quarter, FilterWindow::of({3, stride, 1}));
        return net_.pointwise(name + ".3", x, channels_);
      case Operation::Conv7:
        x = net_.unit(name + ".2", net_.pointwise(name + ".1", x, quarter), quarter, {{1, 7}, {1, stride}, {0, 3}});
        x = net_.unit(name + ".3", x, quarter, {{7, 1}, {stride, 1}, {3, 0}});
        return net_.pointwise(name + ".4", x, channels_);
    }
    throw InternalError("an operation of AmoebaNet without nodes");
  }

  /// The result of the cell before, brought to this cell's size and channels.
  TensorId earlier(const std::string& name) {
    if (reduced_) return net_.factorized_reduction(name, before_, channels_);
    return net_.channels(before_) == channels_ ? before_ : net_.pointwise(name, before_, channels_);
  }

  TensorId cell(const std::string& name, TensorId x, bool reduction) {
    if (reduction) channels_ *= 2;
    std::vector<TensorId> states = {net_.pointwise(name + ".reduce1", x, channels_), earlier(name + ".reduce2")};
    const auto& genotype = reduction ? kReduction : kNormal;
    for (std::size_t i = 0; i < genotype.size(); i += 2) {
      TensorId both[2];
      for (std::size_t k = 0; k < 2; ++k) {
        const auto& choice = genotype[i + k];
        both[k] = apply(name + ".op" + std::to_string(i + k), states[static_cast<std::size_t>(choice.state)], choice.operation,
                        reduction && choice.state < 2 ? 2 : 1);
      }
      states.push_back(net_.layers().add(name + ".sum" + std::to_string(i / 2), both[0], both[1]));
    }
    before_ = x;
    reduced_ = reduction;
    return net_.layers().concat(
        name, reduction ? std::vector{states[4], states[5], states[6]} : std::vector{states[0], states[3], states[4], states[6]});
  }

  const ZooValues& values_;
  std::int64_t channels_;
  CellNetwork net_{1e-5};
  TensorId before_ = TensorId::None;
  bool reduced_ = false;
};

Graph amoebanet(const ZooValues& values) {
  const auto refuse = [&](const char* key, std::int64_t of) {
    if (values.at(key) % of != 0)
      throw BadInput("zoo:amoebanetd",
                     std::string(key) + "=" + std::to_string(values.at(key)) + " is not a multiple of " + std::to_string(of));
  };
  refuse("image", 32);
  refuse("layers", 3);
  refuse("filters", 4);
  return AmoebaNet(values).build();
}

constexpr ZooRow kAmoebanetRows[] = {
    {"amoebanetd", "AmoebaNet-D (Real et al. 2019); the defaults are (18, 256)", kAmoebanetParameters, amoebanet}};

}  // namespace

std::span<const ZooRow> evolved_networks() { return kAmoebanetRows; }

}  // namespace rehearsal::graph::zoo
