/* A program whose runtime stops its threads, with the marks and the names of a JVM.
 *
 * A ticker waits for instants of a grid. In every fifth tick the VM Thread begins a pause 5 ms
 * before the ticker's instant and works for 10 ms; with "hog MS" a thread of higher priority then
 * takes its CPU for so long. A thread that wakes in a pause sleeps until it is over, as the threads of a JVM do.
 *
 * It prints READY with the numbers of its process and of the ticker, waits for a line, runs,
 * prints its counts as "name value" lines, then DONE, and sleeps until it is killed. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "known.h"
#include "probe.h"

enum { MS = 1000000, TICK = 20 * MS, EARLY = 5 * MS, WORK = 10 * MS, EVERY = 5 };

static long pauses = 10, hog_ms;
static long long base;
static _Atomic int stopped, hog_turn;
static long long paused_ns;
static long ticks, held, maybe, late;
static _Atomic long long since;
static long long late_ns;
static _Atomic int ticker_tid;
static pthread_barrier_t start;

static void until(long long at)
{
	struct timespec instant = {at / 1000000000, at % 1000000000};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &instant, NULL))
		;
}

static long long own_cpu(void)
{
	struct timespec used;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * 1000000000LL + used.tv_nsec;
}

static void on(int cpu, int priority)
{
	cpu_set_t set;
	struct sched_param parameters = {.sched_priority = priority};
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("affinity");
	if (priority && pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters))
		fail("scheduling");
}

static long long begin_of(long pause)
{
	return base + (pause + 1) * EVERY * (long long)TICK - EARLY;
}

static void *run_vm(void *nothing)
{
	pthread_setname_np(pthread_self(), "VM Thread");
	on(0, 40);
	pthread_barrier_wait(&start);
	for (long n = 0; n < pauses; n++) {
		until(begin_of(n));
		PROBE("hs_private", "safepoint__begin", "0");
		PROBE("hotspot", "gc__begin", "0");
		long long from = now(), used = own_cpu();
		since = from;
		stopped = 1;
		hog_turn++;
		syscall(SYS_futex, &hog_turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		while (own_cpu() - used < WORK)
			;
		paused_ns += now() - from;
		stopped = 0;
		syscall(SYS_futex, &stopped, FUTEX_WAKE_PRIVATE, 1000, NULL, NULL, 0);
		PROBE("hotspot", "gc__end", "0");
		PROBE("hs_private", "safepoint__end", "0");
	}
	return nothing;
}

static void *run_hog(void *nothing)
{
	pthread_setname_np(pthread_self(), "hog");
	on(0, 50);
	pthread_barrier_wait(&start);
	for (long n = 0; n < pauses; n++) {
		while (hog_turn <= n)
			syscall(SYS_futex, &hog_turn, FUTEX_WAIT_PRIVATE, (int)n, NULL, NULL, 0);
		for (long long from = now(); now() - from < hog_ms * MS;)
			;
	}
	return nothing;
}

static void *run_ticker(void *nothing)
{
	pthread_setname_np(pthread_self(), "ticker");
	on(1, 60);
	ticker_tid = gettid();
	pthread_barrier_wait(&start);
	long long end = begin_of(pauses), at = base + TICK;
	while (at < end) {
		/* An instant that has passed already, because the host took the CPU, is none that it waits for. */
		int waits = now() < at;
		until(at);
		ticks += waits;
		held += waits && stopped && since < at;
		maybe += waits && stopped && since >= at;
		while (stopped)
			syscall(SYS_futex, &stopped, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
		long long by = now() - at;
		late += waits && by > MS;
		late_ns += waits && by > MS ? by : 0;
		while (at <= now())
			at += TICK;
	}
	return nothing;
}

int main(int count, char **words)
{
	pthread_t threads[3];
	void *(*const runs[3])(void *) = {run_vm, run_hog, run_ticker};
	char line[16];
	for (int at = 1; at + 1 < count; at += 2) {
		long value = strtol(words[at + 1], NULL, 10);
		if (!strcmp(words[at], "pauses"))
			pauses = value;
		else if (!strcmp(words[at], "hog"))
			hog_ms = value;
		else
			return 64;
	}
	pthread_barrier_init(&start, NULL, 4);
	for (int n = 0; n < 3; n++)
		if (pthread_create(&threads[n], NULL, runs[n], NULL))
			fail("thread");
	while (!ticker_tid)
		usleep(1000);
	usleep(10000);
	printf("READY %d %d\n", getpid(), ticker_tid);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	base = now() + 50 * MS;
	pthread_barrier_wait(&start);
	for (int n = 0; n < 3; n++)
		pthread_join(threads[n], NULL);
	printf("pauses %ld\npaused_ns %lld\n", pauses, paused_ns);
	printf("ticks %ld\nheld %ld\nmaybe %ld\n", ticks, held, maybe);
	printf("late %ld\nlate_ns %lld\nDONE\n", late, late_ns);
	fflush(stdout);
	for (;;)
		pause();
}
