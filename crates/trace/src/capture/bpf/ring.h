/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Rings of events, one for each CPU, that are overwritten continuously and read from user space.
 *
 * capture/rings.rs reads them. */
#pragma once

#include "kernel.h"

/* One event: a cache line. `turn` is written last, and says which event the slot holds. */
struct slot {
	u64 at_ns;
	u32 turn;
	u16 kind;
	u16 cpu;
	u64 a, b, c, d;
	char name[16];
};

/* A thread that released the CPU for a target that was late. */
struct left {
	u64 at_ns; /* when */
	u64 count; /* how often it had been switched from at that time */
	u32 tid;   /* 0: none */
	u32 unused;
};
#define LEFTS 4

/* State of each CPU; the last one records what happens to a target elsewhere. */
struct lane {
	u64 next;      /* events so far */
	u64 first;     /* where its slots begin */
	u64 mask;      /* how many there are, minus one; 0: nothing is recorded */
	u64 due_ns;    /* the instant that the target waits for; 0: it doesn't wait */
	u64 caught_ns; /* the wait that a stack was taken for */
	u64 stacks;    /* stacks so far */
	u32 target;    /* the target that runs here, if there is only one */
	u32 arming;    /* the timer that is being armed is the recorder's */
	u32 interrupted; /* the thread that an interrupt of this CPU interrupted */
	u32 served;      /* the thread that a softirq interrupted; on PREEMPT_RT the one it runs in, with others between */
	u64 worth_ns;    /* set by user space: how late justifies the stack of the thread that released the CPU; ~0: never */
	u64 stacks_read; /* set by user space: stacks that were read */
	u32 turns;       /* how often an entry in left was replaced */
	u32 timers;      /* timer interrupts so far */
	u64 area;        /* the address of this CPU's per-CPU area; 0: not looked up yet */
	u64 stolen;      /* whether the hypervisor has an account of stolen time */
	u64 waiting;     /* number of entries in left */
	struct left left[LEFTS]; /* threads that have not run again yet */
	u64 unused[6];
};
/* rings.rs counts in words: four cache lines. */
_Static_assert(sizeof(struct lane) == 256, "a lane has 32 words");

struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, 2);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct lane);
} lanes SEC(".maps");

struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, 2);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct slot);
} slots SEC(".maps");

static ALWAYS_INLINE struct lane *lane_of(u32 cpu)
{
	return bpf_map_lookup_elem(&lanes, &cpu);
}

/* Claims the next slot; the caller fills it and calls done(). */
static ALWAYS_INLINE struct slot *begin(struct lane *lane, u64 at_ns, u32 cpu, u16 kind, u32 *turn)
{
	u64 event = __sync_fetch_and_add(&lane->next, 1);
	u32 index = lane->first + (event & lane->mask);
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return 0;
	*turn = (u32)event + 1;
	slot->at_ns = at_ns;
	slot->kind = kind;
	slot->cpu = cpu;
	return slot;
}

static ALWAYS_INLINE void done(struct slot *slot, u32 turn)
{
	asm volatile("" ::: "memory");
	*(volatile u32 *)&slot->turn = turn;
}

static ALWAYS_INLINE void record(struct lane *lane, u64 at_ns, u32 cpu, u16 kind, u64 a, u64 b, u64 c, u64 d)
{
	u32 turn;
	struct slot *slot = begin(lane, at_ns, cpu, kind, &turn);
	if (!slot)
		return;
	slot->a = a;
	slot->b = b;
	slot->c = c;
	slot->d = d;
	done(slot, turn);
}

/* The lane of this CPU, if one is recorded. */
#define HERE                                                                                       \
	u32 cpu = bpf_get_smp_processor_id();                                                      \
	struct lane *lane = lane_of(cpu);                                                          \
	if (!lane || !lane->mask)                                                                  \
		return 0;                                                                          \
	u64 now_ns = bpf_ktime_get_ns();

#define RECORD(kind, a, b, c, d) record(lane, now_ns, cpu, kind, (u64)(a), (u64)(b), (u64)(c), (u64)(d))

#define ON(tracepoint) SEC("tp_btf/" #tracepoint) int on_##tracepoint(u64 *args)
