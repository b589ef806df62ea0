/* A real-time thread that waits for other threads, which wait for others.
 *
 *     chains SCENE ROUNDS
 *
 * pipes: it waits for the reply of a second process, which waits for that of a third.
 * locks: for a lock whose holder waits for another lock, whose holder works; both have priority inheritance.
 * hog: for an ordinary thread that a real-time thread preempts.
 *
 * It prints READY with its numbers, and for each line of input goes through its rounds, and prints
 * DONE. Work is CPU time, so a thread has worked this long whatever else the machine does. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "known.h"

#define MS 1000000LL
enum { FIRST = 20, SECOND = 5 };	/* ms of work of the thread that works first, and of the one that continues */

static long rounds;
static int last_cpu;

static void work(long long ms)
{
	struct timespec used;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	long long until = used.tv_sec * 1000000000LL + used.tv_nsec + ms * MS;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	while (used.tv_sec * 1000000000LL + used.tv_nsec < until);
}

static void be(const char *name, int priority, int cpu)
{
	struct sched_param parameters = {.sched_priority = priority};
	cpu_set_t cpus;
	prctl(PR_SET_NAME, name);
	if (cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET(cpu, &cpus);
		if (sched_setaffinity(0, sizeof(cpus), &cpus))
			fail("affinity");
	}
	if (sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &parameters))
		fail("scheduling");
}

static void rest(long long ms)
{
	struct timespec length = {0, ms * MS};
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &length, &length) == EINTR)
		;
}

static char get(int from)
{
	char byte = 0;
	while (read(from, &byte, 1) < 0 && errno == EINTR)
		;
	return byte;
}

static void put(int to)
{
	if (write(to, "x", 1) != 1)
		_exit(0);
}

/* A process that replies to each byte, once `asked` has replied to its own; `asked`: how it is asked. */
static void answers(const char *name, long long ms, int asked[2], int ends[2])
{
	int in[2], out[2];
	if (pipe(in) || pipe(out))
		fail("pipe");
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, 9);
		close(in[1]);
		close(out[0]);
		be(name, 0, -1);
		while (get(in[0])) {
			if (asked) {
				put(asked[1]);
				get(asked[0]);
			}
			work(ms);
			put(out[1]);
		}
		_exit(0);
	}
	ends[0] = out[0];
	ends[1] = in[1];
}

static int second[2];

static void pipes_begin(void)
{
	int third[2];
	answers("third", FIRST, NULL, third);
	answers("second", SECOND, third, second);
}

static void pipes_round(void)
{
	put(second[1]);
	get(second[0]);
}

static pthread_mutex_t outer, inner;
static sem_t low_goes, middle_goes, held;

static void *low(void *unused)
{
	be("low", 10, last_cpu);
	for (;;) {
		sem_wait(&low_goes);
		pthread_mutex_lock(&inner);
		sem_post(&middle_goes);
		work(FIRST);
		pthread_mutex_unlock(&inner);
	}
	return unused;
}

static void *middle(void *unused)
{
	be("middle", 20, last_cpu);
	for (;;) {
		sem_wait(&middle_goes);
		pthread_mutex_lock(&outer);
		sem_post(&held);
		pthread_mutex_lock(&inner);
		work(SECOND);
		pthread_mutex_unlock(&inner);
		pthread_mutex_unlock(&outer);
	}
	return unused;
}

static void start(void *(*function)(void *))
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, function, NULL))
		fail("thread");
}

static void locks_begin(void)
{
	pthread_mutexattr_t lends;
	pthread_mutexattr_init(&lends);
	pthread_mutexattr_setprotocol(&lends, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&outer, &lends);
	pthread_mutex_init(&inner, &lends);
	start(low);
	start(middle);
}

static void locks_round(void)
{
	sem_post(&low_goes);
	sem_wait(&held);
	pthread_mutex_lock(&outer);
	pthread_mutex_unlock(&outer);
}

static sem_t hog_goes, helper_goes, helped;

static void *hog(void *unused)
{
	be("hog", 50, last_cpu);
	for (;;) {
		sem_wait(&hog_goes);
		work(FIRST);
	}
	return unused;
}

static void *helper(void *unused)
{
	be("helper", 0, last_cpu);
	for (;;) {
		sem_wait(&helper_goes);
		sem_post(&hog_goes);
		work(SECOND);
		sem_post(&helped);
	}
	return unused;
}

static void hog_begin(void)
{
	start(hog);
	start(helper);
}

static void hog_round(void)
{
	sem_post(&helper_goes);
	sem_wait(&helped);
}

int main(int count, char **words)
{
	char line[16];
	if (count != 3)
		return 2;
	rounds = atol(words[2]);
	cpu_set_t cpus;
	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		fail("affinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus))
			last_cpu = cpu;
	int pipes = !strcmp(words[1], "pipes"), locks = !strcmp(words[1], "locks");
	pipes ? pipes_begin() : locks ? locks_begin() : hog_begin();
	/* On two CPUs the holder's waiter does not sleep: it spins as long as the holder runs
	 * (rtmutex_spin_on_owner, Linux 5.15). */
	be("first", 60, locks ? last_cpu : -1);
	printf("READY %d %d\n", getpid(), gettid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (long round = 0; round < rounds; round++) {
			pipes ? pipes_round() : locks ? locks_round() : hog_round();
			rest(2);
		}
		printf("DONE\n");
		fflush(stdout);
	}
	return 0;
}
