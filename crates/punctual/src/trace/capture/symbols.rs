//! Names for the kernel's addresses, from its own table.

use std::collections::BTreeMap;
use std::fs;

/// The kernel's functions by address.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Address, and where its name lies in `names`.
    places: Vec<(u64, u32, u16)>,
    names: String,
}

/// What is farther from a function's beginning is not in it.
const FAR: u64 = 1 << 20;

impl Symbols {
    /// Reads the running kernel's table.
    ///
    /// # Errors
    /// In words, with what to do: the table can't be read, or gives no addresses away.
    pub fn load() -> Result<Self, String> {
        let text = fs::read_to_string("/proc/kallsyms")
            .map_err(|error| format!("/proc/kallsyms: {error}"))?;
        let symbols = Self::parse(&text);
        if symbols.places.is_empty() {
            return Err(
                "the kernel hides its addresses (kptr_restrict): functions have no names; \
                 run as root, or: sysctl kernel.kptr_restrict=1 with CAP_SYSLOG"
                    .to_owned(),
            );
        }
        Ok(symbols)
    }

    /// Reads a table as /proc/kallsyms gives it; what isn't like that is passed over.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut symbols = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(address), Some(class), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else {
                continue;
            };
            // Data can't be run.
            if address == 0 || !matches!(class, "t" | "T" | "w" | "W") {
                continue;
            }
            let (Ok(at), Ok(length)) = (
                u32::try_from(symbols.names.len()),
                u16::try_from(name.len()),
            ) else {
                continue;
            };
            symbols.names.push_str(name);
            symbols.places.push((address, at, length));
        }
        symbols.places.sort_by_key(|(address, ..)| *address);
        symbols
    }

    /// `function+0x1a`, or the function alone at its beginning.
    #[must_use]
    pub fn name(&self, address: u64) -> Option<String> {
        let after = self.places.partition_point(|(begin, ..)| *begin <= address);
        let (begin, at, length) = *self.places.get(after.checked_sub(1)?)?;
        let offset = address - begin;
        if offset > FAR {
            return None;
        }
        let name = self.names.get(at as usize..)?.get(..usize::from(length))?;
        Some(if offset == 0 {
            name.to_owned()
        } else {
            format!("{name}+{offset:#x}")
        })
    }

    /// The names of some addresses, as far as they have any.
    #[must_use]
    pub fn of(&self, addresses: impl Iterator<Item = u64>) -> BTreeMap<u64, String> {
        addresses
            .filter_map(|address| Some((address, self.name(address)?)))
            .collect()
    }
}
