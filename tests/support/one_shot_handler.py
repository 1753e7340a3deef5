"""A handler of SIGINT for a single signal, as LLVM installs one where it compiles: a small library for ``ctypes``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# As LLVM's: the flags, the former handler put back, and the signal raised again for it.
_SOURCE = """
#include <signal.h>
#include <stddef.h>

static struct sigaction former;
static int calls;

static void handler(int number, siginfo_t* info, void* context) {
  (void)info;
  (void)context;
  ++calls;
  sigaction(number, &former, NULL);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_UNBLOCK, &all, NULL);
  raise(number);
}

/* Calls of what was there, and nothing else. */
static void chained(int number, siginfo_t* info, void* context) {
  ++calls;
  if (former.sa_flags & SA_SIGINFO) former.sa_sigaction(number, info, context);
  else former.sa_handler(number);
}

static int install(void (*own)(int, siginfo_t*, void*), int flags) {
  struct sigaction action = {0};
  action.sa_sigaction = own;
  action.sa_flags = SA_SIGINFO | flags;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGINT, &action, &former);
}

int install_one_shot(void) { return install(handler, SA_ONSTACK | SA_NODEFER | SA_RESETHAND); }
int install_chained(void) { return install(chained, SA_NODEFER); }
int calls_of_handler(void) { return calls; }
"""


def one_shot_library(folder: Path) -> Path:
    """Compile it; the path of the library."""
    source, library = folder / "one_shot.c", folder / "one_shot.so"
    source.write_text(_SOURCE, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-o", str(library), str(source)],
        check=True, capture_output=True, timeout=600,
    )  # fmt: skip
    return library
