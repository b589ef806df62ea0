//! Parts that need one CPU and exact time, on both kernels: what `punctual watch` counts for
//! programs with known behaviour, a throttled probe, noise compared with the kernel's own
//! measurement. The parts run in the guest, as those of [`super::inside`].
#![cfg(feature = "trace")]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_record::{CrossCheckFault, CrossFigureName, Document, KernelTracer, Run};
use punctual_rt::sched::{Policy, set_current};

use super::common::{Place, need, said};
use super::inside::{in_guest, is_rt, punctual};
use super::{exact, known, ready, several, waits};

/// The number of the parts below.
const PARTS: usize = 11;

fn all_parts(kernel: &str) {
    need!(ready());
    let place = Place::new();
    let watched = known::watched().to_str().expect("UTF-8");
    let family = known::family().to_str().expect("UTF-8");
    let chains = known::chains().to_str().expect("UTF-8");
    let brought = [watched, family, chains].map(|it| ["--bring", it]).concat();
    let flags = [&["--kernel", kernel, "--no-explain"][..], &brought].concat();
    let (passed, shown) = in_guest(&place, &flags, "alone::guest_");
    assert_eq!(passed, PARTS, "{shown}");
}

#[test]
fn watches_throttling_and_noise_are_right_on_preempt_rt() {
    all_parts("rt");
}

#[test]
fn watches_throttling_and_noise_are_right_on_the_standard_kernel() {
    all_parts("standard");
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_what_a_program_does_is_counted_exactly() {
    let read = exact::its_actions_are_counted(&["--no-explain"]);
    // With one CPU, the reader preempts the writer before that one releases the lock.
    assert_eq!(read, if is_rt() { 41 } else { 20 });
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_late_waits_and_skipped_instants_are_counted() {
    exact::late_waits_and_skipped_instants_are_counted();
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_late_jobs_are_counted() {
    exact::late_jobs_are_counted().expect("SCHED_DEADLINE is granted");
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_the_budget_that_jobs_use_is_counted() {
    exact::the_budget_that_jobs_use_is_counted().expect("SCHED_DEADLINE is granted");
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_off_cpu_times_are_counted_by_stack() {
    exact::off_cpu_times_are_counted_by_stack();
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_run_queue_latencies_are_counted() {
    exact::run_queue_latencies_are_counted(0, false);
    exact::run_queue_latencies_are_counted(0, true);
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_the_system_watch_names_the_thread_in_the_way() {
    exact::the_thread_in_the_way_is_named(0);
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_waits_for_other_threads_are_followed() {
    waits::a_pipe_of_three_processes_is_followed_to_its_end();
    waits::a_lock_whose_holder_waits_for_another_lock_is_followed_to_the_working_thread();
    waits::a_helper_that_a_real_time_thread_preempts_is_ready_behind_that_thread();
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_programs_that_come_and_go_are_followed() {
    several::a_tree_is_followed();
    several::programs_of_a_name_are_followed();
    let (kind, place) = (c"cgroup2", c"/tmp/groups");
    fs::create_dir_all("/tmp/groups").expect("a directory");
    // SAFETY: the strings outlive the call, and there are no options.
    let mounted = unsafe {
        libc::mount(
            kind.as_ptr(),
            place.as_ptr(),
            kind.as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
    several::programs_that_join_and_leave_a_group_are_followed().expect("a group");
}

/// A kernel setting, restored when this is dropped.
struct Setting(&'static str, String);

impl Setting {
    fn put(path: &'static str, value: &str) -> Self {
        let was = fs::read_to_string(path).expect("it can be read");
        fs::write(path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self(path, was.trim().to_owned())
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(self.0, &self.1);
    }
}

/// A run in the guest.
fn measured(name: &str, words: &[&str]) -> (std::process::Output, Run) {
    let folder = format!("/tmp/{name}");
    let all = [
        &["measure"],
        words,
        &["-q", "--load", "none", "-o", &folder],
    ]
    .concat();
    let output = punctual(&all);
    let run = Run::read(folder.as_ref());
    let run = run.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output, run)
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_a_throttled_probe_makes_the_run_invalid() {
    // The runtime first: it must not be longer than the period.
    let _runtime = Setting::put("/proc/sys/kernel/sched_rt_runtime_us", "50000");
    let _period = Setting::put("/proc/sys/kernel/sched_rt_period_us", "100000");
    let over = AtomicBool::new(false);
    let (output, run) = std::thread::scope(|scope| {
        // Below the probe: never in its way, and yet it uses all the time that real-time threads
        // may use.
        scope.spawn(|| {
            set_current(Policy::Fifo(50)).expect("a guest's root may");
            while !over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(120) {}
                // On PREEMPT_RT, timers of other threads expire in threads of low priority.
                std::thread::sleep(Duration::from_millis(40));
            }
        });
        let measured = measured("throttled", &["-p", "80", "-i", "1000", "-D", "1"]);
        over.store(true, Ordering::Relaxed);
        measured
    });
    let said = said(&run);
    assert!(
        said.contains("the kernel throttled the probe of CPU 0: "),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(4), "{said}");
    // Half of the time nothing of real time ran: the worst wake-up waited for all of that.
    let worst = run.threads[0].latency.max_ns;
    assert!((40_000_000..60_000_000).contains(&worst), "{worst}");
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_noise_agrees_with_osnoise_if_the_kernel_has_it() {
    let words = [
        "noise",
        "-D",
        "500ms",
        "--gap",
        "1us",
        "--cross-check",
        "--no-explain",
    ];
    let (output, run) = measured("noise", &words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let check = run.cross_check.expect("a comparison");
    assert_eq!(check.tracer, KernelTracer::Osnoise);
    if !is_rt() {
        assert_eq!(check.figures, []);
        let missing = check.missing.expect("why");
        assert!(
            matches!(&missing, CrossCheckFault::Failed { error } if error.contains("no osnoise tracer")),
            "{missing:?}"
        );
        return;
    }
    assert_eq!((check.missing, check.lost), (None, 0));
    // One each period, and perhaps one from before the run.
    assert!((4..=7).contains(&check.samples), "{}", check.samples);
    let names: Vec<_> = check.figures.iter().map(|f| f.name).collect();
    assert_eq!(names, [CrossFigureName::Noise, CrossFigureName::Maximum]);
    for figure in &check.figures {
        // The same ticks of the kernel. It counts whole microseconds, and includes the cost of its
        // own tracing in the noise.
        let ratio = figure.ratio.expect("a ratio");
        assert!((0.5..1.5).contains(&ratio), "{figure:?}");
    }
}
