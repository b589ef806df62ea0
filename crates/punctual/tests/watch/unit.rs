//! The unit of integrations/systemd: what systemd says about it, and whether its command line works with
//! the capabilities and system calls that it permits.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::common::needs::{self, Absent};
use crate::common::{Place, Running, copy_program, need, program, skip};
use crate::service::integrations;

fn unit() -> String {
    let file = integrations().join("systemd/punctual-watch.service");
    fs::read_to_string(file).expect("the unit")
}

/// The value of a setting that the unit has once.
fn setting(unit: &str, name: &str) -> String {
    let lines: Vec<&str> = unit
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='))
        .collect();
    assert_eq!(lines.len(), 1, "{name}: {lines:?}");
    lines[0].to_owned()
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit_and_little_exposed() {
    need!(needs::program("systemd-analyze"));
    let place = Place::new();
    // This binary in place of the installed one, whose manual isn't installed either.
    let unit: String = unit()
        .replace(
            "ExecStart=punctual",
            &format!("ExecStart={}", program().display()),
        )
        .lines()
        .filter(|line| !line.starts_with("Documentation="))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(place.path().join("punctual-watch.service"), unit).expect("the unit");
    let analyze = |words: &[&str]| {
        let mut command = place.command("systemd-analyze");
        let ended = command.args(words).arg("./punctual-watch.service").output();
        let ended = ended.expect("systemd-analyze");
        let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
        (ended.status.success(), said.into_owned())
    };
    let (done, said) = analyze(&["verify"]);
    assert!(done && !said.contains("punctual-watch.service"), "{said}");
    let (done, said) = analyze(&["security", "--offline=true", "--threshold=40", "--no-pager"]);
    let overall = said.lines().find(|line| line.contains("Overall exposure"));
    let score = overall.and_then(|line| line.split(": ").nth(1)?.split(' ').next()?.parse().ok());
    let score: f64 = score.unwrap_or_else(|| panic!("{said}"));
    assert!(done && score <= 4.0, "{said}");
}

/// However often it is started, its records take a bounded space.
#[test]
fn the_unit_keeps_the_newest_records() {
    let place = Place::new();
    fs::write(place.path().join("notes"), "").expect("a file");
    let name = |day: u32| format!("punctual-watch-202611{day:02}T000000");
    // Any but the order of their names.
    for day in [7, 3].into_iter().chain(8..40).chain([5]) {
        let record = place.path().join(name(day));
        fs::create_dir(&record).expect("a directory");
        let made = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(day) * 86_400);
        let opened = fs::File::open(&record).expect("the directory");
        opened.set_modified(made).expect("its time");
    }
    let line = setting(&unit(), "ExecStartPre");
    let script = line
        .strip_prefix("/bin/sh -c '")
        .and_then(|it| it.strip_suffix('\''));
    let sweep = || {
        let mut command = place.command("sh");
        let ended = command.args(["-c", script.expect("a script")]).output();
        let ended = ended.expect("sh");
        assert!(
            ended.status.success() && ended.stderr.is_empty(),
            "{ended:?}"
        );
        place.entries()
    };
    // One more comes with the watch that starts then.
    let kept: Vec<String> = ["notes".to_owned()]
        .into_iter()
        .chain((11..40).map(name))
        .collect();
    assert_eq!(sweep(), kept);
    assert_eq!(sweep(), kept);
}

/// All of the unit at once: a systemd of its own starts and stops it.
#[test]
fn systemd_runs_the_unit_as_an_ordinary_user_and_its_metrics_go_with_it() {
    needed!();
    for name in ["setpriv", "systemctl"] {
        need!(needs::program(name));
    }
    if !Path::new("/lib/systemd/systemd").exists() {
        skip!(Absent::program("/lib/systemd/systemd"));
    }
    need!(needs::overlays());
    let place = Place::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/watch/systemd.sh");
    let mut command = place.command("unshare");
    command.args(["-m", "sh"]).arg(script);
    command.arg(integrations().join("systemd/punctual-watch.service"));
    command.arg(program());
    let ended = Running::start(command).end_within(Duration::from_secs(120));
    if ended.code() == 77 {
        skip!(Absent::refused("a systemd of its own", ended.stderr));
    }
    let ended = ended.expect(0);
    let mask: u64 = ["CAP_PERFMON", "CAP_BPF"]
        .iter()
        .zip([38, 39])
        .filter(|(name, _)| setting(&unit(), "AmbientCapabilities").contains(*name))
        .map(|(_, bit)| 1 << bit)
        .sum();
    let wanted = format!(
        "active\nCapEff:\t{mask:016x}\nCapBnd:\t{mask:016x}\nNoNewPrivs:\t1\nSeccomp:\t2\n\
         not root\n1\nsuccess\nno metrics\n1\n"
    );
    assert_eq!(ended.stdout, wanted, "{}", ended.stderr);
}

/// The unit's command line as an ordinary user, with the unit's capabilities and no others.
fn as_the_service(place: &Place, capabilities: &str) -> Command {
    let unit = unit().replace("\\\n", " ");
    let line = setting(&unit, "ExecStart").replace("${DEADLINE}", "1ms");
    let line = line.replace("/run/punctual-watch", &place.path().display().to_string());
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("punctual"));
    let words: Vec<&str> = words
        .map(|word| if word == "1d" { "6s" } else { word })
        .collect();
    // Other users can't enter the directory of the build.
    let copy = place.path().join("punctual");
    copy_program(program(), &copy);
    let mut command = place.command("setpriv");
    command.args([
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "--no-new-privs",
    ]);
    let set: String = capabilities
        .split(' ')
        .map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    for which in ["--bounding-set", "--inh-caps", "--ambient-caps"] {
        command.args([which, &format!("-all{set}")]);
    }
    command.arg(copy).args(words).args(["-o", "record"]);
    command
}

#[test]
fn the_units_capabilities_suffice_and_all_are_needed() {
    needed!();
    need!(needs::program("setpriv"));
    let unit = unit();
    let capabilities = setting(&unit, "CapabilityBoundingSet");
    assert_eq!(capabilities, setting(&unit, "AmbientCapabilities"));
    let place = Place::new();
    let ended = Running::start(as_the_service(&place, &capabilities)).end();
    // Whatever the verdict on a deadline that nobody keeps here.
    let verdicts = setting(&unit, "SuccessExitStatus");
    let mut verdicts = verdicts.split(' ').map(str::to_owned);
    let code = ended.code();
    assert!(
        code == 0 || verdicts.any(|it| it == code.to_string()),
        "{ended:?}"
    );
    assert_eq!(ended.stderr, "");
    let run = place.run_of_path("record");
    assert!(run.threads.iter().all(|thread| thread.lost == 0));
    assert!(place.path().join("punctual.prom").exists());
    for missing in capabilities.split(' ') {
        let place = Place::new();
        let rest: Vec<&str> = capabilities
            .split(' ')
            .filter(|it| *it != missing)
            .collect();
        let ended = Running::start(as_the_service(&place, &rest.join(" ")))
            .end()
            .expect(1);
        assert!(ended.stderr.contains(missing), "{}", ended.stderr);
    }
}

/// The names in a set of system calls, and in the sets that it contains.
fn calls_of(set: &str) -> Vec<String> {
    let listed = Command::new("systemd-analyze")
        .args(["syscall-filter", "--no-pager", set])
        .output();
    let listed = String::from_utf8_lossy(&listed.expect("systemd-analyze").stdout).into_owned();
    let lines = listed.lines().skip(1).map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .flat_map(|line| match line.starts_with('@') {
            true => calls_of(line),
            false => vec![line.to_owned()],
        })
        .collect()
}

#[test]
fn the_unit_permits_the_system_calls_that_the_watch_makes() {
    needed!();
    for name in ["systemd-analyze", "setpriv", "strace"] {
        need!(needs::program(name));
    }
    let unit = unit();
    let mut permitted: Vec<String> = Vec::new();
    for line in unit
        .lines()
        .filter_map(|line| line.strip_prefix("SystemCallFilter="))
    {
        let (removes, line) = line
            .strip_prefix('~')
            .map_or((false, line), |rest| (true, rest));
        for word in line.split(' ') {
            let calls = match word.starts_with('@') {
                true => calls_of(word),
                false => vec![word.to_owned()],
            };
            assert!(!calls.is_empty(), "{word}");
            match removes {
                true => permitted.retain(|call| !calls.contains(call)),
                false => permitted.extend(calls),
            }
        }
    }
    let place = Place::new();
    let service = as_the_service(&place, &setting(&unit, "CapabilityBoundingSet"));
    let mut command = place.command("strace");
    command
        .args(["-f", "-qq", "-o", "trace"])
        .arg(service.get_program())
        .args(service.get_args());
    Running::start(command).end();
    let trace = fs::read_to_string(place.path().join("trace")).expect("a trace");
    // The service's own program, after setpriv has started it.
    let start = format!("execve(\"{}\"", place.path().join("punctual").display());
    let own = trace.lines().skip_while(|line| !line.contains(&start));
    let mut made: Vec<&str> = own
        .filter_map(|line| {
            line.split_once(' ')?
                .1
                .trim_start()
                .split_once('(')
                .map(|(name, _)| name)
        })
        .filter(|name| {
            name.bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        })
        .collect();
    made.sort_unstable();
    made.dedup();
    assert!(made.contains(&"bpf") && made.len() > 20, "{made:?}");
    // Better priority is optional, and refused without CAP_SYS_NICE anyway.
    let refused: Vec<_> = made
        .into_iter()
        .filter(|name| !permitted.iter().any(|it| it == name) && *name != "setpriority")
        .collect();
    assert_eq!(refused, [""; 0]);
}
