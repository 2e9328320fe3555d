// A process whose threads wait for locks of the C library: `locks MODE`. It says `ready` once its threads are on their
// way there. The thread `holder` lets go when it is sent a line; each line is answered with a number that the mode has.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile long number;
static int leave[2];
static pthread_barrier_t holds;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile int waiting;

#define KEPT __attribute__((noinline, noclone))
// Nothing of a call is optimised into a jump.
#define STAY __asm__ volatile("" ::: "memory")

static void start(const char *name, void *(*run)(void *), long many)
{
	for (long i = 0; i < many; i++) {
		pthread_attr_t attributes;
		pthread_t thread;

		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, 256 << 10);
		if (pthread_create(&thread, &attributes, run, (void *)i))
			abort();
		pthread_setname_np(thread, name);
		pthread_detach(thread);
	}
}

static void until_told(void)
{
	char byte;

	if (read(leave[0], &byte, 1) != 1)
		abort();
}

static void *KEPT holds_mutex(void *unused)
{
	pthread_mutex_lock(&mutex);
	number = (long)pthread_self();
	pthread_barrier_wait(&holds);
	until_told();
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void *KEPT wants_mutex(void *unused)
{
	pthread_mutex_lock(&mutex);
	STAY;
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void *KEPT wants_mutex_for_a_day(void *unused)
{
	struct timespec until = { .tv_sec = time(NULL) + 86400 };

	if (pthread_mutex_timedlock(&mutex, &until) == 0)
		pthread_mutex_unlock(&mutex);
	return unused;
}

// Has one and wants the other.
static void *KEPT is_between(void *unused)
{
	pthread_mutex_lock(&second);
	pthread_barrier_wait(&holds);
	wants_mutex(unused);
	pthread_mutex_unlock(&second);
	return unused;
}

static void *KEPT wants_second(void *unused)
{
	pthread_mutex_lock(&second);
	STAY;
	pthread_mutex_unlock(&second);
	return unused;
}

// Ends with the mutex locked.
static void *ends(void *unused)
{
	number = syscall(SYS_gettid);
	pthread_mutex_lock(&mutex);
	return unused;
}

static void *KEPT locks_twice(void *unused)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_lock(&mutex);
	return unused;
}

static void *KEPT holds_for_writing(void *unused)
{
	pthread_rwlock_wrlock(&rwlock);
	pthread_barrier_wait(&holds);
	until_told();
	pthread_rwlock_unlock(&rwlock);
	return unused;
}

static void *KEPT holds_for_reading(void *unused)
{
	pthread_rwlock_rdlock(&rwlock);
	pthread_barrier_wait(&holds);
	until_told();
	pthread_rwlock_unlock(&rwlock);
	return unused;
}

static void *KEPT wants_to_read(void *unused)
{
	pthread_rwlock_rdlock(&rwlock);
	STAY;
	pthread_rwlock_unlock(&rwlock);
	return unused;
}

static void *KEPT wants_to_write(void *unused)
{
	pthread_rwlock_wrlock(&rwlock);
	STAY;
	pthread_rwlock_unlock(&rwlock);
	return unused;
}

static void *KEPT wants_event(void *unused)
{
	pthread_mutex_lock(&mutex);
	waiting++;
	for (;;)
		pthread_cond_wait(&condition, &mutex);
	return unused;
}

static void *KEPT wants_event_within_a_day(void *unused)
{
	struct timespec until = { .tv_sec = time(NULL) + 86400 };

	pthread_mutex_lock(&mutex);
	waiting++;
	for (;;)
		pthread_cond_timedwait(&condition, &mutex, &until);
	return unused;
}

static void *KEPT holds_stream(void *unused)
{
	flockfile(stderr);
	pthread_barrier_wait(&holds);
	until_told();
	funlockfile(stderr);
	return unused;
}

static void *KEPT wants_stream(void *unused)
{
	fputs("", stderr);
	putc('.', stderr);
	STAY;
	return unused;
}

static void *KEPT works(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&mutex);
		number++;
		for (volatile int i = 0; i < 200; i++)
			;
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

// Starts who holds something, and waits until it does.
static void hold(void *(*run)(void *), int many)
{
	pthread_barrier_init(&holds, NULL, many + 1);
	start("holder", run, many);
	pthread_barrier_wait(&holds);
}

static void wait_for(int many)
{
	for (;;) {
		pthread_mutex_lock(&mutex);
		if (waiting == many)
			return; // with the mutex: all of them wait for the condition
		pthread_mutex_unlock(&mutex);
		usleep(1000);
	}
}

static void set_type(int type)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, type);
	pthread_mutex_init(&mutex, &attributes);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	char line[64];

	if (pipe(leave))
		abort();
	if (!strcmp(mode, "convoy") || !strcmp(mode, "recursive")) {
		set_type(mode[0] == 'r' ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
		hold(holds_mutex, 1);
		start("waiter", wants_mutex, 19);
		start("timed", wants_mutex_for_a_day, 1);
	} else if (!strcmp(mode, "inherits")) {
		pthread_mutexattr_t attributes;

		pthread_mutexattr_init(&attributes);
		pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
		pthread_mutex_init(&mutex, &attributes);
		hold(holds_mutex, 1);
		start("waiter", wants_mutex, 3);
	} else if (!strcmp(mode, "chain")) {
		hold(holds_mutex, 1);
		pthread_barrier_init(&holds, NULL, 2);
		start("between", is_between, 1);
		pthread_barrier_wait(&holds);
		start("waiter", wants_second, 3);
	} else if (!strcmp(mode, "ended")) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, ends, NULL) || pthread_join(thread, NULL))
			abort();
		start("waiter", wants_mutex, 2);
	} else if (!strcmp(mode, "twice")) {
		start("waiter", locks_twice, 1);
	} else if (!strcmp(mode, "writer")) {
		hold(holds_for_writing, 1);
		start("reader", wants_to_read, 5);
		start("writer", wants_to_write, 3);
	} else if (!strcmp(mode, "readers")) {
		hold(holds_for_reading, 3);
		start("writer", wants_to_write, 2);
#ifdef __GLIBC__
	} else if (!strcmp(mode, "writers-first")) {
		pthread_rwlockattr_t attributes;

		pthread_rwlockattr_init(&attributes);
		pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
		pthread_rwlock_init(&rwlock, &attributes);
		hold(holds_for_reading, 3);
		start("writer", wants_to_write, 1);
		while (pthread_rwlock_tryrdlock(&rwlock) == 0) { // until the writer waits
			pthread_rwlock_unlock(&rwlock);
			usleep(1000);
		}
		start("reader", wants_to_read, 4);
#endif
	} else if (!strcmp(mode, "condition") || !strcmp(mode, "woken")) {
		start("waiter", wants_event, 4);
		start("timed", wants_event_within_a_day, 2);
		wait_for(6);
		if (mode[0] == 'w')
			pthread_cond_broadcast(&condition);
		pthread_setname_np(pthread_self(), "holder"); // of the mutex, from now on
	} else if (!strcmp(mode, "stream")) {
		hold(holds_stream, 1);
		start("waiter", wants_stream, 2);
	} else if (!strcmp(mode, "hot")) {
		start("worker", works, 6);
	} else {
		return 2;
	}
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (line[0] == 'f' && write(leave[1], line, 1) != 1)
			abort();
		printf("%ld\n", number);
		fflush(stdout);
	}
	return 0;
}
