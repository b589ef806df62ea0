//! `--samples`: what is written is what another reader of Parquet finds.
#![allow(clippy::print_stderr, reason = "a test that can't run says why")]

use super::support as record_support;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::needs::{self, need};
use parquet::basic::Type;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use proptest::prelude::*;
use punctual_record::samples::{Sample, SampleWriter};

fn parts(directory: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<_> = fs::read_dir(directory.join("samples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "parquet")
        })
        .collect();
    parts.sort();
    parts
}

fn read_back(directory: &Path) -> Vec<Sample> {
    let mut samples = Vec::new();
    for part in parts(directory) {
        let reader = SerializedFileReader::new(File::open(part).unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        let columns: Vec<_> = schema
            .columns()
            .iter()
            .map(|column| (column.name().to_owned(), column.physical_type()))
            .collect();
        assert_eq!(
            columns,
            [
                ("cpu".to_owned(), Type::INT32),
                ("cycle".to_owned(), Type::INT64),
                ("asked_ns".to_owned(), Type::INT64),
                ("latency_ns".to_owned(), Type::INT64),
                ("missed".to_owned(), Type::INT64),
            ]
        );
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            samples.push(Sample {
                cpu: row.get_int(0).unwrap() as u32,
                cycle: row.get_long(1).unwrap() as u64,
                asked_ns: row.get_long(2).unwrap() as u64,
                latency_ns: row.get_long(3).unwrap() as u64,
                missed: row.get_long(4).unwrap() as u64,
            });
        }
    }
    samples
}

fn realistic(count: usize) -> Vec<Sample> {
    let latencies = record_support::latencies(3, count, 4_000_000);
    latencies
        .iter()
        .enumerate()
        .map(|(index, latency)| Sample {
            cpu: (index % 2) as u32,
            cycle: index as u64 / 2,
            asked_ns: 1_000_000_000_000 + index as u64 / 2 * 1_000_003,
            latency_ns: *latency,
            missed: latency / 1_000_000,
        })
        .collect()
}

#[test]
fn every_sample_comes_back_across_groups() {
    let directory = tempfile::tempdir().unwrap();
    let samples = realistic(200_000);
    let mut writer = SampleWriter::create(directory.path()).unwrap();
    for sample in &samples {
        writer.push(*sample).unwrap();
    }
    assert_eq!(writer.close().unwrap(), 200_000);
    assert_eq!(read_back(directory.path()), samples);
    let bytes: u64 = parts(directory.path())
        .iter()
        .map(|p| p.metadata().unwrap().len())
        .sum();
    assert!(bytes < 200_000 * 10, "{} bytes a sample", bytes / 200_000);
}

#[test]
fn dropping_the_writer_closes_it() {
    let directory = tempfile::tempdir().unwrap();
    let samples = realistic(10);
    let mut writer = SampleWriter::create(directory.path()).unwrap();
    for sample in &samples {
        writer.push(*sample).unwrap();
    }
    drop(writer);
    assert_eq!(read_back(directory.path()), samples);
    // Nothing measured, nothing written.
    let directory = tempfile::tempdir().unwrap();
    drop(SampleWriter::create(directory.path()).unwrap());
    assert_eq!(
        fs::read_dir(directory.path().join("samples"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn what_was_closed_outlives_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let samples = realistic(3 * 65_536 + 100);
    let mut writer = SampleWriter::create(directory.path())
        .unwrap()
        .with_part_rows(65_536);
    for sample in &samples {
        writer.push(*sample).unwrap();
    }
    // As after kill -9: no destructor runs.
    std::mem::forget(writer);
    assert_eq!(parts(directory.path()).len(), 3);
    assert_eq!(read_back(directory.path()), samples[..3 * 65_536]);
}

#[test]
fn a_full_disk_is_counted_and_survived() {
    let directory = tempfile::tempdir().unwrap();
    need!(needs::mounts());
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
        .arg(directory.path())
        .status();
    assert!(mounted.is_ok_and(|status| status.success()), "a mount");
    let mut writer = SampleWriter::create(directory.path()).unwrap();
    let mut errors = 0;
    for sample in realistic(300_000) {
        if let Err(error) = writer.push(sample) {
            assert!(error.is_full(), "{error:?}");
            errors += 1;
        }
    }
    assert!(errors > 0);
    assert!(writer.dropped() > 0);
    let dropped = writer.dropped();
    let written = writer.close();
    let found = read_back(directory.path()).len() as u64;
    if let Ok(written) = written {
        assert_eq!(written, found);
        assert_eq!(written + dropped, 300_000);
    }
    let left = fs::read_dir(directory.path().join("samples")).unwrap();
    let unfinished = left
        .filter(|e| e.as_ref().unwrap().path().extension().unwrap() == "tmp")
        .count();
    let _ = Command::new("umount").arg(directory.path()).status();
    assert_eq!(unfinished, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Extreme values and every length around the encoding's blocks.
    #[test]
    fn any_sample_comes_back(
        values in prop::collection::vec((0..i32::MAX as u32, any::<i64>(), any::<i64>(), 0..i64::MAX, 0..3_i64), 1..400)
    ) {
        let samples: Vec<_> = values
            .into_iter()
            .map(|(cpu, cycle, asked, latency, missed)| Sample {
                cpu,
                cycle: cycle.unsigned_abs().min(i64::MAX as u64),
                asked_ns: asked.unsigned_abs().min(i64::MAX as u64),
                latency_ns: latency as u64,
                missed: missed as u64,
            })
            .collect();
        let directory = tempfile::tempdir().unwrap();
        let mut writer = SampleWriter::create(directory.path()).unwrap();
        for sample in &samples {
            writer.push(*sample).unwrap();
        }
        writer.close().unwrap();
        prop_assert_eq!(read_back(directory.path()), samples);
    }
}
