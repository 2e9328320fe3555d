// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Where one thread's time goes: in each system call, and outside of all. The two tracepoints are passed by every
// thread of the machine; whoever is not meant leaves after a comparison. Only the thread itself writes, so nothing
// needs to be atomic.

#include "kernel.h"
#include "calls.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct traced);
} traced SEC(".maps");

// How often a program ran, on each CPU.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

static __always_inline struct traced *counted(void)
{
	__u32 zero = 0;
	__u64 *hit = bpf_map_lookup_elem(&hits, &zero);

	if (hit)
		*hit += 1;
	return bpf_map_lookup_elem(&traced, &zero);
}

// Of the two first arguments of the system call that the thread is in.
static __always_inline __u64 argument(struct task_struct *task, int number)
{
	void *regs = (void *)bpf_task_pt_regs(task);

	if (bpf_core_field_exists(struct pt_regs___x86, ip))
		return number ? ((struct pt_regs___x86 *)regs)->si : ((struct pt_regs___x86 *)regs)->di;
	if (bpf_core_field_exists(struct pt_regs___arm64, pc))
		return number ? ((struct pt_regs___arm64 *)regs)->regs[1] : ((struct pt_regs___arm64 *)regs)->regs[0];
	return 0;
}

static __always_inline __s64 number(struct task_struct *task)
{
	void *regs = (void *)bpf_task_pt_regs(task);

	if (bpf_core_field_exists(struct pt_regs___x86, ip))
		return ((struct pt_regs___x86 *)regs)->orig_ax;
	if (bpf_core_field_exists(struct pt_regs___arm64, pc))
		return ((struct pt_regs___arm64 *)regs)->syscallno;
	return -1;
}

static __always_inline bool is_meant(struct traced *t)
{
	struct task_struct *current = bpf_get_current_task_btf();
	__u64 task = bpf_get_current_task();

	// The kernel gives the memory of a task that has ended to the next one, and the thread's id to another thread.
	if (t->task)
		return t->task == task && t->born == current->start_boottime;
	if (!t->tid || tid_of(current, t->level) != t->tid || tid_of(current->group_leader, t->level) != t->pid)
		return false;
	t->born = current->start_boottime;
	t->task = task;
	return true;
}

static __always_inline __u64 place_of(struct traced *t, struct task_struct *task, __u64 number)
{
	if (number == t->futex)
		return CALLS + (argument(task, 1) & (FUTEX_OPERATIONS - 1));
	return number < CALLS ? number : CALLS - 1;
}

SEC("raw_tp/sys_enter")
int entered(struct bpf_raw_tracepoint_args *ctx)
{
	struct traced *t = counted();
	struct task_struct *task;
	struct pid *pid;
	__u64 now;

	if (!t)
		return 0;
	task = bpf_get_current_task_btf();
	if (t->secret) {
		pid = task->thread_pid;
		if (pid && argument(task, 0) == t->secret) {
			t->level = pid->level;
			t->secret = 0;
		}
		return 0;
	}
	if (!is_meant(t))
		return 0;
	now = bpf_ktime_get_ns();
	t->outside_ns += now - t->last_ns;
	t->last_ns = now;
	t->switches = task->nvcsw;
	t->inside = 1 + place_of(t, task, ctx->args[1]);
	return 0;
}

SEC("raw_tp/sys_exit")
int left(struct bpf_raw_tracepoint_args *ctx)
{
	struct traced *t = counted();
	struct task_struct *task;
	__u64 now, place, took;
	bool slept = true;
	struct call *call;

	if (!t || t->secret || !is_meant(t))
		return 0;
	task = bpf_get_current_task_btf();
	now = bpf_ktime_get_ns();
	if (t->inside) {
		place = t->inside - 1;
		slept = task->nvcsw != t->switches;
	} else {
		// It was in this call when the programs came.
		place = place_of(t, task, number(task));
	}
	took = now - t->last_ns;
	t->last_ns = now;
	t->inside = 0;
	if (place >= PLACES)
		return 0;
	call = &t->calls[place];
	call->calls += 1;
	if ((__s64)ctx->args[1] < 0)
		call->failed += 1;
	call->ns += took;
	if (slept) {
		call->slept += 1;
		call->slept_ns += took;
	}
	return 0;
}
