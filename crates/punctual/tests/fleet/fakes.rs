//! `punctual fleet slurm` with programs in place of Slurm's that print something unexpected.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::common::{Ended, Place, Running, program};

struct Fakes {
    place: Place,
}

impl Fakes {
    /// A cluster of one node, `n1`, whose programs do what the scripts say.
    fn new(sbatch: &str, squeue: &str) -> Self {
        let fakes = Self {
            place: Place::new(),
        };
        fs::create_dir(fakes.place.path().join("bin")).expect("a folder");
        for (name, script) in [
            ("sinfo", "echo 'n1|idle|rt*'"),
            (
                "scontrol",
                "[ \"$1\" != release ] || echo \"$2\" >>released; cat >/dev/null",
            ),
            ("scancel", "echo \"$@\" >>cancelled"),
            ("sbatch", sbatch),
            ("squeue", squeue),
        ] {
            let file = fakes.place.path().join("bin").join(name);
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        fakes
    }

    fn run(&self, path: &str) -> Ended {
        let mut command = self.place.command(program());
        command.env("PATH", path);
        command.args(["fleet", "slurm", "-o", "night", "--", "qualify", "-l", "5"]);
        Running::start(command).end()
    }

    fn run_here(&self) -> Ended {
        let bin = self.place.path().join("bin");
        self.run(&format!("{}:/usr/bin:/bin", bin.display()))
    }

    fn cancelled(&self) -> String {
        fs::read_to_string(self.place.path().join("cancelled")).unwrap_or_default()
    }
}

/// What `squeue` says of the held task, in the columns that are requested.
const PINNED: &str = "echo '0|PENDING|0|0|n1|JobHeldUser|'";

#[test]
fn without_slurm_the_package_is_named() {
    let fakes = Fakes::new("", "");
    let ended = fakes.run("/nonexistent").expect(1);
    assert!(
        ended.stderr.contains("package slurm-client"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.lines().count(), 1);
    assert_eq!(fakes.place.entries(), ["bin"]);
}

#[test]
fn sbatch_that_prints_no_number_is_an_error() {
    let fakes = Fakes::new("printf 'Welcome\\033[2J to the cluster\\n'", PINNED);
    let ended = fakes.run_here().expect(1);
    assert!(
        ended
            .stderr
            .contains("sbatch printed no job number but 'Welcome"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
    assert_eq!(fakes.place.entries(), ["bin"]);
}

#[test]
fn a_task_that_is_not_bound_to_its_node_is_cancelled() {
    let fakes = Fakes::new(
        "echo Welcome; echo 17",
        "echo '0|PENDING|0|0||JobHeldUser|'",
    );
    let ended = fakes.run_here().expect(1);
    assert!(
        ended
            .stderr
            .contains("task 17_0 could not be bound to node n1"),
        "{}",
        ended.stderr
    );
    assert_eq!(fakes.cancelled(), "17\n");
}

#[test]
fn a_job_that_slurm_forgot_is_a_missing_run() {
    // It is there once, when it is bound to its node.
    let squeue = format!("[ -e asked ] || {{ touch asked; {PINNED}; }}");
    let fakes = Fakes::new("echo '17;cluster'", &squeue);
    let ended = fakes.run_here().expect(1);
    assert!(ended.stdout.contains("Slurm has forgotten it"), "{ended:?}");
    assert!(ended.stdout.contains("1 without"), "{ended:?}");
}

#[test]
fn tasks_that_left_damaged_records_are_named() {
    let attempt = "d=night/.slurm/attempts/0.0; mkdir -p $d; echo '{' >$d/run.json; \
                   printf 'job=17\\nindex=0\\nrestarts=0\\nstatus=0\\n' >$d/slurm.txt";
    let squeue = format!(
        "[ -e asked ] && {{ {attempt}; echo '0|COMPLETED|0|0|n1|None|'; exit; }}; touch asked; {PINNED}"
    );
    let fakes = Fakes::new("echo 17", &squeue);
    let ended = fakes.run_here().expect(1);
    assert!(
        ended.stdout.contains("n1, run 1: ") && ended.stdout.contains("run.json"),
        "{ended:?}"
    );
    assert!(fakes.place.path().join("night/n1/1/run.json").exists());
}

#[test]
fn a_task_that_a_killed_controller_set_back_is_released_again() {
    let squeue = "echo >>calls; case $(wc -l <calls) in 1) echo '0|PENDING|0|0|n1|JobHeldUser|';; \
                  2) echo '0|RUNNING|0|0|n1|None|';; 3) echo '0|PENDING|0|0||None|';; \
                  *) [ $(wc -l <released) = 2 ] && echo '0|CANCELLED|0|0|n1|None|' || \
                  echo '0|PENDING|0|0|n1|JobHeldUser|';; esac";
    let fakes = Fakes::new("echo 17", squeue);
    let ended = fakes.run_here().expect(1);
    let released = fs::read_to_string(fakes.place.path().join("released")).expect("a file");
    assert_eq!(released, "17\n17_0\n", "{ended:?}");
    assert!(
        ended.stderr.contains("had forgotten that 1 run may start"),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("cancelled"), "{ended:?}");
}
