// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Who is inside of a function, and since when. Probes stand where it begins and at every instruction by which it
// returns. The kernel's own return probe is not used: it puts another return address on the stack, at which a C++
// exception finds no way on and ends the process.
//
// A thread is inside from the outermost call on. It has left when it comes to a return with the stack pointer that
// it entered with. One that left by an exception is taken out when it is next seen above that place.

#include "kernel.h"
#include "trigger.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct trigger);
} trigger SEC(".maps");

// One event is told at a time: a page has room for more than are ever there.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} events SEC(".maps");

static __always_inline struct trigger *counted(void)
{
	__u32 zero = 0;
	struct trigger *t = bpf_map_lookup_elem(&trigger, &zero);

	if (t)
		__sync_fetch_and_add(&t->hits, 1);
	return t;
}

static __always_inline void tell(struct trigger *t, __u64 tid, __u64 entered_ns, __u64 now)
{
	struct event event = { .tid = tid, .entered_ns = entered_ns, .at_ns = now, .inside = t->inside };

	if (__sync_val_compare_and_swap(&t->armed, 1, 0) == 1)
		bpf_ringbuf_output(&events, &event, sizeof(event), 0);
}

// In the reader's own process: which namespace it is in, and what a probe costs.
SEC("uprobe")
int measured(void *ctx)
{
	struct trigger *t = counted();
	struct pid *pid = bpf_get_current_task_btf()->thread_pid;

	(void)ctx;
	if (t && pid)
		t->level = pid->level;
	return 0;
}

SEC("uprobe")
int entered(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct trigger *t = counted();
	struct slot *slot;
	__u64 tid, sp, now;

	(void)ctx;
	if (!t)
		return 0;
	tid = tid_of(task, t->level);
	if (!tid)
		return 0;
	sp = stack_pointer(task);
	slot = &t->slots[tid % SLOTS];
	if (slot->tid == tid) {
		if (sp < slot->sp)
			return 0; // called again from inside
	} else if (__sync_val_compare_and_swap(&slot->tid, 0, tid) == 0) {
		__sync_fetch_and_add(&t->inside, 1);
	} else {
		__sync_fetch_and_add(&t->untracked, 1);
		return 0;
	}
	now = bpf_ktime_get_ns();
	slot->sp = sp;
	slot->returns_to = 0;
	bpf_probe_read_user(&slot->returns_to, sizeof(slot->returns_to), (void *)sp);
	slot->entered_ns = now;
	if (t->inside > t->more_than)
		tell(t, tid, now, now);
	return 0;
}

SEC("uprobe")
int left(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct trigger *t = counted();
	struct slot *slot;
	__u64 tid, sp, now, entered_ns;

	(void)ctx;
	if (!t)
		return 0;
	tid = tid_of(task, t->level);
	if (!tid)
		return 0;
	slot = &t->slots[tid % SLOTS];
	sp = stack_pointer(task);
	if (slot->tid != tid || sp < slot->sp)
		return 0;
	entered_ns = slot->entered_ns;
	slot->entered_ns = 0;
	now = bpf_ktime_get_ns();
	if (sp == slot->sp && now - entered_ns >= t->slower_ns)
		tell(t, tid, entered_ns, now);
	slot->tid = 0;
	__sync_fetch_and_add(&t->inside, -1);
	return 0;
}
