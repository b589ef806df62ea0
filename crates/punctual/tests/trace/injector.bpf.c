/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Keeps a CPU for a while in the kernel: run on the CPU itself, nothing can preempt it; run
 * from another one, it is a function of an interrupt. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static long (*const bpf_loop)(u32 times, void *step, void *context, u64 flags) = (void *)181;

struct order {
	u64 length_ns;
	u64 begin_ns;
	u64 end_ns;
};
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct order);
} orders SEC(".maps");

static long step(u32 index, u64 *until_ns)
{
	return bpf_ktime_get_ns() >= *until_ns;
}

SEC("raw_tp/sched_switch") int spin(void *ctx)
{
	u32 key = 0;
	struct order *order = bpf_map_lookup_elem(&orders, &key);
	if (!order)
		return 1;
	u64 begin_ns = bpf_ktime_get_ns();
	u64 until_ns = begin_ns + order->length_ns;
	bpf_loop(1 << 22, step, &until_ns, 0);
	order->begin_ns = begin_ns;
	order->end_ns = bpf_ktime_get_ns();
	return 0;
}
