//! The observer: its bills are exact and name the right functions, and the guest doesn't change.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use punctual_lab::LabError;
use punctual_lab::cell::Work;
use punctual_lab::observer::trail::Trail;
use punctual_lab::observer::{Observer, bill};
use punctual_lab::{CellPlan, CellResult, Qemu, Watcher, kernel};

use super::common::{Place, Running, need, program, read_json};
use super::{HANGS, lab, ready};
use punctual_record::laboratory::Architecture;

/// The functions of a cell's worst wake-up, most first, with their instructions.
fn rows(cell: &serde_json::Value) -> Vec<(String, u64)> {
    let rows = cell["bills"][0]["rows"].as_array().expect("rows");
    rows.iter()
        .map(|row| {
            let name = row["function"].as_str().expect("a name");
            let instructions = row["instructions"].as_u64().expect("a number");
            (name.to_owned(), instructions)
        })
        .collect()
}

#[test]
fn bills_are_exact_and_the_guest_runs_as_without_the_observer() {
    need!(ready());
    let place = Place::new();
    let words = |folder: &'static str, explain: &'static str| {
        let kernels = ["--kernel", "standard", "--load", "poll,exit", "-o", folder];
        let work = [explain, "--", "measure", "-l", "150"];
        [&kernels[..], &work[..]].concat()
    };
    let shown = lab(&place, &words("with", "--explain")).expect(0).stdout;
    let bare = lab(&place, &words("without", "--no-explain"))
        .expect(0)
        .stdout;
    assert!(!bare.contains("most of it in"), "{bare}");
    let with = read_json(&place.path().join("with/lab.json"));
    let without = read_json(&place.path().join("without/lab.json"));

    // The complete path of a poll within the kernel, and of an exit that frees memory.
    let paths: [(&str, &[&str]); 2] = [
        (
            "poll",
            &["do_sys_poll", "__fget_light", "pipe_poll", "__fdget"],
        ),
        (
            "exit",
            &[
                "free", "page", "zap", "unmap", "lru", "tlb", "memcg", "cgroup", "list", "uncharge",
            ],
        ),
    ];
    for (index, (load, path)) in paths.iter().enumerate() {
        let cell = &with["cells"][index];
        assert_eq!(cell["load"], *load);
        let hash = |record: &serde_json::Value| {
            record["cells"][index]["laboratory"]["fingerprint"]["result_sha256"].clone()
        };
        assert!(hash(&with).is_string());
        assert_eq!(hash(&with), hash(&without), "{load}: to the byte");
        assert_eq!(cell["no_bill"], serde_json::Value::Null, "{shown}");

        let max = cell["figures"]["max_ns"].as_u64().expect("a maximum");
        assert_eq!(cell["bills"][0]["total_ns"], max, "of the worst");
        for bill in cell["bills"].as_array().expect("bills") {
            let all = bill["rows"].as_array().expect("rows");
            let sum: u64 = all
                .iter()
                .map(|row| row["instructions"].as_u64().expect("a number"))
                .sum();
            assert_eq!(bill["total_ns"], sum, "the rows sum to the latency");
        }
        let rows = rows(cell);
        assert!(
            rows.iter().all(|(name, _)| name != "(not kept)"),
            "{rows:?}"
        );
        let on_path: u64 = rows
            .iter()
            .filter(|(name, _)| path.iter().any(|part| name.contains(part)))
            .map(|(_, instructions)| instructions)
            .sum();
        assert!(on_path > max / 2, "{load}: {rows:?}");
        let (first, _) = &rows[0];
        assert!(
            path.iter().any(|part| first.contains(part)),
            "{load}: {rows:?}"
        );
        assert!(shown.contains(&format!("{first} ")), "{first}: {shown}");
    }
}

/// Runs the lab with the observer, and keeps its plugin's output.
#[derive(Default)]
struct Keeps(Observer, Mutex<Option<Trail>>);

impl Watcher for Keeps {
    fn arguments(&self, plan: &CellPlan<'_>, folder: &Path) -> Result<Vec<OsString>, LabError> {
        self.0.arguments(plan, folder)
    }

    fn take(&self, _: &CellPlan<'_>, folder: &Path, _: &mut CellResult) -> Result<(), LabError> {
        let file = folder.join("observer.out");
        let left = fs::read(&file).map_err(|error| LabError::file(&file, error))?;
        *self.1.lock().expect("nobody panicked") = Some(Trail::parse(&left).expect("a trail"));
        Ok(())
    }
}

/// A reading of the clock may be truncated to whole ns, twice.
const CUT_OFF_NS: u64 = 2;
/// The guest's kernel adjusts its clock by at most one part in this many.
const STEERED_SHARE: u64 = 500_000;
/// One in this many wake-ups may have an interrupt between its clock reading and its mark.
const INTERRUPTED_SHARE: usize = 20;

#[test]
fn as_many_instructions_are_counted_as_nanoseconds_pass() {
    need!(ready());
    let qemu = Qemu::find(Architecture::Amd64).expect("ready");
    let cache = kernel::Cache::for_user().expect("ready");
    let kernel = kernel::find("rt", Architecture::Amd64, &cache, &mut |_| {}).expect("ready");
    let own = fs::read(program()).expect("the program");
    // Threads, processes and their page faults, copies by string instructions, devices.
    for load in ["none", "fork,files"] {
        let words = "measure nanosleep -p 80 -i 1000 -l 300 --no-explain --load";
        let words = words.split(' ').chain([load]).map(str::to_owned);
        let plan = CellPlan {
            qemu: &qemu,
            kernel: &kernel,
            parameters: Vec::new(),
            work: Work::Own(words.collect()),
            modules: Vec::new(),
            brought: Vec::new(),
            rootfs: None,
            seed: 1,
            cpus: 1,
            memory_mib: 1024,
            virtual_limit: Duration::from_secs(60),
            host_limit: HANGS,
            boot_limit: HANGS,
        };
        let keeps = Keeps::default();
        let made = plan.make(&own, Some(&keeps), &|| false).expect("a cell");
        let run = made.run.expect("a record");
        let [thread] = &run.threads[..] else {
            panic!("{load}: {} threads", run.threads.len());
        };
        let trail = keeps.1.into_inner().expect("nobody panicked");
        let trail = trail.expect("what the plugin left");
        let marks = bill::marks_of(&trail.marks, &thread.peaks).expect("wake-ups");
        assert!(marks.len() > 250, "{load}: {} wake-ups", marks.len());
        let woke = thread
            .peaks
            .iter()
            .map(|peak| peak.asked_ns + peak.latency_ns);
        let all: Vec<(u64, u64)> = woke
            .zip(marks.iter().map(|mark| trail.marks[*mark as usize]))
            .collect();
        let wrong: Vec<(u64, u64)> = all
            .windows(2)
            .map(|pair| (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1))
            .filter(|(ns, counted)| ns.abs_diff(*counted) > CUT_OFF_NS + ns / STEERED_SHARE)
            .collect();
        assert!(
            wrong.len() <= marks.len() / INTERRUPTED_SHARE,
            "{load}: of {} stretches these are not as long (ns, instructions): {wrong:?}",
            marks.len() - 1
        );
    }
}

/// The latest wake-ups are recognised while the guest runs; if the worst one isn't, another guest has to
/// run for its bill.
#[test]
fn a_wake_up_that_is_late_by_more_than_half_a_period_needs_no_second_guest() {
    need!(ready());
    let place = Place::new();
    let own = std::env::var("PUNCTUAL_QEMU").unwrap_or_else(|_| "qemu-system-x86_64".to_owned());
    let qemu = place.path().join("qemu");
    let counted = "#!/bin/sh\necho \"$*\" >> \"$0.log\"\nexec ";
    fs::write(&qemu, format!("{counted}{own} \"$@\"\n")).expect("written");
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut command = place.command(program());
    command.env("PUNCTUAL_QEMU", &qemu);
    command.args(["lab", "--kernel", "standard", "--load", "mmap", "-o", "run"]);
    command.args(["--", "measure", "nanosleep", "-i", "509", "-l", "300"]);
    Running::start(command).end_within(HANGS).expect(0);
    let cell = read_json(&place.path().join("run/lab.json"))["cells"][0].clone();
    let worst_ns = cell["figures"]["max_ns"].as_u64().expect("a number");
    assert!(worst_ns > 509_000 / 2, "{}", cell["figures"]);
    assert!(!rows(&cell).is_empty(), "{cell}");
    let started = fs::read_to_string(place.path().join("qemu.log")).expect("its starts");
    let guests = started.lines().filter(|line| line.contains(" -initrd "));
    assert_eq!(guests.count(), 1, "{started}");
}
