// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/plan_options.h"

namespace moonlit {
namespace {

Status CheckSparse(const SparseAttention& sparse, size_t page_tokens) {
  if (sparse.sinks != 0 && sparse.window == 0) {
    return Errorf(Code::kInvalidArgument, "%zu attention sinks without an attention window: they are seen beside one",
                  sparse.sinks);
  }
  if (sparse.sinks > page_tokens || uint64_t{sparse.window} > uint64_t{1} << 40) {
    return Errorf(Code::kInvalidArgument,
                  "an attention window of %zu with %zu sinks: expected at most 2^40, and a page, which has %zu tokens",
                  sparse.window, sparse.sinks, page_tokens);
  }
  if (sparse.pages == 0) return Status();
  if (sparse.window != 0 || sparse.pages < 2 || sparse.most_pages == 0 || sparse.most_tokens == 0) {
    return Errorf(Code::kInvalidArgument,
                  "%zu chosen pages of attention with a window of %zu: expected at least 2, and no window beside them",
                  sparse.pages, sparse.window);
  }
  return Status();
}

}  // namespace

Status CheckPlanOptions(const PlanOptions& options) {
  if ((options.pool == nullptr && !options.layout_only) || options.max_rows == 0 ||
      options.max_rows > (size_t{1} << 20)) {
    return Errorf(Code::kInvalidArgument, "a plan needs a thread pool and 1 to 2^20 rows a step; it was given %zu rows",
                  options.max_rows);
  }
  MOONLIT_RETURN_IF_ERROR(CheckSparse(options.sparse, options.page_tokens));
  if (!IsBuilt(options.variant)) {
    return Errorf(Code::kUnsupported, "kernel variant %s is not in this build", VariantName(options.variant));
  }
  return Status();
}

}  // namespace moonlit
