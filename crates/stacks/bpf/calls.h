// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the programs and the reader share. `src/capture/calls.rs` has the same in Rust.

#pragma once

// System calls by number: both architectures have fewer than 512. Behind them futex by its operation: waiting for
// another thread and waking one are not the same thing.
#define CALLS 512
#define FUTEX_OPERATIONS 16
#define PLACES (CALLS + FUTEX_OPERATIONS)

struct call {
	__u64 calls;
	__u64 failed;
	__u64 ns;
	__u64 slept; // of them: those in which the thread gave its CPU away
	__u64 slept_ns;
};

struct traced {
	__u64 secret; // reader: what it gives its own system call, by which the programs know it; 0 once they do
	__u64 level; // programs: of the reader's pid namespace
	__u64 tid; // reader: whose time is counted; 0 while nobody's is
	__u64 pid; // reader: the process of that thread
	__u64 futex; // reader: the number of futex(2) here
	__u64 task; // programs: the thread's task
	__u64 born; // programs: when that task was started, which no other at its address has in common with it
	__u64 last_ns; // both: the thread's last border between inside and outside, CLOCK_MONOTONIC
	__u64 inside; // programs: 1 + the place of the call that it is in
	__u64 switches; // programs: how often it had given its CPU away when it entered
	__u64 outside_ns;
	struct call calls[PLACES];
};

_Static_assert(sizeof(struct call) == 40, "as in calls.rs");
_Static_assert(__builtin_offsetof(struct traced, calls) == 88, "as in calls.rs");
