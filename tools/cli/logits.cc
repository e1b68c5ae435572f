// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "nlohmann/json.hpp"
#include "tools/cli/adapter_flags.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/text_flags.h"

namespace moonlit::cli {
namespace {

// Index of the largest value; the lowest one among equals.
size_t Argmax(std::span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

double LogSumExp(std::span<const float> values) {
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (float v : values) sum += std::exp(double{v} - largest);
  return largest + std::log(sum);
}

// For every position argmax, its gap to the second best, logsumexp and the logit of the next input token; the full logits of the last
// one; a greedy continuation on request. The keys are those of the golden fixtures.
class Logits : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    model_.key_type = model_.value_type = "f32";  // judge the model, not the cache
    model_.Declare(app, true);
    adapters_.Declare(app);
    prompt_.Declare(app, "-p");
    ids_option_ = app.add_option("--ids", ids_, "Token ids separated by commas, taken as they are, instead of text");
    ids_option_->excludes(prompt_.text.prompt_option)->excludes(prompt_.text.file_option);
    app.add_option("--greedy", greedy_, "Also continue greedily by N tokens (end tokens don't stop it)")
        ->check(CLI::Range(0, 1 << 20));
    app.add_flag("--json", "JSON output (the only one there is)");
  }

  int Run() override {
    const bool given_ids = ids_option_->count() != 0;
    std::vector<int32_t> ids;
    if (given_ids && !ParseIds(ids_, &ids)) return kUsage;
    std::string prompt;
    int code = kFailed;
    if (!given_ids && (code = prompt_.Read(&prompt)) != kOk) return code;
    auto model = LoadModel(model_, &code);
    if (!model) return code;
    if (!given_ids) {
      auto tokens = model->Tokenize(prompt, MOONLIT_ADD_SPECIAL | MOONLIT_PARSE_SPECIAL);
      if (!tokens) return Report(tokens.error());
      ids = std::move(*tokens);
    }
    if (ids.empty()) return Report({MOONLIT_INVALID_ARGUMENT, "the prompt has no tokens"});
    const size_t needed = ids.size() + static_cast<size_t>(std::max(greedy_ - 1, 0));  // the last one is not read
    if ((code = CheckContext(*model, needed, greedy_ > 0 ? "the prompt with --greedy" : "the prompt")) != kOk)
      return code;
    auto session = model->NewSession();
    if (!session) return Report(session.error());
    if ((code = adapters_.Apply(*model, *session)) != kOk) return code;
    if (auto error = Evaluate(*session, ids); error.code != MOONLIT_OK) return Report(error);
    if (auto error = ContinueGreedily(*session); error.code != MOONLIT_OK) return Report(error);
    if (!finite_) return Report({MOONLIT_CORRUPT, "the model's logits are not finite: its weights are damaged"});
    std::printf("%s\n", out_.dump().c_str());
    return kOk;
  }

 private:
  api::Error Evaluate(api::Session& session, const std::vector<int32_t>& ids) {
    using nlohmann::json;
    json argmax = json::array(), gap = json::array(), logsumexp = json::array(), next_logit = json::array(), last;
    const auto error = session.Eval(ids, MOONLIT_OUTPUT_ALL, [&](size_t position, std::span<const float> logits) {
      const size_t best = Argmax(logits);
      float second = -INFINITY;
      for (size_t i = 0; i < logits.size(); ++i) {
        if (i != best) second = std::max(second, logits[i]);
      }
      argmax.push_back(best);
      gap.push_back(double{logits[best]} - double{second});
      logsumexp.push_back(LogSumExp(logits));
      finite_ = finite_ && std::isfinite(double{logsumexp.back()});
      if (position + 1 < ids.size()) {
        next_logit.push_back(logits[static_cast<size_t>(ids[position + 1])]);
      } else {
        last = std::vector<float>(logits.begin(), logits.end());
        next_ = static_cast<int32_t>(best);
      }
    });
    out_ = {{"tokens", ids},
            {"argmax", argmax},
            {"argmax_gap", gap},
            {"logsumexp", logsumexp},
            {"next_token_logit", next_logit},
            {"last_logits", last}};
    return error;
  }

  api::Error ContinueGreedily(api::Session& session) {
    std::vector<int32_t> continuation;
    for (int i = 0; i < greedy_; ++i) {
      continuation.push_back(next_);
      if (i + 1 == greedy_) break;
      const int32_t id = next_;
      const auto error = session.Eval({&id, 1}, MOONLIT_OUTPUT_LAST, [&](size_t, std::span<const float> logits) {
        next_ = static_cast<int32_t>(Argmax(logits));
      });
      if (error.code != MOONLIT_OK) return error;
    }
    if (greedy_ > 0) out_["greedy"] = continuation;
    return {};
  }

  ModelFlags model_;
  AdapterFlags adapters_;
  PromptFlags prompt_;
  std::string ids_;
  CLI::Option* ids_option_ = nullptr;
  int greedy_ = 0;
  int32_t next_ = 0;
  bool finite_ = true;
  nlohmann::json out_;
};

}  // namespace

std::unique_ptr<Command> MakeLogits() { return std::make_unique<Logits>(); }

}  // namespace moonlit::cli
