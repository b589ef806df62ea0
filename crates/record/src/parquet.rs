//! Parquet files: columns in, row groups one after the other, the index at the end.
//!
//! Written by hand because it is little: flat columns, one page each in a row group, no dictionaries.
//! The tests read it back with another implementation.
//! <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>

mod delta;
mod thrift;

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use thrift::{Entries, put_text, put_varint, put_zigzag, write_struct};

const MAGIC: &[u8; 4] = b"PAR1";
const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const UTF8: i32 = 0;
const DATA_PAGE: i32 = 0;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DELTA_BINARY_PACKED: i32 = 5;

/// The values of a column, one for each row.
#[derive(Debug)]
pub enum Values {
    /// Small numbers.
    Int(Vec<i32>),
    /// Numbers.
    Long(Vec<i64>),
    /// Numbers that may be absent.
    LongOrNone(Vec<Option<i64>>),
    /// Fractions.
    Double(Vec<f64>),
    /// Fractions that may be absent.
    DoubleOrNone(Vec<Option<f64>>),
    /// Text.
    Text(Vec<String>),
    /// Text that may be absent.
    TextOrNone(Vec<Option<String>>),
}

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: Values,
}

/// The types of values, as Parquet numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int32 = 1,
    Int64 = 2,
    Double = 5,
    Text = 6,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    name: &'static str,
    kind: Kind,
    repetition: i32,
    encoding: i32,
}

impl Column {
    fn rows(&self) -> usize {
        match &self.values {
            Values::Int(all) => all.len(),
            Values::Long(all) => all.len(),
            Values::LongOrNone(all) => all.len(),
            Values::Double(all) => all.len(),
            Values::DoubleOrNone(all) => all.len(),
            Values::Text(all) => all.len(),
            Values::TextOrNone(all) => all.len(),
        }
    }

    fn field(&self) -> Field {
        let (kind, repetition, encoding) = match self.values {
            Values::Int(_) => (Kind::Int32, REQUIRED, DELTA_BINARY_PACKED),
            Values::Long(_) => (Kind::Int64, REQUIRED, DELTA_BINARY_PACKED),
            Values::LongOrNone(_) => (Kind::Int64, OPTIONAL, PLAIN),
            Values::Double(_) => (Kind::Double, REQUIRED, PLAIN),
            Values::DoubleOrNone(_) => (Kind::Double, OPTIONAL, PLAIN),
            Values::Text(_) => (Kind::Text, REQUIRED, PLAIN),
            Values::TextOrNone(_) => (Kind::Text, OPTIONAL, PLAIN),
        };
        Field {
            name: self.name,
            kind,
            repetition,
            encoding,
        }
    }

    /// Appends them as a page has them.
    fn encode(&self, page: &mut Vec<u8>) -> io::Result<()> {
        match &self.values {
            Values::Int(all) => delta::encode_i32(page, all),
            Values::Long(all) => delta::encode(page, all),
            Values::LongOrNone(all) => {
                put_presence(page, all)?;
                put_plain(page, all.iter().flatten().map(|value| value.to_le_bytes()));
            }
            Values::Double(all) => put_plain(page, all.iter().map(|value| value.to_le_bytes())),
            Values::DoubleOrNone(all) => {
                put_presence(page, all)?;
                put_plain(page, all.iter().flatten().map(|value| value.to_le_bytes()));
            }
            Values::Text(all) => put_texts(page, all.iter())?,
            Values::TextOrNone(all) => {
                put_presence(page, all)?;
                put_texts(page, all.iter().flatten())?;
            }
        }
        Ok(())
    }
}

fn put_plain(page: &mut Vec<u8>, values: impl Iterator<Item = [u8; 8]>) {
    values.for_each(|value| page.extend_from_slice(&value));
}

fn put_texts<'t>(page: &mut Vec<u8>, texts: impl Iterator<Item = &'t String>) -> io::Result<()> {
    for text in texts {
        page.extend_from_slice(&size(text.len())?.to_le_bytes());
        page.extend_from_slice(text.as_bytes());
    }
    Ok(())
}

/// Which rows have a value: definition levels, in runs of equal ones.
fn put_presence<T>(page: &mut Vec<u8>, values: &[Option<T>]) -> io::Result<()> {
    let mut levels = Vec::new();
    for run in values.chunk_by(|a, b| a.is_some() == b.is_some()) {
        put_varint(&mut levels, (run.len() as u64) << 1);
        levels.push(u8::from(run[0].is_some()));
    }
    page.extend_from_slice(&size(levels.len())?.to_le_bytes());
    page.extend_from_slice(&levels);
    Ok(())
}

/// How pages are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not: what is written takes little time.
    None = 0,
    /// With gzip, which every reader has.
    Gzip = 2,
}

/// Where a column of a row group stands.
#[derive(Debug)]
struct Chunk {
    offset: u64,
    /// With the page's header; before and after it was packed.
    unpacked: u64,
    length: u64,
}

#[derive(Debug)]
struct Group {
    rows: u64,
    chunks: Vec<Chunk>,
}

/// Writes one file.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    packing: Packing,
    position: u64,
    /// Known with the first row group.
    fields: Vec<Field>,
    groups: Vec<Group>,
    page: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W, packing: Packing) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        let position = MAGIC.len() as u64;
        Ok(Self {
            out,
            packing,
            position,
            fields: Vec::new(),
            groups: Vec::new(),
            page: Vec::new(),
        })
    }

    /// Writes a row group: the same columns each time, as long as each other. Parquet's sizes are 32-bit:
    /// at most some million rows.
    ///
    /// # Errors
    /// Those of `out`, and columns that don't fit together or are too long.
    pub fn write_group(&mut self, columns: &[Column]) -> io::Result<()> {
        let fields: Vec<Field> = columns.iter().map(Column::field).collect();
        let rows = columns.first().map_or(0, Column::rows);
        if self.fields.is_empty() {
            self.fields = fields;
        } else if self.fields != fields {
            return Err(io::Error::other("other columns than those before"));
        }
        if columns.iter().any(|column| column.rows() != rows) {
            return Err(io::Error::other("columns of different lengths"));
        }
        if rows == 0 {
            return Ok(());
        }
        let mut chunks = Vec::with_capacity(columns.len());
        for (column, field) in columns.iter().zip(&self.fields) {
            self.page.clear();
            column.encode(&mut self.page)?;
            let unpacked = self.page.len();
            if self.packing == Packing::Gzip {
                let mut packer = GzEncoder::new(Vec::new(), Compression::default());
                packer.write_all(&self.page)?;
                self.page = packer.finish()?;
            }
            let mut header = Vec::with_capacity(32);
            let sizes = [size(unpacked)?, size(self.page.len())?];
            page_header(&mut header, field, sizes, size(rows)?);
            self.out.write_all(&header)?;
            self.out.write_all(&self.page)?;
            let length = (header.len() + self.page.len()) as u64;
            chunks.push(Chunk {
                offset: self.position,
                unpacked: (header.len() + unpacked) as u64,
                length,
            });
            self.position += length;
        }
        self.groups.push(Group {
            rows: rows as u64,
            chunks,
        });
        Ok(())
    }

    /// Writes the index; without it nothing can be read.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_footer(mut self, created_by: &str) -> io::Result<W> {
        let mut index = Vec::new();
        self.metadata(&mut index, created_by);
        let length = u32::try_from(index.len()).map_err(io::Error::other)?;
        index.extend_from_slice(&length.to_le_bytes());
        index.extend_from_slice(MAGIC);
        self.out.write_all(&index)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn metadata(&self, out: &mut Vec<u8>, created_by: &str) {
        write_struct(out, |file| {
            file.i32(1, 1);
            let elements = self.fields.len() + 1;
            file.list(2, Entries::Struct, elements, |out| {
                schema(out, &self.fields);
            });
            file.i64(3, signed(self.groups.iter().map(|group| group.rows).sum()));
            file.list(4, Entries::Struct, self.groups.len(), |out| {
                for group in &self.groups {
                    self.row_group(out, group);
                }
            });
            file.text(6, created_by);
        });
    }

    fn row_group(&self, out: &mut Vec<u8>, group: &Group) {
        write_struct(out, |element| {
            element.list(1, Entries::Struct, self.fields.len(), |out| {
                for (field, chunk) in self.fields.iter().zip(&group.chunks) {
                    self.column_chunk(out, field, chunk, group.rows);
                }
            });
            element.i64(
                2,
                signed(group.chunks.iter().map(|chunk| chunk.unpacked).sum()),
            );
            element.i64(3, signed(group.rows));
        });
    }

    fn column_chunk(&self, out: &mut Vec<u8>, field: &Field, chunk: &Chunk, rows: u64) {
        write_struct(out, |element| {
            element.i64(2, signed(chunk.offset));
            element.nested(3, |metadata| {
                metadata.i32(1, field.kind as i32);
                metadata.list(2, Entries::I32, 2, |out| {
                    put_zigzag(out, field.encoding.into());
                    put_zigzag(out, RLE.into());
                });
                metadata.list(3, Entries::Binary, 1, |out| put_text(out, field.name));
                metadata.i32(4, self.packing as i32);
                metadata.i64(5, signed(rows));
                metadata.i64(6, signed(chunk.unpacked));
                metadata.i64(7, signed(chunk.length));
                metadata.i64(9, signed(chunk.offset));
            });
        });
    }
}

fn size(length: usize) -> io::Result<i32> {
    i32::try_from(length).map_err(io::Error::other)
}

/// Lengths and counts as Parquet holds them; files don't get near the limit.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn page_header(out: &mut Vec<u8>, field: &Field, [unpacked, packed]: [i32; 2], rows: i32) {
    write_struct(out, |header| {
        header.i32(1, DATA_PAGE);
        header.i32(2, unpacked);
        header.i32(3, packed);
        header.nested(5, |page| {
            page.i32(1, rows);
            page.i32(2, field.encoding);
            page.i32(3, RLE);
            page.i32(4, RLE);
        });
    });
}

fn schema(out: &mut Vec<u8>, fields: &[Field]) {
    write_struct(out, |root| {
        root.text(4, "row");
        root.i32(5, fields.len() as i32);
    });
    for field in fields {
        write_struct(out, |element| {
            element.i32(1, field.kind as i32);
            element.i32(3, field.repetition);
            element.text(4, field.name);
            if field.kind == Kind::Text {
                element.i32(6, UTF8);
            }
        });
    }
}
