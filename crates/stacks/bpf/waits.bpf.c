// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How long threads wait in a function that spins first and then sleeps. Probes stand where it begins, at every
// instruction by which it returns, and where the function begins that sleeps: one program for all, so that the kernel
// sets them and takes them away together. A thread that is woken was woken by the thread that let go: the kernel's
// tracepoint gives that instant, and what follows is the price of the sleep.
//
// What a sleep costs is the CPU time of a call of the function that sleeps: how long it lasts, less the time in which the
// kernel's switches of threads say that its thread had no CPU.
//
// As in trigger.bpf.c a wait lasts from the outermost call on, and ends at a return with the same stack pointer.

#include "kernel.h"
#include "waits.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct waits);
} waits SEC(".maps");

// The tracepoints on each CPU, which every wake-up or switch of the machine passes.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct passes);
} passes SEC(".maps");

static __always_inline struct waits *found(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&waits, &zero);
}

// The place of a time: its octave, and two bits more.
static __always_inline __u32 bin_of(__u64 ns)
{
	__u64 rest = ns;
	__u32 octave = 0;

	if (ns < 4)
		return 0;
	if (rest >> 32) {
		octave += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		octave += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		octave += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		octave += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		octave += 2;
		rest >>= 2;
	}
	octave += rest >> 1;
	return octave * 4 + ((ns >> ((octave - 2) & 63)) & 3);
}

static __always_inline __u64 without(__u64 ns, __u64 cost)
{
	return ns > cost ? ns - cost : 0;
}

// In the reader's own process: which namespace it is in, and how long a call lasts for the probes that takes no time.
static __always_inline void measured(struct waits *w, struct task_struct *task)
{
	struct pid *pid = task->thread_pid;

	if (pid)
		w->level = pid->level;
	w->measured_ns = bpf_ktime_get_ns();
}

static __always_inline void measured_left(struct waits *w, __u64 now)
{
	__u64 took = now - w->measured_ns;

	if (!w->least_ns || took < w->least_ns)
		w->least_ns = took;
}

static __always_inline void entered(struct waits *w, struct waiter *waiter, __u64 tid, struct task_struct *task)
{
	__u64 sp = stack_pointer(task);

	if (waiter->tid == tid) {
		if (sp < waiter->sp)
			return; // called again from inside
	} else if (__sync_val_compare_and_swap(&waiter->tid, 0, tid) != 0) {
		__sync_fetch_and_add(&w->untracked, 1);
		return;
	}
	waiter->sp = sp;
	waiter->task = (__u64)task;
	waiter->slept_ns = 0;
	waiter->woken_ns = 0;
	waiter->began_ns = bpf_ktime_get_ns();
}

static __always_inline void sleeps(struct waiter *waiter, __u64 tid, __u64 now)
{
	if (waiter->tid == tid && !waiter->slept_ns)
		waiter->slept_ns = now;
}

static __always_inline void dozes(struct waits *w, struct waiter *waiter, __u64 tid, struct task_struct *task)
{
	if (__sync_val_compare_and_swap(&waiter->tid, 0, tid) != 0) {
		__sync_fetch_and_add(&w->untracked, 1);
		return;
	}
	waiter->sp = stack_pointer(task);
	waiter->task = (__u64)task;
	waiter->off_ns = 0;
	waiter->without_ns = 0;
	waiter->began_ns = bpf_ktime_get_ns();
}

static __always_inline void awake(struct waits *w, struct waiter *waiter, __u64 tid, struct task_struct *task,
				  __u64 now)
{
	if (waiter->tid != tid || stack_pointer(task) < waiter->sp)
		return;
	if (stack_pointer(task) == waiter->sp && waiter->without_ns) {
		__sync_fetch_and_add(&w->sleeps, 1);
		__sync_fetch_and_add(&w->sleeps_ns, without(now - waiter->began_ns, waiter->without_ns + w->least_ns));
	}
	waiter->began_ns = 0;
	waiter->tid = 0;
}

static __always_inline void left(struct waits *w, struct waiter *waiter, __u64 tid, struct task_struct *task,
				 __u64 now)
{
	__u64 sp = stack_pointer(task), began, until;
	__u32 bin;

	if (waiter->tid != tid || sp < waiter->sp)
		return;
	began = waiter->began_ns;
	waiter->began_ns = 0;
	if (sp == waiter->sp && began) {
		until = waiter->woken_ns > waiter->slept_ns ? waiter->woken_ns : now;
		bin = bin_of(without(until - began, w->least_ns));
		if (bin >= BINS)
			bin = BINS - 1;
		if (waiter->slept_ns) {
			__sync_fetch_and_add(&w->slept[bin], 1);
			__sync_fetch_and_add(&w->spun_ns, without(waiter->slept_ns - began, w->least_ns));
			if (until < now) {
				__sync_fetch_and_add(&w->woken_ns, now - until);
				__sync_fetch_and_add(&w->woken, 1);
			}
		} else {
			__sync_fetch_and_add(&w->met[bin], 1);
		}
	}
	waiter->tid = 0;
}

SEC("uprobe")
int probed(void *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 what = bpf_get_attach_cookie(ctx);
	struct task_struct *task = bpf_get_current_task_btf();
	struct waits *w = found();
	struct waiter *waiter;
	__u64 tid;

	if (!w)
		return 0;
	__sync_fetch_and_add(&w->hits, 1);
	if (what == MEASURED) {
		measured(w, task);
		return 0;
	}
	if (what == MEASURED_LEFT) {
		measured_left(w, now);
		return 0;
	}
	tid = tid_of(task, w->level);
	if (!tid)
		return 0;
	waiter = &w->waiters[tid % SLOTS];
	if (what == ENTERED)
		entered(w, waiter, tid, task);
	else if (what == LEFT)
		left(w, waiter, tid, task, now);
	else if (what == DOZES)
		dozes(w, waiter, tid, task);
	else if (what == AWAKE)
		awake(w, waiter, tid, task, now);
	else
		sleeps(waiter, tid, now);
	return 0;
}

// The place of a thread that waits; none where it does not.
static __always_inline struct waiter *waiter_of(struct waits *w, struct task_struct *task)
{
	struct waiter *waiter;
	__u64 tid = tid_of(task, w->level);

	if (!tid)
		return 0;
	waiter = &w->waiters[tid % SLOTS];
	return waiter->tid == tid && waiter->task == (__u64)task ? waiter : 0;
}

static __always_inline void passed(__u64 since)
{
	__u32 zero = 0;
	struct passes *passed = bpf_map_lookup_elem(&passes, &zero);

	if (passed) {
		passed->count += 1;
		passed->ns += bpf_ktime_get_ns() - since;
	}
}

SEC("tp_btf/sched_waking")
int waking(__u64 *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct waits *w = found();
	struct waiter *waiter = w ? waiter_of(w, (struct task_struct *)ctx[0]) : 0;

	if (waiter && waiter->slept_ns)
		waiter->woken_ns = now;
	passed(now);
	return 0;
}

SEC("tp_btf/sched_switch")
int switched(__u64 *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct waits *w = found();
	struct waiter *waiter = w ? waiter_of(w, (struct task_struct *)ctx[1]) : 0;

	if (waiter)
		waiter->off_ns = now;
	waiter = w ? waiter_of(w, (struct task_struct *)ctx[2]) : 0;
	if (waiter && waiter->off_ns) {
		waiter->without_ns += now - waiter->off_ns;
		waiter->off_ns = 0;
	}
	passed(now);
	return 0;
}
