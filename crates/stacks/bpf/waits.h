// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the programs and the reader share. `src/capture/waits.rs` has the same in Rust.

#pragma once

// Threads are kept at their id modulo this. Ids of one process are near each other: two in one place are rare.
#define SLOTS 16384

// Four to an octave of nanoseconds: 8 octaves below a microsecond are of no interest, and no wait lasts for an hour.
#define BINS 160

// What stands at a probe: its cookie.
#define MEASURED 0 // in the reader
#define MEASURED_LEFT 1
#define ENTERED 2
#define LEFT 3
#define SLEEPS 4
#define DOZES 5 // of a sleep's cost: where the function that sleeps begins
#define AWAKE 6 // and where it returns

// A thread that waits.
struct waiter {
	__u64 tid; // 0: nobody
	__u64 sp; // when it entered
	__u64 task; // the kernel's own name of the thread
	__u64 began_ns; // CLOCK_MONOTONIC; 0: it is about to enter or to leave
	__u64 slept_ns; // when it first went to sleep; 0: it spins
	__u64 woken_ns; // when it was woken for the last time
	__u64 off_ns; // when it lost its CPU; 0: it has one
	__u64 without_ns; // how long it had none
};

// A CPU's passes of the tracepoints.
struct passes {
	__u64 count;
	__u64 ns; // in the program, of all
};

struct waits {
	__u64 level; // of the reader's pid namespace
	__u64 measured_ns; // when the reader's own call began
	__u64 least_ns; // how long the quickest of those lasted: that is the probes', and no wait
	__u64 hits; // how often a probe was hit
	__u64 untracked; // how many entries found their place taken
	__u64 spun_ns; // before the first sleep, of all that slept
	__u64 woken_ns; // from the last wake-up to the return, of all that were woken
	__u64 woken; // how many those were
	__u64 sleeps; // calls of the function that sleeps in which their thread had no CPU for a while
	__u64 sleeps_ns; // the CPU time of all of them
	__u64 met[BINS]; // waits that ended without a sleep, by how long they lasted
	__u64 slept[BINS]; // those with one, by the time until they were woken for the last time
	struct waiter waiters[SLOTS];
};

_Static_assert(sizeof(struct waiter) == 64, "as in waits.rs");
_Static_assert(__builtin_offsetof(struct waits, met) == 80, "as in waits.rs");
_Static_assert(__builtin_offsetof(struct waits, waiters) == 80 + 16 * BINS, "as in waits.rs");
