// SPDX-License-Identifier: Apache-2.0
// Reads JSON piece by piece and keeps nothing: for texts whose form is known, where values would take many times their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/status.h"

namespace moonlit {

// Told of each piece in the order of the text; the first Status that is not OK ends the reading. Texts are valid UTF-8 and live during
// the call. std::bad_alloc may leave a function.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual Status Null() = 0;
  virtual Status Boolean(bool value) = 0;
  virtual Status Integer(int64_t value) = 0;  // kinds of numbers: as JsonType has them
  virtual Status Unsigned(uint64_t value) = 0;
  virtual Status Double(double value) = 0;
  virtual Status String(std::string_view text) = 0;
  virtual Status StartArray() = 0;
  virtual Status EndArray() = 0;
  virtual Status StartObject() = 0;
  virtual Status Key(std::string_view name) = 0;
  virtual Status EndObject() = 0;
  // What to say of a text that is no JSON: up to `byte`, counted from 1, whose last piece is `last`. Not OK.
  virtual Status Broken(size_t byte, std::string_view last) = 0;
};

// RFC 8259, with a byte order mark allowed, nested as deep as it may be: the reading takes a bit a level. The Status of `events`, or
// kOutOfMemory. std::bad_alloc leaves only where there is no memory for a Status either.
Status ReadJson(std::string_view text, JsonEvents& events);

}  // namespace moonlit
