/*
 * Fuel injection: reads the angle of the crankshaft, computes the time until the next
 * injection, waits, and injects. Prints the largest error of the angle.
 *
 * After Paul McKenney's example of a real-time program. injection [SECONDS [RPM]]; exit status
 * 77: not permitted here.
 */
#include <punctual.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Degrees after top dead centre. */
static const double INJECT_AT = 340.0;

struct engine {
    uint64_t begun;
    double degrees_per_ns;
};

struct injector {
    struct engine engine;
    uint64_t until;
    uint64_t injections, bad;
    double worst;
    int64_t faults;
};

/* The sensor: here a shaft that turns at constant speed. */
static double angle_of(const struct engine *engine, uint64_t now)
{
    double turned = (double)(now - engine->begun) * engine->degrees_per_ns;

    return turned - 360.0 * (double)(uint64_t)(turned / 360.0);
}

static void *inject(void *argument)
{
    struct injector *injector = (struct injector *)argument;
    const struct engine *engine = &injector->engine;
    struct punctual_faults mark;
    uint64_t now;

    mark.struct_size = sizeof mark;
    punctual_faults_mark(&mark);
    while ((now = punctual_now_ns()) < injector->until) {
        double ahead = INJECT_AT - angle_of(engine, now), off;
        struct timespec at;

        if (ahead <= 0)
            ahead += 360.0;
        at = punctual_timespec(now + (uint64_t)(ahead / engine->degrees_per_ns));
        if (punctual_sleep_until(&at) != 0)
            continue; /* A signal: read the angle again. */
        /* The valve opens here. */
        off = angle_of(engine, punctual_now_ns()) - INJECT_AT;
        if (off < -180.0)
            off += 360.0;
        if (off > injector->worst)
            injector->worst = off;
        injector->injections++;
        /* An error of more than a degree is a bad injection. */
        injector->bad += off > 1.0;
    }
    injector->faults = punctual_late_faults(&mark);
    return NULL;
}

int main(int count, char **words)
{
    const int seconds = count > 1 ? atoi(words[1]) : 5;
    const double rpm = count > 2 ? atof(words[2]) : 1500.0;
    struct punctual_thread_attr attr;
    struct punctual_thread *thread;
    struct injector injector;

    memset(&attr, 0, sizeof attr);
    memset(&injector, 0, sizeof injector);
    attr.struct_size = sizeof attr;
    attr.name = "injector";
    attr.policy = PUNCTUAL_FIFO;
    attr.priority = 90;
    if (punctual_memory_prepare(1 << 20, 64 << 10) != 0) {
        fprintf(stderr, "memory: %s\n%s\n", strerror(errno), punctual_last_error());
        return errno == EPERM || errno == ENOMEM || errno == EAGAIN ? 77 : EXIT_FAILURE;
    }
    injector.engine.begun = punctual_now_ns();
    injector.engine.degrees_per_ns = rpm * 360.0 / 60e9;
    injector.until = injector.engine.begun + (uint64_t)seconds * 1000000000u;
    if (punctual_thread_create(&thread, &attr, inject, &injector) != 0) {
        fprintf(stderr, "thread: %s\n%s\n", strerror(errno), punctual_last_error());
        return errno == EPERM ? 77 : EXIT_FAILURE;
    }
    punctual_thread_join(thread, NULL);
    printf("%llu injections, %llu bad, %lld faults, at most %.3f degrees late\n",
           (unsigned long long)injector.injections, (unsigned long long)injector.bad,
           (long long)injector.faults, injector.worst);
    return injector.faults == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
