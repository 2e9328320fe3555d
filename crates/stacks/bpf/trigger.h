// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the programs and the reader share. `src/capture/trigger.rs` has the same in Rust.

#pragma once

// Threads are kept at their id modulo this. Ids of one process are near each other: two in one place are rare.
#define SLOTS 16384

// A thread that is inside.
struct slot {
	__u64 tid; // 0: nobody
	__u64 entered_ns; // CLOCK_MONOTONIC; 0: it is about to enter or to leave
	__u64 sp; // when it entered
	__u64 returns_to; // what lay there: on x86-64 the address to return to
};

struct trigger {
	__u64 more_than; // reader: tell when more threads are inside
	__u64 slower_ns; // reader: tell when one leaves that took so long
	__u64 armed; // reader sets it; the program that tells clears it
	__u64 level; // of the reader's pid namespace
	__u64 inside; // threads
	__u64 hits; // how often a probe was hit
	__u64 untracked; // how many entries found their place taken
	struct slot slots[SLOTS];
};

// What is told.
struct event {
	__u64 tid;
	__u64 entered_ns;
	__u64 at_ns;
	__u64 inside;
};

_Static_assert(sizeof(struct slot) == 32 && sizeof(struct event) == 32, "as in trigger.rs");
_Static_assert(__builtin_offsetof(struct trigger, slots) == 56, "as in trigger.rs");
