#include "exchange/frameworks/zoo_reference.hpp"

#include "formats/hugging_face/hugging_face_model.hpp"

namespace rehearsal::exchange {

std::optional<graph::zoo::ZooChoice> zoo_choice(const std::string& model) {
  if (model.starts_with("zoo:")) return graph::zoo::parse(model);
  if (model.starts_with("hf:")) return graph::zoo::parse(formats::read_hugging_face(model).zoo);
  return std::nullopt;
}

}  // namespace rehearsal::exchange
