/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Culprits in the kernel that record when they were there: each spins for a while at a place
 * where the CPU is delayed for that reason, and records its start and its end. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static long (*const bpf_loop)(u32 times, void *step, void *context, u64 flags) = (void *)181;

/* A shorter time between two readings of the clock is not a gap. */
#define GAP_NS 1000
/* Gaps that are kept; a power of two. */
#define GAPS 32

/* What to do; the culprit takes the order, and writes when it was there. */
struct order {
	u64 length_ns; /* of each spin */
	u64 until_ns;  /* or the end, if it is given */
	u64 times;     /* remaining spins */
	u64 who;       /* an interrupt's number, a timer's instant, a thread's number */
	u64 begin_ns;  /* of the first time */
	u64 end_ns;    /* of the last */
	u64 left;      /* of a timer: whose callback still runs; of a softirq: it is over */
	u64 cpu;       /* for interrupts disabled: on which CPU */
	u64 last_ns;   /* they were enabled again by then */
	u64 gaps;      /* how often something interrupted it */
	u64 gap[GAPS][2];
};

/* By what delays the CPU. */
enum { HERE_OR_THERE, IRQS_OFF, INTERRUPT, TIMERS, PACKET, KINDS };

struct spinning {
	u64 until_ns;
	u64 last_ns;
	u64 kind;
};

struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, KINDS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct order);
} orders SEC(".maps");

static NOINLINE long note(u32 kind, u64 from_ns, u64 to_ns)
{
	struct order *order = bpf_map_lookup_elem(&orders, &kind);
	if (!order)
		return 0;
	if (order->gaps < GAPS) {
		u64 at = order->gaps & (GAPS - 1);
		order->gap[at][0] = from_ns;
		order->gap[at][1] = to_ns;
	}
	order->gaps++;
	return 0;
}

static long step(u32 index, struct spinning *it)
{
	u64 now_ns = bpf_ktime_get_ns();
	u64 last_ns = it->last_ns;
	it->last_ns = now_ns;
	if (now_ns - last_ns > GAP_NS)
		note(it->kind, last_ns, now_ns);
	return now_ns >= it->until_ns;
}

static ALWAYS_INLINE struct order *order_of(u32 kind)
{
	struct order *order = bpf_map_lookup_elem(&orders, &kind);
	return order && order->times ? order : 0;
}

static ALWAYS_INLINE void spin(struct order *order, u32 kind)
{
	u64 begin_ns = bpf_ktime_get_ns();
	u64 until_ns = order->until_ns ? order->until_ns : begin_ns + order->length_ns;
	struct spinning it = {until_ns, begin_ns, kind};
	if (!order->begin_ns)
		order->begin_ns = begin_ns;
	order->times--;
	bpf_loop(1 << 22, step, &it, 0);
	order->end_ns = bpf_ktime_get_ns();
}

/* Run on the CPU itself, it can't be preempted. From another one, it runs in its interrupt. */
SEC("raw_tp/sched_switch") int here_or_there(void *ctx)
{
	struct order *order = order_of(HERE_OR_THERE);
	if (order)
		spin(order, HERE_OR_THERE);
	return 0;
}

/* Whether a timer expires at an instant. Its own copy of that is one of the words
 * after those that link it into its tree, on any kernel. */
static ALWAYS_INLINE int is_due(u64 timer, u64 at_ns)
{
	u64 words[3] = {};
	if (bpf_probe_read_kernel(words, sizeof(words), (void *)(timer + 24)))
		return 0;
	return words[0] == at_ns || words[1] == at_ns || words[2] == at_ns;
}

/* The kernel arms a timer with interrupts disabled. The tick, which may interrupt the same thread,
 * arms another one. */
SEC("raw_tp/hrtimer_start") int at_arming(u64 *args)
{
	struct order *order = order_of(IRQS_OFF);
	if (order && is_due(args[0], order->who))
		spin(order, IRQS_OFF);
	return 0;
}

/* The first interrupt of that CPU after interrupts were disabled. */
SEC("raw_tp/local_timer_entry") int at_timer(void *ctx)
{
	u32 kind = IRQS_OFF;
	struct order *order = bpf_map_lookup_elem(&orders, &kind);
	if (order && order->end_ns && !order->last_ns && order->cpu == bpf_get_smp_processor_id())
		order->last_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("raw_tp/hrtimer_expire_entry") int at_expiry(u64 *args)
{
	struct order *order = order_of(TIMERS);
	if (!order || !is_due(args[0], order->who))
		return 0;
	spin(order, TIMERS);
	order->left = args[0];
	return 0;
}

/* The kernel's own work for it belongs to it, too. */
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
		spin(order, INTERRUPT);
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
		spin(order, PACKET);
	return 0;
}

/* The softirq's work before and after belongs to the packet, too. */
static ALWAYS_INLINE struct order *packets(u64 *args)
{
	u32 kind = PACKET;
	struct order *order = bpf_map_lookup_elem(&orders, &kind);
	u32 tid = (u32)bpf_get_current_pid_tgid();
	return order && order->who == tid && args[0] == 3 ? order : 0;
}

SEC("raw_tp/softirq_entry") int at_softirq(u64 *args)
{
	struct order *order = packets(args);
	if (order && order->times)
		order->begin_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("raw_tp/softirq_exit") int after_softirq(u64 *args)
{
	struct order *order = packets(args);
	if (order && order->end_ns && !order->left) {
		order->left = 1;
		order->end_ns = bpf_ktime_get_ns();
	}
	return 0;
}
