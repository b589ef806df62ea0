//! Other users prepare links, FIFOs and directories where root writes: none of root's files is
//! overwritten, nothing blocks, and a directory that root must not write into is refused.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::needs::{self, Absent};
use crate::common::{Ended, Place, Running, copy_program, need, program, skip};

/// The other user: `nobody`.
const OTHER: &str = "65534";
const SECRET: &str = "root's own\n";

/// A place in which another user has a directory, and root a file.
struct Scene {
    place: Place,
}

impl Scene {
    /// Root can become another user.
    fn new() -> Result<Self, Absent> {
        needs::root()?;
        needs::program("setpriv")?;
        let scene = Self {
            place: Place::new(),
        };
        for name in ["theirs", "roots"] {
            fs::create_dir(scene.at(name)).unwrap();
        }
        fs::write(scene.at("roots/victim"), SECRET).unwrap();
        chown(scene.at("theirs"), Some(65534), Some(65534)).unwrap();
        assert!(scene.other("test -w theirs"), "the other user's directory");
        Ok(scene)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Whether the other user's commands succeeded.
    fn other(&self, script: &str) -> bool {
        let status = self.as_other(script).status().unwrap();
        status.success()
    }

    fn as_other(&self, script: &str) -> Command {
        let mut command = self.place.command("setpriv");
        let user = format!("--reuid={OTHER}");
        let group = format!("--regid={OTHER}");
        command.args([&user, &group, "--clear-groups", "sh", "-c", script]);
        command
    }

    /// A run that belongs to root, to read.
    fn run(&self) {
        let flags = ["measure", "-q", "-D", "1", "-o", "made", "--best-effort"];
        self.place.run(&flags);
        assert!(self.at("made/run.json").exists());
    }

    fn punctual(&self, arguments: &[&str]) -> Ended {
        self.place.run(arguments)
    }

    #[track_caller]
    fn unharmed(&self) {
        let found = fs::read_to_string(self.at("roots/victim")).unwrap();
        assert_eq!(found, SECRET);
        let names = fs::read_dir(self.at("roots")).unwrap().count();
        assert_eq!(names, 1, "something was written beside it");
    }
}

#[test]
fn planted_links_are_not_followed() {
    let scene = need!(Scene::new());
    scene.run();
    let victim = scene.at("roots/victim");
    let victim = victim.to_str().unwrap();
    // The names of the files, and their temporary names.
    for name in [
        "j.xml",
        "page.html",
        "latency.dat",
        "latency.gnuplot",
        "histogram.svg",
    ] {
        for planted in [name.to_owned(), format!("{name}.tmp")] {
            assert!(scene.other(&format!("ln -s {victim} theirs/{planted}")));
        }
    }
    // Made by root itself: many kernels forbid links to other users' files.
    fs::hard_link(victim, scene.at("theirs/hard.csv")).unwrap();
    for arguments in [
        &["export", "made", "--format", "junit", "-o", "theirs/j.xml"][..],
        &["export", "made", "--format", "csv", "-o", "theirs/hard.csv"],
        &["report", "made", "--html", "theirs/page.html"],
        &["report", "made", "--svg", "theirs"],
        &["report", "made", "--gnuplot", "theirs"],
    ] {
        let ended = scene.punctual(arguments).expect(0);
        assert_eq!(ended.stderr, "", "{arguments:?}");
        scene.unharmed();
    }
    for name in [
        "j.xml",
        "hard.csv",
        "page.html",
        "latency.gnuplot",
        "histogram.svg",
    ] {
        let found = fs::symlink_metadata(scene.at("theirs").join(name)).unwrap();
        assert!(found.is_file(), "{name} is still a link");
        assert!(found.len() > SECRET.len() as u64, "{name}");
    }
}

#[test]
fn planted_fifos_block_nothing() {
    let scene = need!(Scene::new());
    scene.run();
    assert!(scene.other("mkfifo theirs/a.csv theirs/a.csv.tmp theirs/latency.dat"));
    let export = ["export", "made", "--format", "csv", "-o", "theirs/a.csv"];
    let ended = scene.punctual(&export).expect(1);
    assert!(ended.stderr.contains("a FIFO of user 65534"), "{ended:?}");
    // With a reader too, which might stop reading.
    let mut reader = scene
        .as_other("exec 3<>theirs/a.csv; read line <&3")
        .spawn()
        .unwrap();
    let ended = scene.punctual(&export).expect(1);
    assert!(ended.stderr.contains("a FIFO of user 65534"), "{ended:?}");
    let _ = reader.kill();
    let _ = reader.wait();
    // In a directory of several files it is treated as any other file name.
    scene
        .punctual(&["report", "made", "--gnuplot", "theirs"])
        .expect(0);
    assert!(
        fs::symlink_metadata(scene.at("theirs/latency.dat"))
            .unwrap()
            .is_file()
    );
}

#[test]
fn a_run_directory_that_other_users_may_change_is_refused() {
    let scene = need!(Scene::new());
    let measure = |name: &str| {
        let flags = ["measure", "-q", "-D", "1", "--best-effort", "-o", name];
        scene.punctual(&flags)
    };
    let ended = measure("theirs").expect(64);
    assert!(
        ended.stderr.contains("theirs: it belongs to user 65534"),
        "{ended:?}"
    );
    assert!(ended.stderr.contains("name a new one with -o"), "{ended:?}");
    fs::create_dir(scene.at("roots/empty")).unwrap();
    let empty = scene.at("roots/empty");
    assert!(scene.other(&format!("ln -s {} theirs/link", empty.display())));
    let ended = measure("theirs/link").expect(64);
    assert!(
        ended.stderr.contains("it is a link of user 65534"),
        "{ended:?}"
    );
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    fs::create_dir(scene.at("open")).unwrap();
    fs::set_permissions(scene.at("open"), fs::Permissions::from_mode(0o777)).unwrap();
    let ended = measure("open").expect(64);
    assert!(ended.stderr.contains("every user may change"), "{ended:?}");
    let merge = ["merge", "theirs", "theirs", "-o", "open"];
    assert_ne!(scene.punctual(&merge).code(), 0);
    assert_eq!(fs::read_dir(scene.at("open")).unwrap().count(), 0);
    // Root's own directory, a link of root's, and a new directory in another user's directory are
    // allowed.
    fs::create_dir(scene.at("own")).unwrap();
    fs::create_dir(scene.at("far")).unwrap();
    symlink(scene.at("far"), scene.at("near")).unwrap();
    for (named, real) in [
        ("own", "own"),
        ("near", "far"),
        ("theirs/new", "theirs/new"),
    ] {
        let ended = measure(named);
        assert!(!matches!(ended.code(), 1 | 64), "{named}: {ended:?}");
        assert!(scene.at(real).join("run.json").is_file(), "{named}");
    }
}

#[test]
fn a_run_stays_in_its_directory_even_if_it_is_replaced() {
    let scene = need!(Scene::new());
    let roots = scene.at("roots");
    for name in ["run.json", "latency.dat", "report.html"] {
        fs::write(roots.join(name), SECRET).unwrap();
    }
    // As soon as it exists, it is moved away, and a link to root's directory replaces it.
    let script = format!(
        "while ! mv theirs/run theirs/moved; do :; done 2>/dev/null; ln -s {} theirs/run",
        roots.display()
    );
    let mut attack = scene.as_other(&script).spawn().unwrap();
    let flags = [
        "measure",
        "-q",
        "-D",
        "2",
        "--best-effort",
        "-o",
        "theirs/run",
    ];
    let ended = scene.punctual(&flags);
    assert!(attack.wait().unwrap().success());
    for name in ["victim", "run.json", "latency.dat", "report.html"] {
        assert_eq!(
            fs::read_to_string(roots.join(name)).unwrap(),
            SECRET,
            "{name}"
        );
    }
    assert_eq!(fs::read_dir(&roots).unwrap().count(), 4);
    // If it was moved before it was opened, it is refused; otherwise everything is in the moved one.
    if ended.code() == 64 {
        assert!(ended.stderr.contains("theirs/run"), "{ended:?}");
    } else {
        let moved = scene.at("theirs/moved");
        for name in ["run.json", "latency.dat", "report.html"] {
            assert!(moved.join(name).is_file(), "{name}: {ended:?}");
        }
    }
}

#[test]
fn standard_output_devices_and_own_fifos_are_written_to() {
    let place = Place::new();
    place.run(&["measure", "-q", "-D", "1", "-o", "made", "--best-effort"]);
    let plain = place.run(&["export", "made", "--format", "csv"]).expect(0);
    assert!(plain.stdout.lines().count() > 2);
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let export = ["export", "made", "--format", "csv", "-o", name];
        assert_eq!(place.run(&export).expect(0).stdout, plain.stdout, "{name}");
    }
    let shell = |script: &str| {
        let mut command = place.command("sh");
        command.args(["-c", script]).env("P", program());
        Running::start(command).end()
    };
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    // A file that the shell opened is continued, and stays the same file.
    shell("echo first >all; $P export made --format csv -o /dev/stdout >>all").expect(0);
    assert_eq!(read("all"), format!("first\n{}", plain.stdout));
    assert!(fs::symlink_metadata("/dev/stdout").is_ok_and(|found| found.is_symlink()));
    shell("$P export made --format csv -o /dev/fd/7 7>seven").expect(0);
    assert_eq!(read("seven"), plain.stdout);
    shell("$P export made --format csv -o /dev/null").expect(0);
    // Descriptors that this process opened for itself are not outputs; neither are closed ones.
    for number in [3, 4, 5, 99] {
        let ended = shell(&format!("$P export made --format csv -o /dev/fd/{number}"));
        assert_eq!(ended.code(), 1, "{number}: {ended:?}");
    }
    shell(
        "mkfifo pipe; cat pipe >came & exec 3<>pipe; $P export made --format csv -o pipe; \
           status=$?; exec 3>&-; wait; exit $status",
    )
    .expect(0);
    assert_eq!(read("came"), plain.stdout);
    let ended = place
        .run(&["export", "made", "--format", "csv", "-o", "pipe"])
        .expect(1);
    assert!(ended.stderr.contains("without a reader"), "{ended:?}");
    // A link is replaced, as a file is.
    fs::write(place.path().join("kept"), SECRET).unwrap();
    symlink("kept", place.path().join("link")).unwrap();
    place
        .run(&["export", "made", "--format", "csv", "-o", "link"])
        .expect(0);
    assert_eq!(
        (read("kept"), read("link")),
        (SECRET.to_owned(), plain.stdout)
    );
    let ended = place
        .run(&["export", "made", "--format", "csv", "-o", "made"])
        .expect(1);
    assert!(ended.stderr.contains("made: not saved"), "{ended:?}");
}

#[test]
fn no_other_user_can_change_the_files_of_a_run() {
    let scene = need!(Scene::new());
    let mut modes = Vec::new();
    let flags = [
        "measure",
        "-q",
        "-D",
        "1",
        "--best-effort",
        "--samples",
        "-o",
        "theirs/run",
    ];
    scene.punctual(&flags);
    look(&scene.at("theirs/run"), &mut modes);
    assert!(modes.len() > 6, "{modes:?}");
    assert!(modes.iter().all(|(_, mode)| mode & 0o022 == 0), "{modes:?}");
}

fn look(directory: &Path, modes: &mut Vec<(PathBuf, u32)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        modes.push((path.clone(), found.permissions().mode()));
        if found.is_dir() {
            look(&path, modes);
        } else {
            let mut byte = [0];
            assert_eq!(
                fs::File::open(&path).unwrap().read(&mut byte).unwrap(),
                1,
                "{path:?}"
            );
        }
    }
}

/// The advice as it is printed, with an existing group.
#[test]
fn only_the_group_can_execute_a_copy_with_capabilities() {
    let scene = need!(Scene::new());
    let copy = scene.at("copy");
    copy_program(program(), &copy);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let fix = punctual_report::facts::fix(&punctual_record::Fix::Rights {
        program: "./copy".to_owned(),
        capabilities: ["cap_sys_nice", "cap_ipc_lock"].map(str::to_owned).into(),
        device: false,
    });
    let advice = fix.split('`').nth(1).expect("a command");
    assert!(advice.contains("groupadd -f realtime") && advice.contains("usermod -aG realtime"));
    let commands: Vec<&str> = advice.split(" && ").collect();
    let of_file = commands.iter().filter(|it| it.ends_with("./copy"));
    let of_file: Vec<String> = of_file
        .map(|it| it.replace("sudo ", "").replace("realtime", OTHER))
        .collect();
    assert_eq!(of_file.len(), 3, "{commands:?}");
    // The advice's warning is true: without the group's part every user may execute it.
    let root = |script: &str| {
        let mut command = scene.place.command("sh");
        command.args(["-c", script]);
        Running::start(command).end()
    };
    need!(needs::program("setcap"));
    let tried = root(&of_file[2]);
    if tried.code() != 0 {
        skip!(Absent::refused("capabilities of files", tried.stderr));
    }
    let shell = |user: &str, group: &str, script: &str| {
        let mut command = scene.place.command("setpriv");
        let user = format!("--reuid={user}");
        let group = format!("--regid={group}");
        command.args([&user, &group, "--clear-groups", "sh", "-c", script]);
        Running::start(command).end()
    };
    let at_99 = |flags: &str| {
        format!("ulimit -l 64; ./copy run -p 99 {flags} cut -d ' ' -f 40,41 /proc/self/stat")
    };
    let as_user = |user: &str, group: &str| shell(user, group, &at_99(""));
    // Without file capabilities another user's program gets none, so the file provides them below.
    root("setcap -r ./copy").expect(0);
    let nobody = as_user("65533", "65533").expect(1);
    assert!(nobody.stderr.contains("fifo 99 is refused"), "{nobody:?}");
    root(&of_file[2]).expect(0);
    let anybody = as_user("65533", "65533");
    // Also with the library in a memory file: the program's loader finds it, although it
    // has none of the file's capabilities.
    assert_eq!(anybody.expect(0).stdout.trim(), "99 1");
    // The capability to lock without a limit is lost when the program starts, so it does not justify
    // starting.
    let lock = shell("65533", "65533", &at_99("--lock")).expect(1);
    assert!(
        lock.stderr.contains("the limit of locked memory is 64 KB"),
        "{lock:?}"
    );
    for command in &of_file {
        root(command).expect(0);
    }
    assert_eq!(as_user("65533", OTHER).expect(0).stdout.trim(), "99 1");
    let refused = as_user("65533", "65533");
    assert_eq!(refused.code(), 126, "{refused:?}");
    assert!(refused.stderr.contains("ermission denied"), "{refused:?}");
}

#[test]
fn all_advice_about_capabilities_names_the_group() {
    // Every page, and every line of the code that names setcap.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut places = vec![root.join("README.md")];
    for folder in ["docs", "crates/punctual/src", "crates/report/src"] {
        gather(&root.join(folder), &mut places);
    }
    let mut found = 0;
    for place in places {
        let text = fs::read_to_string(&place).unwrap_or_default();
        if ["setcap cap_", "setcap {", "setcap \\\n"]
            .iter()
            .any(|it| text.contains(it))
        {
            found += 1;
            let said = text.contains("FIFO 99") || text.contains("run -p 99");
            let first = ["chgrp realtime", "chgrp {GROUP}"];
            let first = first.iter().any(|it| text.contains(it));
            assert!(said && first, "{place:?}");
        }
    }
    assert!(found >= 2, "the advice is gone, or its words are others");
}

fn gather(folder: &Path, places: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, places);
        } else {
            places.push(path);
        }
    }
}
