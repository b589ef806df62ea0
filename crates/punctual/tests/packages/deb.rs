//! The three packages: what they contain, and that they repeat.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Place, need, needs};
use crate::made::{by, dpkg, only, packages, root, with_units};
use crate::support::{ends, libraries, succeeds};

const NAMES: [&str; 3] = ["punctual_", "libpunctual0_", "libpunctual-dev_"];

/// A field of a package's control file.
fn field(package: &Path, name: &str) -> String {
    let output = succeeds(Command::new("dpkg-deb").arg("-f").arg(package).arg(name));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.trim().to_owned()
}

/// Unpacks a package, with its control files in DEBIAN.
fn unpacked(place: &Place, name: &str) -> PathBuf {
    let folder = place.path().join(name);
    succeeds(
        Command::new("dpkg-deb")
            .arg("-R")
            .arg(only(packages(), name, ".deb"))
            .arg(&folder),
    );
    folder
}

/// The unit files of a package.
fn units(package: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(package.join("usr/lib/systemd/system"));
    let mut found: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

#[test]
fn packages_have_their_files_and_fields() {
    need!(dpkg());
    let place = Place::new();
    let [tool, library, headers] = NAMES.map(|name| unpacked(&place, name));
    for (package, path) in [
        (&tool, "usr/bin/punctual"),
        (&tool, "usr/lib/punctual/libpunctual_preload.so"),
        (&tool, "usr/share/man/man1/punctual.1.gz"),
        (&tool, "usr/share/bash-completion/completions/punctual"),
        (&tool, "usr/share/zsh/vendor-completions/_punctual"),
        (&tool, "usr/share/fish/vendor_completions.d/punctual.fish"),
        (&tool, "usr/share/punctual/integrations/slurm/submit.sh"),
        (&tool, "usr/share/doc/punctual/docs/install.md"),
        (&tool, "usr/share/doc/punctual/schema/README.md"),
        (&tool, "usr/share/doc/punctual/schema/run-2.schema.json"),
        (&tool, "usr/share/doc/punctual/copyright"),
        (&tool, "usr/share/doc/punctual/changelog.Debian.gz"),
        (&library, "DEBIAN/shlibs"),
        (&library, "DEBIAN/triggers"),
        (&headers, "usr/include/punctual.h"),
        (&headers, "usr/share/man/man3/punctual_version.3.gz"),
        (&headers, "usr/share/punctual/gdb/punctual-stacks.py"),
    ] {
        assert!(package.join(path).is_file(), "{path}");
    }
    // The links of the pages lead somewhere.
    let doc = tool.join("usr/share/doc/punctual");
    assert!(doc.join("integrations/slurm/submit.sh").is_file());
    assert!(doc.join("LICENSE-MIT").is_file());
    // The units of the sources, if they have some: no link enables them.
    let ours = fs::read_dir(root().join("integrations/systemd"));
    let ours = ours.into_iter().flatten().flatten();
    let ours = ours.filter(|it| it.path().extension().is_some_and(|end| end == "service"));
    assert_eq!(units(&tool).len(), ours.count());
    assert!(!tool.join("etc").exists());

    let version = field(&only(packages(), "punctual_", ".deb"), "Version");
    assert!(version.starts_with(env!("CARGO_PKG_VERSION")), "{version}");
    for name in NAMES {
        let package = only(packages(), name, ".deb");
        assert_eq!(field(&package, "Version"), version);
        assert_eq!(format!("{}_", field(&package, "Package")), name);
    }
    assert_eq!(field(&only(packages(), "punctual_", ".deb"), "Depends"), "");
    let depends = field(&only(packages(), "libpunctual-dev_", ".deb"), "Depends");
    assert!(depends.contains(&format!("libpunctual0 (= {version})")));
    let depends = field(&only(packages(), "libpunctual0_", ".deb"), "Depends");
    assert!(depends.contains("libc6 (>= 2."), "{depends}");
}

#[test]
fn symbols_of_the_package_are_those_of_the_library() {
    need!(dpkg());
    let place = Place::new();
    let library = unpacked(&place, "libpunctual0_");
    let text = fs::read_to_string(library.join("DEBIAN/symbols")).expect("a file");
    let mut listed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(' ')?.split('@').next())
        .filter(|name| *name != "PUNCTUAL_1")
        .collect();
    listed.sort_unstable();
    let output = succeeds(
        Command::new("nm")
            .args(["-D", "--defined-only", "--format=posix"])
            .arg(libraries().join("libpunctual.so")),
    );
    let output = String::from_utf8(output.stdout).expect("UTF-8");
    let mut exported: Vec<&str> = output
        .lines()
        .filter_map(|line| line.split(['@', ' ']).next())
        .filter(|name| *name != "PUNCTUAL_1")
        .collect();
    exported.sort_unstable();
    assert!(exported.len() > 50, "{exported:?}");
    assert_eq!(listed, exported);
}

#[test]
fn the_same_files_make_the_same_packages() {
    need!(dpkg());
    let place = Place::new();
    // Another directory, mask, home of temporary files, time zone.
    let again = by(
        "deb",
        "debs again",
        &[
            ("TMPDIR", place.path()),
            ("TZ", Path::new("Pacific/Auckland")),
        ],
    );
    for name in NAMES {
        let [one, other] = [packages(), &again].map(|folder| only(folder, name, ".deb"));
        assert_eq!(one.file_name(), other.file_name());
        assert!(
            fs::read(one).expect("a package") == fs::read(&other).expect("a package"),
            "{name} differs"
        );
        let list = succeeds(
            Command::new("sh")
                .args([
                    "-c",
                    "dpkg-deb --fsys-tarfile \"$0\" | tar tv --numeric-owner",
                ])
                .arg(&other),
        );
        let list = String::from_utf8(list.stdout).expect("UTF-8");
        assert!(list.lines().count() > 5, "{list}");
        for line in list.lines() {
            assert!(line.contains(" 0/0 "), "{line}");
        }
    }
    assert_eq!(place.entries(), [""; 0], "of the temporary files");
}

#[test]
fn units_of_systemd_are_installed() {
    need!(dpkg());
    let place = Place::new();
    let tree = place.path().join("tree");
    let package = only(with_units(), "punctual_", ".deb");
    succeeds(Command::new("dpkg-deb").arg("-x").arg(package).arg(&tree));
    let found = units(&tree);
    assert_eq!(found.len(), 2, "{found:?}");
    for file in found {
        let mode = fs::metadata(&file).expect("a unit").permissions().mode();
        assert_eq!(mode & 0o7777, 0o644, "{}", file.display());
    }
}

#[test]
fn lintian_finds_no_error_and_no_warning() {
    need!(dpkg());
    need!(needs::program("lintian"));
    let mut command = Command::new("lintian");
    command.args(["--allow-root", "--fail-on", "error,warning"]);
    command.args(NAMES.map(|name| only(packages(), name, ".deb")));
    let output = ends(&mut command);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    // Each override has its reason in the line above.
    let overrides = root().join("packaging/deb/punctual.lintian-overrides");
    let text = fs::read_to_string(overrides).expect("a file");
    let mut reason = false;
    for line in text.lines() {
        assert!(reason || line.starts_with("# "), "{line}");
        reason = line.starts_with("# ") || line.starts_with("maintainer-script-calls-systemctl");
    }
}

#[test]
fn the_program_in_the_package_is_the_one_that_was_built() {
    need!(dpkg());
    let place = Place::new();
    let tool = unpacked(&place, "punctual_").join("usr/bin/punctual");
    let built = packages().join("punctual");
    assert_eq!(
        fs::metadata(&tool).expect("a program").size(),
        fs::metadata(&built).expect("a program").size()
    );
    assert!(fs::read(tool).expect("a program") == fs::read(built).expect("a program"));
}
