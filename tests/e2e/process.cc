// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <sstream>
#include <utility>

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

// The other way round: somebody types on it. Nothing is echoed, since nobody would read it.
void BecomeKeyboard(Pipe& pipe) {
  BecomeTerminal(pipe);
  std::swap(pipe.read_end, pipe.write_end);
  termios settings;
  MOONLIT_CHECK(tcgetattr(pipe.read_end, &settings) == 0);
  settings.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  MOONLIT_CHECK(tcsetattr(pipe.read_end, TCSANOW, &settings) == 0);
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
  for (const int number : options.ignored) signal(number, SIG_IGN);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const rlimit file_limit = {options.most_file_bytes, options.most_file_bytes};
  if (options.most_file_bytes != 0) setrlimit(RLIMIT_FSIZE, &file_limit);
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
  int interrupts = options.interrupts;
  bool line_begins = true;
  bool interrupted_at_error = options.interrupt_at_error.empty();
  // A terminal stays open: to close it would throw away what nobody has read yet.
  const auto end_input = [&] {
    if (!options.input_from_terminal) close(std::exchange(in.write_end, -1));
  };
  if (options.input.empty()) end_input();
  bool signalled = !options.signal_when;
  int open_outputs = 2;
  while (open_outputs > 0) {
    const int input = written < options.input.size() ? in.write_end : -1;
    pollfd fds[3] = {{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}, {input, POLLOUT, 0}};
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
        if (i == 0) {
          if (line_begins && interrupts > 0) {
            --interrupts;
            kill(child, SIGINT);
          }
          line_begins = buffer[n - 1] == '\n';
        } else if (!interrupted_at_error && outcome->err.find(options.interrupt_at_error) != std::string::npos) {
          interrupted_at_error = true;
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
      written = n > 0 ? written + static_cast<size_t>(n) : options.input.size();
      if (written == options.input.size()) end_input();
    }
  }
}

}  // namespace

Outcome RunMoonlit(const std::vector<std::string>& arguments, const RunOptions& options) {
  signal(SIGPIPE, SIG_IGN);
  Pipe in, out, err;
  if (options.error_to_terminal) BecomeTerminal(err);
  if (options.input_from_terminal) BecomeKeyboard(in);
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
