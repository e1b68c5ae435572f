// SPDX-License-Identifier: Apache-2.0
#include "runtime/json/json_events.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace moonlit {
namespace {

using Reader = nlohmann::json;

// What nlohmann-json calls, with a Status for each of its bools.
class Events {
 public:
  explicit Events(JsonEvents& events) : events_(events) {}
  Status TakeStatus() { return std::move(status_); }

  bool null() { return Keep(events_.Null()); }
  bool boolean(bool value) { return Keep(events_.Boolean(value)); }
  bool number_integer(int64_t value) { return Keep(events_.Integer(value)); }
  bool number_unsigned(uint64_t value) { return Keep(events_.Unsigned(value)); }
  bool number_float(double value, const std::string&) { return Keep(events_.Double(value)); }
  bool string(std::string& text) { return Keep(events_.String(text)); }
  bool binary(Reader::binary_t&) { return Keep(events_.Broken(0, "")); }  // no JSON has it
  bool start_object(size_t) { return Keep(events_.StartObject()); }
  bool key(std::string& name) { return Keep(events_.Key(name)); }
  bool end_object() { return Keep(events_.EndObject()); }
  bool start_array(size_t) { return Keep(events_.StartArray()); }
  bool end_array() { return Keep(events_.EndArray()); }
  bool parse_error(size_t byte, const std::string& last, const Reader::exception&) {
    return Keep(events_.Broken(byte, last));
  }

 private:
  bool Keep(Status status) {
    status_ = std::move(status);
    return status_.ok();
  }

  JsonEvents& events_;
  Status status_;
};

}  // namespace

Status ReadJson(std::string_view text, JsonEvents& events) try {
  Events told(events);
  Reader::sax_parse(text.data(), text.data() + text.size(), &told);
  return told.TakeStatus();
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "JSON: no memory");
}

}  // namespace moonlit
