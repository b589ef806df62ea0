//! What is kept is whole, or made anew: after damage, kills, full disks, and side by side.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use punctual_lab::kernel::{self, Cache};

use super::made::{self, RELEASE};
use super::needs::{self, need};
use super::{Place, line};
use punctual_record::laboratory::Architecture;

#[test]
fn damage_of_any_file_is_noticed_and_mended() {
    let place = Place::new();
    let path = place.file(
        "a.deb",
        &made::kernel_deb(&made::gzipped(&made::elf(true, 50_000))),
    );
    let kernel = place.find(&path).expect("a kernel");
    let entry = kernel.image.parent().expect("an entry").to_owned();
    let whole: Vec<(String, Vec<u8>)> = made::files_below(&entry)
        .into_iter()
        .map(|name| (name.clone(), fs::read(entry.join(name)).expect("a file")))
        .collect();
    assert!(whole.len() > 8, "{whole:?}");
    for (name, bytes) in &whole {
        for damage in 0..4 {
            let file = entry.join(name);
            let mut altered = bytes.clone();
            match damage {
                0 => *altered.last_mut().expect("a byte") ^= 1,
                1 => altered.truncate(altered.len() / 2),
                2 => altered.push(b'\n'),
                _ => altered.clear(),
            }
            fs::write(&file, altered).expect("a file");
            if damage == 3 {
                fs::remove_file(&file).expect("a file");
            }
            let (found, told) = place.find_telling(&path);
            assert_eq!(found.expect(name), kernel);
            // A program that another test starts has the lock's file until it is another program.
            let damaged = told.iter().find(|line| !line.starts_with("waiting for"));
            assert!(
                damaged.is_some_and(
                    |line| line.contains("is damaged (") && line.contains("unpacked again")
                ),
                "{told:?}"
            );
            assert!(fs::read(&file).expect("a file") == *bytes, "{name}");
        }
    }
    assert_eq!(
        fs::read_dir(place.cache().directory()).expect("it").count(),
        2,
        "lock and entry"
    );
}

#[test]
fn many_at_once_get_the_same() {
    let place = Place::new();
    let path = place.file(
        "a.deb",
        &made::kernel_deb(&made::gzipped(&made::elf(true, 3_000_000))),
    );
    let kernels: Vec<_> = std::thread::scope(|scope| {
        let finders: Vec<_> = (0..6).map(|_| scope.spawn(|| place.find(&path))).collect();
        finders
            .into_iter()
            .map(|finder| finder.join().expect("no panic"))
            .collect()
    });
    let first = kernels[0].as_ref().expect("a kernel");
    for kernel in &kernels {
        assert_eq!(kernel.as_ref().expect("a kernel"), first);
    }
    assert_eq!(
        fs::read_dir(place.cache().directory()).expect("it").count(),
        2,
        "lock and entry"
    );
}

/// Runs this test's helper in another process.
fn finder(path: &Path, cache: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args([
            "--exact",
            "cache::helper_that_finds",
            "--ignored",
            "--nocapture",
        ])
        .env("FIND", path)
        .env("CACHE", cache)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

#[test]
#[ignore = "a helper of other tests, in a process of its own"]
#[allow(clippy::print_stdout, reason = "that is how it answers")]
fn helper_that_finds() {
    let (Ok(path), Some(cache)) = (std::env::var("FIND"), std::env::var_os("CACHE")) else {
        return;
    };
    match kernel::find(
        &path,
        Architecture::Amd64,
        &Cache::at(PathBuf::from(cache)),
        &mut |_| {},
    ) {
        Ok(kernel) => println!("FOUND {}", kernel.sha256),
        Err(error) => println!("ERROR {error}"),
    }
}

#[test]
fn a_kill_at_any_time_leaves_nothing_half_done() {
    let place = Place::new();
    let image = made::elf(true, 8_000_000);
    let path = place.file("a.deb", &made::kernel_deb(&made::gzipped(&image)));
    let cache = place.cache();
    let mut unfinished = 0;
    for round in 0..12 {
        let mut child = finder(&path, cache.directory()).spawn().expect("a process");
        std::thread::sleep(Duration::from_millis(10 + 25 * round));
        child.kill().expect("a kill");
        child.wait().expect("its end");
        let names: Vec<String> = fs::read_dir(cache.directory())
            .into_iter()
            .flatten()
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        unfinished += usize::from(names.iter().any(|name| name.starts_with(".unfinished")));
        // What is there under its own name is whole.
        if let Some(entry) = names.iter().find(|name| name.starts_with("package-")) {
            let kept = fs::read(cache.directory().join(entry).join("vmlinux")).expect("an image");
            assert!(kept == image);
            fs::remove_dir_all(cache.directory().join(entry)).expect("removed");
        }
    }
    let kernel = place.find(&path).expect("a kernel");
    assert_eq!(kernel.sha256, made::sha256(&image));
    let count = fs::read_dir(cache.directory()).expect("it").count();
    assert_eq!(
        count, 2,
        "lock and entry are left of {unfinished} unfinished"
    );
}

struct Tiny(PathBuf);

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_named_and_left_as_it_was() {
    let place = Place::new();
    let image = made::elf(true, 3_000_000);
    let paths = [
        place.file("bzImage", &made::gzipped(&image)),
        place.file("a.deb", &made::kernel_deb(&made::gzipped(&image))),
    ];
    let cache = place.cache();
    fs::create_dir_all(cache.directory()).expect("a directory");
    need!(needs::mounts());
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(cache.directory())
        .stderr(Stdio::null())
        .status();
    assert!(mount.is_ok_and(|status| status.success()), "a mount");
    let _tiny = Tiny(cache.directory().to_owned());
    for path in &paths {
        let text = line(place.find(path));
        assert!(
            text.starts_with("cannot write ") && text.contains(": no space left"),
            "{text}"
        );
        assert!(text.contains("XDG_CACHE_HOME"), "{text}");
        place.assert_nothing_kept();
    }
}

#[test]
fn root_keeps_no_kernels_where_another_user_may_change_them() {
    need!(needs::root());
    let place = Place::new();
    let image = made::gzipped(&made::elf(true, 50_000));
    let path = place.file("bzImage", &image);
    let cache = place.cache();
    fs::create_dir_all(cache.directory()).expect("a directory");
    std::os::unix::fs::chown(cache.directory(), Some(65534), None).expect("given away");
    let text = line(place.find(&path));
    assert!(text.contains("belongs to user 65534"), "{text}");
    assert!(text.contains("XDG_CACHE_HOME"), "{text}");
    place.assert_nothing_kept();
    std::os::unix::fs::chown(cache.directory(), Some(0), None).expect("taken back");
    // A link that was prepared for the lock, and a directory for what is being filled.
    let victim = place.file("victim", b"precious");
    std::os::unix::fs::symlink(&victim, cache.directory().join(".lock")).expect("a link");
    let text = line(place.find(&path));
    assert!(text.contains(".lock"), "{text}");
    fs::remove_file(cache.directory().join(".lock")).expect("the link");
    place.find(&path).expect("a kernel");
    assert_eq!(fs::read(&victim).expect("it"), b"precious");
}

#[test]
fn what_may_not_be_read_or_written_is_named() {
    need!(needs::root());
    need!(needs::program("setpriv"));
    let place = Place::new();
    let open = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
    };
    open(place.directory.path());
    let path = place.file("bzImage", &made::gzipped(&made::elf(true, 30_000)));
    // Where it may run this program, whose folder may be closed to it. By a process of its own:
    // what this one has open for writing, a test beside this one may hand to its child, and then
    // it can't be run.
    let program = place.directory.path().join("helper");
    let copied = Command::new("cp")
        .arg(std::env::current_exe().expect("our path"))
        .arg(&program)
        .status();
    assert!(copied.is_ok_and(|status| status.success()));
    open(&program);
    let as_nobody = |path: &Path, cache: &Path| -> String {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args([
                "--exact",
                "cache::helper_that_finds",
                "--ignored",
                "--nocapture",
            ])
            .env("FIND", path)
            .env("CACHE", cache)
            .output()
            .expect("setpriv runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let answer = text.lines().find_map(|line| {
            let at = line.find("ERROR ").or_else(|| line.find("FOUND "))?;
            line.get(at..)
        });
        answer.unwrap_or_else(|| panic!("{output:?}")).to_owned()
    };
    let answer = as_nobody(&path, &place.directory.path().join("closed"));
    assert!(
        answer.contains("closed: permission denied") && answer.contains("cannot write "),
        "{answer}"
    );
    // What root has put there, anybody may use.
    place.find(&path).expect("a kernel");
    let answer = as_nobody(&path, place.cache().directory());
    assert!(answer.starts_with("FOUND"), "{answer}");

    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
    let answer = as_nobody(&path, place.cache().directory());
    assert!(answer.contains("bzImage: permission denied"), "{answer}");
}

#[test]
fn the_users_cache_is_where_caches_are() {
    let place = Cache::for_user();
    if let Ok(cache) = place {
        assert!(cache.directory().ends_with("punctual/kernels"), "{cache:?}");
        assert!(cache.directory().is_absolute());
    }
    assert!(RELEASE.ends_with("amd64"));
}
