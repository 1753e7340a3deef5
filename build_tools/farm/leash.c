// leash PARENT PROGRAM WORDS...: runs PROGRAM, and ends its whole process group when PARENT ends, however that ends.
//
// A compiler driver starts a linker, and Triton's child forks for each job. The kernel tells only a direct child of its parent's
// death, and forgets the wish at a fork: so this program stays between the two, is told, and tells the group.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_STARTED = 127, WRONG_USE = 2 };

static void end_group(int signal_number) {
  (void)signal_number;
  kill(0, SIGKILL);
}

static void start(char** words) {
  signal(SIGTERM, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execvp(words[0], words);
  fprintf(stderr, "%s: %s\n", words[0], strerror(errno));
  _exit(NOT_STARTED);
}

int main(int count, char** words) {
  if (count < 3) {
    fprintf(stderr, "usage: leash PARENT PROGRAM WORDS...\n");
    return WRONG_USE;
  }
  // A group of its own, whoever starts it: the signal above goes to all of it.
  if (getpgrp() != getpid()) setpgid(0, 0);
  signal(SIGTERM, end_group);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // It may have ended before it could be asked to tell.
  if (getppid() != (pid_t)strtol(words[1], NULL, 10)) return NOT_STARTED;
  const pid_t child = fork();
  if (child < 0) {
    perror("leash: fork");
    return NOT_STARTED;
  }
  if (child == 0) start(words + 2);
  int status = 0;
  while (waitpid(child, &status, 0) != child) {
  }
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  // As if the program had been started without a leash; one core file of it is enough.
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(WTERMSIG(status), SIG_DFL);
  raise(WTERMSIG(status));
  return NOT_STARTED;
}
