//! The generators do the work that they report, with the requested scheduling.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use punctual_load::{
    ALL, KERNEL_PATHS, LoadClass, LoadReport, LoadSet, LoadSettings, LoadSpec, Parameter,
    classic_item, classic_line, standalone,
};
use punctual_record::LoadFailure;

const READY: Duration = Duration::from_secs(60);

fn settings() -> LoadSettings {
    LoadSettings {
        program: Some(env!("CARGO_BIN_EXE_punctual").into()),
        ..LoadSettings::default()
    }
}

fn start(text: &str, settings: &LoadSettings) -> LoadSet {
    let spec = LoadSpec::parse(text).expect("a good specification");
    let set = LoadSet::start(&spec, settings).expect("loads that start");
    set.wait_ready(READY).expect("loads that run");
    set
}

/// Runs until every load has done some work.
fn work(text: &str, settings: &LoadSettings) -> Vec<LoadReport> {
    let set = start(text, settings);
    let deadline = Instant::now() + READY;
    loop {
        let status = set.status();
        if status.iter().all(|load| load.work > 0) || Instant::now() > deadline {
            return set.stop();
        }
        for load in &status {
            assert_eq!(load.failed, None, "{}", load.name);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn descendants(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    let children = text.split_whitespace().flat_map(str::parse);
    children
        .flat_map(|child| [vec![child], descendants(child)].concat())
        .collect()
}

/// Field `number` of `/proc/PID/stat`, unless the process has ended.
fn stat(pid: u32, number: usize) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = text.rsplit_once(')')?.1.split_whitespace().collect();
    assert_eq!(fields.len() + 2, 52, "fields of {text}");
    (fields[0] != "Z").then(|| fields[number - 3].parse().expect("a number"))
}

#[test]
fn every_generator_works_and_reports_it() {
    for generator in ALL {
        let small = |parameter: &Parameter| match parameter.key {
            "bytes" => ":bytes=1M",
            "processes" => ":processes=20",
            // The number that a limit still allows if it can't be raised.
            "descriptors" => ":descriptors=500",
            _ => "",
        };
        let small: String = generator.parameters.iter().map(small).collect();
        let reports = work(&format!("{}{small}", generator.name), &settings());
        let [report] = &reports[..] else {
            panic!("one load and {} reports", reports.len());
        };
        assert_eq!(report.failed, None, "{report:?}");
        assert!(report.work > 0 && report.rate > 0.0, "{report:?}");
        assert!(report.processes > 0 && report.seconds > 0.0, "{report:?}");
        assert_eq!(report.unit, generator.unit);
        for parameter in generator.parameters {
            assert!(report.parameters.contains_key(parameter.key), "{report:?}");
        }
    }
}

#[test]
fn additional_work_is_counted_too() {
    let spec = "net,timers,fork,mmap:bytes=1M,files:bytes=1M,exit:bytes=1M,\
                hugepages:bytes=4M,truncate:bytes=1M,proc";
    let set = start(spec, &settings());
    let deadline = Instant::now() + READY;
    loop {
        let also: BTreeMap<_, _> = set
            .status()
            .into_iter()
            .flat_map(|load| load.also)
            .collect();
        let kinds: Vec<_> = also.keys().map(String::as_str).collect();
        assert_eq!(
            kinds,
            [
                "bytes",
                "execs",
                "files",
                "mappings",
                "page faults",
                "pages",
                "sleeps",
                "stream bytes",
                "walks"
            ]
        );
        if also.values().all(|&count| count > 0) {
            return;
        }
        assert!(Instant::now() < deadline, "{also:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_standard_load_does_all_of_its_work() {
    let reports = work("standard", &settings());
    assert_eq!(reports.len(), punctual_load::standard::PARTS.len());
    for report in reports {
        assert_eq!(report.failed, None, "{}", report.name);
        assert!(report.work > 0, "{}", report.name);
    }
}

/// Only the load, with this many open files allowed and no right to raise the limit.
fn with_few_files(load: &str, files: u64) -> std::process::Output {
    const CAP_SYS_RESOURCE: libc::c_ulong = 24;
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(["load", load, "-D", "1"]);
    let lower = move || {
        let limit = libc::rlimit {
            rlim_cur: files,
            rlim_max: files,
        };
        // SAFETY: prctl takes integers here; without the privilege it fails, and isn't needed.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_RESOURCE) };
        // SAFETY: `limit` is a valid rlimit that is only read.
        match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure only makes system calls, and allocates nothing.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, lower) };
    command.output().expect("it runs")
}

#[test]
fn unavailable_descriptors_are_refused_with_the_available_number() {
    let output = with_few_files("poll:descriptors=50000", 1000);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.lines().count(), 1, "{text}");
    for word in ["50000", "ulimit -Hn", "1000", "poll:descriptors=936"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    // Without a requested number, as many as are available.
    for load in ["poll:descriptors=936", "poll"] {
        let output = with_few_files(load, 1000);
        assert_eq!(output.status.code(), Some(0), "{load}: {output:?}");
    }
}

#[test]
fn kernel_paths_run_at_their_full_size() {
    for name in ["exit", "munmap", "hugepages"] {
        let load = format!("{name}:workers=1:bytes=100M");
        let report = work(&load, &settings()).remove(0);
        assert_eq!(report.failed, None, "{report:?}");
        // Each was counted before it ended; the last may have been in progress.
        let pages = report.also["pages"];
        let whole = (100 << 20) / 4096;
        assert!(pages >= report.work * whole, "{report:?}");
        assert_eq!(pages % whole, 0, "{report:?}");
    }
    let report = work("kill", &settings()).remove(0);
    assert_eq!(report.failed, None, "{report:?}");
    assert_eq!(report.processes, 2001, "the group, and who signals it");
}

#[test]
fn the_set_of_kernel_paths_runs_as_one() {
    let spec = LoadSpec::parse("kernel-paths").expect("known");
    let set = match LoadSet::start(&spec, &settings()) {
        Ok(set) => set,
        Err(error) => panic!("its defaults fit any machine: {error}"),
    };
    set.wait_ready(READY)
        .expect("its defaults respect the limits");
    let names: Vec<_> = set.stop().into_iter().map(|report| report.name).collect();
    assert_eq!(names, KERNEL_PATHS);
}

#[test]
fn an_empty_load_starts_no_process() {
    let set = start("none", &settings());
    assert!(set.status().is_empty());
    assert!(set.stop().is_empty());
}

#[test]
fn hackbench_counts_every_message() {
    for (arguments, messages) in [
        ("-g 2 -l 7", 2 * 20 * 20 * 7),
        ("-g 1 -l 5 -f 3 -s 1000 -p", 3 * 3 * 5),
        ("-g 3 -l 4 -f 4 -T", 3 * 4 * 4 * 4),
        ("-g 1 -l 2 -f 2 -T -p -s 70000", 2 * 2 * 2),
    ] {
        let arguments: Vec<_> = arguments.split(' ').map(str::to_owned).collect();
        let item = classic_item(&arguments).expect("good arguments");
        let spec = LoadSpec::List(vec![item]);
        let reports = standalone(&spec, &settings(), None, |_| true).expect("a run");
        assert_eq!(reports[0].failed, None, "{arguments:?}");
        assert_eq!(reports[0].work, messages, "{arguments:?}");
        let line = classic_line(&reports[0]);
        let seconds = line.strip_prefix("Time: ").expect("the classic line");
        assert_eq!(seconds.split_once('.').map(|(_, part)| part.len()), Some(3));
    }
}

#[test]
fn loads_that_were_never_started_have_failed() {
    let spec = LoadSpec::parse("cpu:bytes=1M").expect("known");
    let set = LoadSet::start(&spec, &settings()).expect("a supervisor");
    let report = set.stop().remove(0);
    assert_eq!(report.work, 0);
    assert_eq!(report.failed, Some(LoadFailure::NotStarted));
}

#[test]
fn a_finite_load_that_ends_before_the_run_has_failed() {
    let set = start("hackbench:loops=1:groups=1:fds=2", &settings());
    let deadline = Instant::now() + READY;
    while !set.is_over() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(set.status()[0].finished);
    let failed = set.stop().remove(0).failed;
    assert!(
        matches!(failed, Some(LoadFailure::EndedEarly { after_ns: 1.. })),
        "{failed:?}"
    );
}

#[test]
fn the_class_is_in_force_in_every_process() {
    for (class, policy) in [
        (LoadClass::Other, 0),
        (LoadClass::Batch, 3),
        (LoadClass::Idle, 5),
    ] {
        let settings = LoadSettings {
            class,
            ..settings()
        };
        let set = start("cpu:workers=2:bytes=1M,hackbench:groups=1:fds=2", &settings);
        for load in set.status() {
            // The supervisor stays at SCHED_OTHER: it must run when
            // the machine is busy.
            assert_eq!(stat(load.supervisor, 41), Some(0));
            let processes = descendants(load.supervisor);
            assert!(processes.len() > 2, "{}: {processes:?}", load.name);
            for pid in processes {
                assert_eq!(stat(pid, 41), Some(policy), "policy of {}", load.name);
                assert_eq!(stat(pid, 19), Some(0), "nice value of {}", load.name);
                let oom = fs::read_to_string(format!("/proc/{pid}/oom_score_adj"));
                assert_eq!(oom.expect("a score").trim(), "1000");
            }
        }
        for report in set.stop() {
            assert_eq!(report.parameters["class"], class.to_string());
        }
    }
}

#[test]
fn loads_inherit_nothing_of_the_caller() {
    let all = LoadSettings::default().allowed_cpus;
    let caller = std::thread::spawn(move || {
        // SAFETY: an affinity mask is an array of integers; zero is valid.
        let mut first: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: 0 is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(0, &mut first) };
        // SAFETY: `first` is a valid mask of the given size.
        unsafe { libc::sched_setaffinity(0, size_of_val(&first), &first) };
        let fifo = libc::sched_param { sched_priority: 1 };
        // Without the privilege this fails, and only the affinity is tested.
        // SAFETY: `fifo` is a valid parameter that is only read.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &fifo) };
        let set = start("cpu:workers=1:bytes=1M", &settings());
        let supervisor = set.status()[0].supervisor;
        for pid in [vec![supervisor], descendants(supervisor)].concat() {
            assert_eq!(stat(pid, 41), Some(0), "policy");
            let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
            let line = status
                .lines()
                .find(|line| line.starts_with("Cpus_allowed:"));
            let mask = line
                .and_then(|line| line.split_once('\t'))
                .expect("a mask")
                .1;
            let cpus: u32 = mask
                .split(',')
                .map(|word| {
                    u32::from_str_radix(word, 16)
                        .expect("hexadecimal")
                        .count_ones()
                })
                .sum();
            assert_eq!(cpus as usize, all, "CPUs");
        }
    });
    caller.join().expect("the caller's assertions");
}

#[test]
fn a_cpu_list_is_in_force_or_an_error() {
    let on = |cpus| LoadSettings {
        cpus: Some(cpus),
        ..settings()
    };
    let reports = work("cpu:bytes=1M", &on(vec![0]));
    assert_eq!(reports[0].parameters["cpus"], "0");
    assert_eq!(reports[0].parameters["workers"], "1", "scaled to the list");
    let spec = LoadSpec::parse("cpu").expect("known");
    let set = LoadSet::start(&spec, &on(vec![0, 1000])).expect("a supervisor");
    let error = set.wait_ready(READY).expect_err("CPU 1000 is nowhere");
    assert!(error.to_string().contains("1000"), "{error}");
}

#[test]
fn unavailable_memory_is_refused() {
    let spec = LoadSpec::parse("mmap:workers=100:bytes=1000G").expect("in range");
    let error = LoadSet::start(&spec, &settings()).expect_err("100 TB");
    assert!(error.to_string().contains("MiB available"), "{error}");
}

#[test]
fn a_command_that_ends_is_a_failed_load_with_its_last_line() {
    for (command, word) in [
        ("exit 0 ", "status 0"),
        ("echo no >&2; exit 3", "exit status 3: no"),
    ] {
        let spec = LoadSpec::parse(command).expect("a command");
        let set = LoadSet::start(&spec, &settings()).expect("a supervisor");
        set.wait_ready(READY)
            .expect("a shell that is about to start");
        let deadline = Instant::now() + READY;
        while !set.is_over() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let reports = set.stop();
        let failed = reports[0].failed.as_ref().expect("it ended by itself");
        assert!(
            matches!(failed, LoadFailure::Error { error } if error.contains(word)),
            "{failed:?}"
        );
    }
}

#[test]
fn a_command_that_sleeps_has_done_no_work() {
    // Starting the shell may itself take a tick or two: then once more.
    let no_work = (0..10).any(|_| {
        let reports = start("exec sleep 1000", &settings()).stop();
        let failed = reports[0].failed.as_ref();
        assert_eq!(reports[0].unit, "CPU milliseconds");
        let said = matches!(failed, Some(LoadFailure::NoWork { .. }));
        assert_eq!(said, reports[0].work == 0, "{failed:?}");
        said
    });
    assert!(no_work, "each of ten commands that sleep has worked");
}

#[test]
fn an_unwritable_scratch_directory_is_named() {
    let settings = LoadSettings {
        scratch_dir: Some("/proc".into()),
        ..settings()
    };
    let spec = LoadSpec::parse("files").expect("known");
    let set = LoadSet::start(&spec, &settings).expect("a supervisor");
    let error = set
        .wait_ready(READY)
        .expect_err("nothing can be made in /proc");
    assert!(error.to_string().contains("/proc/"), "{error}");
}

#[test]
fn the_hidden_verb_refuses_to_run_by_hand() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["__load", "cpu"])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("use 'punctual load'"));
}
