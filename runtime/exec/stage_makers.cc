// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/stage.h"

namespace moonlit {

StageMaker MakerOf(StageKind kind) {
  switch (kind) {
    case StageKind::kEmbed:
      return MakeEmbedStage;
    case StageKind::kAddPositions:
      return MakeAddPositionsStage;
    case StageKind::kActivate:
      return MakeActivateStage;
    case StageKind::kNorm:
      return MakeNormStage;
    case StageKind::kProducts:
      return MakeProductsStage;
    case StageKind::kGatedProducts:
      return MakeGatedProductsStage;
    case StageKind::kGate:
    case StageKind::kActivation:
    case StageKind::kAdd:
    case StageKind::kScale:
    case StageKind::kClamp:
    case StageKind::kColumns:
    case StageKind::kSigmoidGate:
      return MakeElementwiseStage;
    case StageKind::kRoute:
      return MakeRouteStage;
    case StageKind::kGatherExperts:
      return MakeGatherExpertsStage;
    case StageKind::kGatedExperts:
      return MakeGatedExpertsStage;
    case StageKind::kDownExperts:
      return MakeDownExpertsStage;
    case StageKind::kQkvPost:
      return MakeQkvPostStage;
    case StageKind::kLinearAttention:
    case StageKind::kGatedDelta:
      return MakeRecurrentStage;
    case StageKind::kShortConv:
      return MakeShortConvStage;
    case StageKind::kDecay:
    case StageKind::kSigmoid:
      return MakeGatesStage;
    case StageKind::kPairScores:
    case StageKind::kSoftmax:
    case StageKind::kWeightedSum:
      return MakePairsStage;
    case StageKind::kAttention:
    case StageKind::kHidden:
    case StageKind::kHead:
      break;
  }
  return nullptr;
}

}  // namespace moonlit
