// Threads that spin and threads that work, each in functions of its own.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() __asm__ volatile("isb" ::: "memory")
#endif

// Functions of their own, with their own names: no clones (`work.constprop.0`).
#if defined(__GNUC__) && !defined(__clang__)
#define APART __attribute__((noipa))
#else
#define APART __attribute__((noinline))
#endif

static atomic_int go;
static volatile unsigned long sink;

// Checks memory and pauses once a turn, as the commit spin of MySQL does.
APART static void spin_on_flag(void) {
  while (!atomic_load_explicit(&go, memory_order_acquire)) PAUSE();
}

// As InnoDB's ut_delay.
APART static unsigned long delay(unsigned long turns) {
  unsigned long j = 0;
  for (unsigned long i = 0; i < turns; i++) {
    j += i;
    PAUSE();
  }
  return j;
}

// As InnoDB's latches: check, delay, count, again.
APART static unsigned long spin_with_delay(void) {
  unsigned long rounds = 0;
  while (!atomic_load_explicit(&go, memory_order_acquire)) rounds += delay(50) & 7;
  return rounds;
}

// Nothing but arithmetic, in a loop as tight as the others.
APART static unsigned long work(unsigned long seed) {
  while (!atomic_load_explicit(&go, memory_order_acquire)) seed = seed * 6364136223846793005ul + 1442695040888963407ul;
  return seed;
}

static void *flag_thread(void *unused) { (void)unused; spin_on_flag(); return NULL; }
static void *delay_thread(void *unused) { (void)unused; sink = spin_with_delay(); return NULL; }
static void *work_thread(void *unused) { (void)unused; sink = work(1); return NULL; }

int main(void) {
  pthread_t threads[3];
  pthread_create(&threads[0], NULL, flag_thread, NULL);
  pthread_create(&threads[1], NULL, delay_thread, NULL);
  pthread_create(&threads[2], NULL, work_thread, NULL);
  puts("ready");
  fflush(stdout);
  // Until whoever started it goes away.
  while (getchar() != EOF) {
  }
  atomic_store(&go, 1);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  return 0;
}
