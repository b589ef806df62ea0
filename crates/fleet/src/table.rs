//! Tables as Parquet files: columns in, one file out.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, GzipLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, Type};

/// The values of a column.
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

impl Values {
    fn declaration(&self, name: &str) -> String {
        match self {
            Self::Int(_) => format!("required int32 {name};"),
            Self::Long(_) => format!("required int64 {name};"),
            Self::LongOrNone(_) => format!("optional int64 {name};"),
            Self::Double(_) => format!("required double {name};"),
            Self::DoubleOrNone(_) => format!("optional double {name};"),
            Self::Text(_) => format!("required binary {name} (UTF8);"),
            Self::TextOrNone(_) => format!("optional binary {name} (UTF8);"),
        }
    }

    /// Numbers that hardly differ from row to row take little as differences; words are in a dictionary.
    fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Long(_))
    }
}

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its values, one for each row.
    pub values: Values,
}

/// Splits optional values as Parquet has them.
fn present<T: Clone>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    let levels = values.iter().map(|it| i16::from(it.is_some())).collect();
    (values.iter().flatten().cloned().collect(), levels)
}

fn bytes<'t>(texts: impl Iterator<Item = &'t String>) -> Vec<ByteArray> {
    texts.map(|text| ByteArray::from(text.as_str())).collect()
}

fn put(writer: &mut ColumnWriter<'_>, values: &Values) -> Result<()> {
    match (writer, values) {
        (ColumnWriter::Int32ColumnWriter(to), Values::Int(all)) => to.write_batch(all, None, None),
        (ColumnWriter::Int64ColumnWriter(to), Values::Long(all)) => to.write_batch(all, None, None),
        (ColumnWriter::Int64ColumnWriter(to), Values::LongOrNone(all)) => {
            let (all, levels) = present(all);
            to.write_batch(&all, Some(&levels), None)
        }
        (ColumnWriter::DoubleColumnWriter(to), Values::Double(all)) => {
            to.write_batch(all, None, None)
        }
        (ColumnWriter::DoubleColumnWriter(to), Values::DoubleOrNone(all)) => {
            let (all, levels) = present(all);
            to.write_batch(&all, Some(&levels), None)
        }
        (ColumnWriter::ByteArrayColumnWriter(to), Values::Text(all)) => {
            to.write_batch(&bytes(all.iter()), None, None)
        }
        (ColumnWriter::ByteArrayColumnWriter(to), Values::TextOrNone(all)) => {
            let (all, levels) = present(all);
            to.write_batch(&bytes(all.iter()), Some(&levels), None)
        }
        _ => Err(ParquetError::General("a column of another type".to_owned())),
    }
    .map(|_| ())
}

fn schema(columns: &[Column]) -> Result<Type> {
    let fields: Vec<String> = columns
        .iter()
        .map(|column| column.values.declaration(column.name))
        .collect();
    parse_message_type(&format!("message row {{ {} }}", fields.join(" ")))
}

/// Writes a table, to the disk: the file is whole when this returns.
pub fn write(path: &Path, columns: &[Column]) -> Result<()> {
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("punctual {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::GZIP(GzipLevel::try_new(6)?));
    for column in columns.iter().filter(|column| column.values.is_number()) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    let file = File::create_new(path)?;
    let to = file.try_clone()?;
    let schema = Arc::new(schema(columns)?);
    let mut writer = SerializedFileWriter::new(to, schema, Arc::new(properties.build()))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        let next = group.next_column()?;
        let mut next = next.ok_or_else(|| ParquetError::General("no such column".to_owned()))?;
        put(next.untyped(), &column.values)?;
        next.close()?;
    }
    group.close()?;
    writer.close()?;
    file.sync_all()?;
    Ok(())
}
