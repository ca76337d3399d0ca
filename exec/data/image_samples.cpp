#include "exec/data/image_samples.hpp"

#include "base/error.hpp"

namespace rehearsal::exec {

ImageInputs::ImageInputs(const DatasetRequest& r, std::int64_t classes, const std::string& where) : seed_(r.options.seed) {
  const auto chosen = chosen_arrays(where, r.wanted, {{"image", "label"}, "image", "label"});
  for (std::size_t i = 0; i < r.wanted.size(); ++i) {
    const auto& w = r.wanted[i];
    const bool picture = chosen[i] == 0;
    picture ? pictures_.emplace_back(std::in_place, w, r.options.pictures, where) : pictures_.emplace_back();
    picture ? classes_.emplace_back() : classes_.emplace_back(std::in_place, w, where);
    if (!picture && w.classes > 0 && classes > w.classes)
      throw BadInput(where, "holds " + std::to_string(classes) + " classes, and the model has " + std::to_string(w.classes));
  }
}

void ImageInputs::read_picture(const RowRequest& r, const PictureBytes& file, void* out) const {
  pictures_[r.wanted]->read(file, {seed_, r.sample}, out);
}

void ImageInputs::read_class(const RowRequest& r, std::int64_t number, void* out) const { classes_[r.wanted]->read(number, out); }

}  // namespace rehearsal::exec
