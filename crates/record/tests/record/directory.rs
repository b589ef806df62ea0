//! The run directory: made first, whole at every moment.
#![allow(clippy::print_stderr, reason = "a test that can't run says why")]

use super::support as record_support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::needs::{self, Absent, need};
use punctual_record::{Document, Ending, RecordError, Run, RunDirectory, State};

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn the_default_name_says_verb_and_time() {
    let parent = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..3)
        .map(|_| RunDirectory::create_within(parent.path(), "qualify", at(1_795_229_169)).unwrap())
        .map(|made| {
            made.path()
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let first = "punctual-qualify-20261121T024609";
    assert_eq!(
        names,
        [first.to_owned(), format!("{first}-2"), format!("{first}-3")]
    );
}

#[test]
fn a_directory_in_use_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let made = RunDirectory::create(Some(&path), "qualify", at(0)).unwrap();
    assert_eq!(
        fs::read_dir(&path).unwrap().count(),
        0,
        "nothing is left behind"
    );
    // Empty, but another run's.
    let error = RunDirectory::create(Some(&path), "qualify", at(0)).unwrap_err();
    assert!(matches!(error, RecordError::Exists { .. }));
    drop(made);
    let made = RunDirectory::create(Some(&path), "qualify", at(0)).unwrap();
    made.save_file("report.html", b"x").unwrap();
    let error = RunDirectory::create(Some(&path), "qualify", at(0)).unwrap_err();
    assert!(matches!(error, RecordError::Exists { .. }));
    assert!(
        error.to_string().contains("name another directory with -o"),
        "{error}"
    );
    let file = parent.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = RunDirectory::create(Some(&file), "qualify", at(0)).unwrap_err();
    assert!(matches!(error, RecordError::Exists { .. }));
}

#[test]
fn an_unfit_parent_is_one_line() {
    // /proc refuses new directories to root too.
    for path in ["/nonexistent/run", "/proc/run", "/dev/null/run"] {
        let error = RunDirectory::create(Some(Path::new(path)), "qualify", at(0)).unwrap_err();
        assert!(matches!(error, RecordError::Create { .. }), "{error:?}");
        let line = error.to_string();
        assert!(line.starts_with(path) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn what_is_saved_is_read() {
    let parent = tempfile::tempdir().unwrap();
    let directory =
        RunDirectory::create(Some(&parent.path().join("run")), "qualify", at(0)).unwrap();
    let error = Run::read(directory.path()).unwrap_err();
    assert!(matches!(error, RecordError::NoRecord { .. }), "{error}");
    let mut run = record_support::run(1);
    run.state = State::Unfinished;
    directory.save(&run).unwrap();
    assert_eq!(Run::read(directory.path()).unwrap(), run);
    run.state = State::Stopped(Ending::Interrupt);
    directory.save(&run).unwrap();
    // The leftover of a save that was cut short is not looked at.
    fs::write(directory.path().join("run.json.tmp"), "{\"format\":").unwrap();
    assert_eq!(Run::read(directory.path()).unwrap(), run);
    assert_eq!(Run::read(&directory.path().join(Run::FILE)).unwrap(), run);
    directory.save(&run).unwrap();
    let names = fs::read_dir(directory.path()).unwrap();
    assert_eq!(names.count(), 2, "it stays, and nothing comes to it");
    assert!(directory.save_file("../escape", b"x").is_err());
    assert!(directory.save_file("", b"x").is_err());
}

#[test]
fn a_float_that_is_none_costs_the_analysis_not_the_run() {
    let parent = tempfile::tempdir().unwrap();
    let directory =
        RunDirectory::create(Some(&parent.path().join("run")), "qualify", at(0)).unwrap();
    let mut run = record_support::run(1);
    run.analysis.as_mut().unwrap().total.mean_ns = Some(f64::NAN);
    run.loads[0].rate = f64::INFINITY;
    run.verdict.as_mut().unwrap().confidence = f64::NAN;
    directory.save(&run).unwrap();
    let back = Run::read(directory.path()).unwrap();
    assert_eq!(back.threads, run.threads);
    assert_eq!(back.loads[0].rate, 0.0);
}

/// A file system of 256 KiB of its own; `None` says why there is none.
struct Tiny(PathBuf);

impl Tiny {
    fn mount(at: &Path) -> Result<Self, Absent> {
        needs::mounts()?;
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
            .arg(at)
            .status();
        assert!(done.is_ok_and(|status| status.success()), "a mount");
        Ok(Self(at.to_owned()))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_what_was_saved() {
    let parent = tempfile::tempdir().unwrap();
    let tiny = need!(Tiny::mount(parent.path()));
    let directory = RunDirectory::create(Some(&tiny.0.join("run")), "qualify", at(0)).unwrap();
    let run = record_support::run(1);
    directory.save(&run).unwrap();
    fs::write(tiny.0.join("ballast"), vec![0; 90 << 10]).unwrap();

    let mut larger = run.clone();
    larger.command = vec!["x".repeat(200 << 10)];
    let error = directory.save(&larger).unwrap_err();
    assert!(error.is_full(), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("run.json: not saved: No space left"),
        "{error}"
    );
    assert_eq!(Run::read(directory.path()).unwrap(), run);
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        1,
        "no leftover fills the disk"
    );

    // With room again, saving goes on.
    fs::remove_file(tiny.0.join("ballast")).unwrap();
    larger.command = vec!["y".to_owned()];
    directory.save(&larger).unwrap();
    assert_eq!(Run::read(directory.path()).unwrap(), larger);

    // No room for a directory's probe either: refused before measuring.
    fs::write(tiny.0.join("ballast"), vec![0; 10 << 20]).unwrap_err();
    let created = RunDirectory::create(Some(&tiny.0.join("second")), "qualify", at(0));
    if let Ok(second) = created {
        let error = second.save(&larger).unwrap_err();
        assert!(error.is_full(), "{error:?}");
        assert!(matches!(
            Run::read(second.path()),
            Err(RecordError::NoRecord { .. })
        ));
    }
}

/// Not a test: the child of the next one.
#[test]
#[ignore = "the child of kill_at_any_moment"]
#[allow(clippy::print_stdout, reason = "its parent listens")]
fn save_forever() {
    let Ok(path) = std::env::var("PUNCTUAL_TEST_SAVE") else {
        return;
    };
    let directory = RunDirectory::existing(Path::new(&path)).unwrap();
    let mut run = record_support::run(7);
    for count in 1.. {
        run.measured_ns = count;
        directory.save(&run).unwrap();
        if count == 1 {
            println!("\n{SAVING}");
        }
    }
}

/// What the child says once it has saved.
const SAVING: &str = "saving";

#[test]
fn kill_at_any_moment() {
    let parent = tempfile::tempdir().unwrap();
    let directory =
        RunDirectory::create(Some(&parent.path().join("run")), "qualify", at(0)).unwrap();
    directory.save(&record_support::run(7)).unwrap();
    let mut random = record_support::Random(42);
    let (mut grown, mut last) = (0, 0);
    let until = Instant::now() + Duration::from_secs(4);
    for _ in 0..60 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "directory::save_forever",
                "--ignored",
                "--nocapture",
                "-q",
            ])
            .env("PUNCTUAL_TEST_SAVE", directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap() == SAVING), "it did begin");
        std::thread::sleep(Duration::from_micros(random.next() % 40_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let run = Run::read(directory.path()).unwrap();
        assert_eq!(run.threads.len(), 2);
        grown += u32::from(run.measured_ns != last);
        last = run.measured_ns;
        if grown > 3 && Instant::now() > until {
            break;
        }
    }
    assert!(grown > 3, "the children did save");
}
