// SPDX-License-Identifier: Apache-2.0
#include "runtime/convert/check_model.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/convert/tokenizer_metadata.h"

namespace moonlit {

Result<std::unique_ptr<const Tokenizer>> CheckTokenizer(const Metadata& metadata, const std::string& file,
                                                        const std::string& pre) {
  Result<TokenizerData> data = ReadTokenizerData(metadata);
  if (!data.ok()) return data.status().WithContext("file " + file);
  if (!pre.empty()) data->pre = pre;
  Result<std::unique_ptr<const Tokenizer>> tokenizer = Tokenizer::Create(std::move(data).value());
  if (!tokenizer.ok()) return tokenizer.status().WithContext("file " + file);
  const std::string& warning = (*tokenizer)->warning();
  if (!warning.empty()) Logf(LogLevel::kWarning, "file %s: %s", file.c_str(), warning.c_str());
  return tokenizer;
}

Result<CheckedModel> CheckModel(const Metadata& metadata, const WeightSource& source, const std::string& pre) {
  const std::string file = source.description();
  Result<LoadedGraph> loaded = LoadGraph(metadata, source);
  if (!loaded.ok()) return loaded.status().WithContext("file " + file);
  if (!loaded->unused_tensors.empty()) {
    Logf(LogLevel::kWarning,
         "file %s: %zu tensors are no part of a model of this architecture and are not used, for example %s",
         file.c_str(), loaded->unused_tensors.size(), loaded->unused_tensors[0].c_str());
  }
  CheckedModel model{std::move(loaded).value(), nullptr};
  MOONLIT_ASSIGN_OR_RETURN(model.tokenizer, CheckTokenizer(metadata, file, pre));
  if (static_cast<size_t>(model.tokenizer->vocab_size()) > model.loaded.config.vocab) {
    return Errorf(Code::kCorrupt, "file %s: the tokenizer has %d tokens, but token_embd.weight only %zu rows",
                  file.c_str(), model.tokenizer->vocab_size(), model.loaded.config.vocab);
  }
  return model;
}

}  // namespace moonlit
