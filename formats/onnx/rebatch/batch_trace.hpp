#pragma once
// Another batch than the one a file was exported with. The file is imported three times: as written; with a prime in place of the batch,
// which shows what each size depends on, and what has to be rewritten (shapes written out in a Reshape, constants with a row per sample);
// and with the batch that is wanted, where every size must be what was found. What cannot be decided is refused, never guessed.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "formats/onnx/import_watcher.hpp"
#include "formats/onnx/rebatch/size_factors.hpp"

namespace rehearsal::formats {

inline constexpr std::int64_t kMostListed = 64;  ///< operands with more elements than this list no sizes

/// Why a file cannot be used with another batch. Caught where it is known what file that is.
struct NotRebatchable {
  std::string reason;
};

/// How often which node runs does not depend on the batch: the n-th node of one import is the n-th of the others.
struct Visit {
  std::string op, described;
  std::map<std::string, std::vector<std::int64_t>> attributes;  ///< those of whole numbers
  std::vector<std::optional<graph::TensorType>> inputs;         ///< as written
  std::vector<std::vector<graph::TensorType>> outputs;          ///< as written; several of a sequence
  std::vector<std::optional<std::vector<double>>> values;       ///< of operands of few elements that are known
  std::vector<graph::TensorId> operands;                        ///< in the last probe
  std::optional<SizeLaw> law;                                   ///< of result 0, where the operator's rule knows it
  std::vector<std::vector<SizeLaw>> laws;                       ///< of all results

  [[nodiscard]] std::int64_t attribute(const std::string& key, std::int64_t otherwise) const {
    const auto found = attributes.find(key);
    return found == attributes.end() || found->second.size() != 1 ? otherwise : found->second[0];
  }
};

/// What of an operand is written anew.
struct OperandPatch {
  enum class Kind : std::uint8_t {
    Sizes,   ///< the operand lists sizes: element `index` becomes `size`
    Repeat,  ///< slices along axis `index` are equal, there will be as many as `size` says
    Count,   ///< the same, and elements that count slices go on counting
    Step,    ///< from slice to slice every element rises by `step`
  };
  Kind kind = Kind::Sizes;
  std::size_t operand = 0, index = 0;
  SizeFactors size;
  std::int64_t step = 0;
};

class BatchTrace final : public ImportWatcher {
 public:
  enum class Pass : std::uint8_t { Written, Probe, Wanted };

  explicit BatchTrace(std::int64_t written) : batches_{written, 0} {}

  void begin(Pass pass, std::int64_t batch);
  /// Ends a pass: as many nodes must have run as in the first.
  void end() const;
  /// After a probe that led nowhere: whether there is another place for a batch of 1 to try. The probe starts anew.
  [[nodiscard]] bool try_another_place();
  [[nodiscard]] std::optional<graph::TensorType> grown(graph::TensorId t) const override;
  /// A prime that divides no size of the file.
  [[nodiscard]] std::int64_t choose_probe() const;
  [[nodiscard]] std::int64_t written() const override { return batches_.written; }
  [[nodiscard]] std::int64_t batch() const override { return batch_; }
  [[nodiscard]] std::vector<std::string> remarks() const;
  /// The nodes of which operands are written anew, and what of them.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> rewritten() const;

  /// Thrown in the probe when something upstream has to be rewritten: the probe starts again.
  struct Again {};

  /// Notes its law, too.
  void note_input(graph::TensorId t, const graph::Shape& shape) override;
  std::size_t before(NodeImport& node, const onnx::NodeProto& proto) override;
  void after(std::size_t visit, NodeImport& node) override;

 private:
  friend class RebatchRule;
  using TensorId = graph::TensorId;

  [[nodiscard]] const Visit& same_visit(std::size_t at, const onnx::NodeProto& proto) const;
  static void record_operands(Visit& visit, const NodeImport& node, const onnx::NodeProto& proto);
  static void record_results(Visit& visit, const NodeImport& node);
  void find_laws(std::size_t visit, NodeImport& node);
  void check_laws(const Visit& visit, const NodeImport& node) const;
  void apply_patches(std::size_t visit, NodeImport& node);
  void apply(const OperandPatch& patch, NodeImport& node);
  static TensorId counted(TensorId t, TensorId grown, const OperandPatch& patch, NodeImport& node);
  [[nodiscard]] std::int64_t size_now(const SizeFactors& size) const;
  [[nodiscard]] SizeFactors law_of_size(const Visit& visit, std::int64_t written, std::int64_t probed, const NodeImport& node) const;
  [[nodiscard]] SizeLaw law_of(TensorId t, const graph::GraphBuilder& builder) const;
  void follow_flags(const Visit& visit, const NodeImport& node);

  Batches batches_;
  Pass pass_ = Pass::Written;
  std::int64_t batch_ = 0;
  std::size_t next_ = 0;
  std::vector<Visit> visits_;
  std::unordered_map<std::size_t, std::vector<OperandPatch>> patches_;  ///< by visit

  // of one probe
  std::unordered_map<TensorId, SizeLaw> laws_;
  std::unordered_map<TensorId, std::size_t> origins_;  ///< the visit that made it
  std::unordered_set<TensorId> random_;                ///< made of fresh random numbers
  std::unordered_map<TensorId, std::int64_t> summed_;  ///< sums over the batch, with the number of summands
  std::vector<std::string> assumptions_;
  std::vector<std::size_t> places_;                        ///< visits where the batch could have gone into another dimension
  std::unordered_set<std::size_t> behind_;                 ///< and where it does
  std::unordered_map<TensorId, graph::TensorType> grown_;  ///< in the last pass: constants that follow, as they are read
  std::unordered_set<TensorId> read_as_they_are_;
};

}  // namespace rehearsal::formats
