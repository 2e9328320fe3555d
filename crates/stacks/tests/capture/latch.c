// A process whose one worker waits for a latch again and again: `spins` microseconds at most before it sleeps. Its waits
// last 50 us, met while it spins, and every fourth 4 ms, for which it sleeps, and that costs 500 us of CPU; a thread that was woken
// needs 3 ms more until it returns. It says `ready` at its start, answers each line with a count of its waits, and ends when nobody sends any.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SPINS 300
#define SHORT 50
#define LONG 4000
#define AFTER 3000
#define SLEEP_COSTS 500

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t taken = PTHREAD_COND_INITIALIZER, freed = PTHREAD_COND_INITIALIZER;
static int is_taken;
static volatile long count;

static double clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static double now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

static double cpu_us(void)
{
	return clock_us(CLOCK_THREAD_CPUTIME_ID);
}

static void spin_until(double us)
{
	while (now_us() < us)
		;
}

__attribute__((noinline)) void sleeps_for_latch(void)
{
	double began;

	pthread_mutex_lock(&mutex);
	is_taken = 1;
	pthread_cond_signal(&taken);
	while (is_taken)
		pthread_cond_wait(&freed, &mutex);
	pthread_mutex_unlock(&mutex);
	for (began = cpu_us(); cpu_us() < began + SLEEP_COSTS;)
		;
}

__attribute__((noinline)) int waits_for_latch(double us)
{
	double began = now_us();

	spin_until(began + (us < SPINS ? us : SPINS));
	if (us < SPINS)
		return 0;
	sleeps_for_latch();
	spin_until(now_us() + AFTER);
	return 1;
}

// Has the latch for the rest of a long wait.
static void *holds(void *unused)
{
	struct timespec rest = { 0, (LONG - SPINS) * 1000L };

	for (;;) {
		pthread_mutex_lock(&mutex);
		while (!is_taken)
			pthread_cond_wait(&taken, &mutex);
		pthread_mutex_unlock(&mutex);
		nanosleep(&rest, NULL);
		pthread_mutex_lock(&mutex);
		is_taken = 0;
		pthread_cond_signal(&freed);
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

static void *works(void *unused)
{
	struct timespec pause = { 0, 200000 };

	for (;;) {
		waits_for_latch(++count % 4 ? SHORT : LONG);
		nanosleep(&pause, NULL);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	char line[64];

	if (pthread_create(&thread, NULL, holds, NULL) || pthread_create(&thread, NULL, works, NULL))
		return 1;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		printf("%ld\n", line[0] == 'w' ? (long)waits_for_latch : count); // where that is
		fflush(stdout);
	}
	return 0;
}
