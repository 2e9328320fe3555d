// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the program and the reader share: the layout of the arena. `src/capture/bpf.rs` has the same in Rust.

#pragma once

#define ARENA_BYTES (320 << 10) // small enough to stay in a CPU's cache between who writes and who reads
#define MAX_STACK (128 << 10) // of one thread
#define STACK_PAGE 4096 // the smallest page: a multiple of it ends where any page ends
#define FINGERPRINTS 16384

enum {
	ON_CPU = 1, // it ran at that instant: registers are those of its last entry into the kernel
	UNMOVED = 2, // as when its stack was last copied: the reader knows the rest but its state
	RAN = 4, // it ran while it was read: no stack
	WHOLE = 8, // the copy ends where the stack ends
	FROZEN = 16, // by its cgroup
	NO_STACK = 32, // it ended, or is a worker of the kernel
};

struct control {
	__u32 pid; // reader: whose threads, in its own pid namespace
	__u32 nr_threads; // program: how many the process has
	__u64 epoch; // reader: fingerprints of another epoch do not count; from 1
	__u64 used; // both: bytes of the arena that hold records
	__u64 records; // both: their number
	__u64 now_ns; // program: by the scheduler's clock
	__u64 below_thread_pointer; // reader: as far below it, nothing of a stack is to be found any more
};

// Of each thread.
struct thread_head {
	__u32 tid;
	__u32 state; // task_struct.__state
	__u32 exit_state;
	__u32 flags;
	__u64 switches;
	__u64 bytes; // that follow: none of one that has not moved, else a body and the stack, padded to 8
};

struct thread_body {
	__u64 cpu_ns;
	__u64 left_cpu_ns; // by the scheduler's clock; 0 where it is unknown
	__s64 syscall; // negative: in none
	__u64 arguments[3];
	__u64 pc;
	__u64 sp;
	__u64 fp;
	__u64 lr;
	__u64 thread_pointer; // fs base, tpidr_el0
	char comm[16];
	__u64 stack_bytes;
};

struct thread_record {
	struct thread_head head;
	struct thread_body body;
};

_Static_assert(sizeof(struct control) == 48 && sizeof(struct thread_head) == 32 &&
	       sizeof(struct thread_body) == 112, "as in bpf.rs");

struct arena {
	struct control control;
	__u8 bytes[ARENA_BYTES];
};
