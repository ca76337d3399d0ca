#pragma once
// How far the loss of a language model falls with its parameters and the tokens it is trained on, as published. A law is a row
// (predict/scaling/laws.cpp) of a file of its own; every figure is its source's.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/units.hpp"

namespace rehearsal::predict::scaling {

/// FLOPs of a parameter and token, by which laws turn compute into parameters times tokens: two of the forward pass (a product and a sum),
/// twice as many of the backward pass (Kaplan et al. 2020, section 2.1).
inline constexpr double kFlopsOfParameterAndToken = 6;

struct FittedRange {
  double low = 0, high = 0;  ///< both 0: the source does not say
  [[nodiscard]] bool known() const { return high > 0; }
  [[nodiscard]] bool holds(double x) const { return !known() || (x >= low && x <= high); }
};

/// What of a training laws look at.
struct TrainingSize {
  double parameters = 0;          ///< all of them
  double without_embeddings = 0;  ///< those that no row of the vocabulary has
  double tokens = 0;              ///< each seen once
};

/// How a compute budget is best spent.
struct Allocation {
  double parameters = 0, tokens = 0;
};

struct ScalingLaw {
  std::string_view name;            ///< as in --law
  std::string_view source;          ///< authors, title, year, and where in it
  std::string_view data;            ///< what the losses are of: text, vocabulary. Losses on other data differ by more than laws do
  bool without_embeddings = false;  ///< which parameters it counts
  FittedRange parameters{}, tokens{}, flops{};  ///< of the runs that it was fitted to
  /// Nats a token (Hestness: a word), by the parameters that it counts and the tokens; nullptr: the source gives none.
  double (*loss)(double parameters, double tokens) = nullptr;
  /// By C = 6 N D; nullptr: the source gives none.
  Allocation (*best)(Flops) = nullptr;
  std::string_view superseded = {};  ///< what later work found wrong with its allocation; empty: nothing known

  [[nodiscard]] double counted(const TrainingSize& s) const { return without_embeddings ? s.without_embeddings : s.parameters; }
  [[nodiscard]] double loss_of(const TrainingSize& s) const { return loss(counted(s), s.tokens); }
  /// 6 N D, as it counts N.
  [[nodiscard]] Flops flops_of(const TrainingSize& s) const { return Flops(kFlopsOfParameterAndToken * counted(s) * s.tokens); }
};

[[nodiscard]] std::span<const ScalingLaw> scaling_laws();
/// The row that is meant without --law: Besiroglu et al. 2024.
inline constexpr std::string_view kUsualLaw = "besiroglu";
[[nodiscard]] const ScalingLaw& usual_law();
/// What a question takes of a law.
enum class AskedOfLaw : std::uint8_t { Loss, LossAndSize };
/// Throws BadInput listing the names, and for a law that does not give what is asked of it, those that do.
[[nodiscard]] const ScalingLaw& known_law(const std::string& option, const std::string& name, AskedOfLaw = AskedOfLaw::LossAndSize);

/// "parameters 7.3e10 (fitted up to 1.6e10), tokens ... ": where a training lies outside of what the law was fitted to; empty: nowhere.
[[nodiscard]] std::string outside(const ScalingLaw&, const TrainingSize&);

/// L = E + A / N^alpha + B / D^beta (Hoffmann et al. 2022, equation 2).
struct ParametricLoss {
  double floor, a, b, alpha, beta;
  [[nodiscard]] double at(double parameters, double tokens) const;
  /// Where it is least for 6 N D = C: N = G (C/6)^(beta/(alpha+beta)), D = (C/6) / N, G = (alpha A / (beta B))^(1/(alpha+beta))
  /// (the same, equation 4).
  [[nodiscard]] Allocation best(Flops) const;
};

/// One law each.
using LawOfSource = ScalingLaw();
LawOfSource hestness_2017, kaplan_2020, hoffmann_2022_envelope, hoffmann_2022_profiles, hoffmann_2022_parametric, besiroglu_2024,
    deepseek_2024, llama3_2024;

/// In the order of scaling_laws().
inline constexpr LawOfSource* kLaws[] = {
    hestness_2017, kaplan_2020, hoffmann_2022_envelope, hoffmann_2022_profiles, hoffmann_2022_parametric, besiroglu_2024,
    deepseek_2024, llama3_2024};

}  // namespace rehearsal::predict::scaling
