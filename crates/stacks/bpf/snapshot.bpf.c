// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Every thread of one process: what the kernel says about it, its registers in user space, its stack.
//
// In: `control` in the arena says whose threads. Out: records in the arena, which the reader has mapped. One
// read(2) of the iterator walks the threads; where the arena has no room for another stack, the program asks
// to be called again for the same thread, read(2) gives EAGAIN, and the reader empties the arena.
//
// No thread is stopped. That a stack belongs to its registers is known from the count of context switches:
// a thread that was on no CPU before and after, with the same count, did not run in between.

#include "kernel.h"
#include "snapshot.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_iter_meta {
	__u64 session_id;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

// From include/linux/sched.h: threads that the kernel made for io_uring and vhost, with no user registers.
#define PF_KTHREAD 0x00200000
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct arena);
} arena SEC(".maps");

// A thread as it was when its stack was last copied, at its id modulo the size: two threads in one place only
// cost a copy. Mixed up they are not: the start time is compared.
struct fingerprint {
	__u64 start_time;
	__u64 switches;
	__u64 epoch;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FINGERPRINTS);
	__type(key, __u32);
	__type(value, struct fingerprint);
} fingerprints SEC(".maps");

static __always_inline __u64 switches_of(struct task_struct *task)
{
	return *(volatile unsigned long *)&task->nvcsw + *(volatile unsigned long *)&task->nivcsw;
}

static __always_inline bool on_cpu(struct task_struct *task)
{
	return *(volatile int *)&task->on_cpu;
}

// When a thread was on a CPU last: when it got there, and for how long it has run since. The clock is the scheduler's,
// which no program may ask: what it shows now is what this says of the reader. Up to a tick too little of who runs.
static __always_inline __u64 last_on_cpu(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->sched_info) || !task->sched_info.last_arrival)
		return 0;
	return task->sched_info.last_arrival + task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
}

// Registers, system call, and the thread pointer: where the thread keeps its control block, at the top of its stack in
// glibc and musl.
static __always_inline void read_registers(struct task_struct *task, struct thread_body *thread)
{
	void *regs = (void *)bpf_task_pt_regs(task);

	if (bpf_core_field_exists(struct pt_regs___x86, ip)) {
		struct pt_regs___x86 *r = regs;

		thread->pc = r->ip;
		thread->sp = r->sp;
		thread->fp = r->bp;
		thread->lr = 0;
		thread->syscall = r->orig_ax;
		thread->arguments[0] = r->di;
		thread->arguments[1] = r->si;
		thread->arguments[2] = r->dx;
		thread->thread_pointer = ((struct task_struct___x86 *)task)->thread.fsbase;
	} else if (bpf_core_field_exists(struct pt_regs___arm64, pc)) {
		struct pt_regs___arm64 *r = regs;

		thread->pc = r->pc;
		thread->sp = r->sp;
		thread->fp = r->regs[29];
		thread->lr = r->regs[30];
		thread->syscall = (__s64)r->syscallno;
		thread->arguments[0] = r->orig_x0;
		thread->arguments[1] = r->regs[1];
		thread->arguments[2] = r->regs[2];
		thread->thread_pointer = ((struct task_struct___arm64 *)task)->thread.uw.tp_value;
	}
}

// Copies [sp, sp + size), or the pages of it that are mapped from the first on: a call of the helper copies all
// or nothing.
static __always_inline __u64 copy_stack(struct task_struct *task, __u8 *to, __u64 sp, __u64 size)
{
	__u64 head = STACK_PAGE - (sp & (STACK_PAGE - 1));
	__u64 copied = head;

	if (!bpf_copy_from_user_task(to, size, (void *)sp, task, 0))
		return size;
	if (head > size || bpf_copy_from_user_task(to, head, (void *)sp, task, 0))
		return 0;
	for (int i = 0; i < MAX_STACK / STACK_PAGE; i++) {
		copied = head + i * STACK_PAGE;
		if (copied + STACK_PAGE > size)
			break;
		if (bpf_copy_from_user_task(to + copied, STACK_PAGE, (void *)(sp + copied), task, 0))
			break;
	}
	return copied;
}

SEC("iter.s/task")
int snapshot(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_struct *reader;
	struct thread_head *head;
	struct thread_body *body;
	struct fingerprint *last;
	struct arena *a;
	struct pid *pid;
	__u32 zero = 0, level, slot;
	__u64 used, top, size, below, switches;

	a = bpf_map_lookup_elem(&arena, &zero);
	if (!a || !task)
		return 0;
	reader = bpf_get_current_task_btf();
	pid = reader->thread_pid;
	if (!pid)
		return 0;
	level = pid->level;
	// Kernels before 6.1 walk every thread of the machine, whatever the link says.
	if (tid_of(task->group_leader, level) != a->control.pid)
		return 0;

	used = a->control.used;
	if (used > ARENA_BYTES - sizeof(struct thread_record) - MAX_STACK)
		return 1; // no room: again, for this thread
	head = &((struct thread_record *)(a->bytes + used))->head;
	body = &((struct thread_record *)(a->bytes + used))->body;

	head->bytes = 0;
	head->tid = tid_of(task, level);
	if (!head->tid)
		return 0;
	a->control.nr_threads = task->signal->nr_threads;
	head->state = task->__state;
	head->exit_state = task->exit_state;
	head->flags = 0;
	head->switches = switches = switches_of(task);
	a->control.now_ns = last_on_cpu(reader);
	if (on_cpu(task))
		head->flags |= ON_CPU;
	if (bpf_core_field_exists(task->frozen) && BPF_CORE_READ_BITFIELD(task, frozen))
		head->flags |= FROZEN;
	slot = head->tid % FINGERPRINTS;
	last = bpf_map_lookup_elem(&fingerprints, &slot);
	if (!last)
		return 0;
	// Who was on no CPU since has the registers and all that it had: they lie on cache lines of their own, and are not
	// read. One that ended meanwhile had to run for that.
	if (!(head->flags & ON_CPU) && last->epoch == a->control.epoch && last->switches == switches &&
	    last->start_time == task->start_boottime && !on_cpu(task) && switches_of(task) == switches) {
		head->flags |= UNMOVED;
		a->control.used = used + sizeof(*head);
		a->control.records++;
		return 0;
	}
	last->epoch = 0;
	body->stack_bytes = 0;
	body->thread_pointer = 0;
	body->cpu_ns = task->se.sum_exec_runtime;
	body->left_cpu_ns = last_on_cpu(task);
	bpf_probe_read_kernel(body->comm, sizeof(body->comm), task->comm);
	if (task->exit_state || !task->mm || task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER)) {
		head->flags |= NO_STACK;
		goto out;
	}
	read_registers(task, body);
	if (head->flags & ON_CPU)
		goto out;

	// Most of a short stack's memory is that of the thread's variables, between the stack and the thread pointer.
	below = a->control.below_thread_pointer;
	top = body->thread_pointer - below;
	if (top <= body->sp || top > body->thread_pointer) {
		below = 0;
		top = body->thread_pointer;
	}
	if (top <= body->sp)
		top = task->mm->start_stack; // the first thread: its stack ends where its arguments begin
	size = top - body->sp;
	if (top <= body->sp || size > MAX_STACK)
		size = MAX_STACK;
	else if (!below)
		head->flags |= WHOLE;
	body->stack_bytes = copy_stack(task, a->bytes + used + sizeof(struct thread_record), body->sp, size);
	// What is not mapped is beyond the stack's end.
	if (body->stack_bytes < size)
		head->flags |= WHOLE;

	if (on_cpu(task) || switches_of(task) != switches) {
		head->flags = (head->flags & ~WHOLE) | RAN;
		body->stack_bytes = 0;
	} else if (body->stack_bytes) {
		last->start_time = task->start_boottime;
		last->switches = switches;
		last->epoch = a->control.epoch;
	}
out:
	head->bytes = sizeof(*body) + ((body->stack_bytes + 7) & ~7ULL);
	a->control.used = used + sizeof(*head) + head->bytes;
	a->control.records++;
	return 0;
}
