#pragma once
// Tables of text: a line for a row, commas between cells, quotes round a cell that has some of its own. The first row names columns, and all
// others have as many cells.

#include <istream>
#include <string>
#include <vector>

#include "base/text_lines.hpp"

namespace rehearsal {

class CsvReader {
 public:
  /// `name`: what messages call the table, such as its path.
  CsvReader(std::istream& in, std::string name) : lines_(in), name_(std::move(name)) {}

  /// The cells of the next line that is not blank, without blanks around them; false at the end. Throws BadInput naming the line where a
  /// quote is not closed on it, or where it has more or fewer cells than the first one.
  bool next(std::vector<std::string>& cells);
  /// Throws BadInput naming the line that was read last.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  TextLines lines_;
  std::string name_;
  std::size_t columns_ = 0;
};

}  // namespace rehearsal
