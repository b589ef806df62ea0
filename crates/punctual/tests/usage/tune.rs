//! `tune` as a user runs it: a plan, a change, a restore, and what is refused.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::mounts::{GRUB, in_own_mounts};
use crate::common::needs::{self, Absent};
use crate::common::{Place, need, until};
use crate::turn::turn;

pub const KNOB: &str = "/proc/sys/vm/stat_interval";

/// Restores the knob at the end, whatever a test did.
pub struct OwnValue(String);

impl Drop for OwnValue {
    fn drop(&mut self) {
        let _ = fs::write(KNOB, &self.0);
    }
}

/// The knob with a value that is to be changed, also on a machine whose own is good.
pub fn bad_knob() -> (String, OwnValue) {
    let read = || fs::read_to_string(KNOB).expect("a setting");
    let own = OwnValue(read());
    if own
        .0
        .trim()
        .parse::<u32>()
        .is_ok_and(|seconds| seconds >= 10)
    {
        fs::write(KNOB, "1").expect("root may");
    }
    (read(), own)
}

#[test]
fn a_knob_is_changed_and_restored() {
    need!(needs::root());
    let _turn = turn();
    let place = Place::new();
    let (before, _own) = bad_knob();
    let tune = |words: &[&str]| place.run(&[&["tune"], words, &["--state", "state"]].concat());
    let planned = tune(&["plan", "vmstat-interval"]).expect(0).stdout;
    assert!(planned.contains(&format!("echo 10 > {KNOB}")), "{planned}");
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
    assert!(
        !place.path().join("state").exists(),
        "a plan writes nothing"
    );
    let changed = tune(&["apply", "vmstat-interval"]).expect(0).stdout;
    assert!(changed.contains("Changed 1 settings"), "{changed}");
    assert_eq!(fs::read_to_string(KNOB).expect("it"), "10\n");
    let again = tune(&["apply", "vmstat-interval"]).expect(0).stdout;
    assert!(again.contains("Nothing was changed"), "{again}");
    let status = tune(&["status"]).expect(0).stdout;
    assert!(
        status.contains(&format!("10 (was {})", before.trim())),
        "{status}"
    );
    tune(&["restore", "--dry-run"]).expect(0);
    assert_eq!(fs::read_to_string(KNOB).expect("it"), "10\n");
    let nothing = tune(&["restore", "ksm"]).expect(1);
    assert_eq!(nothing.stdout, "Nothing to restore.\n");
    assert!(
        nothing.stderr.contains("ksm: no change of it"),
        "{nothing:?}"
    );
    // What somebody else has set since is not what comes back.
    fs::write(KNOB, "5").expect("as root");
    let third = tune(&["apply", "vmstat-interval"]).expect(0);
    let comes_back = format!("restore will bring back {},", before.trim());
    let said = format!("is 5, which somebody else has set since: {comes_back}");
    assert!(third.stderr.contains(&said), "{third:?}");
    assert_eq!(fs::read_to_string(KNOB).expect("it"), "10\n");
    // Of two names one may be a choice that nobody made.
    tune(&["restore", "ksm", "vmstat-interval", "--dry-run"]).expect(0);
    assert_eq!(fs::read_to_string(KNOB).expect("it"), "10\n");
    tune(&["restore", "vmstat-interval"]).expect(0);
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
    let nothing = tune(&["restore"]).expect(0).stdout;
    assert_eq!(nothing, "Nothing to restore.\n");
}

#[test]
fn what_apply_changed_is_made_again_at_each_boot_until_it_is_restored() {
    need!(needs::root());
    let _turn = turn();
    let place = Place::new();
    let (before, _own) = bad_knob();
    // The journal as `apply` leaves it: a sysctl, and a file that only a unit can set.
    let other = place.path().join("other");
    fs::write(&other, "1\n").expect("a file");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let line = format!(
        "{{\"boot\":\"{}\",\"knob\":\"ksm\",\"setting\":{{\"file\":{{\"path\":\"{}\"}}}},\
         \"original\":\"0\",\"value\":\"1\"}}\n",
        boot.trim(),
        other.display()
    );
    fs::create_dir(place.path().join("state")).expect("a folder");
    fs::write(place.path().join("state/journal.jsonl"), line).expect("a journal");
    let script = "mount -t tmpfs none /etc || exit 77
        mkdir /etc/sysctl.d
        echo theirs > /etc/sysctl.d/90-punctual.conf
        \"$PUNCTUAL\" tune apply vmstat-interval --state state || exit 1
        \"$PUNCTUAL\" tune persist vmstat-intervall --state state
        \"$PUNCTUAL\" tune persist swappiness --state state
        \"$PUNCTUAL\" tune persist -a all --state state
        \"$PUNCTUAL\" tune persist -a 0 -p 70 --state state > persisted || exit 1
        (cd /etc; find . -type f | sort; cat sysctl.d/*; grep Exec systemd/system/*.service) > files
        \"$PUNCTUAL\" tune persist -a 0 -p 70 --state state > again || exit 1
        \"$PUNCTUAL\" tune status --state state > status || exit 1
        \"$PUNCTUAL\" tune restore --state state > restored || exit 1
        (cd /etc; find . -type f; cat sysctl.d/*; ls systemd/system) > after
        \"$PUNCTUAL\" tune persist --state state > nothing";
    let ended = in_own_mounts(&place, script);
    // Whatever it did, this machine is as before.
    place.run(&["tune", "restore", "--state", "state"]);
    let ended = need!(ended);
    assert!(ended.status.success(), "{ended:?}");
    let text = |name: &str| fs::read_to_string(place.path().join(name)).expect(name);
    let program = fs::canonicalize(crate::common::program()).expect("a path");
    let state = fs::canonicalize(place.path())
        .expect("a path")
        .join("state");
    let (program, state) = (program.display(), state.display());
    assert_eq!(
        text("files"),
        format!(
            "./sysctl.d/90-punctual.conf\n\
             ./systemd/system/multi-user.target.d/punctual.conf\n\
             ./systemd/system/punctual-tune.service\n\
             # Written by punctual tune persist; punctual tune restore removes it.\n\
             vm/stat_interval = 10\n\
             ExecStart={program} tune apply -a 0 -p 70 --state {state} ksm\n"
        )
    );
    let persisted = text("persisted");
    assert!(
        persisted.starts_with("ksm, vmstat-interval, at each boot, by:"),
        "{persisted}"
    );
    assert_eq!(
        text("again"),
        "ksm, vmstat-interval: the files have it already.\n"
    );
    let status = text("status");
    assert!(status.contains("punctual-tune.service: its "), "{status}");
    assert_eq!(status.lines().count(), 5, "{status}");
    assert_eq!(text("after"), "./sysctl.d/90-punctual.conf\ntheirs\n");
    assert!(
        text("nothing").starts_with("Nothing was installed"),
        "{}",
        text("nothing")
    );
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
    let stderr = String::from_utf8_lossy(&ended.stderr);
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{stderr}");
    for (line, says) in lines.iter().zip([
        "vmstat-interval",
        "swappiness is not changed by punctual now: punctual tune apply swappiness first",
        "leave one for everything else",
    ]) {
        assert!(line.contains(says), "{line}");
    }
}

/// It outlives a punctual that is killed, and must not hold its output open then.
const SLEEPS: &str = "exec sleep 20 > /dev/null 2>&1";

/// The knob has its value for the program alone, whatever ends the program, or punctual.
#[test]
fn a_command_runs_with_changed_settings_which_are_restored_after_it() {
    need!(needs::root());
    let _turn = turn();
    let place = Place::new();
    let (before, _own) = bad_knob();
    let tune = |command: &[&str]| {
        let fixed = ["tune", "run", "vmstat-interval", "--state", "state", "--"];
        place.run(&[&fixed, command].concat())
    };
    let ended = tune(&["sh", "-c", &format!("cat {KNOB}; exit 7")]).expect(7);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("10\n", ""));
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
    tune(&["sh", "-c", "kill -KILL $$"]).expect(128 + libc::SIGKILL);
    tune(&["no-such-program"]).expect(127);
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
    assert!(!place.path().join("state/journal.jsonl").exists());
    let begin = || {
        let words = ["tune", "run", "vmstat-interval", "--state", "state", "--"];
        let running = place.start(&[&words[..], &["sh", "-c", SLEEPS]].concat());
        until("the change", || {
            fs::read_to_string(KNOB).expect("it") == "10\n"
        });
        running
    };
    // What ends punctual ends the program.
    let running = begin();
    running.signal(libc::SIGTERM);
    running.end().expect(128 + libc::SIGTERM);
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
    // After a kill, the next one says what is left.
    let running = begin();
    running.signal(libc::SIGKILL);
    running.end();
    assert_eq!(fs::read_to_string(KNOB).expect("it"), "10\n");
    let refused = tune(&["true"]).expect(1);
    assert!(
        refused.stderr.contains("a punctual that was killed left"),
        "{refused:?}"
    );
    place
        .run(&["tune", "restore", "--state", "state"])
        .expect(0);
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
    let nothing = place.run(&["tune", "run", "vmstat-interval"]).expect(64);
    assert!(nothing.stderr.contains("COMMAND"), "{nothing:?}");
}

#[test]
fn what_cannot_be_changed_is_refused_in_one_line() {
    let place = Place::new();
    for (words, wanted) in [
        (&["apply", "-a", "all"][..], "leave one for everything else"),
        (&["apply", "vmstat-intervall"], "vmstat-interval"),
        (&["apply", "--partition"], "--affinity"),
        (&["apply", "--partition", "-a", "0", "--boot"], "--boot"),
        (&["apply", "--keep", "--boot"], "--boot"),
        (
            &["apply", "rt-kernel", "-a", "999"],
            "CPU 999 is not online",
        ),
        (&["restore", "vmstat-intervall"], "vmstat-interval"),
    ] {
        let all = [&["tune"], words, &["--state", "state"]].concat();
        let refused = place.run(&all).expect(64);
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
        assert!(refused.stderr.contains(wanted), "{refused:?}");
    }
    assert!(!place.path().join("state").exists());
    let here = place.run(&["tune", "status", "--state", "state"]).expect(0);
    assert_eq!(here.stdout, "Nothing is changed.\n");
}

/// What `measure --tuned` leaves when it is killed, and the verbs that are begun then. Each ends soon:
/// what it is asked for is not there.
#[test]
fn each_verb_names_what_a_killed_punctual_left_changed() {
    const SAYING: [&str; 11] = [
        "qualify -a 4095",
        "measure -a 4095",
        "load cpu -D 10ms",
        "run -- /no/such/program",
        "explain no-such-recording",
        "watch 4194305",
        "check",
        "prove ksm -a 4095",
        "fit --deadline 50us -a 4095",
        "tune plan ksm",
        "tune apply rt-kernel",
    ];
    const SILENT: [&str; 5] = [
        "tune status",
        "report no-such-run",
        "merge no-such-run",
        "completions bash",
        "help",
    ];
    need!(needs::root());
    let _turn = turn();
    let (before, _own) = bad_knob();
    let place = Place::new();
    let each = |verbs: &[&str]| verbs.join("\n");
    fs::write(place.path().join("verbs"), each(&SAYING)).expect("a file");
    fs::write(place.path().join("silent"), each(&SILENT)).expect("a file");
    let script = format!(
        "mount -t tmpfs none /var/lib || exit 77
        \"$PUNCTUAL\" measure --tuned=vmstat-interval -D 60 --load none --no-explain -q -o run &
        run=$!
        until [ $(cat {KNOB}) = 10 ] || ! kill -0 $run; do sleep 0.05; done
        kill -9 $run; wait $run
        echo $(cat {KNOB}) > left
        for list in verbs silent; do
            while read -r words || [ -n \"$words\" ]; do
                \"$PUNCTUAL\" $words < /dev/null > /dev/null 2> said
                echo \"$words: $(grep -c 'that was killed left {KNOB} changed' said)\"
            done < $list
        done
        \"$PUNCTUAL\" tune restore > restored 2>&1
        \"$PUNCTUAL\" check 2>&1 > /dev/null | cat"
    );
    let ended = in_own_mounts(&place, &script);
    let now = fs::read_to_string(KNOB).expect("a setting");
    if now != before {
        fs::write(KNOB, &before).expect("root may");
    }
    let ended = need!(ended);
    let text = |name: &str| fs::read_to_string(place.path().join(name)).expect(name);
    assert_eq!(text("left"), "10\n", "the kill came while it was changed");
    let expected = |verbs: &[&str], count: u32| -> Vec<String> {
        verbs.iter().map(|it| format!("{it}: {count}")).collect()
    };
    let expected = [expected(&SAYING, 1), expected(&SILENT, 0)].concat();
    let stdout = String::from_utf8_lossy(&ended.stdout);
    // After the restore nothing is left, and nothing is said.
    assert_eq!(stdout.lines().collect::<Vec<_>>(), expected, "{ended:?}");
    assert_eq!(now, before, "{}", text("restored"));
}

#[test]
fn a_boot_parameter_is_written_for_grub_and_restored() {
    need!(needs::root());
    let place = Place::new();
    let script = "set -x
        \"$PUNCTUAL\" tune plan isolated-cpus -a 0 --state state
        ls /etc/default/grub.d
        \"$PUNCTUAL\" tune apply --boot isolated-cpus -a 0 --state state
        cat /boot/grub/grub.cfg
        \"$PUNCTUAL\" tune status --state state
        \"$PUNCTUAL\" tune restore --state state isolated-cpus
        cat /boot/grub/grub.cfg; ls /etc/default/grub.d";
    let ended = need!(in_own_mounts(&place, &[GRUB, script].concat()));
    let stdout = String::from_utf8_lossy(&ended.stdout);
    let lines: Vec<&str> = stdout.lines().map(str::trim).collect();
    let parameter = "isolcpus=managed_irq,domain,0";
    let drop_in = "/etc/default/grub.d/zz-punctual.cfg";
    let wanted = [
        "At the next boot, with punctual tune apply --boot:".to_owned(),
        format!("isolated-cpus: {parameter}"),
        format!(
            "printf '# Written by punctual tune apply --boot; punctual tune restore removes it.\\n\
             GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {parameter}\"\\n' > {drop_in} && \
             /usr/sbin/update-grub"
        ),
        format!("isolated-cpus: {parameter}"),
        format!(
            "Written to {drop_in}; the original is in state/journal.jsonl. Reboot, then run \
             punctual tune status."
        ),
        format!("linux /vmlinuz quiet {parameter}"),
        format!("isolated-cpus: {drop_in}: {parameter} (not in force yet: reboot)"),
        format!("isolated-cpus: {drop_in}: restored to no such file; reboot"),
        "linux /vmlinuz quiet".to_owned(),
    ];
    let mut rest = lines.iter();
    for line in &wanted {
        assert!(rest.any(|it| it == line), "{line}\n{stdout}\n{ended:?}");
    }
    assert_eq!(rest.next(), None, "{stdout}");
}

/// The scheduling policy of a thread, by its number: FIFO is 1.
fn policy(tid: &str) -> String {
    stat(tid, 41)
}

fn priority(tid: &str) -> String {
    stat(tid, 40)
}

/// A field of `/proc/TID/stat`, by its number in proc(5).
fn stat(tid: &str, field: usize) -> String {
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).expect("a thread");
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields[field - 3].to_owned()
}

fn threads_of(device: &str) -> Vec<String> {
    let name = format!("napi/{}", &device[..device.len().min(10)]);
    let tasks = fs::read_dir("/proc").expect("proc").flatten();
    tasks
        .filter_map(|task| task.file_name().into_string().ok())
        .filter(|tid| {
            let comm = fs::read_to_string(format!("/proc/{tid}/comm"));
            comm.is_ok_and(|comm| comm.starts_with(&name))
        })
        .collect()
}

/// A network device with NAPI, which is removed when its standard input is closed.
struct Device {
    process: Child,
    name: String,
}

impl Device {
    /// # Errors
    /// What this machine lacks.
    fn new(place: &Place) -> Result<Self, Absent> {
        needs::root()?;
        needs::compiler()?;
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/usage/napi.c");
        let built = Command::new("cc")
            .args([source, "-o"])
            .arg(place.path().join("napi"))
            .status();
        assert!(built.is_ok_and(|status| status.success()), "napi.c");
        let mut process = Command::new(place.path().join("napi"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a device");
        let mut name = String::new();
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe"));
        lines.read_line(&mut name).expect("its name");
        let name = name.trim().to_owned();
        let device = Device { process, name };
        match device.name.is_empty() || !Path::new(&device.threaded()).exists() {
            true => Err(Absent::kernel("network devices of TUN with threaded NAPI")),
            false => Ok(device),
        }
    }

    fn threaded(&self) -> String {
        format!("/sys/class/net/{}/threaded", self.name)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// `napi@DEVICE`: the mode and the policy of its threads are one setting.
#[test]
fn a_device_receives_in_threads_with_a_priority_and_as_before_then() {
    let place = Place::new();
    let device = need!(Device::new(&place));
    // Another test changes the threads of every device.
    let _turn = turn();
    let mode = || fs::read_to_string(device.threaded()).expect("threaded");
    let tune = |words: &[&str]| {
        let all = [&["tune"], words, &["--state", "state"]].concat();
        place.run(&all)
    };
    let name = format!("napi@{}", device.name);
    let on = format!("{name}=threads:71");
    let said = tune(&["apply", &on]).expect(0);
    assert!(said.stdout.contains("chrt --fifo -p 71"), "{said:?}");
    assert_eq!(mode(), "1\n");
    let threads = threads_of(&device.name);
    assert_eq!(threads.len(), 1, "{threads:?}");
    let scheduled = |tid: &String| (policy(tid), priority(tid));
    assert_eq!(scheduled(&threads[0]), ("1".to_owned(), "71".to_owned()));
    let status = tune(&["status"]).expect(0);
    assert!(
        status.stdout.contains("threads fifo:71 (was softirq)"),
        "{status:?}"
    );
    // Somebody gives the thread another policy: it is theirs.
    let tid = &threads[0];
    let changed = Command::new("chrt").args(["--rr", "-p", "5", tid]).status();
    assert!(changed.expect("chrt").success());
    let kept = tune(&["restore"]);
    assert_eq!(kept.code(), 1, "{kept:?}");
    assert!(kept.stdout.contains("threads rr:5"), "{kept:?}");
    tune(&["restore", "--force", &name]).expect(0);
    assert_eq!(mode(), "0\n");
    // Threads with a policy of their own come back with it.
    fs::write(device.threaded(), "1\n").expect("threaded");
    let tid = &threads_of(&device.name)[0];
    let given = Command::new("chrt").args(["--rr", "-p", "6", tid]).status();
    assert!(given.expect("chrt").success());
    tune(&["apply", &format!("{name}=softirq")]).expect(0);
    assert_eq!(mode(), "0\n");
    tune(&["restore"]).expect(0);
    assert_eq!(mode(), "1\n");
    let tid = &threads_of(&device.name)[0];
    assert_eq!(scheduled(tid), ("2".to_owned(), "6".to_owned()));
}

/// Between the mode and the policies too.
#[test]
fn after_a_kill_at_any_moment_a_device_receives_as_before() {
    let place = Place::new();
    let device = need!(Device::new(&place));
    let _turn = turn();
    let on = format!("napi@{}=threads:71", device.name);
    let mut changed = 0;
    for round in 0..60_u64 {
        let mut tune = Command::new(crate::common::program())
            .args(["tune", "apply", &on, "--state", "state"])
            .current_dir(place.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("punctual");
        // From before the journal is written to after the end.
        std::thread::sleep(Duration::from_micros(500 * round));
        tune.kill().expect("a signal");
        tune.wait().expect("it ends");
        let mode = || fs::read_to_string(device.threaded()).expect("threaded");
        changed += u64::from(mode() == "1\n");
        place
            .run(&["tune", "restore", "--state", "state"])
            .expect(0);
        assert_eq!(mode(), "0\n", "round {round}");
    }
    assert!(changed > 0, "each kill came too early");
}

#[test]
fn a_thread_that_appears_later_is_changed_while_apply_stays() {
    let place = Place::new();
    let device = need!(Device::new(&place));
    let _turn = turn();
    let (name, threaded) = (device.name.as_str(), device.threaded());
    // A virtual machine may have no idle states.
    let has_idle_states = Path::new("/sys/devices/system/cpu/cpu0/cpuidle").exists();
    let mut tune = Command::new(crate::common::program())
        .args(["tune", "apply", "--keep", "threaded-napi"])
        .args(has_idle_states.then_some("idle-states"))
        .args(["--state", "state"])
        .current_dir(place.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("punctual");
    let mut said = BufReader::new(tune.stdout.take().expect("a pipe")).lines();
    let mut until = |wanted: &str| {
        let line = said.find(|line| line.as_ref().is_ok_and(|line| line.contains(wanted)));
        line.unwrap_or_else(|| panic!("it never printed {wanted}"))
            .expect("text")
    };
    let waiting = until("Waiting for new threads");
    let files = fs::read_dir(format!("/proc/{}/fd", tune.id())).expect("its files");
    let is_held = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|target| target == Path::new("/dev/cpu_dma_latency"));
    assert_eq!(is_held, waiting.contains("cpu_dma_latency is held at 0"));
    fs::write(&threaded, "1\n").expect("threaded");
    let threads = threads_of(name);
    assert_eq!(threads.len(), 1, "{threads:?}");
    until(&format!("chrt -f -p 70 {}", threads[0]));
    until("the originals are in");
    assert_eq!(policy(&threads[0]), "1");
    // Another punctual is not kept from the journal.
    let status = place.run(&["tune", "status", "--state", "state"]).expect(0);
    assert!(status.stdout.contains(&threads[0]), "{status:?}");
    let pid = tune.id().to_string();
    let ended = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(ended.expect("kill").success());
    assert_eq!(tune.wait().expect("it ends").code(), Some(0));
    assert_eq!(policy(&threads[0]), "1", "the settings stay");
    place
        .run(&["tune", "restore", "--state", "state"])
        .expect(0);
    assert_eq!(policy(&threads[0]), "0");
}
