// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <new>

#include "runtime/base/quote.h"
#include "runtime/json/json_document.h"
#include "runtime/json/json_events.h"

namespace moonlit {

// Values wait on a stack until what is around them ends; then they lie side by side.
class Json::Builder : public JsonEvents {
 public:
  Builder(const JsonBounds& bounds, Document* document) : bounds_(bounds), document_(document) {}

  // After the whole text.
  const Node* Root() {
    document_->nodes.push_back(stack_.front());
    return &document_->nodes.back();
  }

  Status Null() override { return Add(JsonType::kNull, 0); }
  Status Boolean(bool value) override { return Add(JsonType::kBoolean, value ? 1 : 0); }
  Status Integer(int64_t value) override { return Add(JsonType::kInteger, static_cast<uint64_t>(value)); }
  Status Unsigned(uint64_t value) override { return Add(JsonType::kUnsigned, value); }
  Status Double(double value) override { return Add(JsonType::kDouble, std::bit_cast<uint64_t>(value)); }
  Status String(std::string_view text) override {
    const size_t first = document_->text.size();
    document_->text.insert(document_->text.end(), text.begin(), text.end());
    return Add(JsonType::kString, Node::Span(first, text.size()));
  }
  Status Key(std::string_view name) override {
    if ((stack_.size() - open_.back()) / 2 >= bounds_.members)
      return Errorf(Code::kExhausted, "JSON: expected at most %zu members in an object", bounds_.members);
    return String(name);
  }
  Status StartArray() override { return Start(); }
  Status StartObject() override { return Start(); }
  Status EndArray() override {
    End(JsonType::kArray, stack_.size() - open_.back());
    return Status();
  }
  Status EndObject() override {
    SortMembers();
    End(JsonType::kObject, (stack_.size() - open_.back()) / 2);
    return Status();
  }
  Status Broken(size_t byte, std::string_view last) override {
    return Errorf(Code::kCorrupt, "JSON: it breaks off at byte %zu, with %s", byte, QuoteForMessage(last).c_str());
  }

 private:
  Status CheckDepth() const {
    if (open_.size() <= bounds_.depth) return Status();
    return Errorf(Code::kExhausted, "JSON: expected at most %zu levels", bounds_.depth);
  }
  Status Add(JsonType type, uint64_t bits) {
    MOONLIT_RETURN_IF_ERROR(CheckDepth());
    stack_.push_back({type, 0, bits});
    return Status();
  }
  Status Start() {
    MOONLIT_RETURN_IF_ERROR(CheckDepth());
    open_.push_back(stack_.size());
    return Status();
  }
  void End(JsonType type, size_t size) {
    std::vector<Node>& nodes = document_->nodes;
    const uint64_t span = Node::Span(nodes.size(), size);
    nodes.insert(nodes.end(), stack_.begin() + static_cast<ptrdiff_t>(open_.back()), stack_.end());
    stack_.resize(open_.back());
    open_.pop_back();
    stack_.push_back({type, 0, span});
  }

  std::string_view NameOf(uint32_t member) const {
    const Node& name = stack_[open_.back() + 2 * size_t{member}];
    return std::string_view(document_->text.data() + name.first(), name.size());
  }

  // Fills in `sorted` for the members of the innermost object, of which those with one name become one.
  void SortMembers() {
    SortNames();
    if (JoinOfOneName()) SortNames();
    for (size_t i = 0; i < order_.size(); ++i) stack_[open_.back() + 2 * i].sorted = order_[i];
  }
  void SortNames() {
    order_.resize((stack_.size() - open_.back()) / 2);
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<uint32_t>(i);
    std::sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) {
      const int order = NameOf(a).compare(NameOf(b));
      return order == 0 ? a < b : order < 0;
    });
  }
  bool JoinOfOneName() {
    const size_t members = order_.size();
    Node* begin = stack_.data() + open_.back();
    size_t first = 0;  // in `order_`, of the names that are the same
    for (size_t i = 1; i < members; ++i) {
      if (NameOf(order_[i]) != NameOf(order_[first])) {
        first = i;
        continue;
      }
      begin[2 * size_t{order_[first]} + 1] = begin[2 * size_t{order_[i]} + 1];
      gone_.push_back(order_[i]);
    }
    if (gone_.empty()) return false;
    for (const uint32_t member : gone_) begin[2 * size_t{member}].type = JsonType::kNull;
    gone_.clear();
    size_t kept = 0;
    for (size_t i = 0; i < members; ++i) {
      if (begin[2 * i].type == JsonType::kNull) continue;
      begin[2 * kept] = begin[2 * i];
      begin[2 * kept + 1] = begin[2 * i + 1];
      ++kept;
    }
    stack_.resize(open_.back() + 2 * kept);
    return true;
  }

  const JsonBounds bounds_;
  Document* document_;
  std::vector<Node> stack_;
  std::vector<size_t> open_;     // where on the stack the values begin of each array or object that has not ended
  std::vector<uint32_t> order_;  // members by their names' bytes
  std::vector<uint32_t> gone_;
};

Result<Json> ParseJson(std::string_view text, const JsonBounds& bounds) try {
  // Places in a document are of 32 bits.
  if (text.size() > size_t{INT32_MAX}) return Errorf(Code::kExhausted, "JSON: expected at most 2 GiB");
  const auto document = std::make_shared<Json::Document>();
  Json::Builder builder(bounds, document.get());
  MOONLIT_RETURN_IF_ERROR(ReadJson(text, builder));
  const Json::Node* root = builder.Root();
  return Json(document, root);
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "JSON: no memory");
}

}  // namespace moonlit
