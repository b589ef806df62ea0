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
    /// Where a kernel that was built so has its own configuration.
    pub const PACKED: &str = "/proc/config.gz";

    /// The kernel's configuration, from the kernel itself or from the files of its package; and
    /// why [`Config::PACKED`] can't be unpacked, if it is there and damaged.
    #[must_use]
    pub fn read(root: &Root, release: &str) -> (Option<Self>, Option<io::Error>) {
        let mut damaged = None;
        if let Ok(bytes) = root.bytes(Self::PACKED) {
            match unpacked(&bytes) {
                Ok(text) => return (Some(Self::parse(Self::PACKED, &text)), None),
                Err(error) => damaged = Some(error),
            }
        }
        if release.is_empty() || release.contains('/') {
            return (None, damaged);
        }
        let files = [
            format!("/boot/config-{release}"),
            format!("/lib/modules/{release}/config"),
            format!("/lib/modules/{release}/build/.config"),
            format!("/usr/lib/modules/{release}/config"),
        ];
        let read = |file: &String| Some(Self::parse(file, &root.text(file).ok()?));
        (files.iter().find_map(read), damaged)
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

    /// The preemption model that it chooses, and by which option.
    #[must_use]
    pub fn preemption(&self) -> Option<(&'static str, &'static str)> {
        let models = [
            ("PREEMPT_RT", "rt"),
            ("PREEMPT_LAZY", "lazy"),
            ("PREEMPT", "full"),
            ("PREEMPT_VOLUNTARY", "voluntary"),
            ("PREEMPT_NONE", "none"),
        ];
        models.into_iter().find(|(option, _)| self.is_set(option))
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
