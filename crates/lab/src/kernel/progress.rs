//! What happens while a kernel is looked for, as data.

use std::fmt;
use std::path::PathBuf;

use punctual_record::laboratory::Architecture;

use super::{EntryDamage, Error, Package};

/// A step that takes time, or an unexpected result.
#[derive(Debug)]
pub enum Progress {
    /// Another process is filling the cache.
    Waiting,
    /// The lists of packages of another architecture are read.
    Lists {
        /// Which.
        architecture: Architecture,
    },
    /// A package is downloaded.
    Fetching {
        /// Which.
        package: Package,
        /// Its size in MB.
        megabytes: u64,
    },
    /// A package is unpacked.
    Unpacking {
        /// Which.
        package: Package,
    },
    /// An entry of the cache is made again.
    Damaged {
        /// Its directory.
        place: PathBuf,
        /// What is wrong with it.
        why: EntryDamage,
    },
    /// The newest kernel of the cache is taken.
    FromCache {
        /// Why none was fetched.
        refused: Error,
        /// Its package.
        package: Option<Package>,
    },
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |package: &Package| format!("{} {}", package.name, package.version);
        match self {
            Self::Waiting => f.write_str("waiting for another punctual that is fetching a kernel"),
            Self::Lists { architecture } => {
                write!(f, "reading the lists of packages for {architecture}")
            }
            Self::Fetching { package, megabytes } => {
                write!(f, "fetching {} ({megabytes} MB)", named(package))
            }
            Self::Unpacking { package } => write!(f, "unpacking {}", named(package)),
            Self::Damaged { place, why } => write!(
                f,
                "{} in the cache is damaged ({why}): it is unpacked again",
                place.display()
            ),
            Self::FromCache { refused, package } => {
                let which = package.as_ref().map_or_else(String::new, named);
                write!(f, "{refused}; using {which} from the cache")
            }
        }
    }
}
