/* A program with known passes of its marks, to check the counts of a watch.
 *
 * It prints READY with the numbers of its process and of its first real-time thread, waits for a
 * line, goes through its cycles, prints its counts as "name value" lines, then DONE, and sleeps
 * until it is killed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "known.h"
#include "probe.h"

#define MARKED __attribute__((noinline, noclone, used))

/* Above 0 while a probe is attached. */
volatile unsigned short guarded_semaphore __attribute__((section(".probes"), visibility("hidden")));

/* Begins with a privileged instruction, on which the kernel refuses a probe. */
void privileged(void);
__asm__(".pushsection .text\n.globl privileged\n.type privileged, @function\n"
	"privileged: hlt\nret\n.size privileged, .-privileged\n.popsection\n");

static const long long MS = 1000000;
static long rounds = 100, leaps, ordinary, brief, nested, coroutines;
static atomic_int first_tid, guarded;
static int start[2];

static void busy(long long ns)
{
	long long until = now() + ns;
	while (now() < until)
		;
}

MARKED void begin_cycle(void)
{
	__asm__ volatile("");
}

MARKED void end_cycle(void)
{
	__asm__ volatile("");
}

MARKED void tick(void)
{
	__asm__ volatile("");
}

/* Calls itself twice more, and is busy for 300 us in total. */
MARKED int work(int depth)
{
	busy(100000);
	int below = depth < 2 ? work(depth + 1) : 0;
	__asm__ volatile("");
	return below + depth;
}

/* Calls itself; each call is busy for a millisecond. */
MARKED long nest(long more)
{
	busy(MS);
	long below = more ? nest(more - 1) : 0;
	__asm__ volatile("");
	return below + more;
}

static jmp_buf out;

/* Never returns. */
MARKED void leap(void)
{
	busy(1000);
	longjmp(out, 1);
}

MARKED void maybe_leap(int leaps_too)
{
	if (leaps_too)
		leap();
	__asm__ volatile("");
}

/* The same, deeper in the stack than any call that was left by longjmp. */
MARKED void deeper(void)
{
	volatile char room[4096];
	room[0] = 1;
	maybe_leap(0);
	room[1] = room[0];
}

static ucontext_t inside, outside;

/* Calls itself, and the innermost call never returns; below 0 it only returns. */
MARKED void suspend(long more)
{
	busy(1000);
	if (more > 0)
		suspend(more - 1);
	else if (!more)
		swapcontext(&inside, &outside);
	__asm__ volatile("");
}

static void cancelled(void)
{
	suspend(7);
}

static void completed(void)
{
	for (long n = 0; n < coroutines; n++)
		suspend(-1);
}

static void scheduled(int policy, int priority)
{
	struct sched_param parameters = {.sched_priority = priority};
	if (pthread_setschedparam(pthread_self(), policy, &parameters))
		fail("scheduling");
}

static void round_of(long round)
{
	struct timespec pause = {0, MS};
	begin_cycle();
	tick();
	PROBE("known", "step", "0");
	if (guarded_semaphore) {
		guarded++;
		PROBE("known", "guarded", "guarded_semaphore");
	}
	busy(round % 10 == 9 ? 2 * MS : MS / 2);
	work(0);
	end_cycle();
	nanosleep(&pause, NULL);
}

static void *run(void *name)
{
	char byte;
	long own = !strcmp(name, "rt-one") ? rounds : rounds / 2;
	pthread_setname_np(pthread_self(), name);
	scheduled(SCHED_FIFO, 40);
	if (own == rounds)
		first_tid = gettid();
	if (read(start[0], &byte, 1) != 1)
		fail("read");
	for (long round = 0; round < own; round++)
		round_of(round);
	return NULL;
}

static void *run_brief(void *nothing)
{
	pthread_setname_np(pthread_self(), "rt-brief");
	scheduled(SCHED_FIFO, 30);
	for (int n = 0; n < 10; n++)
		tick();
	return nothing;
}

static void *run_ordinary(void *nothing)
{
	pthread_setname_np(pthread_self(), "ordinary");
	for (long n = 0; n < ordinary; n++)
		tick();
	return nothing;
}

static void *run_leaps(void *nothing)
{
	volatile long n;
	pthread_setname_np(pthread_self(), "rt-leap");
	scheduled(SCHED_FIFO, 40);
	for (n = 0; n < leaps; n++)
		if (n % 2)
			deeper();
		else if (!setjmp(out))
			maybe_leap(1);
	return nothing;
}

static void *run_nested(void *nothing)
{
	pthread_setname_np(pthread_self(), "rt-nested");
	scheduled(SCHED_FIFO, 40);
	for (int n = 0; n < 5; n++)
		nest(nested - 1);
	return nothing;
}

enum { ROOM = 64 << 10, APART = 16 << 20 };

static void run_on(char *stack, void (*function)(void))
{
	getcontext(&inside);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = ROOM;
	inside.uc_link = &outside;
	makecontext(&inside, function, 0);
	swapcontext(&outside, &inside);
}

static void *run_coroutines(void *nothing)
{
	char *stacks = mmap(NULL, APART + ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stacks == MAP_FAILED)
		fail("mmap");
	pthread_setname_np(pthread_self(), "rt-coroutine");
	scheduled(SCHED_FIFO, 40);
	run_on(stacks + APART, cancelled);
	run_on(stacks, completed);
	return nothing;
}

int main(int count, char **words)
{
	pthread_t one, two, other;
	char line[16];
	for (int at = 1; at + 1 < count; at += 2) {
		long value = strtol(words[at + 1], NULL, 10);
		if (!strcmp(words[at], "rounds"))
			rounds = value;
		else if (!strcmp(words[at], "leaps"))
			leaps = value;
		else if (!strcmp(words[at], "ordinary"))
			ordinary = value;
		else if (!strcmp(words[at], "brief"))
			brief = value;
		else if (!strcmp(words[at], "nested"))
			nested = value;
		else if (!strcmp(words[at], "coroutines"))
			coroutines = value;
		else
			return 64;
	}
	if (pipe(start))
		fail("pipe");
	pthread_create(&one, NULL, run, "rt-one");
	pthread_create(&two, NULL, run, "rt-two");
	while (!first_tid)
		usleep(1000);
	usleep(10000);
	printf("READY %d %d\n", getpid(), first_tid);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	if (write(start[1], line, 2) != 2)
		fail("write");
	pthread_join(one, NULL);
	pthread_join(two, NULL);
	if (ordinary) {
		pthread_create(&other, NULL, run_ordinary, NULL);
		pthread_join(other, NULL);
	}
	if (leaps) {
		pthread_create(&other, NULL, run_leaps, NULL);
		pthread_join(other, NULL);
	}
	if (nested) {
		pthread_create(&other, NULL, run_nested, NULL);
		pthread_join(other, NULL);
	}
	if (coroutines) {
		pthread_create(&other, NULL, run_coroutines, NULL);
		pthread_join(other, NULL);
	}
	for (long n = 0; n < brief; n++) {
		pthread_create(&other, NULL, run_brief, NULL);
		pthread_join(other, NULL);
	}
	printf("guarded %d\n", guarded);
	printf("DONE\n");
	fflush(stdout);
	for (;;)
		pause();
}
