//! Kernels by name, with an apt of our own that says what we want.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use punctual_lab::kernel::apt::Apt;
use punctual_lab::kernel::{self, Error, Kernel, Progress};

use super::Place;
use super::made::{self, CONTROL, RELEASE};
use punctual_record::laboratory::Architecture;

/// An apt that knows packages by files: `NAME.show`, `NAME.deb`, and `names`.
struct Archive {
    place: Place,
    apt: PathBuf,
}

const CACHE: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$*" >>calls
# That of another architecture.
if [ "$1" = -c ]; then
    [ -e "$2" ] || exit 1
    shift 2
fi
case $1 in
pkgnames) grep "^$3" names || true ;;
show) cat "$4.show" 2>/dev/null || { echo "E: No packages found" >&2; exit 100; } ;;
policy) echo "release o=Debian Backports,a=stable-backports" ;;
esac
"#;

const GET: &str = r#"#!/bin/sh
from=$(dirname "$0")
echo "apt-get $*" >>"$from/calls"
for last; do :; done
echo "W: Download is performed unsandboxed as root" >&2
if [ -e "$from/offline" ]; then
    echo half >"${last%%=*}.deb.part"
    echo "E: Failed to fetch http://localhost:1/x.deb  Could not resolve 'localhost'" >&2
    echo "E: Unable to fetch some archives" >&2
    exit 100
fi
[ "$last" != update ] || exit 0
cp "$from/${last%%=*}.deb" "$(echo "$last" | tr = _)_amd64.deb"
"#;

impl Archive {
    fn new() -> Self {
        let place = Place::new();
        let apt = place.directory.path().join("apt");
        fs::create_dir(&apt).expect("a directory");
        for (name, text) in [("apt-cache", CACHE), ("apt-get", GET)] {
            // Renamed, so that nobody has it open for writing while it is run.
            let path = apt.join(format!("{name}.new"));
            fs::write(&path, text).expect("a script");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
            fs::rename(&path, apt.join(name)).expect("its name");
        }
        fs::write(apt.join("names"), "").expect("a file");
        Self { place, apt }
    }

    fn know(&self, name: &str) {
        let names = fs::read_to_string(self.apt.join("names")).expect("names");
        fs::write(self.apt.join("names"), format!("{names}{name}\n")).expect("names");
    }

    /// A package that only depends on another.
    fn meta(&self, name: &str, on: &str) {
        self.know(name);
        let text =
            format!("Package: {name}\nVersion: 1\nArchitecture: amd64\nDepends: {on} (= 1)\n");
        fs::write(self.apt.join(format!("{name}.show")), text).expect("a file");
    }

    /// A kernel; what it holds is different for each release.
    fn kernel(&self, release: &str, version: &str) -> String {
        let name = format!("linux-image-{release}");
        self.know(&name);
        let control = CONTROL
            .replace(RELEASE, release)
            .replace("6.99.1-7\n", &format!("{version}\n"));
        let image = made::gzipped(&made::elf(true, 9_000 + version.len() + release.len()));
        let deb = made::deb(&control, &[(&format!("boot/vmlinuz-{release}"), &image)]);
        let text = format!(
            "{}Size: {}\nSHA256: {}\n\nPackage: older\n",
            control.replace("Description: a kernel\n for tests\n", ""),
            deb.len(),
            made::sha256(&deb)
        );
        fs::write(self.apt.join(format!("{name}.show")), text).expect("a file");
        fs::write(self.apt.join(format!("{name}.deb")), deb).expect("a file");
        name
    }

    fn find(&self, asked: &str) -> (Result<Kernel, Error>, Vec<String>) {
        self.find_for(asked, Architecture::Amd64)
    }

    fn find_for(
        &self,
        asked: &str,
        architecture: Architecture,
    ) -> (Result<Kernel, Error>, Vec<String>) {
        let mut told = Vec::new();
        let mut tell = |step: &Progress| told.push(step.to_string());
        let apt = Apt::at(&self.apt);
        let found = kernel::find_with(&apt, asked, architecture, &self.place.cache(), &mut tell);
        (found, told)
    }

    fn release(&self, asked: &str) -> String {
        let (found, told) = self.find(asked);
        let kernel = found.unwrap_or_else(|error| panic!("{asked}: {error}; {told:?}"));
        kernel.release
    }

    fn refusal(&self, asked: &str) -> String {
        let (found, _) = self.find(asked);
        super::line(found)
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.apt.join("calls")).unwrap_or_default()
    }
}

fn archive() -> Archive {
    let archive = Archive::new();
    archive.kernel("6.1.0-9-amd64", "6.1.9-1");
    archive.kernel("6.1.0-9-rt-amd64", "6.1.9-1");
    archive.kernel("6.1.0-10-rt-amd64", "6.1.10-1");
    archive.kernel("6.1.0-10-amd64", "6.1.10-1");
    archive.kernel("6.1.0-11-cloud-amd64", "6.1.11-1");
    archive.kernel("6.12.9+deb12-rt-amd64", "6.12.9-1");
    archive.kernel("6.12.57+deb12-rt-amd64", "6.12.57-1");
    archive.know("linux-image-6.12.99+deb12-rt-amd64-dbg");
    archive.know("linux-image-6.12.98+deb12-rt-amd64");
    archive.meta("linux-image-rt-amd64", "linux-image-6.1.0-10-rt-amd64");
    archive.meta(
        "linux-image-cloud-amd64",
        "linux-image-6.1.0-11-cloud-amd64",
    );
    archive.meta("linux-image-amd64", "linux-image-6.1.0-10-amd64");
    archive
}

#[test]
fn names_lead_to_kernels() {
    let archive = archive();
    for (asked, release) in [
        ("rt", "6.1.0-10-rt-amd64"),
        ("standard", "6.1.0-10-amd64"),
        ("cloud", "6.1.0-11-cloud-amd64"),
        ("6.1-cloud", "6.1.0-11-cloud-amd64"),
        ("linux-image-cloud-amd64", "6.1.0-11-cloud-amd64"),
        ("6.1-rt", "6.1.0-10-rt-amd64"),
        ("6.1", "6.1.0-10-amd64"),
        ("6.1-standard", "6.1.0-10-amd64"),
        ("6.1.0-9", "6.1.0-9-amd64"),
        ("6.1.0-9-rt-amd64", "6.1.0-9-rt-amd64"),
        // Apt knows a newer name, and has nothing behind it.
        ("6.12-rt", "6.12.57+deb12-rt-amd64"),
        ("6.12.9-rt", "6.12.9+deb12-rt-amd64"),
        ("linux-image-rt-amd64", "6.1.0-10-rt-amd64"),
        ("linux-image-6.1.0-11-cloud-amd64", "6.1.0-11-cloud-amd64"),
    ] {
        assert_eq!(archive.release(asked), release, "{asked}");
    }
}

#[test]
fn a_kernel_is_fetched_once_and_kept_by_what_it_is() {
    let archive = archive();
    let (kernel, told) = archive.find("rt");
    let kernel = kernel.expect("a kernel");
    assert_eq!(
        told[0],
        "fetching linux-image-6.1.0-10-rt-amd64 6.1.10-1 (1 MB)"
    );
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(kernel.asked, "rt");
    assert_eq!(kernel.package.expect("a package").version, "6.1.10-1");
    let (again, told) = archive.find("6.1.0-10-rt");
    assert_eq!(again.expect("a kernel").image, kernel.image);
    assert!(told.is_empty(), "{told:?}");
    // And the file is the same as the package of that name.
    let path = archive.apt.join("linux-image-6.1.0-10-rt-amd64.deb");
    assert_eq!(
        archive.place.find(&path).expect("a kernel").image,
        kernel.image
    );
    assert_eq!(archive.calls().matches("apt-get").count(), 1);
    let left = made::files_below(archive.place.cache().directory());
    assert!(
        left.iter().all(|name| !name.contains("download")),
        "{left:?}"
    );
    // Damaged, it is fetched anew.
    fs::write(&kernel.image, b"other").expect("a file");
    let (mended, told) = archive.find("rt");
    assert_eq!(mended.expect("a kernel").sha256, kernel.sha256);
    assert!(told[0].contains("is damaged"), "{told:?}");
    assert_eq!(archive.calls().matches("apt-get").count(), 2);
}

#[test]
fn without_a_network_the_cache_stands_in_and_says_so() {
    let archive = archive();
    assert_eq!(archive.release("6.1.0-9-rt"), "6.1.0-9-rt-amd64");
    fs::write(archive.apt.join("offline"), "").expect("a file");
    let (kernel, told) = archive.find("rt");
    assert_eq!(kernel.expect("a kernel").release, "6.1.0-9-rt-amd64");
    let last = told.last().expect("a word");
    assert!(last.contains("Could not resolve 'localhost'"), "{last}");
    assert!(
        last.ends_with("using linux-image-6.1.0-9-rt-amd64 6.1.9-1 from the cache"),
        "{last}"
    );
    // Of another kind there is nothing.
    let text = archive.refusal("standard");
    assert!(
        text.starts_with("kernel standard: Failed to fetch"),
        "{text}"
    );
    assert!(archive.refusal("6.12-rt").contains("Could not resolve"));
    // Nor was anything half fetched kept.
    let left = made::files_below(archive.place.cache().directory());
    assert!(left.iter().all(|name| !name.contains(".part")), "{left:?}");
}

#[test]
fn without_apt_the_cache_stands_in() {
    let mut archive = archive();
    archive.release("6.1.0-9-rt");
    archive.apt = archive.place.directory.path().join("nowhere");
    let (kernel, told) = archive.find("rt");
    assert_eq!(kernel.expect("a kernel").release, "6.1.0-9-rt-amd64");
    assert!(told[0].contains("apt, which is not installed"), "{told:?}");
    let text = archive.refusal("standard");
    assert!(text.contains("give the path of a Debian package"), "{text}");
}

#[test]
fn what_apt_does_not_have_is_answered_by_what_it_has() {
    let archive = archive();
    let text = archive.refusal("7.1-rt");
    assert!(
        text.starts_with("kernel 7.1-rt: apt has no such package; it has "),
        "{text}"
    );
    assert!(
        text.ends_with("linux-image-6.12.98+deb12-rt-amd64, linux-image-6.1.0-10-rt-amd64"),
        "{text}"
    );
    assert!(
        archive
            .refusal("linux-image-nope")
            .contains("linux-image-6.1.0-10-amd64")
    );
    let empty = Archive::new();
    assert!(empty.refusal("rt").contains("sudo apt-get update"));
    // What is not in any archive any more.
    let text =
        "Package: linux-image-rt-amd64\nVersion: 1\nArchitecture: amd64\nStatus: install ok\n";
    fs::write(empty.apt.join("linux-image-rt-amd64.show"), text).expect("a file");
    assert!(
        empty
            .refusal("rt")
            .contains("not in any archive that apt knows")
    );
    // Options in disguise are no names.
    for asked in ["-o=x", "6.1 -o x", "linux-image-$(id)", "rt\n"] {
        assert!(empty.refusal(asked.trim_end_matches('\n')).len() > 10);
    }
    assert!(!archive.calls().contains("-o=x"));
}

#[test]
fn a_package_that_is_not_what_apt_promised_is_refused() {
    let archive = archive();
    let other = made::kernel_deb(&made::gzipped(&made::elf(true, 12_345)));
    fs::write(archive.apt.join("linux-image-6.1.0-10-rt-amd64.deb"), other).expect("a file");
    let text = archive.refusal("rt");
    assert!(
        text.contains("its SHA-256 is not the one that apt states"),
        "{text}"
    );
    archive.place.assert_nothing_kept();
}

#[test]
fn kernels_of_another_architecture_come_with_lists_of_their_own() {
    let archive = archive();
    let arm = |asked: &str| archive.find_for(asked, Architecture::Arm64);
    // apt here knows kernels for this system alone: none of them is taken.
    let (found, told) = arm("rt");
    let line = super::line(found);
    assert!(line.contains("apt has no such package"), "{line}");
    assert_eq!(told, ["reading the lists of packages for arm64"]);
    let name = "linux-image-6.1.0-9-rt-arm64";
    let image = made::flat(made::ARM64, 0x4000);
    let control = CONTROL
        .replace(RELEASE, "6.1.0-9-rt-arm64")
        .replace("Architecture: amd64", "Architecture: arm64");
    let deb = made::deb(&control, &[("boot/vmlinuz-6.1.0-9-rt-arm64", &image)]);
    let stated = control.replace("Description: a kernel\n for tests\n", "");
    let sum = made::sha256(&deb);
    let text = format!("{stated}Size: {}\nSHA256: {sum}\n", deb.len());
    archive.know(name);
    fs::write(archive.apt.join(format!("{name}.show")), text).expect("a file");
    fs::write(archive.apt.join(format!("{name}.deb")), deb).expect("a file");
    archive.meta("linux-image-rt-arm64", name);
    for asked in ["rt", "6.1-rt", "6.1.0-9-rt-arm64", name] {
        let (found, told) = arm(asked);
        let kernel = found.unwrap_or_else(|error| panic!("{asked}: {error}"));
        assert_eq!(kernel.architecture, Architecture::Arm64);
        assert_eq!(kernel.sha256, made::sha256(&image), "{asked}");
        // The lists are new enough: they aren't read a second time.
        let reads = |line: &&String| line.contains("lists");
        assert_eq!(told.iter().find(reads), None, "{told:?}");
    }
    let calls = archive.calls();
    assert_eq!(calls.matches(" update").count(), 1, "{calls}");
    // For this system they are not used.
    assert!(archive.find("rt").0.is_ok());
    assert!(
        !archive
            .calls()
            .lines()
            .last()
            .expect("calls")
            .starts_with("-c")
    );
    // A download that fails makes it read them again.
    fs::write(archive.apt.join("offline"), "").expect("a file");
    fs::remove_dir_all(
        archive
            .place
            .cache()
            .directory()
            .join(format!("package-{sum}")),
    )
    .expect("the kernel's entry");
    let _ = arm("rt");
    fs::remove_file(archive.apt.join("offline")).expect("there again");
    let (found, told) = arm("rt");
    found.expect("a kernel");
    assert!(told[0].contains("lists"), "{told:?}");
}
