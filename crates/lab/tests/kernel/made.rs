//! Kernels and packages that are made for a test, so that what must come out is known.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

pub const RELEASE: &str = "6.99.1-7-rt-amd64";

/// A kernel's ELF image: headers, a note with or without the entry for virtual machines, and
/// so many bytes that look like code, with the banner among them.
pub fn elf(is_entered: bool, length: usize) -> Vec<u8> {
    let mut image = vec![0; 64 + 2 * 56];
    image[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    put(&mut image, 16, &2u16.to_le_bytes());
    put(&mut image, 18, &62u16.to_le_bytes());
    put(&mut image, 32, &64u64.to_le_bytes());
    put(&mut image, 54, &56u16.to_le_bytes());
    put(&mut image, 56, &2u16.to_le_bytes());
    let mut notes = note(b"GNU\0", 3, &[7; 20]);
    if is_entered {
        notes.extend(note(b"Xen\0", 18, &[0; 8]));
    }
    let offset = image.len() as u64;
    put(&mut image, 64, &1u32.to_le_bytes());
    put(&mut image, 64 + 56, &4u32.to_le_bytes());
    put(&mut image, 64 + 56 + 8, &offset.to_le_bytes());
    put(
        &mut image,
        64 + 56 + 32,
        &(notes.len() as u64).to_le_bytes(),
    );
    image.extend(notes);
    // What the filter of xz for x86 changes, and what no packing makes short.
    let mut state = 1u64;
    while image.len() < (length / 2).min(1 << 20) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        image.push(0xe8);
        image.extend(&state.to_be_bytes()[..3]);
        image.push(0);
    }
    image.extend(b"Linux version %s\0");
    image.extend(format!("Linux version {RELEASE} (a@b) #1 SMP PREEMPT_RT\0").as_bytes());
    image.resize(length.max(image.len()), 0x90);
    image
}

fn note(name: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    note.extend((name.len() as u32).to_le_bytes());
    note.extend((description.len() as u32).to_le_bytes());
    note.extend(kind.to_le_bytes());
    note.extend(name);
    note.extend(description);
    note
}

/// A flat image with the header of an EFI program, as the kernel's build makes it for other architectures.
pub fn flat(magic: [u8; 4], length: usize) -> Vec<u8> {
    let mut image = vec![0; length];
    put(&mut image, 0, b"MZ");
    put(&mut image, 0x38, &magic);
    put(&mut image, 0x3c, &0x40_u32.to_le_bytes());
    put(&mut image, 0x40, b"PE\0\0");
    // Two sections, behind an optional header of 0xa0 bytes.
    put(&mut image, 0x46, &2_u16.to_le_bytes());
    put(&mut image, 0x54, &0xa0_u16.to_le_bytes());
    let half = length as u32 / 2;
    for (section, begin) in [(0xf8, 0), (0xf8 + 40, half)] {
        put(&mut image, section + 16, &half.to_le_bytes());
        put(&mut image, section + 20, &u32::to_le_bytes(begin));
    }
    put(
        &mut image,
        0x400,
        format!("Linux version {RELEASE} (x)").as_bytes(),
    );
    image
}

pub const ARM64: [u8; 4] = *b"ARM\x64";
pub const RISCV64: [u8; 4] = *b"RSC\x05";

pub fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

/// A bzImage that holds `packed`, whose length unpacked is stated at its end unless it is in
/// the stream already, as gzip has it.
pub fn bz_image(packed: &[u8], stated: Option<u32>) -> Vec<u8> {
    let setup = 5 * 512;
    let mut image = vec![0; setup + 64];
    image[0x1f1] = 4;
    put(&mut image, 0x1fe, &0xaa55u16.to_le_bytes());
    put(&mut image, 0x202, b"HdrS");
    put(&mut image, 0x206, &0x020fu16.to_le_bytes());
    put(&mut image, 0x20e, &0x400u16.to_le_bytes());
    put(&mut image, 0x236, &1u16.to_le_bytes());
    put(&mut image, 0x248, &64u32.to_le_bytes());
    put(
        &mut image,
        0x600,
        format!("{RELEASE} (a@b) #1 SMP\0").as_bytes(),
    );
    let mut payload = packed.to_vec();
    payload.extend(stated.map(u32::to_le_bytes).into_iter().flatten());
    put(&mut image, 0x24c, &(payload.len() as u32).to_le_bytes());
    image.extend(payload);
    // What follows is not the payload's.
    image.extend([0xcc; 100]);
    image
}

/// A bzImage packed by gzip, which needs no program.
pub fn gzipped(image: &[u8]) -> Vec<u8> {
    bz_image(&gzip(image), None)
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

/// What a program makes of its input; `None` where it isn't there.
pub fn through(command: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let (program, arguments) = command.split_first()?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().ok()?;
    writer.join().expect("a writer").expect("a pipe");
    assert!(output.status.success(), "{command:?}");
    Some(output.stdout)
}

/// Files as a tar.
pub fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, *bytes).expect("memory");
    }
    tar.into_inner().expect("memory")
}

/// A package of members that are packed already.
pub fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut ar = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        ar.extend(
            format!(
                "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
                0,
                0,
                0,
                100_644,
                bytes.len()
            )
            .bytes(),
        );
        ar.extend(*bytes);
        if bytes.len() % 2 == 1 {
            ar.push(b'\n');
        }
    }
    ar
}

pub const CONTROL: &str = "Package: linux-image-6.99.1-7-rt-amd64\nVersion: 6.99.1-7\n\
    Architecture: amd64\nDepends: kmod, linux-base (>= 4.3~)\nDescription: a kernel\n for tests\n";

/// A package of these files, packed by gzip.
pub fn deb(control: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
    deb_with(control, "data.tar.gz", &gzip(&tar(files)))
}

pub fn deb_with(control: &str, name: &str, data: &[u8]) -> Vec<u8> {
    let control = gzip(&tar(&[("control", control.as_bytes())]));
    ar(&[
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", &control),
        (name, data),
    ])
}

/// A package with all that one has.
pub fn kernel_deb(image: &[u8]) -> Vec<u8> {
    let map = system_map();
    let config = config();
    let (veth, bridge, stp) = (module("", 1), module("stp,llc-x", 2), module("llc_x", 3));
    let llc = gzip(&module("", 4));
    let path = |end: &str| format!("./usr/lib/modules/{RELEASE}/{end}");
    let named = |name: &str| format!("boot/{name}-{RELEASE}");
    let long = "x".repeat(120);
    let files: Vec<(String, &[u8])> = vec![
        (named("vmlinuz"), image),
        (named("System.map"), map.as_bytes()),
        (named("config"), config.as_bytes()),
        (path("kernel/drivers/net/veth.ko"), &veth),
        (path("kernel/net/bridge/bridge.ko"), &bridge),
        (path("kernel/net/802/stp.ko"), &stp),
        (path("kernel/net/llc/llc-x.ko.gz"), &llc),
        (path(&format!("kernel/net/{long}/long.ko")), &veth),
        (path("kernel/drivers/gpu/drm/i915.ko"), &veth),
        (path("kernel/sound/core/snd.ko"), &veth),
        (
            path("modules.order"),
            b"kernel/drivers/net/veth.ko\nkernel/drivers/gpu/drm/i915.ko\n",
        ),
        (
            path("modules.builtin"),
            b"kernel/fs/proc-fs.ko\nkernel/drivers/tty/tty.ko\n",
        ),
        ("etc/elsewhere".to_owned(), b"not ours"),
    ];
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(path, bytes)| (path.as_str(), *bytes))
        .collect();
    deb(CONTROL, &files)
}

pub fn system_map() -> String {
    (0..400)
        .map(|n| {
            format!(
                "{:016x} T function_{n}\n",
                0xffff_ffff_8100_0000u64 + n * 64
            )
        })
        .collect()
}

pub fn config() -> String {
    "CONFIG_PREEMPT_RT=y\n".repeat(300)
}

/// A module's ELF file, with its section `.modinfo`.
pub fn module(depends: &str, number: u8) -> Vec<u8> {
    let info = format!("license=GPL\0depends={depends}\0name=x{number}\0");
    let names = b"\0.text\0.modinfo\0.shstrtab\0";
    let mut file = vec![0; 64];
    file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    put(&mut file, 16, &1u16.to_le_bytes());
    put(&mut file, 18, &62u16.to_le_bytes());
    let info_at = file.len() as u64;
    file.extend(info.bytes());
    let names_at = file.len() as u64;
    file.extend(names);
    let headers = file.len() as u64;
    put(&mut file, 40, &headers.to_le_bytes());
    put(&mut file, 58, &64u16.to_le_bytes());
    put(&mut file, 60, &3u16.to_le_bytes());
    put(&mut file, 62, &2u16.to_le_bytes());
    for (name, offset, size) in [
        (0u32, 0, 0),
        (7, info_at, info.len() as u64),
        (16, names_at, names.len() as u64),
    ] {
        let mut header = vec![0; 64];
        put(&mut header, 0, &name.to_le_bytes());
        put(&mut header, 24, &offset.to_le_bytes());
        put(&mut header, 32, &size.to_le_bytes());
        file.extend(header);
    }
    file
}

pub fn sha256(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All files below a directory, by their paths in it.
pub fn files_below(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(path) = path.strip_prefix(directory) {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}
