// SPDX-License-Identifier: Apache-2.0
// `moonlit lesson`: attention built up step by step on the runtime's own graph ops and kernels, with every claim checked. One of the
// commands that may look below the API. docs/attention-lesson.md has the text with its output.
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>

#include "tools/cli/command.h"
#include "tools/cli/lesson_sections.h"

namespace moonlit::cli {
namespace {

struct Entry {
  LessonText title;
  LessonSection run;
};
constexpr Entry kSections[] = {
    {LessonText::kAverageTitle, &LessonAverage},    {LessonText::kScoresTitle, &LessonScores},
    {LessonText::kMaskTitle, &LessonMask},          {LessonText::kScaleTitle, &LessonScale},
    {LessonText::kHeadTitle, &LessonHead},          {LessonText::kKindsTitle, &LessonKinds},
    {LessonText::kSharedTitle, &LessonSharedHeads}, {LessonText::kStreamingTitle, &LessonStreaming},
    {LessonText::kPatternsTitle, &LessonPatterns},  {LessonText::kCostTitle, &LessonCost},
};
constexpr Entry kExercises[] = {
    {LessonText::kQueryTitle, &ExerciseQuery},
    {LessonText::kNoMaskTitle, &ExerciseNoMask},
    {LessonText::kGrowthTitle, &ExerciseGrowth},
};
constexpr size_t kSectionCount = std::size(kSections), kExerciseCount = std::size(kExercises);

class Lesson : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    app.add_option("--lang", language_, "en or zh")->check(CLI::IsMember({"en", "zh"}))->default_val("en");
    auto* section = app.add_option("--section", section_, "Only this section; without it, all of them")
                        ->check(CLI::Range(size_t{1}, kSectionCount));
    app.add_option("--exercise", exercise_, "The answer to an exercise, computed")
        ->check(CLI::Range(size_t{1}, kExerciseCount))
        ->excludes(section);
    app.footer("Exit code 1 when a claim of the lesson does not hold on this machine.");
  }

  int Run() override {
    Result<LessonMachine> machine = LessonMachine::Make();
    if (!machine.ok()) return Failed(machine.status());
    LessonPage page(language_ == "zh" ? Language::kChinese : Language::kEnglish);
    if (exercise_ != 0) return RunOne(page, machine.value(), kExercises[exercise_ - 1], exercise_);
    if (section_ != 0) return RunOne(page, machine.value(), kSections[section_ - 1], section_);
    page.Say(LessonText::kLessonIntro);
    for (size_t i = 0; i < kSectionCount; ++i) {
      page.Title(i + 1, kSections[i].title);
      const Status status = kSections[i].run(page, machine.value());
      if (!status.ok()) return Failed(status);
    }
    std::printf("\n");
    page.Say(LessonText::kExercises);
    for (size_t i = 0; i < kExerciseCount; ++i) {
      std::printf("  moonlit lesson --exercise %zu  %s\n", i + 1, page.Words(kExercises[i].title));
    }
    return Finished(page);
  }

 private:
  static int Failed(const Status& status) {
    std::fprintf(stderr, "moonlit: %s\n", std::string(status.message()).c_str());
    return kFailed;
  }

  static int RunOne(LessonPage& page, LessonMachine& machine, const Entry& entry, size_t number) {
    page.Title(number, entry.title);
    const Status status = entry.run(page, machine);
    return status.ok() ? Finished(page) : Failed(status);
  }

  static int Finished(LessonPage& page) {
    std::printf("\n");
    page.Line(LessonText::kClaimsHeld, Format("%zu / %zu", page.claims() - page.broken(), page.claims()));
    return page.broken() == 0 ? kOk : kFailed;
  }

  std::string language_;
  size_t section_ = 0, exercise_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeLesson() { return std::make_unique<Lesson>(); }

}  // namespace moonlit::cli
