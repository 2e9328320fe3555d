/* A program that stands still in a known place. Its first argument says where; it says "ready" before. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))
/* Nothing of a call is optimised into a jump. */
#define STAY __asm__ volatile("" ::: "memory")

static void KEPT wait_here(void) {
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}

static void KEPT hidden(void) { wait_here(); STAY; }
void KEPT visible(void) { hidden(); STAY; }

static void KEPT on_signal(int signal) { (void)signal; wait_here(); STAY; }
void KEPT interrupted(void) {
  signal(SIGSEGV, on_signal);
  /* The first instruction of a mapping: what comes before it is no code. */
  char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(page, 0, 4096);
#ifdef __x86_64__
  memcpy(page, "\x0f\x0b", 2); /* ud2 */
#endif
  signal(SIGILL, on_signal);
  ((void (*)(void))page)();
  STAY;
}

void KEPT signalled(void) {
  signal(SIGUSR1, on_signal);
  raise(SIGUSR1);
  STAY;
}

int KEPT deep(int depth) {
  if (depth == 0) wait_here();
  else deep(depth - 1);
  STAY;
  return depth;
}

/* Aligns its stack: its frame is found by an expression that reads memory. */
void KEPT aligned(int n) {
  char room[n];
  __attribute__((aligned(128))) char place[128];
  memset(room, 0, n);
  memset(place, n, sizeof place);
  __asm__ volatile("" : : "r"(place), "r"(room) : "memory");
  wait_here();
  __asm__ volatile("" : : "r"(place), "r"(room) : "memory");
}

static inline __attribute__((always_inline)) void innermost(void) { wait_here(); STAY; }
static inline __attribute__((always_inline)) void middle(void) { innermost(); STAY; }
void KEPT outer(void) { middle(); STAY; }

void KEPT telling_time(void) {
  struct timespec now;
  puts("ready");
  fflush(stdout);
  for (;;) clock_gettime(CLOCK_MONOTONIC, &now);
}

void KEPT loading(const char *library) {
  puts("ready");
  fflush(stdout);
  getchar();
#ifndef NO_DLOPEN
  void *handle = dlopen(library, RTLD_NOW);
  if (!handle) { fputs(dlerror(), stderr); exit(1); }
  ((void (*)(void (*)(void)))dlsym(handle, "of_the_library"))(wait_here);
#endif
  STAY;
}

/* Calls a library for ever, through the PLT. */
void KEPT calling(void) {
  puts("ready");
  fflush(stdout);
  getchar();
  for (;;) getppid();
}

int main(int argc, char **argv) {
  const char *where = argc > 1 ? argv[1] : "";
  if (!strcmp(where, "visible")) visible();
  if (!strcmp(where, "interrupted")) interrupted();
  if (!strcmp(where, "signalled")) signalled();
  if (!strcmp(where, "deep")) deep(atoi(argv[2]));
  if (!strcmp(where, "aligned")) aligned(atoi(argv[2]));
  if (!strcmp(where, "outer")) outer();
  if (!strcmp(where, "time")) telling_time();
  if (!strcmp(where, "calling")) calling();
  if (!strcmp(where, "load")) loading(argv[2]);
  return 0;
}
