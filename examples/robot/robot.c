/*
 * A joint of a robot, controlled at 1 kHz: sensor, filter, controller, actuator.
 *
 * The four functions robot_sensor(), robot_filter(), robot_controller() and robot_actuator() are the
 * jobs of four tasks. They run
 *
 *   in this program                  cc -std=c11 robot.c -o robot $(pkg-config --cflags --libs punctual)
 *                                    sudo ./robot
 *   or as the tasks of robot.toml    cc -std=c11 -shared -fPIC robot.c -o librobot.so $(pkg-config ...)
 *                                    sudo punctual exec robot.toml
 *
 * robot [SECONDS] runs the threads; robot -n [SECONDS] calls the functions in turn, without threads and
 * without waiting: its result is the same on every machine. Exit status: 0 the joint reached its
 * targets and no page fault was taken, 77 not permitted here.
 */
#include <punctual.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int robot_sensor(void **place);
int robot_filter(void **place);
int robot_controller(void **place);
int robot_actuator(void **place);

/* --- What the stages share, under one mutex with priority inheritance ------------------------- */

static struct {
    pthread_mutex_t mutex;
    int error;          /* the mutex could not be made */
    double torque;      /* N m, from the actuator to the joint */
    double measured;    /* rad, from the sensor */
    double angle;       /* rad, from the filter */
    double speed;       /* rad/s, from the filter */
    double command;     /* N m, from the controller */
    double target;      /* rad, from the controller */
} shared = {.target = 0.5};

/* When the program or the shared object is loaded, before any stage runs. */
__attribute__((constructor)) static void set_up(void)
{
    pthread_mutexattr_t attr;

    shared.error = punctual_mutexattr_init(&attr) != 0 ? errno
                                                       : pthread_mutex_init(&shared.mutex, &attr);
}

static int lock(void)
{
    return shared.error != 0 ? shared.error : pthread_mutex_lock(&shared.mutex);
}

static int unlock(void)
{
    return pthread_mutex_unlock(&shared.mutex);
}

/* --- The joint: a motor with a gear that lifts an arm; a simulation stands for the hardware --- */

static const double INERTIA = 0.05;       /* kg m^2 */
static const double FRICTION = 0.1;       /* N m s */
static const double GRAVITY = 0.6;        /* N m, with the arm horizontal */
static const double STRONGEST = 4.0;      /* N m, of the motor */
static const double COUNT = 6.28318530717958648 / 4096; /* rad, of the encoder */
static const double SAMPLED = 1e-3;       /* s */
static const double CONTROLLED = 2e-3;    /* s */

/* Controller jobs until the joint has another target. */
enum { TARGET_JOBS = 1000 };
/* What of an error the joint may have when it gets another target. */
static const double SETTLED = 0.02; /* rad */

static struct {
    double angle, speed;
    double target;
    unsigned int noise;
    unsigned long reached, missed;
} joint = {.target = 0.5, .noise = 1};

/* Of an angle below 1.5 rad. */
static double sine(double x)
{
    const double square = x * x;

    return x * (1 - square / 6 * (1 - square / 20 * (1 - square / 42)));
}

static void move_joint(double torque)
{
    const int parts = 10;
    const double step = SAMPLED / parts;
    int part;

    for (part = 0; part < parts; part++) {
        const double load = FRICTION * joint.speed + GRAVITY * sine(joint.angle);

        joint.speed += (torque - load) / INERTIA * step;
        joint.angle += joint.speed * step;
        /* The stops of the joint. */
        if (joint.angle > 1.5 || joint.angle < -1.5) {
            joint.angle = joint.angle > 0 ? 1.5 : -1.5;
            joint.speed = 0;
        }
    }
}

/* Reads the encoder, which is wrong by up to a count. */
int robot_sensor(void **place)
{
    double torque, target, count;
    int error = lock(), missed = 0;

    (void)place;
    if (error != 0)
        return error;
    torque = shared.torque;
    target = shared.target;
    unlock();
    if (target != joint.target) {
        const double off = joint.angle - joint.target;

        /* Two seconds have been enough, or the robot does not work. */
        missed = off > SETTLED || off < -SETTLED;
        joint.reached += !missed;
        joint.missed += (unsigned long)missed;
        joint.target = target;
    }
    move_joint(torque);
    joint.noise = joint.noise * 1664525u + 1013904223u;
    count = joint.angle / COUNT + (double)(joint.noise >> 8) / 16777216.0 + 4096;
    if ((error = lock()) != 0)
        return error;
    shared.measured = ((double)(long)count - 4096) * COUNT;
    error = unlock();
    return error != 0 ? error : missed;
}

/* A Kalman filter in its steady state: angle and speed from the encoder and the torque. */
int robot_filter(void **place)
{
    static double angle, speed;
    double measured, torque, off;
    int error = lock();

    (void)place;
    if (error != 0)
        return error;
    measured = shared.measured;
    torque = shared.torque;
    unlock();
    angle += speed * SAMPLED;
    speed += (torque - FRICTION * speed - GRAVITY * sine(angle)) / INERTIA * SAMPLED;
    off = measured - angle;
    angle += 0.15 * off;
    speed += 10.0 * off;
    if ((error = lock()) != 0)
        return error;
    shared.angle = angle;
    shared.speed = speed;
    return unlock();
}

static double limited(double value, double most)
{
    return value > most ? most : value < -most ? -most : value;
}

/* PID: the integral carries the arm's weight, and stands still while the motor does all it can. */
int robot_controller(void **place)
{
    static double target = 0.5, integral;
    static unsigned int jobs;
    double angle, speed, off, command;
    int error = lock();

    (void)place;
    if (error != 0)
        return error;
    angle = shared.angle;
    speed = shared.speed;
    unlock();
    if (++jobs % TARGET_JOBS == 0)
        target = -target;
    off = target - angle;
    command = 20.0 * off + integral - 1.2 * speed;
    if (command < STRONGEST && command > -STRONGEST)
        integral += 80.0 * off * CONTROLLED;
    if ((error = lock()) != 0)
        return error;
    shared.command = limited(command, STRONGEST);
    shared.target = target;
    return unlock();
}

/* Drives the motor, whose torque rises by at most 2 N m in each job. */
int robot_actuator(void **place)
{
    int error = lock();

    (void)place;
    if (error != 0)
        return error;
    shared.torque += limited(shared.command - shared.torque, 2.0);
    return unlock();
}

/* --- As a program of its own: a thread for each stage ----------------------------------------- */

/* The end of a job releases one of the next stage. */
struct release {
    pthread_mutex_t mutex;
    struct punctual_condvar changed;
    uint64_t arrival_ns;    /* of the last job that was released; 0: none is pending */
    uint64_t lost;          /* released before the one before had begun */
    int over;
};

struct stage {
    const char *name;
    int (*step)(void **);
    int priority;
    uint64_t period_ns;     /* 0: released */
    uint64_t deadline_ns;   /* from its arrival */
    struct release *by, *next;
    /* What it did. */
    uint64_t jobs, missed, late, worst_ns;
    int64_t faults;
    int error;
};

static atomic_int over;

/* Waits for a job, and returns its arrival; 0: there are no more. */
static uint64_t next_job(struct stage *stage, struct punctual_loop *loop)
{
    uint64_t arrival_ns;

    if (stage->by == NULL) {
        struct punctual_cycle cycle;

        memset(&cycle, 0, sizeof cycle);
        cycle.struct_size = sizeof cycle;
        while (!atomic_load(&over))
            if (punctual_loop_wait(loop, &cycle) == 0)
                return cycle.due_ns;
        return 0;
    }
    pthread_mutex_lock(&stage->by->mutex);
    while (stage->by->arrival_ns == 0 && !stage->by->over)
        punctual_condvar_wait(&stage->by->changed, &stage->by->mutex);
    arrival_ns = stage->by->arrival_ns;
    stage->by->arrival_ns = 0;
    pthread_mutex_unlock(&stage->by->mutex);
    return arrival_ns;
}

static void release(struct release *next, uint64_t arrival_ns)
{
    pthread_mutex_lock(&next->mutex);
    next->lost += next->arrival_ns != 0 && arrival_ns != 0;
    if (arrival_ns != 0)
        next->arrival_ns = arrival_ns;
    else
        next->over = 1;
    punctual_condvar_notify_one(&next->changed);
    pthread_mutex_unlock(&next->mutex);
}

static void *run(void *argument)
{
    struct stage *stage = argument;
    struct punctual_faults mark;
    struct punctual_loop loop;
    void *place = NULL;
    uint64_t arrival_ns;

    mark.struct_size = sizeof mark;
    punctual_faults_mark(&mark);
    if (stage->by == NULL)
        punctual_loop_init(&loop, stage->period_ns, PUNCTUAL_SKIP);
    while ((arrival_ns = next_job(stage, &loop)) != 0) {
        const int error = stage->step(&place);
        const uint64_t took_ns = punctual_now_ns() - arrival_ns;

        if (error != 0 && stage->error == 0)
            stage->error = error;
        stage->jobs++;
        stage->late += took_ns > stage->deadline_ns;
        if (took_ns > stage->worst_ns)
            stage->worst_ns = took_ns;
        if (stage->next != NULL)
            release(stage->next, arrival_ns);
    }
    stage->missed = stage->by == NULL ? punctual_loop_missed(&loop) : stage->by->lost;
    stage->faults = punctual_late_faults(&mark);
    if (stage->next != NULL)
        release(stage->next, 0);
    return NULL;
}

static int report_joint(void)
{
    printf("the joint reached %lu of %lu targets\n", joint.reached, joint.reached + joint.missed);
    return joint.missed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int without_threads(int seconds)
{
    void *place = NULL;
    long at;

    for (at = 0; at < seconds * 1000L; at++) {
        robot_sensor(&place);
        robot_filter(&place);
        if (at % 2 == 0) {
            robot_controller(&place);
            robot_actuator(&place);
        }
    }
    return report_joint();
}

static int fail(const char *what)
{
    const int error = errno;

    fprintf(stderr, "%s: %s\n%s\n", what, strerror(error), punctual_last_error());
    return error == EPERM || error == ENOMEM || error == EAGAIN ? 77 : EXIT_FAILURE;
}

int main(int count, char **words)
{
    static struct release filter, actuator;
    static struct stage stages[] = {
        {.name = "sensor", .step = robot_sensor, .priority = 80, .period_ns = 1000000,
         .deadline_ns = 1000000, .next = &filter},
        {.name = "filter", .step = robot_filter, .priority = 70, .deadline_ns = 1000000,
         .by = &filter},
        {.name = "controller", .step = robot_controller, .priority = 60, .period_ns = 2000000,
         .deadline_ns = 2000000, .next = &actuator},
        {.name = "actuator", .step = robot_actuator, .priority = 75, .deadline_ns = 2000000,
         .by = &actuator},
    };
    enum { STAGES = sizeof stages / sizeof *stages };
    const int dry = count > 1 && strcmp(words[1], "-n") == 0;
    const int seconds = count > 1 + dry ? atoi(words[1 + dry]) : 10;
    struct punctual_thread *threads[STAGES];
    struct release *releases[] = {&filter, &actuator};
    struct timespec end;
    int64_t faults = 0;
    int at, error = 0;

    if (shared.error != 0)
        return fprintf(stderr, "mutex: %s\n", strerror(shared.error)), EXIT_FAILURE;
    if (dry)
        return without_threads(seconds);
    if (punctual_memory_prepare(1 << 20, 64 << 10) != 0)
        return fail("memory");
    for (at = 0; at < 2; at++) {
        pthread_mutexattr_t attr;

        if (punctual_mutexattr_init(&attr) != 0
            || pthread_mutex_init(&releases[at]->mutex, &attr) != 0)
            return fail("mutex");
    }
    for (at = 0; at < STAGES; at++) {
        struct punctual_thread_attr attr;

        memset(&attr, 0, sizeof attr);
        attr.struct_size = sizeof attr;
        attr.name = stages[at].name;
        attr.policy = PUNCTUAL_FIFO;
        attr.priority = stages[at].priority;
        if (punctual_thread_create(&threads[at], &attr, run, &stages[at]) != 0)
            return fail(stages[at].name); /* The end of main ends those that run already. */
    }
    end = punctual_timespec(punctual_now_ns() + (uint64_t)seconds * 1000000000u);
    while (punctual_sleep_until(&end) != 0)
        ; /* A signal. */
    atomic_store(&over, 1);
    for (at = 0; at < STAGES; at++)
        punctual_thread_join(threads[at], NULL);
    printf("%10s %8s %8s %8s %8s %10s\n", "stage", "jobs", "missed", "late", "faults", "worst us");
    for (at = 0; at < STAGES; at++) {
        const struct stage *stage = &stages[at];

        printf("%10s %8llu %8llu %8llu %8lld %10.1f\n", stage->name,
               (unsigned long long)stage->jobs, (unsigned long long)stage->missed,
               (unsigned long long)stage->late, (long long)stage->faults,
               (double)stage->worst_ns / 1000.0);
        faults += stage->faults;
        if (stage->error != 0)
            error = stage->error;
    }
    if (report_joint() != EXIT_SUCCESS || error != 0 || faults != 0)
        return EXIT_FAILURE;
    return EXIT_SUCCESS;
}
