#pragma once
// Tables of text: a line for a row, commas between cells, quotes round a cell that has some of its own.

#include <iosfwd>
#include <string>
#include <vector>

namespace rehearsal {

class CsvReader {
 public:
  /// `name`: what messages call the table, such as its path.
  CsvReader(std::istream& in, std::string name) : in_(in), name_(std::move(name)) {}

  /// The cells of the next line that is not blank, without blanks around them; false at the end.
  bool next(std::vector<std::string>& cells);
  /// Throws BadInput naming the line that was read last.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::istream& in_;
  std::string name_;
  int line_ = 0;
};

}  // namespace rehearsal
