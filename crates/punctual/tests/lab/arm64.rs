//! Guests of another architecture: arm64, on a machine that is none.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use punctual_record::laboratory::Architecture;

use super::common::needs::Absent;
use super::common::{Ended, Place, Running, need, program, read_json};
use super::{HANGS, ready_for};

/// This tool, built for arm64.
fn guest_program() -> Result<&'static Path, Absent> {
    static BUILT: OnceLock<Result<PathBuf, Absent>> = OnceLock::new();
    // `make test` has built it before: then it is up to date.
    let build = || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let output = Command::new(root.join("scripts/cargo-for"))
            .current_dir(&root)
            .args([
                "arm64",
                "build",
                "--quiet",
                "--locked",
                "--package",
                "punctual",
            ])
            .output()
            .expect("bash runs");
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default();
            return Err(Absent::program(format!("this tool for arm64: {last}")));
        }
        // target/TRIPLE/debug/punctual
        let target = program().ancestors().nth(3).expect("a target directory");
        Ok(target.join("aarch64-unknown-linux-gnu/debug/punctual"))
    };
    BUILT.get_or_init(build).as_deref().map_err(Clone::clone)
}

/// The file of this tool for guests, if they can run here.
fn ready() -> Result<&'static Path, Absent> {
    ready_for(Architecture::Arm64)?;
    guest_program()
}

fn lab(place: &Place, guest: &Path, arguments: &[&str]) -> Ended {
    let mut command = place.command(program());
    command.arg("lab").args(arguments);
    command.env("PUNCTUAL_GUEST", guest);
    Running::start(command).end_within(HANGS)
}

#[test]
fn both_kernels_repeat_bit_for_bit_and_each_worst_wake_up_has_its_bill() {
    let guest = need!(ready());
    let place = Place::new();
    let words = ["--arch", "arm64", "--load", "idle,fork", "-o", "made", "--"];
    let measured = ["measure", "nanosleep", "-p", "80", "-i", "509", "-l", "400"];
    lab(&place, guest, &[&words[..], &measured].concat()).expect(0);
    let made = read_json(&place.path().join("made/lab.json"));
    let cells = made["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4);
    let mut worst = Vec::new();
    for cell in cells {
        let laboratory = &cell["laboratory"];
        assert_eq!(laboratory["architecture"], "arm64");
        let release = laboratory["release"].as_str().expect("a release");
        assert!(release.ends_with("-arm64"), "{release}");
        assert_eq!(cell["figures"]["samples"], 400, "{cell}");
        let max = cell["figures"]["max_ns"].as_u64().expect("a maximum");
        let bill = &cell["bills"][0];
        assert_eq!(bill["total_ns"], max, "{cell}");
        let rows = bill["rows"].as_array().expect("rows");
        let sum: u64 = rows
            .iter()
            .filter_map(|row| row["instructions"].as_u64())
            .sum();
        assert_eq!(sum, max, "{bill}");
        let named = |name: &str| rows.iter().any(|row| row["function"] == name);
        assert!(named("__schedule") && !named("(module)"), "{bill}");
        worst.push(max);
    }
    // rt idle, rt fork, standard idle, standard fork: a fork holds off a standard kernel's switch.
    assert!(worst[3] > 2 * worst[1], "{worst:?}");

    // Not observed this time: what the guests hand out is the same to the byte.
    let again = lab(&place, guest, &["verify", "made"]).expect(0);
    let same = again
        .stdout
        .lines()
        .filter(|line| line.contains(": identical (result "));
    assert_eq!(same.count(), 4, "{}", again.stdout);
    assert!(
        !again.stdout.contains("not the same machine"),
        "{}",
        again.stdout
    );
}

#[test]
fn what_is_not_for_these_guests_is_refused_in_one_line() {
    let guest = need!(ready());
    let place = Place::new();
    let image = |architecture| {
        let cache = punctual_lab::kernel::Cache::for_user().expect("a cache");
        let found = punctual_lab::kernel::find("rt", architecture, &cache, &mut |_| {});
        found.expect("a kernel").image.display().to_string()
    };
    let (own, arm) = (image(Architecture::Amd64), image(Architecture::Arm64));
    let none = Path::new("/nowhere/punctual-arm64");
    let shell = Path::new("/bin/sh");
    let arm64 = ["--arch", "arm64"];
    let refused = |file: &Path, more: &[&str], status: i32, words: &str| {
        let ended = lab(&place, file, more).expect(status);
        let line = ended.stderr.trim();
        assert!(
            line.contains(words) && line.lines().count() == 1,
            "{more:?}: {line}"
        );
        assert!(
            place.entries().is_empty(),
            "{more:?}: {:?}",
            place.entries()
        );
    };
    for (file, more, status, words) in [
        (guest, &["--kernel", &own][..], 1, "give --arch amd64"),
        (none, &["--kernel", "rt"], 1, "make build ARCH=arm64"),
        (shell, &["--kernel", "rt"], 1, "the guests are arm64"),
        (
            guest,
            &["--kernel", "rt", "--", "/bin/true"],
            1,
            "the guests are arm64",
        ),
        (
            guest,
            &["bound", "--kernel", "rt"],
            64,
            "amd64 guests alone",
        ),
    ] {
        // A verb comes before its flags.
        let (verb, rest) = match more {
            ["bound", rest @ ..] => (&["bound"][..], rest),
            _ => (&[][..], more),
        };
        refused(file, &[verb, &arm64, rest].concat(), status, words);
    }
    refused(guest, &["--arch", "arm65"], 64, "amd64, arm64, riscv64");
    refused(guest, &["--kernel", &arm], 1, "give --arch arm64");
}

#[test]
fn the_guests_kernel_is_traced_and_explains_each_wake_up() {
    let guest = need!(ready());
    let place = Place::new();
    let words = ["--arch", "arm64", "--load", "fork", "-o", "made", "--"];
    let measured = [
        "measure",
        "nanosleep",
        "-l",
        "100",
        "--explain-above",
        "1us",
    ];
    lab(&place, guest, &[&words[..], &measured].concat()).expect(0);
    for kernel in ["rt", "standard"] {
        let run = read_json(&place.path().join(format!("made/{kernel}/fork/run.json")));
        let explanation = &run["explanation"];
        assert_eq!(explanation["explained"], 100, "{explanation}");
        assert_eq!(explanation["outliers"], 100, "{explanation}");
        let causes = explanation["ranking"].as_array().expect("causes");
        let has = |kind: &str| causes.iter().any(|row| row["cause"]["kind"] == kind);
        assert!(has("wake-path") && has("platform"), "{causes:?}");
        // The timer's interrupt is the CPU's, not a device's.
        assert!(!has("interrupt"), "{causes:?}");
        let stages = explanation["stages"].as_array().expect("stages");
        // All but a wake-up that no interrupt of its timer made: its thread had been delayed before it slept.
        let first = &stages[0];
        assert_eq!(first["stage"], "interrupt");
        let count = first["times"]["count"].as_u64().expect("a count");
        assert!(count >= 98, "{first}");
        let missing = explanation["missing"].as_array().expect("a list");
        let names: Vec<&str> = missing
            .iter()
            .filter_map(|it| it["tracepoint"].as_str())
            .collect();
        // Of x86-64 alone, and of later kernels.
        let is_known = |name: &&str| *name == "page_fault_user" || name.starts_with("csd_");
        assert!(!names.is_empty() && names.iter().all(is_known), "{names:?}");
    }
}
