//! What the kernel's log says about the boot parameters: the only place where the kernel tells which
//! of them it doesn't know.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use crate::root::Root;

/// The question that a snapshot keeps the answer to.
pub(crate) const QUESTION: &str = "/dev/kmsg: Unknown kernel command line parameters";
/// What the kernel reads by itself before it looks for its parameters, and calls unknown then
/// (`cmdline_find_option` in `sld_state_setup`).
const READ_EARLY: [&str; 1] = ["split_lock_detect="];
/// The records that are read.
const RECORDS: usize = 1 << 17;

/// The parameters that the kernel said it doesn't know, as they stand on the command line; none
/// where the log can't be read or doesn't go back to the boot, and before Linux 5.14.
pub(crate) fn unknown_parameters(root: &Root) -> Option<Vec<String>> {
    let said = root.answer(QUESTION, read).ok()?;
    let is_read = |word: &&str| !READ_EARLY.iter().any(|name| word.starts_with(name));
    let words = said.split_whitespace().filter(is_read);
    let words: Vec<String> = words.map(str::to_owned).collect();
    (!words.is_empty()).then_some(words)
}

/// Searches the log of the live machine; empty where it says nothing of that.
fn read() -> io::Result<String> {
    let mut log = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/kmsg")?;
    // A read returns one record of at most 8 KiB.
    let mut record = [0; 8192];
    for _ in 0..RECORDS {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => {
                if let Some(words) = words_of(&String::from_utf8_lossy(&record[..length])) {
                    return Ok(words.to_owned());
                }
            }
            Err(error) => match error.raw_os_error() {
                // Records were overwritten: the next read continues after them.
                Some(libc::EPIPE) => {}
                Some(libc::EAGAIN) => break,
                _ => return Err(error),
            },
        }
    }
    Ok(String::new())
}

/// The parameters in a record `priority,sequence,time,flags;text`, if the kernel wrote it: programs
/// may write to the log too, but never as the kernel.
fn words_of(record: &str) -> Option<&str> {
    let (prefix, text) = record.split_once(';')?;
    let priority: u64 = prefix.split(',').next()?.parse().ok()?;
    if priority >> 3 != 0 {
        return None;
    }
    let text = text.strip_prefix("Unknown kernel command line parameters \"")?;
    let text = text.lines().next()?;
    // The kernel cuts a long line: its last word may be a part.
    let whole = text.rsplit_once("\", will be").map(|(words, _)| words);
    Some(whole.unwrap_or_else(|| text.rsplit_once(' ').map_or("", |(words, _)| words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_own_record_tells() {
        let said = "5,41,0,-;Unknown kernel command line parameters \"BOOT_IMAGE=/vmlinuz \
                    rcu_nocb=2-3\", will be passed to user space.\n";
        assert_eq!(words_of(said), Some("BOOT_IMAGE=/vmlinuz rcu_nocb=2-3"));
        let by_program = said.replacen("5,", "13,", 1);
        let cut = "5,41,0,-;Unknown kernel command line parameters \"a=1 b=2 nohz_fu";
        assert_eq!(words_of(cut), Some("a=1 b=2"));
        for other in [
            &by_program,
            "",
            ";",
            "5;",
            "x;Unknown",
            "5,1,1,-;Command line: quiet",
        ] {
            assert_eq!(words_of(other), None, "{other}");
        }
    }
}
