//! Writes the JSON schemas of all formats into a directory.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).ok_or("expected a directory")?;
    let directory = PathBuf::from(directory);
    fs::create_dir_all(&directory)?;
    for (name, schema) in punctual_taskset::schemas() {
        let text = serde_json::to_string_pretty(&schema)? + "\n";
        fs::write(directory.join(format!("{name}.schema.json")), text)?;
    }
    Ok(())
}
