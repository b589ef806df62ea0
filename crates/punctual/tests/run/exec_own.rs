//! Code of the user's own that takes longer than it says, or never returns, and what would end a set.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use punctual_record::explanation::Cause;
use punctual_record::taskset::TaskFault;

use crate::alone::alone;
use crate::common::{Place, cpus, flat, need, needs};
use crate::exec::{executed, jobs, object, share, tasks};

#[test]
fn a_step_or_a_command_that_never_returns_ends_with_its_set_and_is_named() {
    need!(needs::root());
    need!(needs::compiler());
    let place = Place::new();
    let cpu = cpus()[0];
    let code = "#include <unistd.h>\nstatic int n;\n\
                int step(void **p) { (void)p; if (++n == 5) for (;;) pause(); return 0; }\n";
    object(&place, "hangs", code);
    let text = format!(
        "[[task]]\nname = \"hangs\"\npriority = 42\ncpu = {cpu}\nperiod = \"10ms\"\n\
         work = [{{ library = \"./hangs.so\", function = \"step\" }}]\n\
         [[task]]\nname = \"waits\"\ncpu = {cpu}\nperiod = \"100ms\"\n\
         work = [{{ command = [\"sleep\", \"1000.5\"] }}]\n\
         [[task]]\nname = \"plain\"\npriority = 50\ncpu = {cpu}\nperiod = \"10ms\"\nwork = \"100us\"\n"
    );
    let begun = Instant::now();
    let (ended, run) = executed(&place, &text, &["-D", "1", "--miss", "0"]);
    // Each has missed its deadline: no less for not having ended at all.
    let text = flat(&ended.expect(2).stdout);
    assert!(begun.elapsed() < Duration::from_secs(30));
    for name in ["hangs", "waits"] {
        let named = format!("task {name} did not end in time");
        assert!(text.contains(&named), "{named}: {text}");
    }
    let still = |task: usize| tasks(&run).tasks[task].fault == Some(TaskFault::StillBusy {});
    assert_eq!([0, 1, 2].map(still), [true, true, false]);
    assert_eq!((jobs(&run, 0), jobs(&run, 1)), (4, 0));
    // Neither the command nor the process of the object is left behind.
    place.await_silence();
    let all = fs::read_dir("/proc").expect("procfs").flatten();
    let commands = all.filter_map(|it| fs::read(it.path().join("cmdline")).ok());
    assert_eq!(commands.filter(|it| it == b"sleep\x001000.5\0").count(), 0);
}

#[test]
fn a_task_that_falls_behind_or_hangs_after_misses_fails() {
    need!(needs::rights());
    let place = Place::new();
    let sensor = "[[task]]\nname = \"sensor\"\nperiod = \"10ms\"\nwork = \"10us\"\n";
    // When the set ends, so many releases wait that they would take 7 s more.
    let filter = "[[task]]\nname = \"filter\"\nafter = \"sensor\"\nwork = [{ sleep = \"40ms\" }]\n";
    let (ended, run) = executed(&place, &[sensor, filter].concat(), &["-D", "2.5"]);
    ended.expect(2);
    assert!(tasks(&run).tasks.iter().all(|task| task.fault.is_none()));
    let figures = &tasks(&run).tasks[1];
    let all = figures.jobs.latency.count + figures.jobs.missed;
    assert!((240..=250).contains(&all), "{all}");
    // The second job does not end: it and all that its timer would release have missed their deadlines.
    let place = Place::new();
    let script = "test -e x && exec sleep 1000.25; : > x";
    let hangs = format!(
        "[[task]]\nname = \"hangs\"\nperiod = \"100ms\"\nwork = [{{ command = [\"sh\", \"-c\", \"{script}\"] }}]\n"
    );
    let (ended, run) = executed(&place, &hangs, &["-D", "2"]);
    let text = flat(&ended.expect(2).stdout);
    assert!(text.contains("task hangs did not end in time"), "{text}");
    let figures = &tasks(&run).tasks[0];
    assert_eq!(figures.fault, Some(TaskFault::StillBusy {}));
    assert_eq!(figures.jobs.latency.count + figures.jobs.missed, 20);
}

#[test]
fn what_a_function_executes_is_its_tasks_own_work_and_more_than_its_wcet_is_said_first() {
    need!(needs::root());
    need!(needs::tracing());
    need!(needs::compiler());
    let _alone = alone();
    let place = Place::new();
    let cpu = cpus()[0];
    let code = "#include <time.h>\n\
                static long long at(void) { struct timespec t;\n\
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }\n\
                int step(void **p) { (void)p; long long end = at() + 3000000; while (at() < end); return 0; }\n";
    object(&place, "burns", code);
    let text = format!(
        "[[task]]\nname = \"burns\"\npriority = 60\ncpu = {cpu}\nperiod = \"20ms\"\ndeadline = \"2ms\"\n\
         wcet = \"1ms\"\nwork = [{{ library = \"./burns.so\", function = \"step\" }}]\n"
    );
    let (ended, run) = executed(&place, &text, &["-D", "2", "--miss", "0"]);
    let text = flat(&ended.expect(2).stdout);
    let bills = tasks(&run).tasks[0].bills.as_ref().expect("bills");
    assert!(bills.explained > 20, "{bills:?}");
    let worked = share(bills, |cause| *cause == Cause::Work);
    let total: u64 = bills.causes.iter().map(|it| it.total_ns).sum();
    let work_ns = worked * total as f64;
    // 3 ms of each job: whatever the host takes comes on top, and what a missing event hides.
    let each_ns = work_ns / bills.explained as f64;
    assert!((2.7e6..3.3e6).contains(&each_ns), "{each_ns}: {bills:?}");
    // Interrupts are in the clock of the thread, and not in its own work.
    let own_ns = bills.worst[0].beyond_declared(Some(1_000_000));
    let own_ns = own_ns.expect("more than its wcet");
    // In the worst one the host may have taken more than it says.
    assert!(own_ns >= 2_700_000, "{text}");
    let own = punctual_stats::format::duration(own_ns);
    let said = format!("burns: its own work took {own},");
    assert!(text.contains(&said), "{said} {text}");
    assert!(text.contains("its wcet is 1 ms"), "{text}");
}

#[test]
fn a_set_whose_jobs_the_time_limit_of_real_time_threads_would_end_is_refused() {
    need!(needs::root());
    need!(needs::program("prlimit"));
    let place = Place::new();
    let cpu = cpus()[0];
    let text = format!(
        "[[task]]\nname = \"long\"\npriority = 20\ncpu = {cpu}\nperiod = \"500ms\"\n\
         work = [{{ run = \"150ms\" }}, {{ run = \"100ms\" }}]\n"
    );
    fs::write(place.path().join("set.toml"), text).expect("written");
    let tool = place.command(env!("CARGO_BIN_EXE_punctual"));
    let mut command = Command::new("prlimit");
    let output = command
        .current_dir(place.path())
        .args(["--rttime=200000:200000", "--"])
        .arg(tool.get_program())
        .args(["exec", "set.toml", "--overheads", "none", "-o", "none"])
        .output()
        .expect("prlimit");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for words in [
        "RLIMIT_RTTIME is 200000",
        "task long executes for 250000",
        "ulimit -R",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn the_analysis_says_what_the_kernel_refuses_to_a_bound_reservation() {
    need!(needs::root());
    need!(needs::cpus(2));
    let place = Place::new();
    let cpu = cpus()[1];
    let text = format!(
        "[[task]]\nname = \"t0\"\npolicy = \"deadline\"\nruntime = \"2ms\"\nperiod = \"10ms\"\n\
         deadline = \"8ms\"\ncpu = {cpu}\nwork = \"500us\"\n"
    );
    fs::write(place.path().join("set.toml"), text).expect("written");
    let words = ["exec", "--analyse", "--overheads", "none", "set.toml"];
    let said = flat(&place.run(&words).expect(0).stdout);
    let refused = said.contains("it refuses (EPERM) t0, as tried on this machine");
    // What it says is what happens.
    let words = [
        "exec",
        "set.toml",
        "--overheads",
        "none",
        "-D",
        "1",
        "-o",
        "r",
    ];
    let ended = place.run(&words);
    assert_eq!(
        ended.stderr.contains("task t0: policy"),
        refused,
        "{said} {ended:?}"
    );
    assert_eq!(
        said.contains("the kernel refuses it here"),
        refused,
        "{said}"
    );
}

#[test]
fn phases_with_periods_of_their_own_are_judged_by_them() {
    need!(needs::rights());
    let _alone = alone();
    let place = Place::new();
    let cpu = cpus()[0];
    let text = format!(
        "[[task]]\nname = \"p\"\npriority = 50\ncpu = {cpu}\nperiod = \"20ms\"\n\
         [[task.phase]]\njobs = 3\nwork = \"1ms\"\n\
         [[task.phase]]\njobs = 2\nperiod = \"100ms\"\nwork = \"35ms\"\n"
    );
    let (ended, run) = executed(&place, &text, &["-D", "3", "--miss", "0.2"]);
    // 35 ms within 100; before, these were late: 40 % of all.
    assert_ne!(ended.status.code(), Some(2), "{}", ended.stdout);
    let jobs = &tasks(&run).tasks[0].jobs;
    let judged = jobs.latency.count + jobs.missed;
    assert!((40..=60).contains(&judged), "{judged}");
    assert!(jobs.late + jobs.missed < judged / 5, "{jobs:?}");
}
