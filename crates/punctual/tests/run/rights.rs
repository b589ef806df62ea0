//! A user who lacks rights that a run requests is told so at once, with a fix that works.

use crate::common;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::needs::{self, Absent};
use crate::common::{Ended, Place, Running, flat, in_force, need, skip};

/// The user id of these runs.
const NOBODY: &str = "65534";

/// A place with a copy of the program, because the build's directory may be closed to other users.
fn place() -> Result<Place, Absent> {
    needs::mounts()?;
    for name in ["setpriv", "prlimit"] {
        needs::program(name)?;
    }
    let place = Place::new();
    fs::create_dir(place.path().join("bin")).unwrap();
    common::copy_program(common::program(), &place.path().join("bin/punctual"));
    Ok(place)
}

/// The command that runs the program as an ordinary user with ordinary limits.
fn as_user(place: &Place, arguments: &[&str]) -> Vec<String> {
    let program = place.path().join("bin/punctual");
    let user = format!("--reuid={NOBODY}");
    let group = format!("--regid={NOBODY}");
    ["prlimit", "--memlock=8388608", "--rtprio=0", "setpriv"]
        .into_iter()
        .chain([&*user, &*group, "--clear-groups", "--inh-caps=-all"])
        .chain([program.to_str().unwrap()])
        .chain(arguments.iter().copied())
        .map(str::to_owned)
        .collect()
}

fn run(place: &Place, arguments: &[&str]) -> Ended {
    let words = as_user(place, arguments);
    let mut command = place.command(&words[0]);
    command.args(&words[1..]);
    Running::start(command).end()
}

/// The commands in backquotes on the lines with advice.
fn advised(text: &str) -> Vec<String> {
    let fixes = text.lines().filter(|line| line.contains("fix: "));
    let spans = fixes.flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.map(str::to_owned).collect()
}

/// Runs shell lines with private /etc and /dev: `sudo` exists, and so does the user
/// who gets the advice, and what they write there stays in `place`. `None` if this is not
/// possible.
fn in_a_world_of_its_own(place: &Place, lines: &str) -> Ended {
    let tools = place.path().join("tools");
    fs::create_dir_all(&tools).unwrap();
    for (name, text) in [
        ("sudo", "#!/bin/sh\nexec \"$@\"\n".to_owned()),
        // The user who gets the advice, although root executes it.
        (
            "id",
            format!("#!/bin/sh\ncase $1 in -un) echo probeuser;; -gn) echo '{NOBODY}';; esac\n"),
        ),
    ] {
        fs::write(tools.join(name), text).unwrap();
        fs::set_permissions(tools.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir_all(place.path().join("limits.d")).unwrap();
    // The whole of /etc is a copy: groupadd and usermod replace its files, and
    // lock it. The copy is made again for each world.
    let world = "set -e\n\
        rm -rf \"$PLACE/etc\"; cp -a /etc \"$PLACE/etc\"\n\
        echo 'probeuser:x:64999:65534::/:/bin/sh' >>\"$PLACE/etc/passwd\"\n\
        mount --bind \"$PLACE/etc\" /etc\n\
        mkdir -p /etc/security/limits.d\n\
        mount --bind \"$PLACE/limits.d\" /etc/security/limits.d\n\
        if [ -c /dev/cpu_dma_latency ]; then\n\
          rm -f \"$PLACE/device\"\n\
          mknod -m 600 \"$PLACE/device\" c $(stat -c '0x%t 0x%T' /dev/cpu_dma_latency)\n\
          mount --bind \"$PLACE/device\" /dev/cpu_dma_latency\n\
        fi\n\
        PATH=$PLACE/tools:$PATH\n\
        set +e\n\
        echo READY >&2\n";
    let mut command = place.command("unshare");
    command
        .args(["--mount", "sh", "-c", &format!("{world}{lines}")])
        .env("PLACE", place.path());
    let ended = Running::start(command).end();
    assert!(ended.stderr.contains("READY"), "{ended:?}");
    ended
}

#[test]
fn a_run_that_would_be_invalid_is_not_started() {
    let place = need!(place());
    // Without a prior check, this would measure for a minute under load.
    let ended = run(&place, &["qualify"]).expect(4);
    assert_eq!(ended.stdout, "");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(
        lines[0].starts_with("punctual: INVALID: nothing was measured"),
        "{lines:#?}"
    );
    for words in [
        "priority: requested fifo 80",
        "locked-memory: requested",
        "8192 KiB",
    ] {
        assert!(ended.stderr.contains(words), "no {words:?} in {lines:#?}");
    }
    // One fix for all of them.
    let fixes = lines.iter().filter(|line| line.contains("fix: "));
    assert_eq!(fixes.count(), 1, "{lines:#?}");
    assert!(
        lines.last().unwrap().contains("--best-effort"),
        "{lines:#?}"
    );
    assert_eq!(place.entries(), ["bin"], "something is left behind");
    place.await_silence();
    // The same for every measuring verb, and only on standard error.
    for arguments in [
        &["measure", "-l", "5", "-q"][..],
        &["measure", "-l", "5", "--json"],
        &["measure", "noise", "-D", "1", "-o", "here"],
        &["measure", "-l", "5", "--samples", "-o", "here"],
    ] {
        let ended = run(&place, arguments).expect(4);
        assert_eq!(ended.stdout, "");
        assert!(
            ended.stderr.contains("nothing was measured"),
            "{}",
            ended.stderr
        );
        assert_eq!(place.entries(), ["bin"], "{arguments:?}");
    }
}

#[test]
fn only_explicitly_requested_conditions_are_a_reason_to_refuse() {
    let place = need!(place());
    let flags = ["measure", "-l", "50", "--best-effort", "-o", "run"];
    let ended = run(&place, &flags).expect(0);
    assert!(!ended.stderr.contains("INVALID"), "{}", ended.stderr);
    let record = common::read_json(&place.path().join("run/run.json"));
    assert!(!in_force(&record, "priority"));
    // One fix for all of them, printed once.
    let shown = flat(&ended.stdout);
    assert_eq!(shown.matches("fix: ").count(), 1, "{shown}");
    assert_eq!(shown.matches("sudo setcap").count(), 1, "{shown}");
}

#[test]
fn in_a_user_namespace_missing_rights_are_reported_as_well() {
    let place = need!(place());
    need!(needs::namespaces(&["-r"]));
    let mut command = place.command("unshare");
    command
        .arg("-r")
        .arg(common::program())
        .args(["measure", "-l", "5"]);
    let ended = Running::start(command).end();
    let ended = ended.expect(4);
    assert!(
        ended.stderr.contains("nothing was measured"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("user namespace"), "{}", ended.stderr);
    assert_eq!(place.entries(), ["bin"]);
}

#[test]
fn the_advised_capabilities_make_the_run_valid() {
    let place = need!(place());
    need!(needs::program("setcap"));
    let told = run(&place, &["measure", "-l", "50"]).expect(4);
    let commands = advised(&told.stderr);
    let setcap = commands
        .iter()
        .find(|it| it.contains("setcap"))
        .expect("setcap is advised");
    let measure = ["measure", "-l", "50", "-q", "-o", "run"];
    // As after a new login, when the user is in the new group.
    let words = as_user(&place, &measure).join(" ");
    let given = words.replace("--clear-groups", "--groups=\"$group\"");
    // Through a shell: setpriv itself keeps root's capabilities until it executes.
    let program = place.path().join("bin/punctual");
    let program = program.to_str().unwrap();
    let others = words.replace(program, &format!("sh -c 'exec \"$0\" \"$@\"' {program}"));
    let lines = format!(
        "setcap cap_ipc_lock=ep {program} && setcap -r {program} || exit 9\n\
         {setcap} || exit 8\n\
         getent group realtime >&2\n\
         group=$(getent group realtime | cut -d : -f 3)\n\
         {others}\n\
         [ $? = 126 ] || exit 7\n\
         {given}\n"
    );
    let ended = in_a_world_of_its_own(&place, &lines);
    if ended.code() == 9 {
        skip!(Absent::refused("capabilities of files", ended.stderr));
    }
    // usermod added the user who got the advice to the group, and no other.
    assert!(ended.stderr.contains(":probeuser\n"), "{}", ended.stderr);
    let ended = ended.expect(0);
    let record = common::read_json(&place.path().join("run/run.json"));
    for name in ["priority", "locked-memory"] {
        assert!(in_force(&record, name), "{name}: {ended:?}");
    }
    let lacking = common::event_kinds(&record);
    // The capabilities also allow explaining.
    let lacks = record["events"].to_string().contains("CAP_");
    assert!(!lacks, "{lacking:?} {}", record["events"]);
}

/// Lines of limits.conf(5): domain, type, item, value.
fn limits(place: &Path) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(place.join("limits.d")).unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        lines.extend(text.lines().map(words));
    }
    lines.sort();
    lines
}

#[test]
fn following_advice_twice_does_not_undo_it() {
    let place = need!(place());
    let whole = [
        ["probeuser", "-", "memlock", "unlimited"],
        ["probeuser", "-", "rtprio", "99"],
    ];
    // Missing rights alone or with others, and fixes in any order.
    let runs: [&[&str]; 3] = [
        &["measure", "-l", "5"],
        &["measure", "-l", "5", "--as-deployed", "--policy", "other"],
        &["measure", "-l", "5", "--as-deployed", "--no-explain"],
    ];
    let mut setcaps = Vec::new();
    for arguments in runs {
        let told = run(&place, arguments).expect(4);
        let commands = advised(&told.stderr);
        setcaps.extend(commands.iter().find(|it| it.contains("setcap")).cloned());
        let writes = commands.iter().filter(|it| it.contains("limits.d"));
        for command in writes {
            in_a_world_of_its_own(&place, &format!("{command}\n")).expect(0);
            let found = limits(place.path());
            assert_eq!(found, whole, "{arguments:?}: {command}");
        }
    }
    assert_eq!(setcaps.len(), 3);
    assert!(
        setcaps
            .iter()
            .all(|it| it.contains("cap_sys_nice,cap_ipc_lock")),
        "{setcaps:?}"
    );
}

/// A shell parses every advised command, whatever the program's path.
#[test]
fn every_advised_command_parses() {
    let place = need!(place());
    let odd = place.path().join("o'neil a $(b)");
    fs::create_dir(&odd).unwrap();
    common::copy_program(common::program(), &odd.join("punctual"));
    let mut command = place.command("setpriv");
    command.args([
        &format!("--reuid={NOBODY}"),
        "--clear-groups",
        "--bounding-set=-all",
    ]);
    command
        .args(["--inh-caps=-all"])
        .arg(odd.join("punctual"))
        .args(["measure", "-l", "5"]);
    let told = Running::start(command).end().expect(4);
    let commands = advised(&told.stderr);
    assert!(commands.len() >= 2, "{}", told.stderr);
    for advised in commands {
        let checked = Command::new("sh")
            .args(["-n", "-c", &advised])
            .output()
            .unwrap();
        assert!(checked.status.success(), "{advised}: {checked:?}");
        if advised.contains("setcap") {
            // The file that the advice is about.
            let script = format!(
                "sudo() {{ case $1 in setcap) shift 2; printf '%s' \"$1\"; exit ;; esac; }}\n{advised}"
            );
            let said = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(
                said.stdout,
                odd.join("punctual").as_os_str().as_encoded_bytes()
            );
        }
    }
}
