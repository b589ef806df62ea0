/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Marks: places in a program that its threads pass. The passes of each thread at each mark are
 * counted here, where no count is lost; their lengths go into a ring as well.
 *
 * trace/watch/marks/kernel.rs reads them. */
#include "kernel.h"
#include "ring.h"
#include "program.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The role of a place in its mark: above the mark's number in the cookie of the attachment. */
enum role {
	POINT,	/* passed again and again */
	BEGIN,	/* of a pair */
	END,
	CALL,	/* of a function */
	RETURN,
};
enum { ROLE_SHIFT = 8 };

/* In the ring. */
enum kind {
	FIRST = 1, /* no earlier pass to measure from */
	LENGTH,
};

/* What a thread has accumulated in its life: differences give its share in a length. */
struct went {
	u64 waited_ns;
	u64 slept;
	u64 preempted;
	u64 faults[2]; /* minor, major */
};

/* A measurement that has begun. */
struct frame {
	u64 ns;
	u64 sp;
	struct went went; /* at that time */
};
/* The deepest nesting of calls of one function that is recorded. The outer ones are kept: they take longest. */
enum { DEEPEST = 8 };
/* The usual limit of a stack: calls that are further apart are on different ones. */
enum { STACK_LIMIT = 8 << 20 };

struct key {
	u32 tid;
	u32 mark;
};
/* A thread at a mark. Only the thread itself writes it. */
struct passes {
	u64 started_ns; /* distinguishes the thread from a later one with the same number */
	u64 priority;   /* policy << 32 | the kernel's priority, without priority inheritance */
	char name[16];
	u64 count;      /* passes that were written to the ring */
	u64 unfinished; /* begun, and begun again before the end; or nested too deep */
	u64 unmatched;  /* ended, but not begun */
	u64 depth;      /* how many have begun and not ended */
	struct frame frames[DEEPEST];
};
struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, 4096);
	MAP_TYPE(key, struct key);
	MAP_TYPE(value, struct passes);
} passes SEC(".maps");

/* Only a template for new entries: it is too large for the stack. */
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct passes);
} blank SEC(".maps");

/* Passes that are counted nowhere else, for each mark. */
struct others {
	u64 unwatched; /* by threads that aren't watched */
	u64 beyond;    /* by threads that exceeded the map's size */
};
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 16);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct others);
} others SEC(".maps");

static ALWAYS_INLINE void look(struct went *went, struct task_struct *task)
{
	went->waited_ns = field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : ~0ULL;
	went->slept = task->nvcsw;
	went->preempted = task->nivcsw;
	went->faults[0] = task->min_flt;
	went->faults[1] = task->maj_flt;
}

static ALWAYS_INLINE void add(struct lane *lane, u64 now_ns, u32 cpu, u16 kind, struct key *key, struct passes *at,
			      struct frame *from, struct went *now)
{
	u32 turn;
	at->count++;
	struct slot *slot = begin(lane, now_ns, cpu, kind, &turn);
	if (!slot)
		return;
	slot->a = (u64)key->mark << 32 | key->tid;
	slot->b = now_ns - from->ns;
	slot->c = now->waited_ns == ~0ULL ? ~0ULL : now->waited_ns - from->went.waited_ns;
	slot->d = (now->preempted - from->went.preempted) << 32 | (u32)(now->slept - from->went.slept);
	((u64 *)slot->name)[0] = (now->faults[1] - from->went.faults[1]) << 32 | (u32)(now->faults[0] - from->went.faults[0]);
	((u64 *)slot->name)[1] = at->started_ns;
	done(slot, turn);
}

static ALWAYS_INLINE struct frame *frame_of(struct passes *at, u64 index)
{
	/* The verifier must see that the index is in range. */
	asm volatile("%0 &= %1" : "+r"(index) : "i"(DEEPEST - 1));
	return &at->frames[index];
}

/* Drops the calls that the stack has unwound: after an exception or longjmp they never return. */
static ALWAYS_INLINE void leave(struct passes *at, u64 sp)
{
	for (int n = 0; n < DEEPEST; n++) {
		if (!at->depth || frame_of(at, at->depth - 1)->sp > sp)
			return;
		at->depth--;
		at->unfinished++;
	}
}

static ALWAYS_INLINE void begins(struct passes *at, u64 now_ns, u64 sp, struct went *now)
{
	/* Those that a cancelled coroutine has left on its own stack never return, and leave() can't tell. */
	if (at->depth >= DEEPEST && frame_of(at, 0)->sp - sp > STACK_LIMIT) {
		at->unfinished += at->depth;
		at->depth = 0;
	}
	if (at->depth >= DEEPEST) {
		at->unfinished++;
		return;
	}
	struct frame *frame = frame_of(at, at->depth);
	frame->ns = now_ns;
	frame->sp = sp;
	frame->went = *now;
	at->depth++;
}

SEC("uprobe") int on_mark(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	if (!is_watched(task))
		return 0;
	u64 cookie = bpf_get_attach_cookie(regs);
	struct key key = {.tid = task->pid, .mark = cookie & ((1 << ROLE_SHIFT) - 1)};
	u32 role = (cookie >> ROLE_SHIFT) & 7;
	struct others *other = bpf_map_lookup_elem(&others, &key.mark);
	if (!other)
		return 0;
	int starts = role != END && role != RETURN;
	if (!is_counted(task)) {
		if (starts)
			__sync_fetch_and_add(&other->unwatched, 1);
		return 0;
	}
	HERE;
	struct passes *at = bpf_map_lookup_elem(&passes, &key);
	if (!at) {
		u32 zero = 0;
		struct passes *empty = bpf_map_lookup_elem(&blank, &zero);
		if (!empty)
			return 0;
		bpf_map_update_elem(&passes, &key, empty, UPDATE_NOEXIST);
		at = bpf_map_lookup_elem(&passes, &key);
		if (!at) {
			if (starts)
				__sync_fetch_and_add(&other->beyond, 1);
			return 0;
		}
	}
	if (at->started_ns != task->start_time) {
		at->count = at->unfinished = at->unmatched = at->depth = 0;
		at->started_ns = task->start_time;
	}
	at->priority = (u64)task->policy << 32 | (u32)task->normal_prio;
	__builtin_memcpy(at->name, task->comm, sizeof(at->name));
	u64 sp = regs->sp;
	struct went now;
	look(&now, task);
	struct frame *from;
	switch (role) {
	case POINT:
		add(lane, now_ns, cpu, at->depth ? LENGTH : FIRST, &key, at, frame_of(at, 0), &now);
		at->depth = 0;
		begins(at, now_ns, sp, &now);
		break;
	case BEGIN:
		at->unfinished += at->depth;
		at->depth = 0;
		begins(at, now_ns, sp, &now);
		break;
	case CALL:
		leave(at, sp);
		begins(at, now_ns, sp, &now);
		break;
	case RETURN:
		/* The return address is off the stack by now. */
		sp -= sizeof(u64);
		leave(at, sp - 1);
		/* fallthrough */
	case END:
		from = frame_of(at, at->depth - 1);
		if (!at->depth || (role == RETURN && from->sp != sp)) {
			/* One that was nested too deep is counted already. */
			if (role != RETURN || at->depth < DEEPEST)
				at->unmatched++;
			break;
		}
		add(lane, now_ns, cpu, LENGTH, &key, at, from, &now);
		at->depth--;
		break;
	}
	return 0;
}
