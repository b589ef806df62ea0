//! `tune` on real kernels: boot parameters that it wrote are in force after the boot, or named if
//! they are not, and threads that appear later get their priority.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::common::mounts::{GRUB, in_own_mounts};
use super::common::{Place, need, needs};
use super::inside::{in_guest, is_rt, punctual};
use super::ready;

const DROP_IN: &str = "/etc/default/grub.d/zz-punctual.cfg";
/// Ubuntu's kernels know it: Debian's say in their log that they don't.
const UNKNOWN: &str = "kthread_cpus=0";
/// What tells the test in the guest that it was booted with the parameters.
const BOOTED: &str = "punctual.test=booted";

/// The parameters that the drop-in adds.
fn parameters(drop_in: &str) -> Vec<String> {
    let line = drop_in.lines().last().expect("a line");
    let (_, words) = line.split_once("LINUX_DEFAULT ").expect("the parameters");
    let words = words.trim_end_matches('"').split_whitespace();
    words.map(str::to_owned).collect()
}

#[test]
fn boot_parameters_of_tune_are_in_force_after_the_boot_or_named() {
    need!(ready());
    need!(needs::root());
    let place = Place::new();
    let script = "online=$(cat /sys/devices/system/cpu/online); [ $online != 0 ] || exit 77
        \"$PUNCTUAL\" tune apply --boot isolated-cpus rcu-nocbs -a 1 \
            --state . || exit 1
        cp /etc/default/grub.d/zz-punctual.cfg .";
    let ended = need!(in_own_mounts(&place, &[GRUB, script].concat()));
    assert!(ended.status.success(), "{ended:?}");
    // As it would be written on a kernel that has one more parameter.
    for name in ["zz-punctual.cfg", "journal.jsonl"] {
        let file = place.path().join(name);
        let text = fs::read_to_string(&file).expect(name);
        let known = "rcu_nocbs=1";
        assert!(text.contains(known), "{text}");
        let text = text.replace(known, &format!("{known} {UNKNOWN}"));
        fs::write(&file, text).expect(name);
    }
    let drop_in = fs::read_to_string(place.path().join("zz-punctual.cfg")).expect("the drop-in");
    let words = parameters(&drop_in);
    assert_eq!(words.len(), 3, "{drop_in}");
    let journal = "journal.jsonl=/var/lib/punctual/journal.jsonl";
    let drop_in = format!("zz-punctual.cfg={DROP_IN}");
    let common = ["--cpus", "2", "--bring", journal, "--bring", &drop_in];
    for kernel in ["rt", "standard"] {
        let mut flags = [&common[..], &["--kernel", kernel]].concat();
        // One kernel is booted without: the boot loader has lost them.
        if kernel == "rt" {
            flags.extend(["--param", BOOTED]);
            for word in &words {
                flags.extend(["--param", word]);
            }
        }
        let _ = fs::remove_dir_all(place.path().join("a"));
        let (passed, shown) = in_guest(&place, &flags, "tuned::status_");
        assert_eq!(passed, 1, "{shown}");
    }
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn status_after_the_boot() {
    let words = parameters(&fs::read_to_string(DROP_IN).expect("the drop-in"));
    let line = fs::read_to_string("/proc/cmdline").expect("the command line");
    let on_line: Vec<&str> = line.split_whitespace().collect();
    let is_booted = on_line.contains(&BOOTED);
    let output = punctual(&["tune", "status"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in &words {
        assert_eq!(on_line.contains(&word.as_str()), is_booted, "{line}");
        let state = if !is_booted {
            "the boot loader dropped it"
        } else if word == UNKNOWN {
            "on the command line, but the kernel ignores it"
        } else {
            "in force"
        };
        assert!(
            said.contains(&format!("{word} ({state})")),
            "{word}: {said}"
        );
    }
    // What the kernel does by itself.
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let isolated = read("/sys/devices/system/cpu/isolated");
    assert_eq!(isolated.trim(), if is_booted { "1" } else { "" });
    let names = fs::read_dir("/proc").expect("proc").flatten();
    let mut names = names.map(|it| read(&format!("{}/comm", it.path().display())));
    assert_eq!(names.any(|it| it.starts_with("rcuop/1")), is_booted);
    let check = punctual(&["check", "-a", "1", "--json"]);
    let check: serde_json::Value = serde_json::from_slice(&check.stdout).expect("JSON");
    let findings = check["findings"].as_array().expect("findings");
    for id in ["isolated-cpus", "rcu-nocbs"] {
        let found = findings.iter().find(|it| it["id"] == id).expect(id);
        let state = if is_booted { "ok" } else { "bad" };
        assert_eq!(found["state"]["state"], state, "{found}");
    }
}

#[test]
fn a_softirq_thread_of_a_cpu_that_comes_later_gets_its_priority() {
    need!(ready());
    let place = Place::new();
    let flags = ["--kernel", "rt", "--cpus", "2", "--param", "maxcpus=1"];
    let (passed, shown) = in_guest(&place, &flags, "tuned::later_");
    assert_eq!(passed, 1, "{shown}");
}

/// Policy and priority of the thread of this name, if there is one.
fn scheduling(name: &str) -> Option<(String, String)> {
    let stats = fs::read_dir("/proc").ok()?.flatten();
    let mut stats = stats.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
    let stat = stats.find(|stat| stat.contains(&format!("({name})")))?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields[38].to_owned(), fields[37].to_owned()))
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn later_threads_of_a_cpu() {
    assert!(is_rt());
    let ordinary = Some(("0".to_owned(), "0".to_owned()));
    let fifo = Some(("1".to_owned(), "2".to_owned()));
    assert_eq!(scheduling("ksoftirqd/0"), ordinary);
    assert_eq!(scheduling("ksoftirqd/1"), None, "its CPU is off");
    let mut tune = Command::new("/bin/punctual")
        .args(["tune", "apply", "--keep", "softirq-threads"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("punctual");
    let mut said = BufReader::new(tune.stdout.take().expect("a pipe")).lines();
    let mut until = |wanted: &str| {
        let line = said.find(|line| line.as_ref().is_ok_and(|line| line.contains(wanted)));
        assert!(line.is_some(), "it never printed {wanted}");
    };
    until("Waiting for new threads");
    assert_eq!(scheduling("ksoftirqd/0"), fifo);
    fs::write("/sys/devices/system/cpu/cpu1/online", "1").expect("a second CPU");
    until("ksoftirqd/1");
    until("the originals are in");
    assert_eq!(scheduling("ksoftirqd/1"), fifo);
    let pid = i32::try_from(tune.id()).expect("a process");
    // SAFETY: the process was started here and has not been waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    assert!(tune.wait().expect("it ends").success());
    assert_eq!(scheduling("ksoftirqd/1"), fifo, "the settings stay");
    let restored = punctual(&["tune", "restore"]);
    assert!(restored.status.success(), "{restored:?}");
    assert_eq!(scheduling("ksoftirqd/0"), ordinary);
    assert_eq!(scheduling("ksoftirqd/1"), ordinary);
}
