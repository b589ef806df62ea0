/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Culprits in the kernel that know when they were there: each spins for a while at a place
 * where the CPU is held up for that reason, and notes its beginning and its end. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static long (*const bpf_loop)(u32 times, void *step, void *context, u64 flags) = (void *)181;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;

/* What is to be done; the culprit takes it, and leaves when it was there. */
struct order {
	u64 length_ns; /* of each time */
	u64 times;     /* so often still */
	u64 who;       /* a thread's or an interrupt's number */
	u64 begin_ns;  /* of the first time */
	u64 end_ns;    /* of the last */
	u64 left;      /* of an interrupt: it is over; of a timer: whose callback still runs */
};

/* By what holds the CPU up. */
enum { HERE_OR_THERE, IRQS_OFF, INTERRUPT, TIMERS, PACKET, KINDS };

struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, KINDS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct order);
} orders SEC(".maps");

/* Timers of the sleepers that are to be woken together. */
struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, 1024);
	MAP_TYPE(key, u64);
	MAP_TYPE(value, u32);
} storm SEC(".maps");
struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, 1024);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} sleepers SEC(".maps");

static long step(u32 index, u64 *until_ns)
{
	return bpf_ktime_get_ns() >= *until_ns;
}

static ALWAYS_INLINE struct order *order_of(u32 kind)
{
	struct order *order = bpf_map_lookup_elem(&orders, &kind);
	return order && order->times ? order : 0;
}

static ALWAYS_INLINE void spin(struct order *order)
{
	u64 begin_ns = bpf_ktime_get_ns();
	u64 until_ns = begin_ns + order->length_ns;
	if (!order->begin_ns)
		order->begin_ns = begin_ns;
	order->times--;
	bpf_loop(1 << 22, step, &until_ns, 0);
	order->end_ns = bpf_ktime_get_ns();
}

/* Run on the CPU itself: nothing can preempt it. From another one: in its interrupt. */
SEC("raw_tp/sched_switch") int here_or_there(void *ctx)
{
	struct order *order = order_of(HERE_OR_THERE);
	if (order)
		spin(order);
	return 0;
}

/* The kernel arms a timer with interrupts off. */
SEC("raw_tp/hrtimer_start") int at_arming(u64 *args)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct order *order = order_of(IRQS_OFF);
	if (order && order->who == tid) {
		spin(order);
		return 0;
	}
	if (bpf_map_lookup_elem(&sleepers, &tid)) {
		u64 timer = args[0];
		bpf_map_update_elem(&storm, &timer, &tid, UPDATE_ANY);
	}
	return 0;
}

SEC("raw_tp/hrtimer_expire_entry") int at_expiry(u64 *args)
{
	u64 timer = args[0];
	struct order *order = order_of(TIMERS);
	if (!order || !bpf_map_lookup_elem(&storm, &timer))
		return 0;
	bpf_map_delete_elem(&storm, &timer);
	spin(order);
	order->left = timer;
	return 0;
}

/* What the kernel itself does for it is its too. */
SEC("raw_tp/hrtimer_expire_exit") int after_expiry(u64 *args)
{
	u32 kind = TIMERS;
	struct order *order = bpf_map_lookup_elem(&orders, &kind);
	if (order && order->left && order->left == args[0]) {
		order->left = 0;
		order->end_ns = bpf_ktime_get_ns();
	}
	return 0;
}

SEC("raw_tp/irq_handler_entry") int at_interrupt(u64 *args)
{
	struct order *order = order_of(INTERRUPT);
	if (order && order->who == (u32)args[0])
		spin(order);
	return 0;
}

SEC("raw_tp/irq_handler_exit") int after_interrupt(u64 *args)
{
	u32 kind = INTERRUPT;
	struct order *order = bpf_map_lookup_elem(&orders, &kind);
	if (order && order->who == (u32)args[0] && order->end_ns && !order->left) {
		order->left = 1;
		order->end_ns = bpf_ktime_get_ns();
	}
	return 0;
}

/* A socket's filter: it sees packets in the softirq that brings them. */
SEC("socket") int at_packet(void *ctx)
{
	struct order *order = order_of(PACKET);
	if (order)
		spin(order);
	return 0;
}
