//! Loads modules of the kernel; an error quotes the kernel's log.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::super::sys;
use punctual_record::lab::GuestFault;

/// The kernel's log, one record per read.
const LOG: &str = "/dev/kmsg";
/// Lines of it in an error.
const MOST_LINES: usize = 4;

/// Loads a module.
///
/// # Errors
/// The kernel's error, and what it logged meanwhile.
pub fn load(path: &str) -> Result<(), GuestFault> {
    let log = end_of_log();
    let loaded = File::open(path).and_then(|file| sys::load_module(&file));
    loaded.map_err(|error| {
        let name = Path::new(path).file_stem().unwrap_or_default();
        GuestFault::Module {
            name: name.to_string_lossy().into_owned(),
            error: error.to_string(),
            log: log.map(said).unwrap_or_default(),
        }
    })
}

fn end_of_log() -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let mut log = options.open(LOG).ok()?;
    log.seek(SeekFrom::End(0)).ok()?;
    Some(log)
}

fn said(mut log: File) -> Vec<String> {
    let mut lines = Vec::new();
    let mut record = [0; 8192];
    while lines.len() < MOST_LINES {
        match log.read(&mut record) {
            Ok(read) if read > 0 => lines.extend(message(&record[..read])),
            // Records were overwritten meanwhile.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            _ => break,
        }
    }
    lines
}

/// The message of a record: `6,339,5140900,-;NET: Registered\n KEY=value`.
fn message(record: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(record);
    let (_, message) = text.split_once(';')?;
    let line = message.lines().next()?.trim();
    (!line.is_empty()).then(|| line.chars().take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_the_log_is_its_message() {
        let record = b"3,339,5140900,-;mine: Unknown symbol lost (err -2)\n SUBSYSTEM=x\n";
        assert_eq!(
            message(record).as_deref(),
            Some("mine: Unknown symbol lost (err -2)")
        );
        assert_eq!(message(b"no record"), None);
        assert_eq!(message(b"6,1,1,-;\n"), None);
    }
}
