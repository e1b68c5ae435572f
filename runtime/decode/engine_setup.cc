// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/engine_setup.h"

#include <algorithm>
#include <utility>

#include "kernels/attention/attention.h"
#include "kernels/base/round.h"
#include "runtime/base/log.h"
#include "runtime/decode/batcher.h"
#include "runtime/decode/engine_impl.h"
#include "runtime/threads/topology.h"
#include "runtime/threads/thread_count.h"

namespace moonlit {
namespace {

constexpr size_t kMostContext = size_t{1} << 24;
constexpr size_t kMostSessions = 65536;
constexpr size_t kMostChunk = 65536;
constexpr size_t kMostPageTokens = 65536;
constexpr uint64_t kMostPages =
    SIZE_MAX / 16;  // of all sessions; PlanPages counts up to eight times as many, in size_t

Status CheckRange(const char* name, size_t value, size_t least, size_t most) {
  if (value >= least && value <= most) return Status();
  return Errorf(Code::kInvalidArgument, "engine: %s is %zu, expected %zu to %zu", name, value, least, most);
}

uint64_t Product(uint64_t a, uint64_t b) { return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b; }
uint64_t Sum(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }

std::string ThreadReason(const EngineOptions& asked) {
  if (asked.pool != nullptr) return "the application's own pool";
  const std::string reason = asked.threads != 0 ? "as asked for" : DefaultThreadCount(ReadTopology()).reason;
  return asked.parallel_for.run != nullptr ? "at most so many of the application's own threads: " + reason : reason;
}

}  // namespace

uint64_t MemoryUse::total() const { return Sum(Sum(weights + arena + product_scratch, cache), states); }
uint64_t MemoryUse::most() const { return std::max(total(), weights + arena + staging); }

Status FillDefaults(const ModelFacts& facts, Variant variant, EngineOptions& o) {
  if (o.n_ctx == 0) o.n_ctx = facts.n_ctx_train == 0 ? o.default_ctx : std::min(facts.n_ctx_train, o.default_ctx);
  if (o.default_key_type) o.key_type = DefaultCacheType(variant);
  if (o.default_value_type) o.value_type = DefaultCacheType(variant);
  o.variant = VariantName(variant);
  MOONLIT_RETURN_IF_ERROR(CheckRange("n_ctx", o.n_ctx, 1, kMostContext));
  if (facts.n_positions != 0 && o.n_ctx > facts.n_positions) {
    return Errorf(
        Code::kInvalidArgument,
        "the context is %zu tokens, but the model has learned %zu positions and can read no further: ask for a "
        "shorter one",
        o.n_ctx, facts.n_positions);
  }
  MOONLIT_RETURN_IF_ERROR(CheckRange("max_sessions", o.max_sessions, 1, kMostSessions));
  MOONLIT_RETURN_IF_ERROR(CheckRange("chunk_tokens", o.chunk_tokens, 1, kMostChunk));
  MOONLIT_RETURN_IF_ERROR(CheckRange("page_tokens", o.page_tokens, kAttentionTile, kMostPageTokens));
  if (o.page_tokens % kAttentionTile != 0) {
    return Errorf(Code::kInvalidArgument, "engine: page_tokens is %zu, expected a multiple of %zu", o.page_tokens,
                  kAttentionTile);
  }
  const uint64_t pages = uint64_t{o.max_sessions} * (CeilDiv(o.n_ctx, o.page_tokens) + 1);
  if (pages > kMostPages) {
    return Errorf(Code::kOutOfMemory,
                  "engine: %zu sessions of %zu tokens are more than this machine can address; ask for fewer or shorter "
                  "ones",
                  o.max_sessions, o.n_ctx);
  }
  // A step can't have more rows than all sessions have slots.
  const uint64_t slots = uint64_t{o.max_sessions} * o.n_ctx;
  o.chunk_tokens = static_cast<size_t>(std::min<uint64_t>(o.chunk_tokens, slots));
  return Status();
}

Result<PlanOptions> MakePlanOptions(const EngineOptions& o, Variant variant) {
  PlanOptions plan_options;
  plan_options.variant = variant;
  plan_options.pool = o.pool;
  plan_options.max_rows = o.chunk_tokens;
  plan_options.page_tokens = o.page_tokens;
  plan_options.key_type = o.key_type;
  plan_options.value_type = o.value_type;
  plan_options.exact = o.exact;
  plan_options.sparse = {.window = o.attention_window, .sinks = o.attention_sinks, .pages = o.attention_pages};
  plan_options.sparse.most_pages = CeilDiv(o.n_ctx, o.page_tokens);
  plan_options.sparse.most_tokens = std::min(o.chunk_tokens, std::max<size_t>(o.max_sessions, 16));
  MOONLIT_ASSIGN_OR_RETURN(plan_options.float_provider, ResolveFloatProvider(o.float_provider));
  plan_options.packed_cache = o.packed_cache;
  plan_options.allocator = o.allocator;
  plan_options.progress = o.progress;
  return plan_options;
}

// A session has its pages, and while a prefill goes on those that it goes back to
// when that fails, with which it shares its last page until it writes to it. Returns whether some group gives pages back.
bool PlanPages(const Plan& plan, const EngineOptions& o, PagePoolOptions& options) {
  const size_t whole = o.max_sessions * CeilDiv(o.n_ctx, o.page_tokens), groups = plan.cache_groups().size();
  options.share_prefixes = o.share_prefixes;
  options.allocator = o.allocator;
  options.state_bytes = plan.state_bytes();
  options.states = 3 * o.max_sessions;  // a session's, the one that a step writes, the one to go back to
  options.pages.assign(groups, whole + o.max_sessions);
  options.gives_back.assign(groups, false);
  bool any = false;
  for (size_t g = 0; g < groups; ++g) {
    options.lookback.push_back(plan.lookback(g));
    if (plan.lookback(g) == 0 || plan.lookback(g) >= o.n_ctx) continue;
    // The window, a page that it begins in, one to spare for short cuts and one that is written.
    const size_t session = CeilDiv(plan.lookback(g), o.page_tokens) + 3;
    // As many again for beginnings that other sessions may share.
    const size_t all =
        2 * session * o.max_sessions * (o.share_prefixes ? 2 : 1) + CeilDiv(o.chunk_tokens, o.page_tokens);
    if (all >= whole) continue;  // nothing is gained
    options.gives_back[g] = any = true;
    options.pages[g] = all;
  }
  if (!any && options.state_bytes == 0) options.pages.assign(groups, whole);
  return any;
}

MemoryUse ToMemoryUse(const PlanSize& size) {
  MemoryUse use;
  use.weights = size.packed_weight_bytes;
  use.arena = size.arena_bytes;
  use.product_scratch = size.product_scratch_bytes;
  use.staging = size.staging_bytes;
  return use;
}

Result<MeasuredEngine> Engine::Measure(const LoadedModel& model, const EngineOptions& options) {
  MOONLIT_ASSIGN_OR_RETURN(const Variant variant, ResolveVariant(options.variant));
  MeasuredEngine measured{{}, options};
  EngineOptions& o = measured.options;
  MOONLIT_RETURN_IF_ERROR(FillDefaults(model.facts, variant, o));
  if (o.pool != nullptr) o.threads = o.pool->threads();
  MOONLIT_RETURN_IF_ERROR(CheckThreadCount(o.threads));
  if (o.threads == 0) o.threads = DefaultThreadCount(ReadTopology()).threads;
  MOONLIT_ASSIGN_OR_RETURN(PlanOptions plan_options, MakePlanOptions(o, variant));
  plan_options.layout_only = true;
  plan_options.threads = o.threads;
  plan_options.progress = {};
  MOONLIT_ASSIGN_OR_RETURN(const std::unique_ptr<Plan> plan, model.make_plan(plan_options));
  o.share_prefixes = o.share_prefixes && !plan->whole_sequences();
  PagePoolOptions pages;
  PlanPages(*plan, o, pages);
  measured.memory = ToMemoryUse(plan->size());
  for (size_t g = 0; g < plan->cache_groups().size(); ++g) {
    measured.memory.cache = Sum(measured.memory.cache, Product(plan->cache_groups()[g].page_bytes, pages.pages[g]));
  }
  if (pages.state_bytes != 0) {
    measured.memory.states = Product(StatePool::StrideOf(pages.state_bytes), pages.states);
  }
  return measured;
}

Result<std::unique_ptr<Engine>> Engine::Create(LoadedModel model, const EngineOptions& options) {
  MOONLIT_CHECK(model.make_plan && model.tokenizer != nullptr);
  auto impl = std::make_unique<Impl>();
  MOONLIT_ASSIGN_OR_RETURN(impl->variant, ResolveVariant(options.variant));
  impl->options = options;
  impl->thread_reason = ThreadReason(options);
  EngineOptions& o = impl->options;
  MOONLIT_RETURN_IF_ERROR(FillDefaults(model.facts, impl->variant, o));
  if (model.facts.n_ctx_train != 0 && o.n_ctx > model.facts.n_ctx_train) {
    Logf(LogLevel::kWarning, "the context of %zu tokens is longer than the %zu that the model was trained for", o.n_ctx,
         model.facts.n_ctx_train);
  }
  if (o.pool == nullptr) {
    auto pool = ThreadPool::Create({.threads = o.threads, .loop = o.parallel_for});
    if (!pool.ok()) return pool.status();
    impl->own_pool = std::move(pool).value();
    o.pool = impl->own_pool.get();
  }
  o.threads = o.pool->threads();

  MOONLIT_ASSIGN_OR_RETURN(const PlanOptions plan_options, MakePlanOptions(o, impl->variant));
  MOONLIT_ASSIGN_OR_RETURN(impl->plan, model.make_plan(plan_options));
  o.progress = nullptr;  // it belongs to the load, and so does what it points to

  o.share_prefixes = o.share_prefixes && !impl->plan->whole_sequences();
  PagePoolOptions pool_options;
  impl->gives_back = PlanPages(*impl->plan, o, pool_options);
  const size_t most_pages = o.max_sessions * (CeilDiv(o.n_ctx, o.page_tokens) + 1);
  MOONLIT_ASSIGN_OR_RETURN(auto page_pool, PagePool::Create(impl->plan->cache_groups(), most_pages, pool_options));
  impl->sessions = std::make_shared<SessionPool>(std::move(page_pool), o.max_sessions, impl->plan->can_shift());
  impl->batcher = std::make_unique<Batcher>(*impl->plan, *impl->sessions, impl->options);
  impl->facts = std::move(model.facts);
  impl->tokenizer = std::move(model.tokenizer);
  std::unique_ptr<Engine> engine(new Engine(std::move(impl)));
  engine->impl_->sessions->read = [self = engine.get()](Session& session, std::span<const int32_t> tokens,
                                                        const std::atomic<bool>* abort) {
    return self->ReadAgain(session, tokens, abort);
  };
  return engine;
}

}  // namespace moonlit
