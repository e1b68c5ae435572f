// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/inspect_plan.h"

#include <cinttypes>
#include <cstdio>
#include <optional>

#include "runtime/api/moonlit.hpp"
#include "tools/cli/inspect_memory.h"

namespace moonlit::cli {
namespace {

double Megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

void PrintRow(const char* name, uint64_t bytes, const std::string& note = "") {
  std::printf("  %-9s %10.1f MB%s%s\n", name, Megabytes(bytes), note.empty() ? "" : "  ", note.c_str());
}

void PrintPlan(const moonlit_memory& memory) {
  char each[64] = "";
  if (memory.max_sessions > 1) std::snprintf(each, sizeof each, "%.1f MB a session", Megabytes(memory.session));
  std::printf("plan       %" PRIu32 " session%s of %" PRIu32 " tokens, %" PRIu32 " thread%s\n", memory.max_sessions,
              memory.max_sessions == 1 ? "" : "s", memory.n_ctx, memory.threads, memory.threads == 1 ? "" : "s");
  PrintRow("weights", memory.weights, "packed");
  PrintRow("cache", memory.cache, each);
  if (memory.states != 0) PrintRow("states", memory.states, "of recurrent layers");
  PrintRow("scratch", memory.scratch);
  PrintRow("total", memory.total);
  if (memory.most > memory.total) PrintRow("at most", memory.most, "while it is loaded");
}

}  // namespace

void MemoryPlanFlags::Declare(CLI::App& app) {
  CLI::Option* plan = app.add_flag("--plan", wanted_,
                                   "Instead: the memory that the model would take, compared with what is free (exit "
                                   "code 1 when it does not fit), and the "
                                   "largest context that fits");
  app.add_option("-c,--ctx-size", flags_.n_ctx,
                 "With --plan: context in tokens; 0: what the model was trained for, at most 4096")
      ->capture_default_str()
      ->check(CLI::Range(0u, 1u << 24))
      ->needs(plan);
  app.add_option("--sessions", sessions_, "With --plan: sessions that live at once")
      ->capture_default_str()
      ->check(CLI::Range(1u, 65536u))
      ->needs(plan);
  app.add_option("-t,--threads", flags_.threads, "With --plan: threads; 0: one a physical core")
      ->capture_default_str()
      ->check(CLI::Range(0u, 1024u))
      ->needs(plan);
  app.add_option("--cache-type-k,--ctk", flags_.key_type, "With --plan: type of cached keys")
      ->check(IsCacheType())
      ->needs(plan);
  app.add_option("--cache-type-v,--ctv", flags_.value_type, "With --plan: type of cached values")
      ->check(IsCacheType())
      ->needs(plan);
}

int MemoryPlanFlags::Run(const std::string& model) {
  moonlit_model_options options = flags_.ToOptions();
  options.max_sessions = sessions_;
  auto memory = api::Model::PlanMemory(model, options);
  if (!memory) return Report(memory.error());
  PrintPlan(*memory);
  const std::optional<FreeMemory> free = ReadFreeMemory();
  if (!free) {
    std::printf("free       unknown\n");
    return kOk;
  }
  const bool fits = memory->most <= free->bytes;
  auto largest = api::Model::PlanContext(model, free->bytes, options);
  if (!largest) return Report(largest.error());
  std::printf("free       %.1f MB %s\n", Megabytes(free->bytes), free->reason.c_str());
  std::printf("fits       %s; the largest context that does, of what it was trained for: %" PRIu32 " tokens\n",
              fits ? "yes" : "no", *largest);
  return fits ? kOk : kFailed;
}

}  // namespace moonlit::cli
