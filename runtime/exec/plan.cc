// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/plan.h"

#include <algorithm>
#include <atomic>

#include "runtime/exec/adapter.h"
#include "runtime/exec/arena.h"
#include "runtime/exec/bindings.h"
#include "runtime/exec/ops/attention_geometry.h"
#include "runtime/exec/ops/expert_groups.h"
#include "runtime/exec/ops/page_choices.h"
#include "runtime/exec/ops/tap_points.h"
#include "runtime/exec/packed_weights.h"
#include "runtime/exec/plan_options.h"
#include "runtime/exec/rope_angles.h"
#include "runtime/exec/stage.h"
#include "runtime/exec/step.h"
#include "runtime/graph/fusion.h"

namespace moonlit {
namespace {

class PlanImpl : public Plan {
 public:
  static Result<std::unique_ptr<Plan>> Make(const Graph& graph, const WeightSource& source, const PlanOptions& options);

  size_t vocab_size() const override { return vocab_; }
  size_t output_width() const override {
    return gives_hidden() ? graph_.values()[last_stage().input].width : head_width_;
  }
  bool gives_hidden() const override { return last_stage().kind == StageKind::kHidden; }
  size_t hidden_width() const override { return gives_hidden() ? output_width() : bindings_.head_input.width; }
  size_t input_width() const override { return input_width_; }
  Pooling pooling() const override {
    const Attributes& last = graph_.nodes().back().attributes;
    const auto* hidden = std::get_if<HiddenAttributes>(&last);
    return hidden != nullptr ? hidden->pooling : std::get<LogitsAttributes>(last).pooling;
  }
  const PlanOptions& options() const override { return options_; }
  const std::vector<PageLayout>& cache_groups() const override { return groups_; }
  size_t lookback(size_t group) const override { return lookbacks_[group]; }
  size_t state_bytes() const override { return state_floats_ * sizeof(float); }
  PlanSize size() const override {
    return {weights_->packed_bytes(), options_.layout_only ? arena_bytes_ : arena_.size(),
            weights_->ScratchBytes(threads()), weights_->StagingBytes(threads())};
  }
  bool whole_sequences() const override { return whole_sequences_; }
  // Learned positions are in all that was computed from them, and a state does not forget.
  bool can_shift() const override { return !whole_sequences_ && !learned_positions_ && state_floats_ == 0; }
  Result<std::shared_ptr<const Adapter>> LoadAdapter(const WeightSource& source, float alpha) override {
    const ProductKernel& kernel = bindings_.products->kernels[static_cast<size_t>(Format::kF32)];
    return Adapter::Load(graph_, kernel, source, alpha, ++adapters_loaded_, options_.allocator);
  }
  Result<std::shared_ptr<const AdapterSet>> Combine(std::span<const AdapterUse> uses) const override {
    return AdapterSet::Make(graph_, fused_, uses, std::max(options_.max_rows, kHeadRows), options_.allocator);
  }
  std::span<const TappedLayer> attention_layers() const override { return attention_layers_; }
  std::span<const int> stream_layers() const override { return stream_layers_; }
  std::string Describe() const override;
  Status Run(std::span<const StepSpan> spans, LogitsConsumer* consumer, AbortFlags abort) override;

 private:
  explicit PlanImpl(const PlanOptions& options) : options_(options) {}
  size_t threads() const { return options_.pool != nullptr ? options_.pool->threads() : options_.threads; }
  const FusedStage& last_stage() const { return fused_.stages.back(); }
  size_t ReadSizes();
  void ChooseKernels();
  Status MakeCacheGroups();
  void AddCacheGroup(const AttentionSpec& spec);
  size_t MostSpanTokens() const;
  void PlaceAttention();
  void AddAttention(const FusedStage& stage);
  void PrepareChoices();
  void PlaceExperts();
  Result<size_t> PlaceStates();
  void MakeStages();
  void AddStreamTaps(const FusedStage& stage);
  void Add(std::unique_ptr<ExecStage> stage) { stages_.push_back(std::move(stage)); }
  RopeAngles* AnglesFor(const RopeSpec& spec);
  AttentionGeometry* GeometryFor(const FusedStage& stage, const PageLayout& layout);
  void AppendStage(ExecStage& stage);
  Status RunBetweenTaps(AbortFlags abort);
  void AppendHead();
  Status CheckConsumer(const LogitsConsumer* consumer) const;
  void Consume(LogitsConsumer& consumer) const;
  void ConsumeHidden(LogitsConsumer& consumer) const;

  PlanOptions options_;
  Graph graph_;
  FusedGraph fused_;
  size_t vocab_ = 0, head_width_ = 0, input_width_ = 0;
  bool wants_hidden_ = false;  // the running step's consumer, of a model that gives logits
  size_t state_floats_ = 0;
  bool whole_sequences_ = false, learned_positions_ = false;
  std::unique_ptr<WeightStore> weights_;
  std::vector<PageLayout> groups_;
  std::vector<size_t> lookbacks_;                  // [groups]
  std::vector<size_t> group_of_, layer_in_group_;  // [attention nodes]
  std::vector<std::unique_ptr<RopeAngles>> angles_;
  std::vector<std::unique_ptr<AttentionGeometry>> geometries_;
  std::vector<std::unique_ptr<ExpertGroups>> expert_groups_;
  std::unique_ptr<PageChoices> choices_;  // null: no token chooses its pages
  std::unique_ptr<Step> step_;
  Bindings bindings_{};
  Buffer arena_;
  uint64_t arena_bytes_ = 0;  // with layout_only
  std::vector<std::unique_ptr<ExecStage>> stages_;
  std::unique_ptr<ExecStage> head_input_, head_addends_, head_product_, hidden_rows_;
  // What can be seen, and how many stages come before.
  struct PlacedTap {
    size_t stages;
    std::unique_ptr<TapPoint> point;
  };
  std::vector<PlacedTap> taps_;
  std::vector<TappedLayer> attention_layers_;
  std::vector<int> stream_layers_;
  std::atomic<uint64_t> adapters_loaded_{0};
  std::vector<Stage> list_;  // of the step; capacity is reserved
};

Result<std::unique_ptr<Plan>> PlanImpl::Make(const Graph& graph, const WeightSource& source,
                                             const PlanOptions& options) {
  MOONLIT_RETURN_IF_ERROR(CheckPlanOptions(options));
  MOONLIT_RETURN_IF_ERROR(graph.Finish());
  std::unique_ptr<PlanImpl> plan(new PlanImpl(options));
  plan->graph_ = graph;
  plan->fused_ = Fuse(plan->graph_);
  const PackingOptions packing{options.variant, options.exact ? FloatProviderChoice::kOwn : options.float_provider,
                               options.packed_cache, options.allocator};
  MOONLIT_ASSIGN_OR_RETURN(plan->weights_, WeightStore::Plan(plan->graph_, source, packing));
  MOONLIT_RETURN_IF_ERROR(plan->MakeCacheGroups());
  const size_t positions = plan->ReadSizes();
  MOONLIT_ASSIGN_OR_RETURN(size_t scratch, plan->PlaceStates());
  const bool has_state = plan->state_floats_ != 0;
  plan->step_ = std::make_unique<Step>(options.max_rows, plan->vocab_, plan->groups_.size(), positions, has_state);
  plan->step_->TakeInputs(plan->input_width_);
  plan->learned_positions_ = positions != kAnyPosition;
  const size_t most_tokens = plan->MostSpanTokens();
  plan->whole_sequences_ |= most_tokens != SIZE_MAX;
  if (plan->whole_sequences_) plan->step_->WantWholeSequences(most_tokens);
  plan->PrepareChoices();
  plan->ChooseKernels();
  plan->PlaceExperts();
  for (const PageLayout& layout : plan->groups_) {
    scratch = std::max(scratch, plan->bindings_.attention->scratch_bytes(layout) + RunScratch::Bytes(layout));
  }
  if (options.layout_only) {
    plan->arena_bytes_ = ArenaBytes(plan->fused_, scratch, plan->bindings_);
    return std::unique_ptr<Plan>(std::move(plan));
  }
  MOONLIT_ASSIGN_OR_RETURN(plan->arena_, LayOutArena(plan->fused_, scratch, plan->bindings_));
  MOONLIT_RETURN_IF_ERROR(plan->weights_->Load(source, *options.pool, options.progress));
  plan->options_.progress = {};
  plan->PlaceAttention();
  for (const auto& angles : plan->angles_) {
    const WeightId divisors = angles->spec().divisors;
    MOONLIT_RETURN_IF_ERROR(angles->Check(divisors == kNoWeight ? "(none)" : graph.weights()[divisors].name.c_str()));
  }
  plan->MakeStages();
  return std::unique_ptr<Plan>(std::move(plan));
}

// Sets the vocabulary; returns how many positions the model has learned.
size_t PlanImpl::ReadSizes() {
  size_t positions = kAnyPosition, tables = 0;
  vocab_ = SIZE_MAX;
  for (const FusedStage& stage : fused_.stages) {
    if (stage.kind == StageKind::kHead) head_width_ = weights_->matrix(stage.parts[0].weight).n;
    if (stage.kind == StageKind::kEmbed) {
      const PackedMatrix& table = weights_->matrix(stage.parts[0].weight);
      vocab_ = std::min(vocab_, table.n);
      input_width_ = ++tables == 1 ? table.k : 0;
    }
    if (stage.kind == StageKind::kAddPositions)
      positions = std::min(positions, graph_.weights()[stage.parts[0].weight].shape[0]);
  }
  if (!gives_hidden()) vocab_ = std::min(vocab_, head_width_);
  return positions;
}

void PlanImpl::ChooseKernels() {
  bindings_.graph = &graph_;
  bindings_.options = &options_;
  bindings_.weights = weights_.get();
  bindings_.step = step_.get();
  bindings_.threads = threads();
  bindings_.products = options_.products != nullptr ? options_.products : &GetProductTable(options_.variant);
  bindings_.norms = &GetNormTable(options_.variant);
  bindings_.rope = &GetRopeTable(options_.variant);
  bindings_.activations = &GetActivationTable(options_.variant);
  bindings_.attention = &GetAttentionTable(options_.variant);
  bindings_.recurrent = &GetLinearAttentionTable(options_.variant);
  bindings_.pairs = &GetPairTable(options_.variant);
}

size_t LookbackOf(const AttentionSpec& spec) {
  if (spec.bidirectional) return 0;
  return spec.window == 0 || spec.chunk == 0 ? spec.window + spec.chunk : std::min(spec.window, spec.chunk);
}

// Layers with equal KV heads, head sizes, window and chunk share a cache group, in graph order.
Status PlanImpl::MakeCacheGroups() {
  std::vector<const AttentionSpec*> specs;  // of the groups
  for (const FusedStage& stage : fused_.stages) {
    if (stage.kind != StageKind::kAttention) continue;
    const AttentionSpec& spec = stage.attention;
    whole_sequences_ |= spec.bidirectional;
    if (stage.kv_index != stage.attention_index) {  // an earlier layer's cache, with the same window and chunk
      group_of_.push_back(group_of_[stage.kv_index]);
      layer_in_group_.push_back(layer_in_group_[stage.kv_index]);
      continue;
    }
    size_t g = 0;
    while (g < groups_.size() && !(specs[g]->kv_heads == spec.kv_heads && specs[g]->key_dim == spec.key_dim &&
                                   specs[g]->value_dim == spec.value_dim && specs[g]->window == spec.window &&
                                   specs[g]->chunk == spec.chunk)) {
      ++g;
    }
    if (g == groups_.size()) {
      specs.push_back(&spec);
      AddCacheGroup(spec);
      lookbacks_.push_back(LookbackOf(spec));
    }
    group_of_.push_back(g);
    layer_in_group_.push_back(groups_[g].layers++);
  }
  for (PageLayout& layout : groups_) {
    if (FinishPageLayout(&layout)) continue;
    return Errorf(Code::kUnsupported,
                  "the cache can't hold %u KV heads of %u and %u in pages of %u tokens: expected pages of a multiple "
                  "of %zu tokens "
                  "and heads of at most %u",
                  layout.kv_heads, layout.key_dim, layout.value_dim, layout.page_tokens, kAttentionTile, kMaxHeadDim);
  }
  return Status();
}

// Scores between the tokens of a span have a column for each of them. SIZE_MAX: there are no such scores.
size_t PlanImpl::MostSpanTokens() const {
  size_t most = SIZE_MAX;
  for (const FusedStage& stage : fused_.stages) {
    const bool pairs = stage.kind == StageKind::kPairScores || stage.kind == StageKind::kWeightedSum;
    if (pairs) most = std::min(most, stage.pairs.keys);
  }
  return most;
}

void PlanImpl::AddCacheGroup(const AttentionSpec& spec) {
  PageLayout layout{};
  layout.page_tokens = static_cast<uint32_t>(std::min<size_t>(options_.page_tokens, UINT32_MAX));
  layout.kv_heads = static_cast<uint32_t>(spec.kv_heads);
  layout.key_dim = static_cast<uint32_t>(spec.key_dim);
  layout.value_dim = static_cast<uint32_t>(spec.value_dim);
  layout.key_type = options_.key_type;
  layout.value_type = options_.value_type;
  groups_.push_back(layout);
}

RopeAngles* PlanImpl::AnglesFor(const RopeSpec& spec) {
  if (spec.pairs == RopePairs::kNone) return nullptr;
  for (const auto& angles : angles_) {
    if (angles->spec() == spec) return angles.get();
  }
  angles_.push_back(std::make_unique<RopeAngles>(spec, *weights_, options_.max_rows));
  return angles_.back().get();
}

void PlanImpl::PrepareChoices() {
  if (options_.sparse.pages == 0) return;
  step_->LimitChoices(options_.sparse, options_.page_tokens);
  size_t kv_heads = 0;
  for (const PageLayout& layout : groups_) kv_heads = std::max<size_t>(kv_heads, layout.kv_heads);
  choices_ = std::make_unique<PageChoices>(options_.sparse, kv_heads, threads());
}

void PlanImpl::AddAttention(const FusedStage& stage) {
  const bool writes = stage.kv_index == stage.attention_index;
  if (choices_ != nullptr && writes && SeesWholeText(stage.attention)) Add(MakeBoundKeysStage(bindings_, stage));
  if (bindings_.attention_places[stage.attention_index].choices != nullptr) {
    Add(MakeChoosePagesStage(bindings_, stage));
  }
  Add(MakeAttentionStage(bindings_, stage));
  Add(MakeAttentionMergeStage(bindings_, stage));
  taps_.push_back({stages_.size(), MakeAttentionTap(bindings_, stage)});
  attention_layers_.push_back(DescribeAttention(bindings_, stage));
}

void PlanImpl::AddStreamTaps(const FusedStage& stage) {
  for (const LayerEnd& end : graph_.layer_ends()) {
    if (!WritesFloats(stage, end.stream)) continue;
    taps_.push_back({stages_.size(), MakeStreamTap(bindings_, end.layer, end.stream)});
    stream_layers_.push_back(end.layer);
  }
}

AttentionGeometry* PlanImpl::GeometryFor(const FusedStage& stage, const PageLayout& layout) {
  for (const auto& geometry : geometries_) {
    if (geometry->Serves(stage.attention, layout, stage.tail)) return geometry.get();
  }
  geometries_.push_back(std::make_unique<AttentionGeometry>(stage.attention, layout, stage.tail, options_.max_rows,
                                                            bindings_.threads, kTripleFloats, options_.sparse));
  return geometries_.back().get();
}

void PlanImpl::PlaceAttention() {
  for (const FusedStage& stage : fused_.stages) {
    if (stage.kind != StageKind::kAttention) continue;
    const size_t group = group_of_[stage.attention_index];
    const bool chooses = choices_ != nullptr && PageChoices::Serves(stage.attention, stage.attention_index);
    bindings_.attention_places.push_back({&groups_[group], group, layer_in_group_[stage.attention_index],
                                          GeometryFor(stage, groups_[group]), AnglesFor(stage.attention.rope),
                                          chooses ? choices_.get() : nullptr});
  }
}

void PlanImpl::PlaceExperts() {
  for (const FusedStage& stage : fused_.stages) {
    if (stage.kind != StageKind::kRoute) continue;
    expert_groups_.push_back(std::make_unique<ExpertGroups>(stage.experts.route, options_.max_rows));
    bindings_.experts_places.push_back({expert_groups_.back().get(), {}, {}});
  }
}

// Gives every recurrent node its part of a sequence's state. Returns the bytes of scratch that they want in a thread. Heads and sizes
// come from the file, so their products are checked: addresses may have 32 bits.
Result<size_t> PlanImpl::PlaceStates() {
  constexpr uint64_t kMostFloats = std::min<uint64_t>(UINT32_MAX, SIZE_MAX / sizeof(float));
  size_t scratch = 0;
  for (const FusedStage& stage : fused_.stages) {
    const uint64_t floats = StateFloats(graph_, stage);
    if (floats == 0) continue;
    if (floats > kMostFloats - state_floats_) {
      return Errorf(Code::kOutOfMemory,
                    "recurrent layers: the state of one sequence has %llu floats and more; expected at most %llu",
                    static_cast<unsigned long long>(state_floats_ + floats),
                    static_cast<unsigned long long>(kMostFloats));
    }
    bindings_.state_offsets.push_back(state_floats_);
    state_floats_ += static_cast<size_t>(floats);
    scratch = std::max(scratch, RecurrentScratch(stage));
  }
  return scratch;
}

void PlanImpl::MakeStages() {
  for (const auto& angles : angles_) Add(MakeRopeAnglesStage(bindings_, *angles));
  for (const FusedStage& stage : fused_.stages) {
    if (HasLowRankAddends(stage.kind) && stage.kind != StageKind::kHead) Add(MakeLowRankStage(bindings_, stage));
    if (const StageMaker make = MakerOf(stage.kind)) {
      Add(make(bindings_, stage));
    } else if (stage.kind == StageKind::kAttention) {
      AddAttention(stage);
    } else if (stage.kind == StageKind::kHead) {
      head_input_ = MakeHeadInputStage(bindings_, stage);
      head_addends_ = MakeLowRankStage(bindings_, stage);
      hidden_rows_ = MakeHiddenRowsStage(bindings_, stage);
      head_product_ = MakeHeadProductStage(bindings_, stage);
    }
    AddStreamTaps(stage);
  }
  list_.reserve(stages_.size() + 3);
}

std::string PlanImpl::Describe() const {
  std::string text = "packed weights " + std::to_string(weights_->packed_bytes()) + " bytes, arena " +
                     std::to_string(arena_.size()) + " bytes\n";
  for (const auto& stage : stages_) {
    const std::string line = stage->Describe();
    if (!line.empty()) text += line + "\n";
  }
  if (gives_hidden()) return text + "hidden\n";
  return text + head_input_->Describe() + "\n" + head_product_->Describe() + "\n";
}

void PlanImpl::AppendStage(ExecStage& stage) {
  const size_t tasks = stage.Begin();
  if (tasks == 0) return;
  const auto run = [](void* context, size_t task, size_t thread) {
    static_cast<ExecStage*>(context)->Run(task, thread);
  };
  list_.push_back({tasks, run, &stage});
}

// All stages but those behind the last place where somebody looks on, which are left in the list.
Status PlanImpl::RunBetweenTaps(AbortFlags abort) {
  size_t begun = 0;
  for (const PlacedTap& tap : taps_) {
    if (!tap.point->Wanted()) continue;
    while (begun < tap.stages) AppendStage(*stages_[begun++]);
    if (!list_.empty()) MOONLIT_RETURN_IF_ERROR(options_.pool->Run(list_, abort));
    list_.clear();
    MOONLIT_RETURN_IF_ERROR(tap.point->Show(abort));
  }
  while (begun < stages_.size()) AppendStage(*stages_[begun++]);
  return Status();
}

void PlanImpl::AppendHead() {
  if (gives_hidden()) return;
  step_->head_rows = std::min(kHeadRows, step_->wanted().size() - step_->head_first);
  if (step_->head_rows == 0) return;
  if (wants_hidden_) return AppendStage(*hidden_rows_);
  bindings_.head_input.Arrange(step_->head_rows);
  AppendStage(*head_input_);
  AppendStage(*head_addends_);
  AppendStage(*head_product_);
}

// Runs of neighbouring tokens of one span.
void PlanImpl::Consume(LogitsConsumer& consumer) const {
  const std::span<const WantedRow> rows = step_->wanted().subspan(step_->head_first, step_->head_rows);
  for (size_t begin = 0, end; begin < rows.size(); begin = end) {
    end = begin + 1;
    while (end < rows.size() && rows[end].span == rows[begin].span && rows[end].token == rows[end - 1].token + 1) ++end;
    const FloatRows& outputs = wants_hidden_ ? bindings_.hidden : bindings_.logits;
    consumer.Consume(rows[begin].span, rows[begin].token, end - begin, outputs.row(begin), outputs.stride);
  }
}

// Where the last layer left them.
void PlanImpl::ConsumeHidden(LogitsConsumer& consumer) const {
  const FloatRows& rows = bindings_.values[last_stage().input];
  for (const WantedRow& wanted : step_->wanted())
    consumer.Consume(wanted.span, wanted.token, 1, rows.row(wanted.row), rows.stride);
}

Status PlanImpl::CheckConsumer(const LogitsConsumer* consumer) const {
  if (consumer == nullptr) return Errorf(Code::kInvalidArgument, "outputs are wanted, but there is no consumer");
  if (consumer->takes_hidden() || !gives_hidden()) return Status();
  return Errorf(Code::kUnsupported,
                "the model gives embeddings of texts, no probabilities of tokens; ask for an embedding");
}

Status PlanImpl::Run(std::span<const StepSpan> spans, LogitsConsumer* consumer, AbortFlags abort) {
  if (options_.layout_only) return Status(Code::kInvalidArgument, "the plan is a layout alone: it has no weights");
  MOONLIT_RETURN_IF_ERROR(step_->Begin(spans));
  if (!step_->wanted().empty()) MOONLIT_RETURN_IF_ERROR(CheckConsumer(consumer));
  wants_hidden_ = consumer != nullptr && consumer->takes_hidden() && !gives_hidden();
  for (const auto& geometry : geometries_) geometry->Begin(*step_);
  for (ProductInput& input : bindings_.inputs) input.Arrange(step_->rows());
  list_.clear();
  if (step_->looked_on()) {
    MOONLIT_RETURN_IF_ERROR(RunBetweenTaps(abort));
  } else {
    for (const auto& stage : stages_) AppendStage(*stage);
  }
  AppendHead();  // the first block of wanted rows goes with the body: decode is one walk of the pool
  MOONLIT_RETURN_IF_ERROR(options_.pool->Run(list_, abort));
  if (gives_hidden() && !step_->wanted().empty()) ConsumeHidden(*consumer);
  while (step_->head_rows != 0) {
    Consume(*consumer);
    step_->head_first += step_->head_rows;
    list_.clear();
    AppendHead();
    if (step_->head_rows != 0) MOONLIT_RETURN_IF_ERROR(options_.pool->Run(list_, abort));
  }
  return Status();
}

}  // namespace

std::span<const TappedLayer> Plan::attention_layers() const { return {}; }

Result<std::shared_ptr<const Adapter>> Plan::LoadAdapter(const WeightSource&, float) {
  return Status(Code::kUnsupported, "this plan takes no adapters");
}

Result<std::shared_ptr<const AdapterSet>> Plan::Combine(std::span<const AdapterUse>) const {
  return Status(Code::kUnsupported, "this plan takes no adapters");
}

Result<std::unique_ptr<Plan>> Plan::Create(const Graph& graph, const WeightSource& source, const PlanOptions& options) {
  return PlanImpl::Make(graph, source, options);
}

}  // namespace moonlit
