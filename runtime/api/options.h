// SPDX-License-Identifier: Apache-2.0
// moonlit_model_options as the rooms below take them.
#pragma once

#include "runtime/api/load.h"
#include "runtime/api/moonlit.h"
#include "runtime/base/status.h"
#include "runtime/decode/engine.h"

namespace moonlit::api {

// The options that a caller compiled against an older header lacks keep their defaults; null: all of them. kInvalidArgument: their size is
// none.
Result<moonlit_model_options> Complete(const moonlit_model_options* options);

// kInvalidArgument names the field.
Result<LoadOptions> ToLoadOptions(const moonlit_model_options& options);
Result<EngineOptions> ToEngineOptions(const moonlit_model_options& options);

}  // namespace moonlit::api
