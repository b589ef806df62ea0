/*
 * What is known of the guest's processor and kernel, and the windows in which they could not have served a
 * wake-up: see windows.c.
 */
#ifndef TRACKERS_H
#define TRACKERS_H

#include "places.h"

/* --- The guest's state ---------------------------------------------------------------------- */

static int enabled = 1;     /* interrupts */
static int in_user = 1;
static int base_of_user = 1; /* see SWAPGS */
static uint32_t preempt_count;
static int idle;
static int nested_in_idle;   /* entries since the idle loop */
static int faults_disabled;  /* exceptions of the kernel with interrupts disabled */
static uint64_t enabled_since;

/* An interrupt. */
struct device {
    uint64_t entry;
    uint64_t ready; /* since when interrupts had been enabled */
    uint64_t end;   /* when they were again; 0 until then */
    int ticked;     /* it served the tick as well */
};
#define RECENT 64
static struct device devices[RECENT];
static uint64_t device_count;

/* What must not happen, or is not understood. */
static uint64_t interrupted_while_disabled, flags_popped, returned_with_count, count_unread;
static uint64_t last_clock;

/* --- Windows -------------------------------------------------------------------------------- */

struct window {
    uint64_t length;
    uint64_t start, end; /* addresses */
    uint64_t then;       /* where the interrupt begins that is part of it, though it came soon after; 0 */
    uint64_t interrupted; /* it includes an interrupt that is not a wake-up's */
    uint64_t crowded;    /* and another such one came soon after it: see NEAR */
    uint64_t times;      /* that such a one was among the longest */
};

/* An interrupt that comes so soon after a window meets the service of a wake-up that the window delayed, if
   that takes no longer. The reader has the same number. */
#define NEAR 20000

/* Windows that end at an instant; whether they are crowded, the next interrupt shows. */
struct undecided {
    struct window windows[2];
    uint64_t end;
};

/* A window that may belong to a wake-up that has not ended yet. */
struct held {
    uint64_t from, to;   /* when */
    uint64_t start, end; /* addresses */
    struct window before; /* the one just before it, if it began with an interrupt soon after that */
    uint64_t first, last; /* its interrupts; none if they are the same */
};

#define TOP 32
#define HOLD 16
#define UNDECIDED (HOLD + 1)

struct longest {
    struct window top[TOP];
};

/* One model of preemption. */
struct tracker {
    const char *name;
    int by_points;
    int off;
    struct held open;
    int switched;
    struct window last;
    uint64_t last_end;
    struct held held[HOLD];
    unsigned held_count;
    struct undecided undecided[UNDECIDED];
    unsigned undecided_count;
    /* When a request would last have been served, other than by a choice that was made anyway. */
    uint64_t ready;
    /* The last choice of a thread: when, and how long after its request could be served; that is not
       known where a thread gave way by itself. */
    uint64_t chosen, approach;
    /* Those of the last switch, and the interrupts before it. */
    uint64_t switch_from, switch_approach, switch_device;
    uint64_t serving; /* how long the wake-ups so far were served, at most */
    /* Since the last mark, and before: during the first wake-ups, which warm up, and later. */
    struct longest current, early, late;
};
static struct tracker trackers[2] = { { .name = "full" }, { .name = "points", .by_points = 1 } };

#define WARM_UP 16
#define MOST_WAKES (UINT64_C(1) << 18)
struct wake {
    uint64_t mark, clock;
    struct { uint64_t entry, ready, handler, approach, path, mixed; } by[2];
};
static struct wake *wakes;
static uint64_t wake_count, wake_room;

static void keep(struct longest *longest, const struct window *window)
{
    struct window *least = &longest->top[0];
    for (unsigned i = 0; i < TOP; i++) {
        struct window *old = &longest->top[i];
        if (old->times && old->start == window->start && old->end == window->end &&
            old->then == window->then && old->interrupted == window->interrupted &&
            old->crowded == window->crowded) {
            old->times += window->times;
            if (window->length > old->length)
                old->length = window->length;
            return;
        }
        if (old->length < least->length)
            least = old;
    }
    if (window->length > least->length)
        *least = *window;
}

static void merge(struct longest *into, struct longest *from)
{
    for (unsigned i = 0; i < TOP; i++)
        if (from->top[i].times)
            keep(into, &from->top[i]);
    memset(from, 0, sizeof *from);
}

static void decide(struct tracker *tracker, const struct undecided *which, int crowded)
{
    for (unsigned i = 0; i < 2; i++) {
        struct window window = which->windows[i];
        window.crowded = crowded;
        if (window.length)
            keep(&tracker->current, &window);
    }
}

/* An interrupt comes, or nothing more. */
static void decide_all(struct tracker *tracker, uint64_t now)
{
    for (unsigned i = 0; i < tracker->undecided_count; i++)
        decide(tracker, &tracker->undecided[i], now - tracker->undecided[i].end < NEAR);
    tracker->undecided_count = 0;
}

/* The first interrupt after a window that has come already, other than a wake-up's; 0 for none. */
static uint64_t next_interrupt(const struct held *held, uint64_t wake)
{
    if (device_count - held->last > RECENT)
        return held->to;
    for (uint64_t number = held->last; number < device_count; number++) {
        const struct device *device = &devices[number % RECENT];
        if (number + 1 != wake || device->ticked)
            return device->entry;
    }
    return 0;
}

/* A window of `length`; if a device's interrupt began it while the wake-up that the window before had
   delayed would have been served, both have. `wake` is the number of the interrupt of a wake-up. */
static void commit(struct tracker *tracker, const struct held *held, uint64_t length,
                   uint64_t interrupts, int is_wake, uint64_t wake)
{
    if (!length)
        return;
    struct undecided it = { .end = held->to };
    struct window window = { length, held->start, held->end, 0, interrupts > 0, 0, 1 };
    if (window.interrupted)
        it.windows[0] = window;
    else
        keep(&tracker->current, &window);
    if (held->before.length && !is_wake) {
        window = held->before;
        window.length += length;
        window.then = held->start;
        window.interrupted = 1;
        it.windows[1] = window;
    }
    if (!it.windows[0].length && !it.windows[1].length)
        return;
    uint64_t next = next_interrupt(held, wake);
    if (next)
        decide(tracker, &it, next - held->to < NEAR);
    else if (tracker->undecided_count == UNDECIDED)
        decide(tracker, &it, 1);
    else
        tracker->undecided[tracker->undecided_count++] = it;
}

static void commit_oldest(struct tracker *tracker)
{
    const struct held *oldest = &tracker->held[0];
    commit(tracker, oldest, oldest->to - oldest->from, oldest->last - oldest->first, 0, 0);
    tracker->held_count--;
    memmove(tracker->held, tracker->held + 1, tracker->held_count * sizeof *tracker->held);
}

static void open_window(struct tracker *tracker, uint64_t now, uint64_t address, int by_device)
{
    int soon = by_device && now - tracker->last_end <= 2 * tracker->serving;
    tracker->off = 1;
    tracker->switched = 0;
    tracker->open = (struct held){
        .from = now,
        .start = address,
        .first = device_count - (by_device ? 1 : 0),
    };
    if (soon)
        tracker->open.before = tracker->last;
}

static void close_window(struct tracker *tracker, uint64_t now, uint64_t address)
{
    struct held held = tracker->open;
    held.to = now;
    held.end = address;
    held.last = device_count;
    tracker->off = 0;
    tracker->last_end = now;
    tracker->last = (struct window){ now - held.from, held.start, address, 0, 0, 0, 1 };
    if (!tracker->switched && held.first == held.last) {
        keep(&tracker->current, &tracker->last);
        return;
    }
    if (tracker->held_count == HOLD)
        commit_oldest(tracker);
    tracker->held[tracker->held_count++] = held;
}

static int is_served(const struct tracker *tracker)
{
    if (in_user || (idle && enabled && !nested_in_idle))
        return 1;
    return !tracker->by_points && enabled && !preempt_count;
}

/* After each change of the guest's state. */
static void look(uint64_t now, uint64_t address, int by_device)
{
    for (unsigned i = 0; i < 2; i++) {
        struct tracker *tracker = &trackers[i];
        int served = is_served(tracker);
        if (served && tracker->off)
            close_window(tracker, now, address);
        else if (!served && !tracker->off) {
            tracker->ready = now;
            open_window(tracker, now, address, by_device);
        }
    }
}

/* A request is served at this instant, if one was made. */
static void serve(struct tracker *tracker, uint64_t now, uint64_t address)
{
    if (tracker->off) {
        int switched = tracker->switched;
        close_window(tracker, now, address);
        open_window(tracker, now, address, 0);
        tracker->switched = switched;
    }
}

static struct device *last_device(void)
{
    return device_count ? &devices[(device_count - 1) % RECENT] : NULL;
}

static void enable(uint64_t now)
{
    struct device *device = last_device();
    if (!enabled)
        enabled_since = now;
    enabled = 1;
    if (device && !device->end)
        device->end = now;
}

/* The kernel chooses a thread. A wake-up that came before is served by it. */
static void choose(struct tracker *tracker, uint64_t now, uint64_t address)
{
    const struct device *device = last_device();
    uint64_t end = device ? device->end : 0;
    uint64_t from = end > tracker->ready ? end : tracker->ready;
    /* With points, the kernel asked after the interrupt, or the interrupt came where it was served. */
    int is_known = !tracker->by_points || tracker->ready >= end ||
                   (device && tracker->ready == device->entry);
    tracker->chosen = now;
    tracker->approach = is_known && now > from ? now - from : 0;
    if (enabled)
        serve(tracker, now, address);
}

static void on_switch_of(struct tracker *tracker)
{
    tracker->switched = 1;
    tracker->switch_from = tracker->chosen;
    tracker->switch_approach = tracker->approach;
    tracker->switch_device = device_count;
}

/* How near to each other interrupts were that are no wake-up's; one that served a wake-up and the tick is
   one of them. */
static uint64_t least_apart = UINT64_MAX, last_other, looked_at;

static void look_at_interrupts(uint64_t wake)
{
    if (device_count - looked_at > RECENT)
        least_apart = 0;
    else
        for (; looked_at < device_count; looked_at++) {
            const struct device *device = &devices[looked_at % RECENT];
            if (looked_at + 1 == wake && !device->ticked)
                continue;
            if (last_other && device->entry - last_other < least_apart)
                least_apart = device->entry - last_other;
            last_other = device->entry;
        }
    looked_at = device_count;
}

/* A wake-up has ended: its windows are told from others. */
static void end_wake(struct tracker *tracker, unsigned which, struct wake *wake)
{
    uint64_t number = tracker->switch_device;
    int known = number && device_count - number < RECENT - 1;
    struct device device = known ? devices[(number - 1) % RECENT] : (struct device){ 0 };
    uint64_t handler = device.end > device.entry ? device.end - device.entry : 0;
    uint64_t path = last_clock > tracker->switch_from ? last_clock - tracker->switch_from : 0;
    uint64_t serving = handler + tracker->switch_approach + path;
    if (serving > tracker->serving)
        tracker->serving = serving;
    wake->by[which].entry = device.entry;
    wake->by[which].ready = device.ready;
    wake->by[which].handler = handler;
    wake->by[which].approach = tracker->switch_approach;
    wake->by[which].path = path;
    /* Another interrupt came before the clock was read, or with this one. */
    wake->by[which].mixed = device.ticked || device_count > number;
    for (unsigned i = 0; i < tracker->held_count; i++) {
        struct held *held = &tracker->held[i];
        uint64_t length = held->to - held->from;
        int has_wake = known && held->from <= device.entry && device.entry < held->to;
        int has_switch = held->from <= tracker->switch_from && tracker->switch_from < held->to;
        if (has_switch)
            length = tracker->switch_from - held->from;
        if (has_wake)
            length -= handler < length ? handler : length;
        uint64_t interrupts = held->last - held->first - (has_wake ? 1 : 0);
        commit(tracker, held, length, interrupts, has_wake || has_switch, known ? number : 0);
    }
    tracker->held_count = 0;
    merge(wake_count <= WARM_UP ? &tracker->early : &tracker->late, &tracker->current);
}

#endif
