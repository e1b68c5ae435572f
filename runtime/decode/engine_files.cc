// SPDX-License-Identifier: Apache-2.0
// Sessions to files and other places of bytes, and back.
#include <new>
#include <string>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/decode/engine.h"
#include "runtime/decode/engine_impl.h"
#include "runtime/decode/session_use.h"

namespace moonlit {

SessionFacts Engine::SavedFacts(const Session& session) const {
  SessionFacts facts;
  facts.variant = impl_->options.variant;
  facts.model = impl_->facts.identity + (impl_->options.exact ? ", exact" : "");
  if (impl_->options.attention_window != 0) {
    facts.model += ", attention window " + std::to_string(impl_->options.attention_window) + " and sinks " +
                   std::to_string(impl_->options.attention_sinks);
  }
  // Without it pages have no bounds of their keys.
  if (impl_->options.attention_pages != 0) facts.model += ", attention pages";
  facts.model += session.AdapterIdentity();
  facts.vocab = impl_->plan->vocab_size();
  facts.n_ctx = impl_->options.n_ctx;
  facts.placed_from = session.placed_from_;
  return facts;
}

// Nobody writes to a page that this session holds, so other sessions may go on meanwhile.
Status Engine::Save(Session& session, const std::string& path) {
  MOONLIT_RETURN_IF_ERROR(RefuseInputs(path, impl_->facts.files));
  return session.Use([&]() -> Status { return SaveSession(session.sequence_, SavedFacts(session), path); });
}

Status Engine::Write(Session& session, const ByteSink& sink) {
  return session.Use([&]() -> Status { return WriteSession(session.sequence_, SavedFacts(session), sink); });
}

Result<uint64_t> Engine::SavedBytes(Session& session) {
  uint64_t bytes = 0;
  MOONLIT_RETURN_IF_ERROR(session.Use([&] {
    bytes = SessionBytes(session.sequence_, SavedFacts(session));
    return Status();
  }));
  return bytes;
}

Status Engine::Restore(Session& session, const std::string& path, const RestoreOptions& options) {
  return session.Use([&]() -> Status {
    MOONLIT_ASSIGN_OR_RETURN(const File file, File::Open(path));
    return ReadInto(session, SourceOf(file), options);
  });
}

Status Engine::Read(Session& session, ByteSource source, const RestoreOptions& options) {
  return session.Use([&] { return ReadInto(session, std::move(source), options); });
}

Status Engine::ReadInto(Session& session, ByteSource source, const RestoreOptions& options) {
  PagePool* pages = impl_->sessions->pages();
  MOONLIT_ASSIGN_OR_RETURN(SessionReader reader, SessionReader::Open(source, SavedFacts(session), options, *pages));
  SpareSequence restored(*impl_->sessions);  // other sessions may go on while the bytes come
  const Status room = restored.Set([&] { return Sequence::Make(pages, reader.shape(), session.AdapterKey()); });
  if (room.code() == Code::kExhausted && source.size) return ReadInPlace(session, reader, room);
  if (room.code() == Code::kExhausted && session.length() != 0) {
    return Errorf(Code::kExhausted,
                  "%s; or truncate the session to 0 first: it keeps its %lld tokens until the others are read",
                  std::string(room.message()).c_str(), static_cast<long long>(session.length()));
  }
  MOONLIT_RETURN_IF_ERROR(room);
  MOONLIT_RETURN_IF_ERROR(reader.ReadPages(*restored));
  restored.SwapWith(session.sequence_);
  session.placed_from_ = reader.placed_from();
  return Status();
}

// Nothing of the session goes before the file is known to be whole and to fit. no_room: what was said of room for both.
Status Engine::ReadInPlace(Session& session, SessionReader& reader, const Status& no_room) {
  SessionPool& pool = *impl_->sessions;
  const auto fits = [&] { return session.sequence_.MakesRoomFor(reader.shape()); };
  {
    const std::lock_guard<std::mutex> lock(pool.mutex());
    if (!fits()) return no_room;
  }
  MOONLIT_RETURN_IF_ERROR(reader.Check());
  SpareSequence restored(pool);
  bool fitted = false;
  const auto take_place = [&]() -> Result<Sequence> {
    fitted = fits();  // others may have gone on
    if (!fitted) return no_room;
    session.sequence_.Truncate(0);
    session.placed_from_ = INT64_MAX;
    return Sequence::Make(pool.pages(), reader.shape(), session.AdapterKey());
  };
  Status made;
  try {
    made = restored.Set(take_place);
  } catch (const std::bad_alloc&) {
    made = Status(Code::kOutOfMemory, "session: the system gives no more memory");
  }
  if (!fitted) return made;
  const Status read = made.ok() ? reader.ReadPages(*restored) : made;
  if (!read.ok()) {
    return Errorf(read.code(), "%s; the session is empty: there was no room for its text until the file's was read",
                  std::string(read.message()).c_str());
  }
  restored.SwapWith(session.sequence_);
  session.placed_from_ = reader.placed_from();
  return Status();
}

}  // namespace moonlit
