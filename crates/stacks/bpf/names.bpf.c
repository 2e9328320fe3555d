// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The name of the kernel's function at an address, as the kernel prints it. The reader runs the program itself, once for
// each name: nothing is traced.

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#include "names.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct asked);
} asked SEC(".maps");

static const char FORMAT[] = "%pS";

SEC("raw_tp")
int print(void *ctx)
{
	__u32 zero = 0;
	struct asked *a = bpf_map_lookup_elem(&asked, &zero);

	(void)ctx;
	if (a)
		a->length = bpf_snprintf(a->text, sizeof(a->text), FORMAT, &a->address, sizeof(a->address));
	return 0;
}
