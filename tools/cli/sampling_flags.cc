// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/sampling_flags.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <random>
#include <string_view>

#include "tools/cli/model_flags.h"
#include "tools/cli/text_flags.h"

namespace moonlit::cli {
namespace {

constexpr int kMostRecent = 1000000;

// llama.cpp's names for --samplers, whose words may be joined by - too.
const std::map<std::string, moonlit_sampler_kind, std::less<>> kNames = {
    {"penalties", MOONLIT_SAMPLER_PENALTIES},
    {"dry", MOONLIT_SAMPLER_DRY},
    {"top_n_sigma", MOONLIT_SAMPLER_TOP_N_SIGMA},
    {"top_k", MOONLIT_SAMPLER_TOP_K},
    {"typ_p", MOONLIT_SAMPLER_TYPICAL},
    {"typical", MOONLIT_SAMPLER_TYPICAL},
    {"typical_p", MOONLIT_SAMPLER_TYPICAL},
    {"top_p", MOONLIT_SAMPLER_TOP_P},
    {"nucleus", MOONLIT_SAMPLER_TOP_P},
    {"min_p", MOONLIT_SAMPLER_MIN_P},
    {"xtc", MOONLIT_SAMPLER_XTC},
    {"temperature", MOONLIT_SAMPLER_TEMPERATURE},
    {"temp", MOONLIT_SAMPLER_TEMPERATURE},
};

// What is no name, if there is such.
std::optional<std::string> ReadOrder(const std::string& text, std::vector<moonlit_sampler_kind>* kinds) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t length = std::min(rest.find(';'), rest.size());
    std::string name(rest.substr(0, length));
    rest.remove_prefix(std::min(rest.size(), length + 1));
    std::replace(name.begin(), name.end(), '-', '_');
    const auto found = kNames.find(name);
    if (found == kNames.end()) return name;
    kinds->push_back(found->second);
  }
  return std::nullopt;
}

CLI::Validator IsOrder() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        std::vector<moonlit_sampler_kind> kinds;
        const auto wrong = ReadOrder(text, &kinds);
        if (!wrong) return "";
        return "expected names out of penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature with ; "
               "between them, found \"" +
               Printable(*wrong) + "\"";
      },
      "NAME;NAME...");
}

// "15043+1", "15043-1.5", "15043-inf".
bool ParseBias(const std::string& text, moonlit_token_logit* bias) {
  const char* const end = text.data() + text.size();
  const auto [sign, fault] = std::from_chars(text.data(), end, bias->id);
  if (fault != std::errc() || bias->id < 0 || sign == end || (*sign != '+' && *sign != '-')) return false;
  const char* const number = sign + (*sign == '+' ? 1 : 0);
  if (*sign == '+' && (number == end || *number == '-')) return false;
  const auto [last, no_number] = std::from_chars(number, end, bias->logit);
  return no_number == std::errc() && last == end;
}

}  // namespace

void SamplingFlags::DeclarePenalties(CLI::App& app) {
  app.add_option("--repeat-penalty", fields_.repeat_penalty, "Penalty for tokens seen lately; 1: off")
      ->capture_default_str()
      ->check(IsNumberIn(0.01, 100));
  app.add_option("--presence-penalty", fields_.presence_penalty, "What the logit of a token seen lately loses; 0: off")
      ->capture_default_str()
      ->check(IsNumberIn(-100, 100));
  app.add_option("--frequency-penalty", fields_.frequency_penalty, "The same for each time that it was seen; 0: off")
      ->capture_default_str()
      ->check(IsNumberIn(-100, 100));
  app.add_option("--repeat-last-n", fields_.penalty_last_n, "How far these penalties look back; -1: the context")
      ->capture_default_str()
      ->check(CLI::Range(-1, kMostRecent));
  app.add_option(
         "--dry-multiplier", fields_.dry_multiplier,
         "DRY: a token that goes on with a repetition of n tokens loses multiplier * base^(n - allowed length); 0: off")
      ->capture_default_str()
      ->check(IsNumberIn(0, 100));
  app.add_option("--dry-base", fields_.dry_base, "DRY's base")->capture_default_str()->check(IsNumberIn(1, 100));
  app.add_option("--dry-allowed-length", fields_.dry_allowed_length, "Shorter repetitions are free")
      ->capture_default_str()
      ->check(CLI::Range(0, kMostRecent));
  app.add_option("--dry-penalty-last-n", fields_.dry_last_n, "How far DRY looks back; -1: the context, 0: off")
      ->capture_default_str()
      ->check(CLI::Range(-1, kMostRecent));
  app.add_option(
         "--dry-sequence-breaker", breakers_,
         "Text that no repetition goes across, in place of \\n, :, \" and *; may be repeated; none: no such text")
      ->expected(1)
      ->allow_extra_args(false)
      ->check(IsNotEmpty())
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  const auto read = [this](const std::vector<std::string>& texts) {
    biases_.clear();
    for (const std::string& text : texts) {
      moonlit_token_logit bias = {};
      if (!ParseBias(text, &bias)) {
        throw CLI::ValidationError("--logit-bias",
                                   "expected a token's id, + or - and a number, like 15043+1 or 15043-inf, "
                                   "found \"" +
                                       Printable(text) + "\"");
      }
      biases_.push_back(bias);
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "-l,--logit-bias", read,
         "What is added to a token's logit: 15043+1, 15043-1, 15043-inf (never); may be repeated")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("ID(+/-)BIAS");
}

void SamplingFlags::DeclareCuts(CLI::App& app) {
  app.add_option("--top-k", fields_.top_k, "Keep the K most likely tokens; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, INT32_MAX));
  app.add_option("--top-p", fields_.top_p, "Keep the most likely tokens up to this probability; 1: all")
      ->capture_default_str()
      ->check(IsNumberIn(0, 1));
  app.add_option("--min-p", fields_.min_p, "Keep tokens with at least this share of the best one's probability; 0: all")
      ->capture_default_str()
      ->check(IsNumberIn(0, 1));
  app.add_option("--typical,--typical-p", fields_.typical_p,
                 "Keep the tokens whose surprise is nearest to the mean, up to this probability; 1: all")
      ->capture_default_str()
      ->check(IsNumberIn(0, 1));
  app.add_option("--top-nsigma,--top-n-sigma", top_n_sigma_,
                 "Keep tokens within so many standard deviations of the largest logit; 0 or less: all")
      ->capture_default_str()
      ->check(IsNumberIn(-1, 100));
  app.add_option("--xtc-probability", fields_.xtc_probability,
                 "How often the likely tokens but the last of them are removed; 0: never")
      ->capture_default_str()
      ->check(IsNumberIn(0, 1));
  app.add_option("--xtc-threshold", fields_.xtc_threshold, "Probability of a likely token; above 0.5: off")
      ->capture_default_str()
      ->check(IsNumberIn(0, 1));
}

void SamplingFlags::Declare(CLI::App& app) {
  app.add_option("--temp,--temperature", fields_.temperature,
                 "Temperature; 0: always the most likely token after biases and penalties")
      ->capture_default_str()
      ->check(IsNumberIn(0, 100));
  app.add_option("--dynatemp-range", fields_.dynatemp_range,
                 "The temperature moves by so much either way with the model's uncertainty; 0: off")
      ->capture_default_str()
      ->check(IsNumberIn(0, 100));
  app.add_option("--dynatemp-exp", fields_.dynatemp_exponent, "How it moves: by this power of the uncertainty")
      ->capture_default_str()
      ->check(IsNumberIn(0, 100));
  DeclareCuts(app);
  DeclarePenalties(app);
  app.add_option("--mirostat", mirostat_,
                 "1 or 2: hold the surprise of the chosen tokens by this version of Mirostat, in place of the steps "
                 "that cut; 0: off")
      ->capture_default_str()
      ->check(CLI::Range(0, 2));
  app.add_option("--mirostat-lr", fields_.mirostat_eta, "How fast Mirostat learns")
      ->capture_default_str()
      ->check(IsNumberIn(0, 1));
  app.add_option("--mirostat-ent", fields_.mirostat_tau, "Mirostat's target, in bits a token")
      ->capture_default_str()
      ->check(IsNumberIn(0, 100));
  app.add_option("--samplers", order_, "Steps in their order, with ; between them; those left out are off")
      ->capture_default_str()
      ->check(IsOrder());
  app.add_option("--seed", seed, "Seed of the sampling; -1: a random one, which the last line tells")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{-1}, INT64_MAX));
}

std::vector<moonlit_sampler_kind> SamplingFlags::Kinds() const {
  std::vector<moonlit_sampler_kind> order, kinds;
  ReadOrder(order_, &order);
  if (!biases_.empty()) kinds.push_back(MOONLIT_SAMPLER_LOGIT_BIAS);
  const bool cuts = draws() && mirostat_ == 0;
  for (const moonlit_sampler_kind kind : order) {
    if (cuts || kind == MOONLIT_SAMPLER_PENALTIES || kind == MOONLIT_SAMPLER_DRY) kinds.push_back(kind);
  }
  if (!draws()) {
    kinds.push_back(MOONLIT_SAMPLER_GREEDY);
  } else if (mirostat_ == 0) {
    kinds.push_back(MOONLIT_SAMPLER_DRAW);
  } else {
    kinds.push_back(MOONLIT_SAMPLER_TEMPERATURE);
    kinds.push_back(mirostat_ == 1 ? MOONLIT_SAMPLER_MIROSTAT : MOONLIT_SAMPLER_MIROSTAT_V2);
  }
  return kinds;
}

int SamplingFlags::Make(const api::Model& model, const std::optional<api::Grammar>& grammar, bool escapes,
                        std::optional<api::Sampler>* sampler) {
  if (seed < 0) {
    std::random_device random;
    seed = static_cast<int64_t>((uint64_t{random()} << 32 | random()) >> 1);
  }
  auto made = model.NewSampler(static_cast<uint64_t>(seed));
  if (!made) return Report(made.error());
  moonlit_sampler_step step = fields_;
  step.top_n_sigma = std::max(top_n_sigma_, 0.0f);
  step.biases = biases_.data();
  step.bias_count = biases_.size();
  std::vector<std::string> breakers = breakers_;
  std::erase(breakers, "none");
  std::vector<const char*> pointers;
  for (std::string& breaker : breakers) {
    if (escapes) ReadEscapes(breaker);
    pointers.push_back(breaker.c_str());
  }
  if (!breakers_.empty()) {
    step.dry_breakers = pointers.data();
    step.dry_breaker_count = pointers.size();
  }
  const auto append = [&](moonlit_sampler_kind kind) {
    step.kind = kind;
    const api::Error error = made->Append(step);
    return error.code == MOONLIT_OK ? kOk : Report(error);
  };
  if (grammar) {
    step.grammar = grammar->handle();
    if (const int code = append(MOONLIT_SAMPLER_GRAMMAR); code != kOk) return code;
  }
  for (const moonlit_sampler_kind kind : Kinds()) {
    if (const int code = append(kind); code != kOk) return code;
  }
  sampler->emplace(std::move(*made));
  return kOk;
}

}  // namespace moonlit::cli
