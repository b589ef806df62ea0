/* A program with known behaviour, to check the counts of a watch.
 *
 * It prints READY with the numbers of its threads, waits for a line, goes through its cycles,
 * prints its counts as "name value" lines, then DONE, and sleeps until it is killed. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "known.h"

static const long long PERIOD = 1000000;
static long cycles = 1000, stalls, pages, reads, locks, catch_up, threads, jobs, budget, lengths, clocked, many, passing;
static long long demoted_at;
static long demoted; /* its thread gives up its priority after its cycles: 1; and ends: 2 */
static pthread_mutex_t lock;
static int request[2], reply[2], start[2], take[2], taken[2];
static atomic_int periodic_tid;

static void sleep_until(long long ns)
{
	struct timespec at = {ns / 1000000000, ns % 1000000000};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

/* The C library need not keep frame pointers: then the stack lacks its caller's address, and has
 * the address of the caller's caller. */
static __attribute__((noinline)) void sleep_below(long long ns)
{
	sleep_until(ns);
	__asm__ volatile("");
}

static __attribute__((noinline)) void wait_for_cycle(long long ns)
{
	sleep_below(ns);
	__asm__ volatile("");
}

static void scheduled(int policy, int priority)
{
	struct sched_param parameters = {.sched_priority = priority};
	if (pthread_setschedparam(pthread_self(), policy, &parameters))
		fail("scheduling");
}

/* Waits until the periodic thread sleeps in the expected call. */
static void await_sleep(const char *in)
{
	char path[64], text[512], *end;
	for (;;) {
		usleep(200);
		snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", periodic_tid);
		FILE *file = fopen(path, "r");
		if (!file)
			fail(path);
		text[0] = 0;
		if (!fgets(text, sizeof(text), file))
			text[0] = 0;
		fclose(file);
		long number = strtol(text, &end, 10);
		if (end != text && number == strtol(in, NULL, 10))
			return;
	}
}

/* Replies to a request when the requesting thread is asleep. */
static void *answer(void *nothing)
{
	char byte, number[16];
	pthread_setname_np(pthread_self(), "answer");
	snprintf(number, sizeof(number), "%d", SYS_read);
	while (read(request[0], &byte, 1) == 1) {
		await_sleep(number);
		if (write(reply[1], &byte, 1) != 1)
			fail("write");
	}
	return nothing;
}

/* Takes the lock, and releases it when another thread waits for it. */
static void *hold(void *nothing)
{
	char byte, number[16];
	pthread_setname_np(pthread_self(), "low-holder");
	scheduled(SCHED_FIFO, 10);
	snprintf(number, sizeof(number), "%d", SYS_futex);
	while (read(take[0], &byte, 1) == 1) {
		pthread_mutex_lock(&lock);
		if (write(taken[1], &byte, 1) != 1)
			fail("write");
		await_sleep(number);
		pthread_mutex_unlock(&lock);
	}
	return nothing;
}

/* Ends after ten sleeps. */
static void *brief(void *nothing)
{
	pthread_setname_np(pthread_self(), "rt-brief");
	scheduled(SCHED_FIFO, 30);
	for (int sleep = 0; sleep < 10; sleep++)
		usleep(1000);
	return nothing;
}

static void sleep_for(long long ns)
{
	struct timespec length = {ns / 1000000000, ns % 1000000000};
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &length, &length) == EINTR)
		;
}

/* Works for 50 µs, and each 50th time for 5.3 periods. */
static void work(long turn)
{
	long long until = now() + (turn % 50 == 25 ? 5 * PERIOD + 300000 : 50000);
	while (now() < until)
		;
}

/* Sleeps for a length of time after its work: it has no period. */
static void *sleep_lengths(void *nothing)
{
	pthread_setname_np(pthread_self(), "rt-lengths");
	scheduled(SCHED_FIFO, 40);
	for (long turn = 0; turn < lengths; turn++) {
		sleep_for(PERIOD);
		work(turn);
	}
	return nothing;
}

/* Sleeps for the remaining time until the next period, as std::this_thread::sleep_until
 * and the scheduled executors of a JVM do. */
static void *sleep_by_clock(void *nothing)
{
	long skipped = 0;
	pthread_setname_np(pthread_self(), "rt-clock");
	scheduled(SCHED_FIFO, 40);
	long long next = now() + PERIOD;
	for (long turn = 0; turn < clocked; turn++) {
		long long left = next - now();
		if (left > 0)
			sleep_for(left);
		/* Long enough that the start of the next sleep varies. */
		long long until = now() + turn * 7919 % 97 * 5000;
		while (now() < until)
			;
		if (turn % 50 == 25)
			work(turn);
		next += PERIOD;
		for (long long at = now(); next <= at; next += PERIOD)
			skipped++;
	}
	printf("clock-skipped %ld\n", skipped);
	return nothing;
}

/* One of many that run at once. */
static void *crowd(void *nothing)
{
	pthread_setname_np(pthread_self(), "rt-crowd");
	scheduled(SCHED_FIFO, 30);
	for (int sleep = 0; sleep < 5; sleep++)
		usleep(20000);
	pause();
	return nothing;
}

/* One of many of which a few run at once. */
static void *end_soon(void *number)
{
	char name[16];
	snprintf(name, sizeof(name), "rt-passing-%ld", (long)number);
	pthread_setname_np(pthread_self(), name);
	scheduled(SCHED_FIFO, 30);
	for (int sleep = 0; sleep < 5; sleep++)
		usleep(2000);
	return NULL;
}

struct attributes {
	unsigned size, policy;
	unsigned long long flags;
	int nice;
	unsigned priority;
	unsigned long long runtime, deadline, period;
};

/* Jobs of 1 ms, with a deadline of 6 in each 20 ms: every fifth takes 12, so that
 * wherever it begins between ticks, which may be 4 ms apart, a tick finds it beyond its runtime. */
static void *deadline(void *nothing)
{
	long ended = 0, late = 0;
	struct attributes attributes = {
		.size = sizeof(attributes), .policy = 6, .runtime = 5000000, .deadline = 6000000, .period = 20000000};
	pthread_setname_np(pthread_self(), "dl-loop");
	if (syscall(SYS_sched_setattr, 0, &attributes, 0)) {
		printf("refused %d\n", errno);
		return nothing;
	}
	sched_yield();
	for (; ended < jobs; ended++) {
		long long begun = now(), until = begun + (ended % 5 == 4 ? 12 : 1) * PERIOD;
		while (now() < until)
			;
		late += now() > begun + 6 * PERIOD;
		sched_yield();
	}
	printf("jobs %ld\nlate-jobs %ld\n", ended, late);
	return nothing;
}

static long long cpu_time(void)
{
	struct timespec at;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
	return at.tv_sec * 1000000000LL + at.tv_nsec;
}

/* Jobs that take 2 of their 5 ms, every fifth 12: of CPU time, whatever else runs. */
static void *use_budget(void *nothing)
{
	long ended = 0;
	long long worked = 0, first = cpu_time();
	struct attributes attributes = {
		.size = sizeof(attributes), .policy = 6, .runtime = 5000000, .deadline = 10000000, .period = 20000000};
	pthread_setname_np(pthread_self(), "dl-budget");
	if (syscall(SYS_sched_setattr, 0, &attributes, 0)) {
		printf("refused %d\n", errno);
		return nothing;
	}
	sched_yield();
	for (; ended < budget; ended++) {
		long long begun = cpu_time(), until = begun + (ended % 5 == 4 ? 12 : 2) * PERIOD, at;
		while ((at = cpu_time()) < until)
			;
		worked += at - begun;
		sched_yield();
	}
	printf("budget-jobs %ld\nbudget-worked %lld\nbudget-cpu %lld\n", ended, worked, cpu_time() - first);
	return nothing;
}

static void *run(void *nothing)
{
	char byte = 0;
	struct rusage before, after;
	long skipped = 0, late = 0;
	pthread_setname_np(pthread_self(), "rt-loop");
	scheduled(SCHED_FIFO, 60);
	periodic_tid = gettid();
	if (read(start[0], &byte, 1) != 1)
		fail("read");
	getrusage(RUSAGE_THREAD, &before);
	long long next = now() + PERIOD;
	for (long cycle = 0; cycle < cycles; cycle++) {
		wait_for_cycle(next);
		if (stalls && cycle % (cycles / stalls) == cycles / stalls / 2) {
			/* From its own wake-up on: what the host took before it is not the thread's. */
			long long until = now() + 3 * PERIOD + PERIOD / 2;
			while (now() < until)
				;
		}
		next += PERIOD;
		if (catch_up) {
			late += now() >= next;
		} else {
			for (long long at = now(); next <= at; next += PERIOD)
				skipped++;
		}
	}
	if (demoted) {
		demoted_at = now();
		scheduled(SCHED_OTHER, 0);
	}
	if (pages) {
		char *area = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (area == MAP_FAILED)
			fail("mmap");
		madvise(area, pages * 4096, MADV_NOHUGEPAGE);
		for (long page = 0; page < pages; page++)
			area[page * 4096] = 1;
	}
	for (long n = 0; n < reads; n++)
		if (write(request[1], &byte, 1) != 1 || read(reply[0], &byte, 1) != 1)
			fail("ask");
	for (long n = 0; n < locks; n++) {
		/* Another call tells it that the lock is taken, so that the calls can be distinguished. */
		struct pollfd told = {.fd = taken[0], .events = POLLIN};
		if (write(take[1], &byte, 1) != 1 || poll(&told, 1, -1) != 1 || read(taken[0], &byte, 1) != 1)
			fail("take");
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	getrusage(RUSAGE_THREAD, &after);
	for (long n = 0; n < threads; n++) {
		pthread_t thread;
		pthread_create(&thread, NULL, brief, NULL);
		pthread_join(thread, NULL);
	}
	if (jobs) {
		pthread_t thread;
		pthread_create(&thread, NULL, deadline, NULL);
		pthread_join(thread, NULL);
	}
	if (budget) {
		pthread_t thread;
		pthread_create(&thread, NULL, use_budget, NULL);
		pthread_join(thread, NULL);
	}
	if (lengths) {
		pthread_t thread;
		pthread_create(&thread, NULL, sleep_lengths, NULL);
		pthread_join(thread, NULL);
	}
	if (clocked) {
		pthread_t thread;
		pthread_create(&thread, NULL, sleep_by_clock, NULL);
		pthread_join(thread, NULL);
	}
	if (many) {
		pthread_attr_t small;
		pthread_attr_init(&small);
		pthread_attr_setstacksize(&small, 65536);
		long begun = 0;
		pthread_t thread;
		while (begun < many && !pthread_create(&thread, &small, crowd, NULL))
			begun++;
		printf("begun %ld\n", begun);
		sleep_for(300 * PERIOD);
	}
	for (long begun = 0; begun < passing; begun++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, end_soon, (void *)begun))
			fail("a thread");
		pthread_detach(thread);
		/* A busy machine's watch reads a second later. */
		sleep_for(8 * PERIOD);
	}
	if (passing)
		sleep_for(300 * PERIOD);
	printf("skipped %ld\nlate %ld\nminor %ld\nmajor %ld\n", skipped, late, after.ru_minflt - before.ru_minflt,
	       after.ru_majflt - before.ru_majflt);
	if (demoted == 2)
		return nothing;
	printf("DONE\n");
	fflush(stdout);
	for (;;)
		pause();
	return nothing;
}

int main(int count, char **words)
{
	pthread_t thread;
	pthread_mutexattr_t kind;
	char line[16];
	for (int at = 1; at + 1 < count; at += 2) {
		long value = strtol(words[at + 1], NULL, 10);
		if (!strcmp(words[at], "cycles"))
			cycles = value;
		else if (!strcmp(words[at], "stalls"))
			stalls = value;
		else if (!strcmp(words[at], "pages"))
			pages = value;
		else if (!strcmp(words[at], "reads"))
			reads = value;
		else if (!strcmp(words[at], "locks"))
			locks = value;
		else if (!strcmp(words[at], "threads"))
			threads = value;
		else if (!strcmp(words[at], "jobs"))
			jobs = value;
		else if (!strcmp(words[at], "budget"))
			budget = value;
		else if (!strcmp(words[at], "lengths"))
			lengths = value;
		else if (!strcmp(words[at], "clock"))
			clocked = value;
		else if (!strcmp(words[at], "many"))
			many = value;
		else if (!strcmp(words[at], "passing"))
			passing = value;
		else if (!strcmp(words[at], "catch-up"))
			catch_up = value;
		else if (!strcmp(words[at], "demoted"))
			demoted = value;
		else
			return 64;
	}
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&lock, &kind);
	if (pipe(request) || pipe(reply) || pipe(start) || pipe(take) || pipe(taken))
		fail("pipe");
	pthread_create(&thread, NULL, answer, NULL);
	pthread_create(&thread, NULL, hold, NULL);
	pthread_create(&thread, NULL, run, NULL);
	while (!periodic_tid)
		usleep(1000);
	usleep(10000);
	printf("READY %d %d\n", getpid(), periodic_tid);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	if (write(start[1], line, 1) != 1)
		fail("write");
	if (demoted == 2) {
		/* How many periods it took to end, as an ordinary thread. */
		pthread_join(thread, NULL);
		printf("ordinary %lld\nDONE\n", (now() - demoted_at) / PERIOD);
		fflush(stdout);
	}
	for (;;)
		pause();
}
