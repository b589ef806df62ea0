//! What a user copies into a guest: data, scripts, modules, a root file system.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use punctual_lab::kernel::{self, Cache};

use super::common::{Place, need, read_json};
use super::{HANGS, lab, ready};
use punctual_record::laboratory::Architecture;

pub fn write(path: &Path, text: &[u8], mode: u32) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}

/// The script that all of these run: only built-in commands of the shell.
const SCRIPT: &[u8] = b"#!/bin/sh\nread first </srv/data/words; echo \"$0 $first $1\"; pwd\n\
    [ -x /srv/data/tool ] && echo runs; [ -x /srv/data/words ] || echo plain\n\
    [ -e /gone ] || echo gone; [ -e /kept ] && echo kept; echo left >file; exit 7\n";

fn data(place: &Place) {
    write(&place.path().join("data/words"), b"brought along\n", 0o640);
    write(&place.path().join("data/tool"), b"#!/bin/sh\n", 0o755);
}

#[test]
fn a_script_and_its_data_are_copied_with_their_modes() {
    need!(ready());
    let place = Place::new();
    data(&place);
    write(&place.path().join("work.sh"), SCRIPT, 0o755);
    let flags = ["--kernel", "rt", "--bring", "data=/srv/data", "-o", "a"];
    let words = [&flags[..], &["--", "./work.sh", "given"]].concat();
    let ended = lab(&place, &words).expect(7);
    let told = "/lab/bin/work.sh brought along given\n/out\nruns\nplain\ngone\n";
    assert_eq!(ended.stdout, told, "{ended:?}");
    let record = read_json(&place.path().join("a/lab.json"));
    assert_eq!(
        record["cells"][0]["laboratory"]["brought"][0],
        "data=/srv/data"
    );
    // The record is sufficient to repeat it.
    let again = place
        .start(&["lab", "verify", "a"])
        .end_within(HANGS)
        .expect(0);
    assert!(again.stdout.contains("identical"), "{again:?}");
}

/// A userspace with only a shell, in the layout of its distribution: `/bin` is a link.
pub fn userspace(root: &Path) {
    fs::create_dir_all(root.join("usr/bin")).expect("made");
    symlink("usr/bin", root.join("bin")).expect("a link");
    let shell = fs::read("/bin/sh").expect("a shell");
    write(&root.join("usr/bin/sh"), &shell, 0o755);
    let elf = punctual_lab::libraries::parse(&shell).expect("a program");
    let loader = elf.interpreter.expect("a loader");
    for (from, to) in [
        (loader.clone(), loader),
        (
            "/lib/x86_64-linux-gnu/libc.so.6".into(),
            "/lib/x86_64-linux-gnu/libc.so.6".into(),
        ),
    ] {
        let bytes = fs::read(&from).expect("a library");
        write(&root.join(to.trim_start_matches('/')), &bytes, 0o755);
    }
    write(&root.join("opt/work.sh"), SCRIPT, 0o755);
    write(&root.join("kept"), b"", 0o644);
}

fn tar_of(folder: &Path) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    archive.follow_symlinks(false);
    archive.append_dir_all(".", folder).expect("a tar");
    archive.into_inner().expect("a tar")
}

/// An OCI layout of two layers: the second one removes a file and adds the data.
fn layout(place: &Path, lower: &[u8], upper: &[u8]) {
    use sha2::{Digest, Sha256};
    let blobs = place.join("blobs/sha256");
    fs::create_dir_all(&blobs).expect("made");
    let keep = |bytes: &[u8]| {
        let sum: String = Sha256::digest(bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        fs::write(blobs.join(&sum), bytes).expect("written");
        serde_json::json!({"digest": format!("sha256:{sum}"), "size": bytes.len()})
    };
    let layers = [keep(lower), keep(upper)];
    let manifest = serde_json::json!({"schemaVersion": 2, "layers": layers}).to_string();
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [keep(manifest.as_bytes())]});
    fs::write(place.join("index.json"), index.to_string()).expect("written");
    fs::write(
        place.join("oci-layout"),
        "{\"imageLayoutVersion\": \"1.0.0\"}",
    )
    .expect("written");
}

#[test]
fn a_root_file_system_in_any_form_is_the_guests_userspace() {
    need!(ready());
    let place = Place::new();
    let path = |name: &str| place.path().join(name);
    data(&place);
    userspace(&path("root"));
    fs::write(path("root.tar"), tar_of(&path("root"))).expect("written");
    write(&path("root/gone"), b"", 0o644);
    let mut upper = tar::Builder::new(Vec::new());
    for (name, bytes) in [
        (".wh.gone", &b""[..]),
        ("srv/data/words", b"brought along\n"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        upper.append_data(&mut header, name, bytes).expect("a tar");
    }
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    header.set_mode(0o755);
    upper
        .append_data(&mut header, "srv/data/tool", &b""[..])
        .expect("a tar");
    layout(
        &path("image"),
        &tar_of(&path("root")),
        &upper.into_inner().expect("a tar"),
    );
    fs::remove_file(path("root/gone")).expect("removed");
    let told = "/opt/work.sh brought along given\n/out\nruns\nplain\ngone\nkept\n";
    for (root, brought) in [
        ("root", &["--bring", "data=/srv/data"][..]),
        ("root.tar", &["--bring", "data=/srv/data"]),
        ("image", &[]),
    ] {
        let out = format!("out-{root}");
        let flags = ["--kernel", "rt", "--rootfs", root, "-o", &out];
        let words = [&flags[..], brought, &["--", "/opt/work.sh", "given"]].concat();
        let ended = lab(&place, &words).expect(7);
        assert_eq!(ended.stdout, told, "{root}: {ended:?}");
        let left = fs::read_to_string(path(&out).join("rt/idle/file"));
        assert_eq!(left.expect("what it left"), "left\n");
        let record = read_json(&path(&out).join("lab.json"));
        assert_eq!(record["cells"][0]["laboratory"]["rootfs"], root);
    }
    // A measurement while a command of that userspace runs.
    let words = [
        "--kernel",
        "rt",
        "--rootfs",
        "root.tar",
        "-o",
        "m",
        "--load",
        "while :; do echo a b >/tmp/x; done",
        "--",
        "measure",
        "-l",
        "200",
        "-p",
        "80",
    ];
    lab(&place, &words).expect(0);
    let record = read_json(&place.path().join("m/lab.json"));
    let cell = &record["cells"][0];
    assert_eq!(cell["figures"]["samples"], 200, "{cell}");
    assert!(
        cell["loads"][0]["work"].as_u64().expect("work") > 0,
        "{cell}"
    );
}

#[test]
fn missing_files_of_a_root_file_system_are_named_before_anything_boots() {
    need!(ready());
    let place = Place::new();
    let root = place.path().join("root");
    userspace(&root);
    write(&root.join("opt/lost.sh"), b"#!/bin/perl\n", 0o755);
    write(&root.join("opt/plain.sh"), SCRIPT, 0o644);
    let refused = |root: &str, word: &str, words: &str| {
        let flags = ["--kernel", "rt", "--rootfs", root, "-o", "a", "--", word];
        let ended = lab(&place, &flags).expect(1);
        assert!(ended.stderr.contains(words), "{words}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(!place.path().join("a").exists());
    };
    refused("root", "perl", "there is no program perl in it");
    refused(
        "root",
        "/opt/lost.sh",
        "needs /bin/perl, which is not in it",
    );
    refused("root", "/opt/plain.sh", "not executable");
    refused(
        "root",
        "opt/work.sh",
        "expected an absolute path, /opt/work.sh",
    );
    refused("/etc/passwd", "sh", "is not a tar");
    refused("nowhere", "sh", "nowhere");
}

/// The module of the kernel's own package, as a user's file.
#[test]
fn a_module_file_is_checked_and_loaded_or_refused_with_the_kernels_error() {
    need!(ready());
    let cache = Cache::for_user().expect("a cache");
    let rt = kernel::find("rt", Architecture::Amd64, &cache, &mut |_| {}).expect("a kernel");
    let mut module = rt.module("null_blk").expect("a module").pop().expect("it");
    // A changed module must not have its signature: length, then 28 bytes at the end.
    let end = module.bytes.len() - 28;
    let length = module.bytes[end - 4..end].first_chunk().expect("a length");
    module
        .bytes
        .truncate(end - 12 - u32::from_be_bytes(*length) as usize);
    let place = Place::new();
    let altered = |from: &str, to: &str| {
        let mut bytes = module.bytes.clone();
        let at = bytes
            .windows(from.len())
            .position(|part| part == from.as_bytes());
        let at = at.expect("it is there");
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    let keep = |name: &str, bytes: &[u8]| write(&place.path().join(name), bytes, 0o644);
    keep("mine.ko", &module.bytes);
    keep("other.ko", &altered("vermagic=6", "vermagic=5"));
    keep("options.ko", &altered("preempt_rt", "preempt_xx"));
    // Its table of versions lacks a symbol that it needs: the kernel itself reports that.
    keep(
        "lost.ko",
        &altered(
            "blk_mq_start_stopped_hw_queues",
            "blk_mq_lost_stopped_hw_queues_",
        ),
    );
    keep("cut.ko", &module.bytes[..module.bytes.len() / 2]);
    keep("text.ko", b"text");
    let run = |name: &str| {
        let script = "read names </proc/modules && echo $names";
        let flags = [
            "--kernel", "rt", "--module", name, "-q", "--", "sh", "-c", script,
        ];
        lab(&place, &flags)
    };
    for (name, words) in [
        ("./other.ko", "was built for 5."),
        ("./options.ko", "was built with other options"),
        ("./cut.ko", "is truncated: its section headers end at"),
        ("./text.ko", "is not a module"),
        ("./nowhere.ko", "nowhere.ko"),
        ("/bin/sh", "is a program or a library"),
    ] {
        let ended = run(name).expect(1);
        assert!(ended.stderr.contains(words), "{words}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    }
    // Two of one name: the user's own is never left out silently.
    let file = place.path().join("mine.ko").display().to_string();
    let named = |asked: [&str; 2]| rt.modules(&asked.map(str::to_owned));
    let error = named(["null_blk", &file]).expect_err("another comes first");
    let words = "would not be loaded: another module null_blk is loaded first";
    assert!(error.to_string().contains(words), "{error}");
    for asked in [[&*file, "null_blk"], [&file, &file]] {
        let loaded = named(asked).expect("the user's own");
        assert_eq!(loaded.last().map(|it| &it.bytes), Some(&module.bytes));
    }
    let ended = run("./mine.ko").expect(0);
    assert!(ended.stdout.starts_with("null_blk "), "{ended:?}");
    let ended = run("./lost.ko").expect(1);
    let words = "the kernel refused module null_blk";
    assert!(ended.stderr.contains(words), "{ended:?}");
    assert!(
        ended.stderr.contains("Unknown symbol blk_mq_start"),
        "{ended:?}"
    );
}
