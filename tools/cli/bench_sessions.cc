// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_sessions.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

#include "tools/cli/number_ranges.h"

namespace moonlit::cli {
namespace {

constexpr uint32_t kMostSessions = 256;
constexpr int kMostAttempts = 10;  // for each cancelled prefill that counts

std::vector<int32_t> RandomIds(size_t count, uint32_t n_vocab, uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % n_vocab);
  return ids;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  double squares = 0;
  for (const double value : values) squares += (value - Mean(values)) * (value - Mean(values));
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// Seconds of both parts.
struct Times {
  double prompt = 0, gen = 0;
};

api::Error Eval(api::Session& session, std::span<const int32_t> ids, moonlit_outputs outputs) {
  if (Interrupted()) return {MOONLIT_CANCELLED, "interrupted"};
  return session.Eval(ids, outputs, {});
}

// A thread a session. All begin to read at the same time, and all begin to generate at the same time. The ids are any.
api::Error RunTogether(std::span<api::Session> sessions, const SessionBench::Test& test, uint32_t n_vocab,
                       Times* times) {
  std::vector<double> marks;
  const auto mark = [&]() noexcept { marks.push_back(NowSeconds()); };
  marks.reserve(3);
  std::barrier barrier(static_cast<std::ptrdiff_t>(sessions.size()), mark);
  std::vector<api::Error> errors(sessions.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < sessions.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto ids = RandomIds(test.n_prompt + test.n_gen, n_vocab, static_cast<uint32_t>(i) + 1);
      const std::span<const int32_t> all(ids);
      barrier.arrive_and_wait();
      errors[i] = Eval(sessions[i], all.first(test.n_prompt), MOONLIT_OUTPUT_LAST);
      barrier.arrive_and_wait();
      for (size_t t = test.n_prompt; t < ids.size() && errors[i].code == MOONLIT_OK; ++t) {
        errors[i] = Eval(sessions[i], all.subspan(t, 1), MOONLIT_OUTPUT_GENERATED);
      }
      barrier.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  *times = {marks[1] - marks[0], marks[2] - marks[1]};
  for (const api::Error& error : errors) {
    if (error.code != MOONLIT_OK) return error;
  }
  return {};
}

nlohmann::ordered_json Head(const api::Model& model, const std::string& file) {
  const moonlit_model_info info = model.info();
  return {{"model_filename", file},
          {"model_type", std::string(info.architecture) + " " + info.file_type},
          {"variant", info.variant},
          {"threads", info.threads}};
}

nlohmann::ordered_json Rate(double rate) { return rate > 0 ? nlohmann::ordered_json(rate) : nlohmann::ordered_json(); }

}  // namespace

struct SessionBench::Model {
  api::Model model;
  std::vector<api::Session> sessions;
  nlohmann::ordered_json head;
};

void SessionBench::DeclareFlags(CLI::App& app) {
  AddNumbers(app, "--sessions",
             "Instead of one session: so many of them, each on a thread of its own, read a prompt of -p tokens and "
             "generate -n tokens at once",
             1, kMostSessions, &sessions_);
  app.add_option("--cancel", cancels_,
                 "Cancel so many prefills of -p tokens, at random moments, and measure how soon each ends")
      ->check(CLI::Range(1u, 100000u));
  for (const char* mode : {"--sessions", "--cancel"}) {
    for (const char* other : {"--pg", "--n-depth"}) app.get_option(mode)->excludes(app.get_option(other));
  }
}

uint32_t SessionBench::most_sessions() const {
  return sessions_.empty() ? 1 : *std::max_element(sessions_.begin(), sessions_.end());
}

api::Error SessionBench::MeasureSessions(Model& model, const Test& test, int repetitions, bool warm_up) {
  double first = 0;
  for (const uint32_t count : sessions_) {
    const std::span<api::Session> sessions(model.sessions.data(), count);
    std::vector<double> prompt_rates, gen_rates;
    for (int repetition = warm_up ? -1 : 0; repetition < repetitions; ++repetition) {
      for (api::Session& session : sessions) {
        if (auto error = session.Truncate(0); error.code != MOONLIT_OK) return error;
      }
      Times times;
      if (auto error = RunTogether(sessions, test, model.model.info().n_vocab, &times); error.code != MOONLIT_OK)
        return error;
      if (repetition < 0) continue;
      prompt_rates.push_back(count * static_cast<double>(test.n_prompt) / times.prompt);
      gen_rates.push_back(count * static_cast<double>(test.n_gen) / times.gen);
    }
    const double rate = Mean(gen_rates);
    if (first == 0) first = rate;
    nlohmann::ordered_json row = model.head;
    row.update({{"sessions", count}, {"n_prompt", test.n_prompt}, {"n_gen", test.n_gen}});
    row["prompt_ts"] = Rate(Mean(prompt_rates));
    row["gen_ts"] = Rate(rate);
    row["gen_ts_stddev"] = Rate(Deviation(gen_rates));
    row["gen_ts_each"] = Rate(rate / count);
    row["times_first"] = Rate(first > 0 ? rate / first : 0);
    session_rows_.push_back(std::move(row));
  }
  return {};
}

api::Error SessionBench::MeasureCancels(Model& model, size_t n_prompt) {
  api::Session& session = model.sessions[0];
  const std::vector<int32_t> ids = RandomIds(n_prompt, model.model.info().n_vocab, 1);
  double whole = 0;
  for (int run = 0; run < 2; ++run) {  // one to warm up
    if (auto error = session.Truncate(0); error.code != MOONLIT_OK) return error;
    const double begin = NowSeconds();
    if (auto error = Eval(session, ids, MOONLIT_OUTPUT_NONE); error.code != MOONLIT_OK) return error;
    whole = NowSeconds() - begin;
  }
  std::minstd_rand random(1);
  std::uniform_real_distribution<double> moment(0, whole);
  std::vector<double> delays;
  for (uint32_t attempt = 0; delays.size() < cancels_ && attempt / kMostAttempts < cancels_; ++attempt) {
    if (auto error = session.Truncate(0); error.code != MOONLIT_OK) return error;
    double cancelled = 0;
    std::thread thread([&, wait = moment(random)] {
      std::this_thread::sleep_for(std::chrono::duration<double>(wait));
      cancelled = NowSeconds();
      session.Cancel();
    });
    const api::Error error = Eval(session, ids, MOONLIT_OUTPUT_NONE);
    const double ended = NowSeconds();
    thread.join();
    if (Interrupted()) return {MOONLIT_CANCELLED, "interrupted"};
    if (error.code == MOONLIT_OK) continue;  // it was over, or had not begun
    if (error.code != MOONLIT_CANCELLED) return error;
    delays.push_back(1e3 * (ended - cancelled));
  }
  if (delays.empty())
    return {MOONLIT_INVALID_ARGUMENT, "every prefill ended before it was cancelled: give a longer -p"};
  std::sort(delays.begin(), delays.end());
  nlohmann::ordered_json row = model.head;
  row.update({{"n_prompt", n_prompt},
              {"prefill_ms", 1e3 * whole},
              {"cancelled", delays.size()},
              {"median_ms", delays[delays.size() / 2]},
              {"worst_ms", delays.back()}});
  cancel_rows_.push_back(std::move(row));
  return {};
}

int SessionBench::Measure(const ModelFlags& flags, const std::vector<Test>& tests, int repetitions, bool warm_up,
                          InterruptGuard* guard) {
  int code = kFailed;
  auto loaded = LoadModel(flags, &code);
  if (!loaded) return code;
  Model model{std::move(*loaded), {}, {}};
  model.head = Head(model.model, flags.model);
  for (uint32_t i = 0; i < most_sessions(); ++i) {
    auto session = model.model.NewSession();
    if (!session) return Report(session.error());
    model.sessions.push_back(std::move(*session));
  }
  guard->Watch(model.sessions[0].handle());
  api::Error error;
  for (const Test& test : tests) {
    if (!sessions_.empty()) error = MeasureSessions(model, test, repetitions, warm_up);
    if (error.code != MOONLIT_OK) break;
  }
  size_t measured = SIZE_MAX;  // the prompt: tests have each as often as there are -n
  for (const Test& test : tests) {
    if (cancels_ == 0 || test.n_prompt == measured || error.code != MOONLIT_OK) continue;
    error = MeasureCancels(model, measured = test.n_prompt);
  }
  guard->Watch(nullptr);
  return error.code == MOONLIT_OK ? kOk : Report(error);
}

void SessionBench::Print(const std::string& format) const {
  const auto table = [](const char* name, const std::vector<nlohmann::ordered_json>& rows,
                        const std::vector<BenchColumn>& more) {
    BenchTable made{
        name, {{"model_type", "model", kText}, {"variant", "variant", kText}, {"threads", "threads", 0}}, rows};
    made.columns.insert(made.columns.end(), more.begin(), more.end());
    return made;
  };
  std::vector<BenchTable> tables;
  if (!sessions_.empty()) {
    tables.push_back(table("sessions", session_rows_,
                           {{"sessions", "sessions", 0},
                            {"n_prompt", "prompt", 0},
                            {"prompt_ts", "prompt t/s", 1},
                            {"n_gen", "generated", 0},
                            {"gen_ts", "t/s", 1},
                            {"gen_ts_stddev", "±", 1},
                            {"gen_ts_each", "t/s each", 1},
                            {"times_first", "× first", 2}}));
  }
  if (cancels_ != 0) {
    tables.push_back(table("cancel", cancel_rows_,
                           {{"n_prompt", "prompt", 0},
                            {"prefill_ms", "prefill ms", 1},
                            {"cancelled", "cancelled", 0},
                            {"median_ms", "median ms", 2},
                            {"worst_ms", "worst ms", 2}}));
  }
  PrintTables({{"build_version", moonlit_version()}}, tables, format);
}

}  // namespace moonlit::cli
