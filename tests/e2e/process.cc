// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

#include "kernels/base/check.h"

namespace moonlit::test {
namespace {

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    MOONLIT_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    read_end = ends[0];
    write_end = ends[1];
  }
};

// Replaces the ends by those of a new terminal: what is written to one is read from the other, until the writers have closed it.
void BecomeTerminal(Pipe& pipe) {
  close(pipe.read_end);
  close(pipe.write_end);
  pipe.read_end = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  MOONLIT_CHECK(pipe.read_end >= 0 && grantpt(pipe.read_end) == 0 && unlockpt(pipe.read_end) == 0);
  pipe.write_end = open(ptsname(pipe.read_end), O_RDWR | O_NOCTTY | O_CLOEXEC);
  MOONLIT_CHECK(pipe.write_end >= 0);
}

// The emulator's words (joined by bars), then the binary, then the arguments.
std::vector<std::string> CommandLine(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  std::istringstream emulator(MOONLIT_EMULATOR);
  for (std::string word; std::getline(emulator, word, '|');) words.push_back(word);
  words.push_back(MOONLIT_BINARY);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

[[noreturn]] void Exec(const std::vector<std::string>& words, const RunOptions& options, const Pipe& in,
                       const Pipe& out, const Pipe& err) {
  dup2(in.read_end, STDIN_FILENO);
  dup2(options.output_to.empty() ? out.write_end : open(options.output_to.c_str(), O_WRONLY | O_CLOEXEC),
       STDOUT_FILENO);
  dup2(err.write_end, STDERR_FILENO);
  for (const std::string& variable : options.environment) putenv(const_cast<char*>(variable.c_str()));
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

// Feeds standard input and collects both outputs until they end.
void Exchange(pid_t child, const RunOptions& options, Pipe& in, Pipe& out, Pipe& err, Outcome* outcome) {
  size_t written = 0;
  bool interrupted = !options.interrupt_after_first_output;
  if (options.input.empty()) {
    close(in.write_end);
    in.write_end = -1;
  }
  bool signalled = !options.signal_when;
  int open_outputs = 2;
  while (open_outputs > 0) {
    pollfd fds[3] = {{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}, {in.write_end, POLLOUT, 0}};
    if (poll(fds, 3, signalled ? -1 : 1) < 0) continue;
    if (!signalled && options.signal_when()) {
      signalled = true;
      kill(child, options.signal);
    }
    for (int i = 0; i < 2; ++i) {
      if ((fds[i].revents & (POLLIN | POLLHUP)) == 0) continue;
      char buffer[65536];
      const ssize_t n = read(fds[i].fd, buffer, sizeof buffer);
      if (n > 0) {
        (i == 0 ? outcome->out : outcome->err).append(buffer, static_cast<size_t>(n));
        if (i == 0 && !interrupted) {
          interrupted = true;
          kill(child, SIGINT);
        }
      } else {
        (i == 0 ? out : err).read_end = -1;
        close(fds[i].fd);
        --open_outputs;
      }
    }
    if ((fds[2].revents & (POLLOUT | POLLERR)) != 0) {
      const ssize_t n = write(in.write_end, options.input.data() + written, options.input.size() - written);
      if (n > 0) written += static_cast<size_t>(n);
      if (n <= 0 || written == options.input.size()) {
        close(in.write_end);
        in.write_end = -1;
      }
    }
  }
}

}  // namespace

Outcome RunMoonlit(const std::vector<std::string>& arguments, const RunOptions& options) {
  signal(SIGPIPE, SIG_IGN);
  Pipe in, out, err;
  if (options.error_to_terminal) BecomeTerminal(err);
  const std::vector<std::string> words = CommandLine(arguments);
  const pid_t child = fork();
  MOONLIT_CHECK(child >= 0);
  if (child == 0) Exec(words, options, in, out, err);
  close(in.read_end);
  close(out.write_end);
  close(err.write_end);
  Outcome outcome;
  Exchange(child, options, in, out, err, &outcome);
  if (in.write_end >= 0) close(in.write_end);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace moonlit::test
