//! The kernel's configuration.

use std::collections::BTreeMap;
use std::io::{self, Read};

use flate2::read::GzDecoder;

use crate::root::{READ_LIMIT, Root};

/// The options of a kernel that are set, and where they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The file.
    pub source: String,
    options: BTreeMap<String, String>,
}

impl Config {
    /// The kernel's configuration, from the kernel itself or from the files of its package.
    /// The second part has the files that are there and can't be read, with their error.
    #[must_use]
    pub fn read(root: &Root, release: &str) -> (Option<Self>, Vec<(String, io::Error)>) {
        let mut unread = Vec::new();
        let packed = "/proc/config.gz";
        match root.bytes(packed).and_then(|bytes| unpacked(&bytes)) {
            Ok(text) => return (Some(Self::parse(packed, &text)), unread),
            Err(error) if crate::root::absent(&error) => {}
            Err(error) => unread.push((packed.to_owned(), error)),
        }
        if release.is_empty() || release.contains('/') {
            return (None, unread);
        }
        let files = [
            format!("/boot/config-{release}"),
            format!("/lib/modules/{release}/config"),
            format!("/lib/modules/{release}/build/.config"),
            format!("/usr/lib/modules/{release}/config"),
        ];
        for file in files {
            match root.text(&file) {
                Ok(text) => return (Some(Self::parse(&file, &text)), unread),
                Err(error) if crate::root::absent(&error) => {}
                Err(error) => unread.push((file, error)),
            }
        }
        (None, unread)
    }

    fn parse(source: &str, text: &str) -> Self {
        let option = |line: &str| {
            let (name, value) = line.trim().strip_prefix("CONFIG_")?.split_once('=')?;
            Some((name.to_owned(), value.trim_matches('"').to_owned()))
        };
        Self {
            source: source.to_owned(),
            options: text.lines().filter_map(option).collect(),
        }
    }

    /// The value of an option, without `CONFIG_`; absent if it is not set.
    #[must_use]
    pub fn value(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(String::as_str)
    }

    /// Whether an option is `y`.
    #[must_use]
    pub fn is_set(&self, option: &str) -> bool {
        self.value(option) == Some("y")
    }
}

fn unpacked(bytes: &[u8]) -> io::Result<String> {
    let mut text = Vec::new();
    GzDecoder::new(bytes)
        .take(READ_LIMIT)
        .read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
