//! Cut and altered at every kind of place: never a panic, nothing left behind, and what is
//! accepted is what it was.

use punctual_lab::kernel::{Symbols, image, kallsyms, modules};

use super::Place;
use super::made;

#[test]
fn cut_anywhere_it_is_refused() {
    let image = made::elf(true, 20_000);
    let bz_image = made::gzipped(&image);
    let deb = made::kernel_deb(&bz_image);
    for (name, whole, end) in [
        // Behind the payload there is nothing of use.
        ("bzImage", &bz_image, bz_image.len() - 100),
        ("a.deb", &deb, deb.len() - 1),
    ] {
        let place = Place::new();
        let steps = 150;
        for step in 0..steps {
            let length = end * step / steps;
            let path = place.file(name, &whole[..length]);
            super::line(place.find(&path));
            place.assert_nothing_kept();
        }
    }
}

/// The oracle: where it was cut, and what the headers name there.
#[test]
fn a_cut_image_says_what_is_missing_and_how_much_there_is() {
    let place = Place::new();
    let image = made::elf(true, 20_000);
    let notes = 64 + 2 * 56;
    for (length, words) in [
        (
            64 + 30,
            "table of program headers has 112 bytes at offset 64, to end at 176".to_owned(),
        ),
        (
            notes + 10,
            format!(
                "segment 1 has 60 bytes at offset {notes}, to end at {}",
                notes + 60
            ),
        ),
        (
            12_345,
            "segment 0 has 20000 bytes at offset 0, to end at 20000".to_owned(),
        ),
    ] {
        let mut cut = image.clone();
        // The first segment holds all, unless only what comes before matters.
        if length > 1000 {
            made::put(&mut cut, 64 + 32, &20_000u64.to_le_bytes());
        }
        cut.truncate(length);
        let text = super::line(place.find(&place.file("vmlinux", &cut)));
        assert!(text.contains(&words), "{text}");
        assert!(
            text.contains(&format!("the file has {length} bytes")),
            "{text}"
        );
    }
    // What lies behind the beginning that is looked at first.
    let mut image = image;
    made::put(&mut image, 40, &3_000_000u64.to_le_bytes());
    made::put(&mut image, 58, &[64, 0, 10, 0]);
    let text = super::line(place.find(&place.file("vmlinux", &image)));
    assert!(
        text.contains("section headers has 640 bytes at offset 3000000"),
        "{text}"
    );
    // Packed, the same.
    let text = super::line(place.find(&place.file("bzImage", &made::gzipped(&image))));
    assert!(text.contains("section headers has 640 bytes"), "{text}");
    let bz_image = made::gzipped(&made::elf(true, 20_000));
    let text = super::line(place.find(&place.file("bzImage", &bz_image[..5000])));
    assert!(
        text.contains("bytes of packed kernel at offset 2624"),
        "{text}"
    );
    assert!(text.contains("the file has 5000 bytes"), "{text}");
    place.assert_nothing_kept();
}

#[test]
fn altered_anywhere_it_is_refused_or_the_same() {
    let image = made::elf(true, 20_000);
    let bz_image = made::gzipped(&image);
    let deb = made::kernel_deb(&bz_image);
    let wanted = made::sha256(&image);
    for (name, whole) in [("bzImage", &bz_image), ("a.deb", &deb)] {
        let place = Place::new();
        let mut altered = whole.clone();
        let stride = (whole.len() / 700).max(1);
        for at in (0..whole.len()).step_by(stride).chain(0..600) {
            altered[at] ^= 1 << (at % 8);
            let path = place.file(name, &altered);
            match place.find(&path) {
                // Times and owners of files may be any.
                Ok(kernel) if kernel.image != path => {
                    assert_eq!(kernel.sha256, wanted, "{name} at {at}");
                }
                Ok(_) => {}
                Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
            }
            altered[at] ^= 1 << (at % 8);
        }
    }
}

#[test]
fn parsers_of_parts_are_total() {
    let mut state = 7u64;
    let mut random = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below.max(1)
    };
    let valid = [
        made::elf(true, 2_000),
        made::gzipped(&made::elf(true, 1_000)),
        made::module("a,b,c", 3),
        made::flat(made::ARM64, 0x800),
        made::system_map().into_bytes(),
    ];
    for _ in 0..20_000 {
        let mut bytes = valid[random(valid.len())].clone();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(4) {
                0 => bytes.truncate(at),
                1 if at < bytes.len() => bytes[at] = 0xff,
                2 if at < bytes.len() => bytes[at] ^= 1 << random(8),
                _ => bytes.extend([0xff; 8]),
            }
        }
        let _ = image::kind(&bytes);
        let _ = image::has_entry_for_guests(&bytes);
        let _ = image::stated_release(&bytes);
        let _ = modules::depends(&bytes);
        let _ = kallsyms::symbols(&bytes);
        let symbols = Symbols::parse(&bytes);
        let _ = symbols.name(u64::MAX);
    }
}

#[test]
fn symbols_are_found_by_any_address_within() {
    let text = b"0000000000000000 A fixed_percpu_data\n\
        ffffffff81000000 T _stext\nffffffff81000000 T startup_64\n\
        ffffffff81000100 t helper\nffffffff81000100 T known\nffffffff81000100 D datum\n\
        ffffffff810000f0 t __pfx_known\n\
        not a line\nffffffff8100 T\nzz T x\nffffffff81000300 TT x\n\
        ffffffff81000200 D a_table\nffffffffc0000000 t of_module\t[veth]\n";
    let symbols = Symbols::parse(text);
    assert_eq!(symbols.len(), 6);
    for (address, found) in [
        (0, None),
        (0xffff_ffff_80ff_ffff, None),
        (0xffff_ffff_8100_0000, Some(("_stext", 0))),
        (0xffff_ffff_8100_00ef, Some(("_stext", 0xef))),
        (0xffff_ffff_8100_00f1, Some(("__pfx_known", 1))),
        (0xffff_ffff_8100_0100, Some(("known", 0))),
        (0xffff_ffff_8100_01ff, Some(("known", 0xff))),
        (0xffff_ffff_8100_0200, None),
        (0xffff_ffff_c000_0004, Some(("of_module", 4))),
    ] {
        assert_eq!(symbols.name(address), found, "{address:x}");
    }
    assert_eq!(symbols.address("known"), Some(0xffff_ffff_8100_0100));
    assert_eq!(symbols.address("a_table"), None);
}
