//! The fuzzer's check of each parser, applied to everything that is recorded here: to inputs that once
//! made it fail (`fuzz/seeds/TARGET`), to its seeds, and to files of other
//! parsers.

use punctual_record::Document;
use punctual_record::lab::Lab;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod channel_frames;
mod cost;
mod cyclictest;
#[path = "../../../record/tests/made/damaged.rs"]
mod damaged;
mod fit;
mod foreign;
mod kernel_image;
mod kernel_package;
mod kernel_symbols;
mod kernel_tables;
mod lab;
mod lab_bound;
mod lab_observer;
mod ladder;
mod marks;
mod path_wire;
mod record;
mod recording;
mod rootfs;
mod seeds;
mod snapshot;
mod taskset;
mod tracer_lines;
mod window;

type Check = fn(&[u8]);

const TARGETS: &[(&str, Check)] = &[
    ("channel_frames", channel_frames::check),
    ("cost", cost::check),
    ("cyclictest", cyclictest::check),
    ("fit", fit::check),
    ("foreign", foreign::check),
    ("kernel_image", kernel_image::check),
    ("kernel_package", kernel_package::check),
    ("kernel_symbols", kernel_symbols::check),
    ("kernel_tables", kernel_tables::check),
    ("lab", lab::check),
    ("lab_bound", lab_bound::check),
    ("lab_observer", lab_observer::check),
    ("ladder", ladder::check),
    ("marks", marks::check),
    ("path_wire", path_wire::check),
    ("record", record::check),
    ("recording", recording::check),
    ("rootfs", rootfs::check),
    ("snapshot", snapshot::check_bytes),
    ("taskset", taskset::check),
    ("tracer_lines", tracer_lines::check),
    ("window", window::check),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn seeds() -> PathBuf {
    root().join("fuzz/seeds")
}

fn files_below(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_below(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "where it fails, on what")]
fn every_parser_reads_every_file_without_a_panic() {
    let mut files = Vec::new();
    files_below(&seeds(), &mut files);
    for owner in ["lab", "machine", "record", "report", "stats", "trace"] {
        files_below(
            &root().join("crates").join(owner).join("tests/data"),
            &mut files,
        );
    }
    assert!(files.len() > 80, "{files:?}");
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("a file");
        (path.display().to_string(), bytes)
    };
    let files = files.into_iter().map(read);
    let damaged = damaged::records().into_iter();
    let damaged = damaged.map(|it| (format!("{}: {}", it.name, it.error), it.bytes));
    for (file, bytes) in files.chain(damaged) {
        for (name, check) in TARGETS {
            println!("{name}: {file}");
            check(&bytes);
        }
    }
}

/// The fuzzer's checks hold of a parser that refuses everything, too.
#[test]
#[allow(clippy::print_stdout, reason = "which one fails")]
fn a_seed_of_each_parser_is_read_as_what_it_says() {
    for (name, check) in seeds::KNOWN {
        println!("{name}");
        check();
    }
}

/// Without this, a target that is forgotten somewhere would never run.
#[test]
fn every_target_has_a_program_seeds_and_this_test() {
    let fuzz = root().join("fuzz");
    let here: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let programs: BTreeSet<String> = fs::read_dir(fuzz.join("fuzz_targets"))
        .expect("the targets")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| path.file_stem().expect("a name").display().to_string())
        .collect();
    assert_eq!(here, programs);
    let known: BTreeSet<String> = seeds::KNOWN
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    assert_eq!(here, known, "no seed of it is known to be read");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("the manifest");
    let script = fs::read_to_string(fuzz.join("../scripts/fuzz")).expect("the script");
    for name in &here {
        let line = format!("path = \"fuzz_targets/{name}.rs\"");
        assert!(manifest.contains(&line), "fuzz/Cargo.toml has no {name}");
        assert!(
            seeds().join(name).is_dir() || script.contains(name),
            "{name} begins with nothing"
        );
    }
}

/// A small file must not make a large table.
#[test]
fn a_lab_of_many_kernels_with_a_load_each_is_refused() {
    let file = seeds().join("lab/each-kernel-its-load.json");
    let bytes = fs::read(&file).expect("a file");
    let refused = Lab::parse(&file, &bytes).expect_err("too many");
    let words = "200 kernels with 200 loads";
    assert!(refused.to_string().contains(words), "{refused}");
}
