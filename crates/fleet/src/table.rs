//! Tables as Parquet files: columns in, one file out.

use std::fs::File;
use std::io;
use std::path::Path;

use punctual_record::parquet::{Column, Packing, Writer};

use super::error::FleetError;

/// Writes a table, to the disk: the file is whole when this returns.
pub fn write(path: &Path, columns: &[Column]) -> Result<(), FleetError> {
    written(path, columns).map_err(|error| FleetError::file(path, error))
}

fn written(path: &Path, columns: &[Column]) -> io::Result<()> {
    // Each column is one page: nothing is gained by a buffer.
    let mut writer = Writer::new(File::create_new(path)?, Packing::Gzip)?;
    writer.write_group(columns)?;
    let file = writer.write_footer(concat!("punctual ", env!("CARGO_PKG_VERSION")))?;
    file.sync_all()
}
