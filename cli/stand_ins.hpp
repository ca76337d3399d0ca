#pragma once
// Where no framework is named, a plan is called impossible only where none that is known to run on the device can run it.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "predict/predictor_by_plan.hpp"

namespace rehearsal::cli {

/// Answers for plans that a user named: as the usual framework runs them, or as one that can where the usual one cannot, or has too little
/// memory. A plan has one answer, whatever others it is asked about with.
class StandIns final : public predict::PredictorByPlan {
 public:
  /// The predictor of one more framework; it is asked for one only where it is needed.
  using Make = std::function<std::unique_ptr<predict::Predictor>(const costmodel::FrameworkProfile&)>;
  /// `usual` must outlive it.
  StandIns(predict::Predictor& usual, Make make) : PredictorByPlan(usual), make_(std::move(make)) {}

  /// Keys that a text says, beside which recipes may set others; nothing of a plan file, which says all.
  using Named = std::optional<std::vector<std::string_view>>;
  struct Choice {
    predict::Predictor* by = nullptr;
    std::string instead;  ///< why it is another than the usual one; empty: it is not
  };
  [[nodiscard]] Choice choice(const plan::Plan&, const Named&) const;

 protected:
  [[nodiscard]] predict::Predictor& of(const plan::Plan&) const override;

 private:
  [[nodiscard]] predict::Predictor& as(const costmodel::FrameworkProfile&) const;

  Make make_;
  mutable std::map<const costmodel::FrameworkProfile*, std::unique_ptr<predict::Predictor>> made_;
  mutable std::map<std::string, predict::Predictor*> chosen_;  ///< by the text of a plan
};

}  // namespace rehearsal::cli
