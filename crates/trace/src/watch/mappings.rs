//! Which files a program has mapped as code, and where: `/proc/PID/maps`.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A line that maps code of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping<'a> {
    range: &'a str,
    /// Its addresses.
    pub addresses: Range<u64>,
    /// The offset of their start in the file.
    pub offset: u64,
    /// The file's number.
    pub inode: u64,
    /// As the program sees it.
    pub path: &'a str,
}

impl<'a> Mapping<'a> {
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (range, rights) = (words.next()?, words.next()?);
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (from, to) = range.split_once('-')?;
        let offset = number(words.next()?)?;
        let inode = words.nth(1)?.parse().ok()?;
        let path = words.next()?.trim_start();
        (rights.contains('x') && path.starts_with('/')).then_some(Self {
            range,
            addresses: number(from)?..number(to)?,
            offset,
            inode,
            path,
        })
    }

    /// Via the mapping itself a file is reachable even if it was deleted or is in a container;
    /// by its path only if that is still the same file.
    pub fn reachable_path(&self, pid: u32) -> PathBuf {
        let own = PathBuf::from(format!("/proc/{pid}/map_files/{}", self.range));
        if File::open(&own).is_ok() {
            return own;
        }
        let within =
            Path::new(&format!("/proc/{pid}/root")).join(self.path.trim_start_matches('/'));
        let same = fs::metadata(&within).is_ok_and(|it| it.ino() == self.inode);
        if same { within } else { own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_read_whatever_its_path_holds() {
        let line = "7f00-7f01 r-xp 00001000 fd:01 123   /opt/my app/x.so (deleted)";
        let mapping = Mapping::parse(line).expect("code");
        assert_eq!(
            (mapping.range, mapping.inode, mapping.path),
            ("7f00-7f01", 123, "/opt/my app/x.so (deleted)")
        );
        assert_eq!(
            (mapping.addresses, mapping.offset),
            (0x7f00..0x7f01, 0x1000)
        );
        for cut in 0..line.len() {
            let _ = Mapping::parse(&line[..cut]);
        }
        assert!(Mapping::parse("7f00-7f01 r--p 0 fd:01 123 /x").is_none());
        assert!(Mapping::parse("7f00-7f01 r-xp 0 00:00 0 [vdso]").is_none());
    }
}
