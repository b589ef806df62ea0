//! Debian packages.

use std::fs;

use punctual_lab::kernel::Package;

use super::made::{self, CONTROL, RELEASE};
use super::needs::Absent;
use super::{Place, line};

#[test]
fn a_package_gives_what_a_guest_needs() {
    let place = Place::new();
    let image = made::elf(true, 100_000);
    let deb = made::kernel_deb(&made::gzipped(&image));
    let (kernel, told) = place.find_telling(&place.file("a.deb", &deb));
    let kernel = kernel.expect("a kernel");
    assert_eq!(told, ["unpacking linux-image-6.99.1-7-rt-amd64 6.99.1-7"]);
    assert_eq!(kernel.release, RELEASE);
    assert_eq!(
        kernel.package,
        Some(Package {
            name: format!("linux-image-{RELEASE}"),
            version: "6.99.1-7".to_owned(),
        })
    );
    assert_eq!(kernel.sha256, made::sha256(&image));
    assert!(fs::read(&kernel.image).expect("an image") == image);
    let text = |path: &Option<std::path::PathBuf>| {
        fs::read_to_string(path.as_ref().expect("a path")).expect("a file")
    };
    assert_eq!(text(&kernel.config), made::config());
    assert_eq!(text(&kernel.system_map), made::system_map());
    let modules = kernel.modules.clone().expect("modules");
    assert!(modules.ends_with(format!("lib/modules/{RELEASE}")));
    let long = "x".repeat(120);
    let mut kept = vec![
        "kernel/drivers/net/veth.ko".to_owned(),
        "kernel/net/802/stp.ko".to_owned(),
        "kernel/net/bridge/bridge.ko".to_owned(),
        "kernel/net/llc/llc-x.ko.gz".to_owned(),
        format!("kernel/net/{long}/long.ko"),
        "modules.builtin".to_owned(),
        "modules.order".to_owned(),
    ];
    kept.sort();
    assert_eq!(made::files_below(&modules), kept);

    let symbols = kernel.symbols().expect("symbols");
    assert_eq!(symbols.name(0xffff_ffff_8100_0047), Some(("function_1", 7)));
}

#[test]
fn modules_come_after_what_they_need() {
    let place = Place::new();
    let deb = made::kernel_deb(&made::gzipped(&made::elf(true, 10_000)));
    let kernel = place.find(&place.file("a.deb", &deb)).expect("a kernel");
    let load = |name: &str| -> Vec<(String, Vec<u8>)> {
        let modules = kernel.module(name).expect(name).into_iter();
        modules.map(|module| (module.name, module.bytes)).collect()
    };
    let module = |name: &str, depends, number| (name.to_owned(), made::module(depends, number));
    let llc = module("llc_x", "", 4);
    let stp = module("stp", "llc_x", 3);
    assert_eq!(load("veth"), [module("veth", "", 1)]);
    assert_eq!(load("llc-x"), std::slice::from_ref(&llc), "unpacked");
    assert_eq!(load("stp"), [llc.clone(), stp.clone()]);
    assert_eq!(load("bridge"), [llc, stp, module("bridge", "stp,llc-x", 2)]);
    assert_eq!(load("proc_fs"), [], "built in");
    let refused = |name: &str| kernel.module(name).expect_err(name).to_string();
    assert!(refused("i915").contains("drives a device that no guest has"));
    assert!(refused("nonsense").contains("no such module"));
    assert!(refused("../../etc/passwd").contains("no such module"));
}

#[test]
fn each_packing_of_a_package_is_read() {
    let place = Place::new();
    let image = made::elf(true, 60_000);
    let path = format!("boot/vmlinuz-{RELEASE}");
    let tar = made::tar(&[(&path, &made::gzipped(&image))]);
    let mut packed = vec![("data.tar", tar.clone()), ("data.tar.gz", made::gzip(&tar))];
    for (name, command) in [
        ("data.tar.xz", &["xz"][..]),
        ("data.tar.zst", &["zstd", "-q", "-19"]),
    ] {
        match made::through(command, &tar) {
            Some(bytes) => packed.push((name, bytes)),
            None => Absent::program(command[0]).report(),
        }
    }
    for (name, data) in packed {
        let deb = made::deb_with(CONTROL, name, &data);
        let kernel = place.find(&place.file(name, &deb)).expect(name);
        assert_eq!(kernel.sha256, made::sha256(&image), "{name}");
        assert_eq!(
            (kernel.config, kernel.system_map, kernel.modules),
            (None, None, None)
        );
    }
}

#[test]
fn the_map_that_only_says_where_the_true_one_is_is_none() {
    let place = Place::new();
    let deb = made::deb(
        CONTROL,
        &[
            (&format!("./boot/vmlinuz-{RELEASE}"), &made::gzipped(&made::elf(true, 9_000))),
            (
                &format!("./boot/System.map-{RELEASE}"),
                b"ffffffffffffffff B The real System.map is in the linux-image-<version>-dbg package\n",
            ),
        ],
    );
    let kernel = place.find(&place.file("a.deb", &deb)).expect("a kernel");
    assert_eq!(kernel.system_map, None);
    let text = kernel.symbols().expect_err("no symbols").to_string();
    assert!(text.contains("CONFIG_KALLSYMS"), "{text}");
}

#[test]
fn a_kernel_of_a_package_that_only_unpacks_itself_is_kept_packed() {
    let place = Place::new();
    let image = made::gzipped(&made::elf(false, 9_000));
    let kernel = place
        .find(&place.file("a.deb", &made::kernel_deb(&image)))
        .expect("a kernel");
    assert!(kernel.image.starts_with(place.cache().directory()));
    assert_eq!(kernel.sha256, made::sha256(&image));
    assert!(fs::read(&kernel.image).expect("an image") == image);
}

#[test]
fn packages_that_hold_no_kernel_for_a_guest_are_named() {
    let image = made::gzipped(&made::elf(true, 9_000));
    let vmlinuz = format!("boot/vmlinuz-{RELEASE}");
    let meta = CONTROL.replace("kmod", "linux-image-6.99.1-8-rt-amd64 (= 6.99)");
    let mut arm = vec![0; 4096];
    made::put(&mut arm, 0x38, b"ARM\x64");
    let zeros = vec![0; 80 << 20];
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (
            made::deb(&meta, &[]),
            "it only depends on linux-image-6.99.1-8-rt-amd64",
        ),
        (
            made::deb(CONTROL, &[("usr/bin/x", b"x")]),
            "holds no kernel",
        ),
        (
            made::deb(
                &CONTROL.replace("amd64\nDep", "arm64\nDep"),
                &[(&vmlinuz, &image)],
            ),
            "is a package for arm64",
        ),
        (
            made::deb("Package: x\n", &[(&vmlinuz, &image)]),
            "no name or no version",
        ),
        (
            made::deb(CONTROL, &[(&vmlinuz, b"nothing")]),
            "that is not a kernel",
        ),
        (
            made::deb(CONTROL, &[(&vmlinuz, &arm)]),
            "is a kernel for arm64, and the guest is amd64",
        ),
        (
            made::deb(CONTROL, &[(&vmlinuz, &made::elf(true, 9_000))]),
            "that is not a bzImage",
        ),
        (
            made::deb(CONTROL, &[(&vmlinuz, &image), ("boot/vmlinuz-2", &image)]),
            "holds more than one kernel",
        ),
        (
            made::deb(
                CONTROL,
                &[(&vmlinuz, &image), ("boot/System.map-1", &zeros)],
            ),
            "is not a kernel package",
        ),
        (
            made::ar(&[("debian-binary", b"2.0\n")]),
            "is damaged or truncated",
        ),
        (
            made::deb_with(CONTROL, "data.tar.bz2", b"BZh9"),
            "not packed with",
        ),
        (made::deb_with(CONTROL, "data.tar", &[1; 700]), "is damaged"),
        (
            made::deb_with(CONTROL, "data.tar.gz", b"\x1f\x8b\x08"),
            "is damaged",
        ),
        (
            made::ar(&vec![("debian-binary", &b"2.0\n"[..]); 40]),
            "too many members",
        ),
    ];
    let place = Place::new();
    for (bytes, words) in cases {
        let path = place.file("a.deb", &bytes);
        let text = line(place.find(&path));
        assert!(text.contains(words), "{text:?} has no {words:?}");
        assert!(text.starts_with(path.to_str().expect("text")), "{text}");
        place.assert_nothing_kept();
    }
}

#[test]
fn paths_that_lead_elsewhere_are_not_followed() {
    let place = Place::new();
    let image = made::gzipped(&made::elf(true, 9_000));
    let vmlinuz = format!("boot/vmlinuz-{RELEASE}");
    let mut tar = tar::Builder::new(Vec::new());
    for (path, bytes) in [
        (vmlinuz.as_str(), image.as_slice()),
        ("lib/modules/../../../../escaped", b"x"),
        ("/lib/modules/r/kernel/net/../../../../../escaped.ko", b"x"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        // The crate itself would refuse such a name.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        tar.append(&header, bytes).expect("memory");
    }
    let deb = made::deb_with(CONTROL, "data.tar", &tar.into_inner().expect("memory"));
    place.find(&place.file("a.deb", &deb)).expect("a kernel");
    let files = made::files_below(place.directory.path());
    assert!(
        files.iter().all(|file| !file.contains("escaped")),
        "{files:?}"
    );
}
