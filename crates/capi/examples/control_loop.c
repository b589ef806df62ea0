/*
 * A control loop: 1 kHz, SCHED_FIFO, no page fault. It controls the speed of a motor.
 *
 * control_loop [SECONDS [CPUS]]; exit status 77: not permitted here, with a message that says how to fix it.
 */
#include <punctual.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CYCLE, END };
static const char *const formats[] = {"cycle %u: speed %f, late %u ns, missed %u", "end"};

struct control {
    uint64_t cycles;
    struct punctual_log *log;
    /* The results of the thread. */
    uint64_t done, missed, longest;
    int64_t faults;
    double speed;
};

/* One step of a motor whose speed follows its voltage with a delay. */
static double motor(double speed, double voltage)
{
    return speed + (voltage * 100.0 - speed) * 0.01;
}

static void *control(void *argument)
{
    struct control *control = (struct control *)argument;
    struct punctual_faults mark;
    struct punctual_cycle cycle;
    struct punctual_loop loop;
    double integral = 0;

    memset(&cycle, 0, sizeof cycle);
    mark.struct_size = sizeof mark;
    cycle.struct_size = sizeof cycle;
    punctual_faults_mark(&mark);
    punctual_loop_init(&loop, 1000000, PUNCTUAL_SKIP);
    while (control->done < control->cycles) {
        double error;

        if (punctual_loop_wait(&loop, &cycle) != 0)
            continue; /* A signal: the period is still due. */
        error = 1000.0 - control->speed;
        integral += error * 0.001;
        control->speed = motor(control->speed, error * 0.02 + integral * 0.4);
        if (cycle.latency_ns > control->longest)
            control->longest = cycle.latency_ns;
        if (control->done++ % 100 == 0) {
            const uint64_t numbers[4] = {control->done, punctual_log_double(control->speed),
                                         cycle.latency_ns, cycle.missed};

            punctual_log_put(control->log, CYCLE, 4, numbers);
        }
    }
    punctual_log_put(control->log, END, 0, NULL);
    control->missed = punctual_loop_missed(&loop);
    control->faults = punctual_late_faults(&mark);
    return NULL;
}

/* Prints the error and how to fix it; 77 if permission is missing. */
static int failed(const char *what)
{
    int not_permitted = errno == EPERM || errno == EAGAIN || errno == ENOMEM;

    fprintf(stderr, "%s: %s\n%s\n", what, strerror(errno), punctual_last_error());
    return not_permitted ? 77 : EXIT_FAILURE;
}

int main(int count, char **words)
{
    struct punctual_thread_attr attr;
    struct punctual_thread *thread;
    struct control task;

    /* First: prefault and lock the heap and this thread's stack. */
    if (punctual_memory_prepare(1 << 20, 64 << 10) != 0)
        return failed("memory");

    memset(&task, 0, sizeof task);
    task.cycles = 1000 * (uint64_t)(count > 1 ? atoi(words[1]) : 5);
    task.log = punctual_log_open(2, formats, 2, 1024);
    if (task.log == NULL)
        return failed("log");

    memset(&attr, 0, sizeof attr);
    attr.struct_size = sizeof attr;
    attr.name = "control";
    attr.stack_size = 64 << 10;
    attr.policy = PUNCTUAL_FIFO;
    attr.priority = 80;
    attr.cpus = count > 2 ? words[2] : NULL;
    if (punctual_thread_create(&thread, &attr, control, &task) != 0)
        return failed("thread");
    punctual_thread_join(thread, NULL);
    if (punctual_log_close(task.log) != 0)
        fprintf(stderr, "some of the log is lost\n");

    printf("%llu cycles, %llu missed, %lld faults, at most %llu ns late, speed %.1f\n",
           (unsigned long long)task.done, (unsigned long long)task.missed,
           (long long)task.faults, (unsigned long long)task.longest, task.speed);
    return task.faults == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
