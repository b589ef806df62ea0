//! A Parquet file of samples: row groups one after the other, the index at the end.
//!
//! Written by hand because it is little: five columns without nulls, one page
//! each, no compression (the encoding leaves four to six bytes a sample). The
//! tests read it back with another implementation.
//! <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>

use std::io::{self, Write};

use super::thrift::{Entries, put_text, put_zigzag, write_struct};
use super::{Sample, delta};

const MAGIC: &[u8; 4] = b"PAR1";
const TYPE_INT32: i32 = 1;
const TYPE_INT64: i32 = 2;
const REQUIRED: i32 = 0;
const DATA_PAGE: i32 = 0;
const UNCOMPRESSED: i32 = 0;
const ENCODING_RLE: i32 = 3;
const ENCODING_DELTA: i32 = 5;

struct Column {
    name: &'static str,
    kind: i32,
    value: fn(&Sample) -> u64,
}

const COLUMNS: [Column; 5] = [
    Column {
        name: "cpu",
        kind: TYPE_INT32,
        value: |s| s.cpu.into(),
    },
    Column {
        name: "cycle",
        kind: TYPE_INT64,
        value: |s| s.cycle,
    },
    Column {
        name: "asked_ns",
        kind: TYPE_INT64,
        value: |s| s.asked_ns,
    },
    Column {
        name: "latency_ns",
        kind: TYPE_INT64,
        value: |s| s.latency_ns,
    },
    Column {
        name: "missed",
        kind: TYPE_INT64,
        value: |s| s.missed,
    },
];

/// Where a column of a row group stands.
#[derive(Debug)]
struct Chunk {
    offset: u64,
    length: u64,
}

#[derive(Debug)]
struct Group {
    rows: u64,
    chunks: Vec<Chunk>,
}

/// Writes one file.
#[derive(Debug)]
pub(super) struct Writer<W: Write> {
    out: W,
    position: u64,
    groups: Vec<Group>,
    page: Vec<u8>,
    values: Vec<i64>,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        let position = MAGIC.len() as u64;
        Ok(Self {
            out,
            position,
            groups: Vec::new(),
            page: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Writes a row group. Parquet's sizes are 32-bit: at most some million rows.
    pub(super) fn write_group(&mut self, samples: &[Sample]) -> io::Result<()> {
        let mut chunks = Vec::with_capacity(COLUMNS.len());
        for column in &COLUMNS {
            let clamp = |value| match column.kind {
                TYPE_INT32 => i32::try_from(value).unwrap_or(i32::MAX).into(),
                _ => i64::try_from(value).unwrap_or(i64::MAX),
            };
            self.values.clear();
            self.values
                .extend(samples.iter().map(|sample| clamp((column.value)(sample))));
            self.page.clear();
            delta::encode(&mut self.page, &self.values);
            let mut header = Vec::with_capacity(32);
            page_header(&mut header, size(self.page.len())?, size(samples.len())?);
            self.out.write_all(&header)?;
            self.out.write_all(&self.page)?;
            let length = (header.len() + self.page.len()) as u64;
            chunks.push(Chunk {
                offset: self.position,
                length,
            });
            self.position += length;
        }
        self.groups.push(Group {
            rows: samples.len() as u64,
            chunks,
        });
        Ok(())
    }

    /// Writes the index; without it nothing can be read.
    pub(super) fn write_footer(mut self, created_by: &str) -> io::Result<W> {
        let mut index = Vec::new();
        file_metadata(&mut index, &self.groups, created_by);
        let length = u32::try_from(index.len()).map_err(io::Error::other)?;
        index.extend_from_slice(&length.to_le_bytes());
        index.extend_from_slice(MAGIC);
        self.out.write_all(&index)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn size(length: usize) -> io::Result<i32> {
    i32::try_from(length).map_err(io::Error::other)
}

/// Lengths and counts as Parquet holds them; files don't get near the limit.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn page_header(out: &mut Vec<u8>, length: i32, rows: i32) {
    write_struct(out, |header| {
        header.i32(1, DATA_PAGE);
        header.i32(2, length);
        header.i32(3, length);
        header.nested(5, |page| {
            page.i32(1, rows);
            page.i32(2, ENCODING_DELTA);
            page.i32(3, ENCODING_RLE);
            page.i32(4, ENCODING_RLE);
        });
    });
}

fn file_metadata(out: &mut Vec<u8>, groups: &[Group], created_by: &str) {
    write_struct(out, |file| {
        file.i32(1, 1);
        file.list(2, Entries::Struct, COLUMNS.len() + 1, schema);
        file.i64(3, signed(groups.iter().map(|group| group.rows).sum()));
        file.list(4, Entries::Struct, groups.len(), |out| {
            for group in groups {
                row_group(out, group);
            }
        });
        file.text(6, created_by);
    });
}

fn schema(out: &mut Vec<u8>) {
    write_struct(out, |root| {
        root.text(4, "sample");
        root.i32(5, COLUMNS.len() as i32);
    });
    for column in &COLUMNS {
        write_struct(out, |element| {
            element.i32(1, column.kind);
            element.i32(3, REQUIRED);
            element.text(4, column.name);
        });
    }
}

fn row_group(out: &mut Vec<u8>, group: &Group) {
    write_struct(out, |element| {
        element.list(1, Entries::Struct, COLUMNS.len(), |out| {
            for (column, chunk) in COLUMNS.iter().zip(&group.chunks) {
                column_chunk(out, column, chunk, group.rows);
            }
        });
        element.i64(
            2,
            signed(group.chunks.iter().map(|chunk| chunk.length).sum()),
        );
        element.i64(3, signed(group.rows));
    });
}

fn column_chunk(out: &mut Vec<u8>, column: &Column, chunk: &Chunk, rows: u64) {
    write_struct(out, |element| {
        element.i64(2, signed(chunk.offset));
        element.nested(3, |metadata| {
            metadata.i32(1, column.kind);
            metadata.list(2, Entries::I32, 2, |out| {
                put_zigzag(out, ENCODING_DELTA.into());
                put_zigzag(out, ENCODING_RLE.into());
            });
            metadata.list(3, Entries::Binary, 1, |out| put_text(out, column.name));
            metadata.i32(4, UNCOMPRESSED);
            metadata.i64(5, signed(rows));
            metadata.i64(6, signed(chunk.length));
            metadata.i64(7, signed(chunk.length));
            metadata.i64(9, signed(chunk.offset));
        });
    });
}
