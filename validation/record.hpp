#pragma once
// A published measurement of a training run: one JSON object a line. docs/records.md lists the keys.

#include <initializer_list>
#include <iosfwd>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::validation {

/// One value of a record. A text may stand where a number is usual ("not stated"): then there is no number.
struct Field {
  std::optional<double> number;  ///< of numbers, booleans (0, 1) and texts that are a number
  std::string text;              ///< as written; lists as JSON
  bool null = false;
  bool nested = false;  ///< a list or an object
};

class Fields {
 public:
  [[nodiscard]] bool has(std::string_view key) const { return fields_.contains(key); }
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] double number_or(std::string_view key, double otherwise) const { return number(key).value_or(otherwise); }
  /// As it stands there; empty where the key is absent.
  [[nodiscard]] std::string written(std::string_view key) const;
  /// The same in lower case.
  [[nodiscard]] std::string text(std::string_view key) const;
  /// A number but 0, or "true", "yes", "on".
  [[nodiscard]] bool truth(std::string_view key) const;
  [[nodiscard]] const std::map<std::string, Field, std::less<>>& all() const { return fields_; }
  void set(std::string key, Field field) { fields_[std::move(key)] = std::move(field); }

 private:
  std::map<std::string, Field, std::less<>> fields_;
};

struct Record {
  std::string id, family, source;
  bool complete = true;  ///< every input is in the record
  bool core = true;
  Fields model, hardware, plan, measured;
  std::string broken;  ///< what is wrong with its form, so that nothing can be said of it
};

/// Throws Refusal naming the key of a record whose form is broken, or that has a text where a number stands.
void require_form(const Record&);

struct RecordFile {
  std::vector<Record> records;
  std::set<std::string> unknown_keys;  ///< "plan.colour": ignored
  std::set<std::string> repeated_ids;  ///< "gpt3 (lines 2 and 7)": records all the same
};

/// Throws BadInput naming `where` and the line: no JSON, no object, or no "id".
[[nodiscard]] RecordFile read_records(std::istream& in, const std::string& where);
[[nodiscard]] RecordFile read_record_file(const std::string& path);
/// Throws BadInput naming the file where it has no record.
void require_records(const RecordFile&, const std::string& path);

/// Whether `text` holds `part`.
[[nodiscard]] bool holds(std::string_view text, std::string_view part);
[[nodiscard]] bool holds_any(std::string_view text, std::initializer_list<std::string_view> parts);

}  // namespace rehearsal::validation
