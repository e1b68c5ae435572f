// SPDX-License-Identifier: Apache-2.0
// The lesson's sections and the answers to its exercises. Each prints what it computes and claims what it shows; a Status says
// that the runtime could not run, never that a claim is wrong.
#pragma once

#include "tools/cli/lesson_page.h"

namespace moonlit::cli {

using LessonSection = Status (*)(LessonPage& page, LessonMachine& machine);

Status LessonAverage(LessonPage& page, LessonMachine& machine);  // lesson_basics.cc
Status LessonScores(LessonPage& page, LessonMachine& machine);
Status LessonMask(LessonPage& page, LessonMachine& machine);  // lesson_mask.cc
Status LessonScale(LessonPage& page, LessonMachine& machine);
Status LessonHead(LessonPage& page, LessonMachine& machine);  // lesson_heads.cc
Status LessonKinds(LessonPage& page, LessonMachine& machine);
Status LessonSharedHeads(LessonPage& page, LessonMachine& machine);
Status LessonStreaming(LessonPage& page, LessonMachine& machine);  // lesson_long.cc
Status LessonPatterns(LessonPage& page, LessonMachine& machine);
Status LessonCost(LessonPage& page, LessonMachine& machine);  // lesson_cost.cc

Status ExerciseQuery(LessonPage& page, LessonMachine& machine);   // lesson_basics.cc
Status ExerciseNoMask(LessonPage& page, LessonMachine& machine);  // lesson_heads.cc
Status ExerciseGrowth(LessonPage& page, LessonMachine& machine);  // lesson_cost.cc

}  // namespace moonlit::cli
