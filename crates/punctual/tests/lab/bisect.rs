//! `lab bisect` under a real `git bisect run`.

use std::fs;
use std::process::Command;

use super::common::{Place, Running, need, needs, program};
use super::{HANGS, lab, ready};

/// On the standard kernel the exit of a large process delays a wake-up by milliseconds, on
/// PREEMPT_RT by microseconds.
const JUDGE: &str = "exec \"$PUNCTUAL\" lab bisect --build 'sh ./build.sh' --kernel \"$(cat kernel)\" \
    --load exit -q -- measure -p 80 -l 600 -i 1000 --max 500us";

#[test]
fn git_bisect_finds_the_commit_that_increased_the_latency() {
    need!(needs::program("git"));
    need!(ready());
    let place = Place::new();
    let repository = place.path().join("repository");
    fs::create_dir(&repository).expect("made");
    let write = |name: &str, text: &str| fs::write(repository.join(name), text).expect("written");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command
            .current_dir(&repository)
            .env("HOME", place.path())
            .args([
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "-c",
                "init.defaultBranch=m",
            ])
            .args(words);
        let done = command.output().expect("git");
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{words:?}: {told} {done:?}");
        told
    };
    git(&["init", "-q"]);
    // Six commits: good, good, one that can't be built, bad, bad, bad.
    for (number, (kernel, builds)) in [
        ("rt", true),
        ("rt", true),
        ("rt", false),
        ("standard", true),
        ("standard", true),
        ("standard", true),
    ]
    .into_iter()
    .enumerate()
    {
        write("kernel", kernel);
        write("number", &number.to_string());
        write("build.sh", if builds { "exit 0\n" } else { "exit 3\n" });
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", &format!("commit {number}")]);
    }
    git(&["bisect", "start", "HEAD", "HEAD~4"]);
    let mut command = place.command("git");
    command
        .current_dir(&repository)
        .env("PUNCTUAL", program())
        .args(["bisect", "run", "sh", "-c", JUDGE]);
    let ended = Running::start(command).end_within(HANGS);
    let told = format!("{}{}", ended.stdout, ended.stderr);
    // The skipped commit is between the last good one and the first bad one.
    let log = git(&["bisect", "log"]);
    assert!(
        told.contains("bisect: bad (exit status 1)"),
        "{log} {ended:?}"
    );
    assert!(log.contains("# skip:"), "{log} {told}");
    assert!(
        log.contains("possible first bad commit: ") && log.contains("commit 3"),
        "{log} {told}"
    );
    assert!(
        !log.lines()
            .any(|line| line.starts_with("# bad") && line.contains("commit 1"))
    );
}

#[test]
fn an_error_that_no_commit_can_fix_ends_the_bisection() {
    let place = Place::new();
    for words in [
        &["bisect", "--nonsense"][..],
        &["bisect", "--load", "nte"],
        &["bisect", "--", "measure", "-p", "100"],
        &["bisect", "--build", "true", "--", "qualify"],
        &["bisect", "--build", "true", "--", "punctual", "qualify"],
    ] {
        let ended = lab(&place, words).expect(128);
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    }
    let mut command = place.command(program());
    command.args(["lab", "bisect"]).env("PATH", "/nowhere");
    Running::start(command).end().expect(128);
}

#[test]
fn a_commit_that_cannot_be_tested_is_skipped() {
    need!(ready());
    let place = Place::new();
    for (words, said) in [
        (
            &["--kernel", "rt", "--build", "exit 3"][..],
            "--build 'exit 3' failed",
        ),
        (&["--kernel", "./vmlinux"], "vmlinux"),
        (
            &["--kernel", "rt", "--", "punctual", "qualify", "--nonsense"],
            "wrong usage of the command",
        ),
        (
            &[
                "--kernel",
                "rt",
                "--",
                "punctual",
                "qualify",
                "-D",
                "1",
                "--load",
                "none",
                "--deadline",
                "50us",
            ],
            "is neither PASS nor FAIL: IN",
        ),
        (
            &[
                "--build",
                "head -c 9999 /bin/sh >vmlinux",
                "--kernel",
                "./vmlinux",
            ],
            "vmlinux",
        ),
    ] {
        let ended = lab(&place, &[&["bisect"], words].concat()).expect(125);
        assert!(ended.stderr.contains(said), "{said}: {ended:?}");
        assert!(
            ended
                .stderr
                .ends_with("bisect: skipped (exit status 125)\n"),
            "{ended:?}"
        );
    }
}
