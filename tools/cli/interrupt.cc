// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/interrupt.h"

#include <atomic>
#include <csignal>
#include <thread>

namespace moonlit::cli {
namespace {

std::atomic<moonlit_session*> watched{nullptr};
std::atomic<bool> interrupted{false};
std::atomic<int> running{0};  // handlers; one may run on any thread
// Signals that end the process, but for those that nothing can handle, that tell of a fault of ours, or that tests and debuggers use.
constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};
static_assert(std::atomic<moonlit_session*>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may wait for nothing");

// As if nobody handled the signal, but for the half-written files.
void EndProcess(int signal) {
  moonlit_remove_unfinished_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// What is ignored (nohup, a job in the background) stays ignored.
void Handle(int signal, void (*handler)(int)) {
  if (std::signal(signal, handler) == SIG_IGN) std::signal(signal, SIG_IGN);
}

void OnInterrupt(int signal) {
  if (interrupted.exchange(true)) return EndProcess(signal);
  ++running;
  if (moonlit_session* session = watched.load()) moonlit_session_cancel(session);
  --running;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted.store(false);  // before the handler: what an earlier guard was told is over
  Handle(SIGINT, OnInterrupt);
}

InterruptGuard::~InterruptGuard() {
  Watch(nullptr);
  Handle(SIGINT, EndProcess);
}

void EndCleanlyBySignals() {
  for (const int signal : kEnding) Handle(signal, EndProcess);
  std::signal(SIGXFSZ, SIG_IGN);  // writes beyond a limit of file sizes then fail as on a full disk
}

void InterruptGuard::Watch(moonlit_session* session) {
  watched.store(session);
  while (running.load() != 0) std::this_thread::yield();  // it may have read the former session
}

bool Interrupted() { return interrupted.load(); }

}  // namespace moonlit::cli
