// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the programs know of the kernel.

#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

// The few fields of the kernel's structures that are read. Their offsets are those of the running kernel:
// the loader relocates each access.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct signal_struct {
	int nr_threads;
};

struct mm_struct {
	unsigned long start_stack;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime;
};

struct sched_info {
	unsigned long long last_arrival;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	struct sched_entity se;
	struct sched_info sched_info;
	struct mm_struct *mm;
	int exit_state;
	unsigned int frozen : 1;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	unsigned long nvcsw;
	unsigned long nivcsw;
	__u64 start_boottime;
	char comm[16];
	struct signal_struct *signal;
};

// x86-64 and aarch64 differ in two structures. What follows three underscores is no part of a name for the
// loader, so one object serves both: the branch of the other architecture is never taken.
struct thread_struct___x86 {
	unsigned long fsbase;
};

struct task_struct___x86 {
	struct thread_struct___x86 thread;
};

struct pt_regs___x86 {
	unsigned long bp;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long sp;
};

struct thread_struct___arm64 {
	struct {
		unsigned long tp_value;
	} uw;
};

struct task_struct___arm64 {
	struct thread_struct___arm64 thread;
};

struct pt_regs___arm64 {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 orig_x0;
	__s32 syscallno;
};

#pragma clang attribute pop

// A thread's id as the reader's pid namespace has it; 0 where the thread is not in it.
static __always_inline __u32 tid_of(struct task_struct *task, __u32 level)
{
	struct pid *pid = task->thread_pid;
	__u32 nr = 0;

	if (!pid || pid->level < level)
		return 0;
	bpf_probe_read_kernel(&nr, sizeof(nr),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid));
	return nr;
}

// Of the user code that the current thread comes from.
static __always_inline __u64 stack_pointer(struct task_struct *task)
{
	void *regs = (void *)bpf_task_pt_regs(task);

	if (bpf_core_field_exists(struct pt_regs___x86, ip))
		return ((struct pt_regs___x86 *)regs)->sp;
	if (bpf_core_field_exists(struct pt_regs___arm64, pc))
		return ((struct pt_regs___arm64 *)regs)->sp;
	return 0;
}
