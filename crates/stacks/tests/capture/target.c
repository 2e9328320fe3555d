// A process to take snapshots of: `target MODE`. It says `ready` once its threads are as the mode wants them,
// answers each line that it is sent with a count, and ends when nobody is left to send any.

#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile long count;
static int pipes[64][2];

static void start(const char *name, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 1 << 20);
	if (pthread_create(&thread, &attributes, run, argument))
		abort();
	pthread_setname_np(thread, name);
	pthread_detach(thread);
}

// Blocks in read(2) until it is sent a byte, and again.
static void *reads(void *number)
{
	char byte;

	while (read(pipes[(long)number][0], &byte, 1) == 1)
		__sync_fetch_and_add(&count, 1);
	return NULL;
}

static void start_readers(long many)
{
	for (long i = 0; i < many; i++) {
		char name[16];

		if (pipe(pipes[i]))
			abort();
		snprintf(name, sizeof(name), "reader-%ld", i);
		start(name, reads, (void *)i);
	}
}

static int enter[2], leave[2];
static __thread jmp_buf way_out;

// Holds its thread until it is sent a byte, and throws it out of here for an x.
__attribute__((noinline)) int works(int before)
{
	char byte = 0;

	if (read(leave[0], &byte, 1) == 1 && byte == 'x')
		longjmp(way_out, 1);
	return before + byte;
}

// Enters `works` for each byte that some of them is sent.
static void *waits_for_work(void *unused)
{
	char byte;

	while (read(enter[0], &byte, 1) == 1) {
		if (!setjmp(way_out))
			works(byte);
		__sync_fetch_and_add(&count, 1);
	}
	return unused;
}

__attribute__((noinline)) long is_quick(long number)
{
	__asm__ volatile("" : "+r"(number));
	return number + 1;
}

static void *floods(void *unused)
{
	for (;;)
		count = is_quick(count);
	return unused;
}

// Has used `bytes` of its stack when it blocks.
static int descend(long bytes)
{
	volatile char frame[4096];

	memset((void *)frame, 1, sizeof(frame));
	return (bytes > 0 ? descend(bytes - (long)sizeof(frame)) : pause()) + frame[0];
}

static void *is_deep(void *bytes)
{
	descend((long)bytes);
	return NULL;
}

// Writes the same number into a large part of its stack, from one end to the other, then the next number.
static void *writes(void *unused)
{
	volatile unsigned long words[8192];
	unsigned long number = 1UL << 32;

	for (int i = 0; i < 8192; i++)
		words[i] = number;
	for (;; number++) {
		for (int i = 0; i < 8192; i++)
			words[i] = number;
		__sync_fetch_and_add(&count, 1);
		usleep(1);
	}
	return unused;
}

static void *ends(void *unused)
{
	return unused;
}

// Starts threads that end at once, one after the other, for ever.
static void *churns(void *unused)
{
	for (;;) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, ends, NULL) == 0)
			pthread_join(thread, NULL);
		__sync_fetch_and_add(&count, 1);
	}
	return unused;
}

static void *spins(void *unused)
{
	for (;;)
		count++;
	return unused;
}

static void counts(int signal)
{
	(void)signal;
	__sync_fetch_and_add(&count, 1);
}

static void *answers(void *unused)
{
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
		int to = -1;

		if (line[0] == 'p') // poke the first reader
			to = pipes[0][1];
		else if (line[0] == 'e') // one enters `works`
			to = enter[1];
		else if (line[0] == 'l' || line[0] == 'x') // one leaves it: by returning, or not
			to = leave[1];
		if (to >= 0 && write(to, line, 1) != 1)
			abort();
		printf("%ld\n", line[0] == 'w' ? (long)works : count); // where `works` is
		fflush(stdout);
	}
	exit(0);
	return unused;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "readers")) {
		start_readers(8);
	} else if (!strcmp(mode, "deep")) {
		start("shallow", is_deep, (void *)(16L << 10));
		start("deep", is_deep, (void *)(512L << 10));
	} else if (!strcmp(mode, "churn")) {
		start_readers(8);
		for (int i = 0; i < 4; i++)
			start("churn", churns, NULL);
	} else if (!strcmp(mode, "writers")) {
		for (int i = 0; i < 8; i++)
			start("writer", writes, NULL);
	} else if (!strcmp(mode, "spin")) {
		start("spin", spins, NULL);
	} else if (!strcmp(mode, "workers")) {
		if (pipe(enter) || pipe(leave))
			abort();
		for (int i = 0; i < 8; i++)
			start("worker", waits_for_work, NULL);
	} else if (!strcmp(mode, "flood")) {
		start("flood", floods, NULL);
	} else if (!strcmp(mode, "signals")) {
		struct sigaction action = { .sa_handler = counts, .sa_flags = SA_RESTART };

		sigaction(SIGRTMIN + 1, &action, NULL);
		start_readers(8);
	} else if (!strcmp(mode, "without-first")) {
		start_readers(2);
		start("answers", answers, NULL);
		puts("ready");
		fflush(stdout);
		pthread_exit(NULL);
	} else {
		return 2;
	}
	puts("ready");
	fflush(stdout);
	answers(NULL);
	return 0;
}
