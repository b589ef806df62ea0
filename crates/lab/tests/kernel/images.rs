//! bzImages and ELF images.

use std::fs;

use punctual_record::laboratory::Architecture;

use super::made::{self, RELEASE};
use super::needs::{Absent, skip};
use super::{Place, line};

/// The programs that a kernel's build packs it with.
const PACKINGS: &[(&str, &[&str])] = &[
    (
        "xz",
        &["xz", "--check=crc32", "--x86", "--lzma2=dict=32MiB"],
    ),
    ("lzma", &["xz", "--format=lzma"]),
    ("zstd", &["zstd", "-q", "-19", "--long=27"]),
    ("lz4", &["lz4", "-q", "-l", "-9", "-", "-"]),
];

#[test]
fn each_packing_gives_back_the_image_byte_for_byte() {
    let place = Place::new();
    // Over the 8 MiB of a block of lz4.
    let image = made::elf(true, 9 << 20);
    let mut images = vec![("gzip", made::gzipped(&image))];
    for (name, command) in PACKINGS {
        match made::through(command, &image) {
            Some(packed) => images.push((name, made::bz_image(&packed, Some(image.len() as u32)))),
            None => Absent::program(command[0]).report(),
        }
    }
    for (name, bz_image) in images {
        let kernel = place.find(&place.file(name, &bz_image)).expect(name);
        assert_eq!(kernel.release, RELEASE, "{name}");
        assert_eq!(kernel.sha256, made::sha256(&image), "{name}");
        assert!(
            fs::read(&kernel.image).expect("an image") == image,
            "{name}"
        );
        assert!(kernel.image.starts_with(place.cache().directory()));
        assert_eq!((kernel.package, kernel.modules), (None, None));
        // A second time it comes from the cache, as it is.
        let (again, told) = place.find_telling(&place.directory.path().join(name));
        assert_eq!(again.expect(name).image, kernel.image);
        assert!(told.is_empty(), "{told:?}");
    }
}

#[test]
fn an_elf_image_is_taken_as_it_is() {
    let place = Place::new();
    let image = made::elf(true, 10_000);
    let path = place.file("vmlinux", &image);
    let kernel = place.find(&path).expect("a kernel");
    assert_eq!((kernel.image, kernel.release), (path, RELEASE.to_owned()));
    assert_eq!(kernel.sha256, made::sha256(&image));
    place.assert_nothing_kept();
}

#[test]
fn a_kernel_that_no_guest_can_enter_unpacks_itself() {
    let place = Place::new();
    let bz_image = made::gzipped(&made::elf(false, 50_000));
    let path = place.file("bzImage", &bz_image);
    for _ in 0..2 {
        let kernel = place.find(&path).expect("a kernel");
        assert_eq!((&kernel.image, kernel.release.as_str()), (&path, RELEASE));
        assert_eq!(kernel.sha256, made::sha256(&bz_image));
    }
}

#[test]
fn what_states_no_release_in_its_header_states_it_within() {
    let place = Place::new();
    let mut bz_image = made::gzipped(&made::elf(true, 50_000));
    made::put(&mut bz_image, 0x20e, &[0, 0]);
    let kernel = place
        .find(&place.file("bzImage", &bz_image))
        .expect("a kernel");
    assert_eq!(kernel.release, RELEASE);
}

#[test]
fn the_image_of_another_architecture_is_booted_as_it_is() {
    let place = Place::new();
    for (magic, architecture) in [
        (made::ARM64, Architecture::Arm64),
        (made::RISCV64, Architecture::Riscv64),
    ] {
        let image = made::flat(magic, 0x4000);
        let path = place.file("Image", &image);
        let kernel = place.find_for(&path, architecture).expect("a kernel");
        assert_eq!((kernel.image, kernel.release), (path, RELEASE.to_owned()));
        assert_eq!(kernel.sha256, made::sha256(&image));
        assert_eq!(
            (kernel.architecture, kernel.patches),
            (architecture, vec![])
        );
        // One byte less, and its second part ends behind it.
        let cut = place.file("cut", &image[..0x3fff]);
        let line = line(place.find_for(&cut, architecture));
        assert!(line.contains("is damaged or truncated"), "{line}");
        let other = place.file("vmlinux", &made::elf(true, 9_000));
        let line = super::line(place.find_for(&other, architecture));
        assert!(line.contains("give --arch amd64"), "{line}");
    }
    place.assert_nothing_kept();
}

#[test]
fn what_is_no_kernel_is_named() {
    let arm = made::flat(made::ARM64, 4096);
    let riscv = made::flat(made::RISCV64, 4096);
    let elf = made::elf(true, 9_000);
    let with = |at: usize, what: &[u8]| {
        let mut image = elf.clone();
        made::put(&mut image, at, what);
        image
    };
    let mut big_endian = with(5, &[2]);
    made::put(&mut big_endian, 18, &22u16.to_be_bytes());
    let bz_image = made::gzipped(&elf);
    let bz_with = |at: usize, what: &[u8]| {
        let mut image = bz_image.clone();
        made::put(&mut image, at, what);
        image
    };
    let mut nameless = elf.clone();
    let banner = elf
        .windows(14)
        .rposition(|window| window == b"Linux version ")
        .expect("a banner");
    made::put(&mut nameless, banner, b"Minix");
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "is empty"),
        (b"#!/bin/sh\n".to_vec(), "is not a kernel"),
        (vec![0; 100_000], "is not a kernel"),
        (
            arm,
            "is a kernel for arm64, and the guest is amd64: give --arch arm64",
        ),
        (riscv, "is a kernel for riscv64, and the guest is amd64"),
        (
            b"MZ\0\0zimg and so on".to_vec(),
            "which only firmware unpacks",
        ),
        (
            with(18, &183u16.to_le_bytes()),
            "is an ELF file for aarch64; a kernel for it is booted from its Image",
        ),
        (
            with(4, &[1]),
            "is an ELF file for x86-64, but not of 64 bits",
        ),
        (big_endian, "is an ELF file for s390"),
        (with(16, &3u16.to_le_bytes()), "is a program or a library"),
        (made::module("", 1), "is an object file or a kernel module"),
        (made::elf(false, 9_000), "CONFIG_PVH"),
        (nameless, "states no release"),
        (b"\x7fELF".to_vec(), "is a truncated ELF file"),
        (made::gzip(&elf), "is a file packed with gzip"),
        (
            b"!<arch>\nfoo.o/          0".to_vec(),
            "is an archive, not a Debian package",
        ),
        (bz_with(0x236, &[0]), "is a 32-bit kernel"),
        (bz_with(0x206, &[0, 2]), "older than Linux 3.8"),
        (bz_with(0x24c, &[0; 4]), "without a compressed kernel"),
        (bz_with(0x24c, &[0xff; 4]), "is damaged or truncated"),
        (bz_with(0x248, &[0xff; 4]), "is damaged or truncated"),
        (
            made::bz_image(b"BZh91AY&SY and so on", Some(9)),
            "not packed with gzip",
        ),
        (
            made::bz_image(&made::gzip(b"no kernel"), None),
            "holds no ELF image",
        ),
        (
            made::bz_image(&made::gzip(&with(18, &183u16.to_le_bytes())), None),
            "holds no ELF image for x86-64",
        ),
    ];
    let place = Place::new();
    for (bytes, words) in cases {
        let path = place.file("file", &bytes);
        let text = line(place.find(&path));
        assert!(text.contains(words), "{text:?} has no {words:?}");
        assert!(text.starts_with(path.to_str().expect("text")), "{text}");
        place.assert_nothing_kept();
    }
}

#[test]
fn what_is_no_file_is_named() {
    let place = Place::new();
    assert!(line(place.find(place.directory.path())).contains("is a directory"));
    assert!(line(place.find("/dev/zero".as_ref())).contains("not a regular file"));
    assert!(line(place.find("/no/such/file".as_ref())).contains("no such file"));
    assert!(line(place.find("nonsense".as_ref())).contains("expected a file, rt, standard"));
    assert!(line(place.find("".as_ref())).contains("expected a file, rt, standard"));
    let fifo = place.directory.path().join("fifo");
    if made::through(&["mkfifo", fifo.to_str().expect("text")], b"").is_none() {
        skip!(Absent::program("mkfifo"));
    }
    assert!(line(place.find(&fifo)).contains("not a regular file"));
}

#[test]
fn an_image_that_unpacks_to_more_than_it_says_is_stopped() {
    let place = Place::new();
    // 100 MB of zeros, of which the header states a thousand.
    let zeros = made::gzip(&vec![0; 100_000_000]);
    let mut bomb = made::bz_image(&zeros, None);
    let end = bomb.len() - 100;
    made::put(&mut bomb, end - 4, &1000u32.to_le_bytes());
    assert!(line(place.find(&place.file("bomb", &bomb))).contains("longer than 1000 bytes"));
    // 3 GB are stated.
    made::put(&mut bomb, end - 4, &3_000_000_000u32.to_le_bytes());
    let text = line(place.find(&place.file("bomb", &bomb)));
    assert!(text.contains("too long for a kernel"), "{text}");
    // Less comes than is stated.
    made::put(&mut bomb, end - 4, &200_000_000u32.to_le_bytes());
    assert!(line(place.find(&place.file("bomb", &bomb))).contains("is damaged"));
    place.assert_nothing_kept();
}

#[test]
fn a_stream_that_wants_too_much_memory_is_refused() {
    let place = Place::new();
    // zstd with a window of 1 GiB, and nothing in it.
    let zstd = b"\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00";
    let text = line(place.find(&place.file("zstd", &made::bz_image(zstd, Some(10)))));
    assert!(
        text.contains("is damaged") || text.contains("memory"),
        "{text}"
    );

    let Some(mut xz) = made::through(&["xz", "--check=crc32"], b"little") else {
        skip!(Absent::program("xz"));
    };
    // The dictionary of the first block: 4 GiB - 1; then the header's checksum.
    let header = 12..12 + (usize::from(xz[12]) + 1) * 4;
    let place_of_size = header.start + 4;
    assert_eq!(xz[header.start + 2..place_of_size], [0x21, 1]);
    xz[place_of_size] = 40;
    let mut checksum = flate2::Crc::new();
    checksum.update(&xz[header.start..header.end - 4]);
    made::put(&mut xz, header.end - 4, &checksum.sum().to_le_bytes());
    let text = line(place.find(&place.file("xz", &made::bz_image(&xz, Some(6)))));
    assert!(text.contains("128 MiB of memory"), "{text}");
    place.assert_nothing_kept();
}
