//! Names for the kernel's addresses, from /proc/kallsyms.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use punctual_record::explanation::NoKernelNames;

/// The kernel's functions by address.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Address, and the place of its name in `names`.
    places: Vec<(u64, u32, u16)>,
    names: String,
}

/// An address farther from a function's beginning is not in it.
const FAR: u64 = 1 << 20;

impl super::Capture {
    /// The kernel's names, which take some ms to read: read once and shared.
    ///
    /// # Errors
    /// Why there are none.
    pub fn symbols(&self) -> Result<Arc<Symbols>, NoKernelNames> {
        self.symbols.clone()
    }
}

/// The addresses of functions of the running kernel, by their names; 0 where one is not known.
#[must_use]
pub fn addresses<const COUNT: usize>(names: [&str; COUNT]) -> [u64; COUNT] {
    match File::open("/proc/kallsyms") {
        Ok(file) => addresses_in(BufReader::with_capacity(1 << 16, file), names),
        Err(_) => [0; COUNT],
    }
}

fn addresses_in<const COUNT: usize>(table: impl BufRead, names: [&str; COUNT]) -> [u64; COUNT] {
    let mut found = [0; COUNT];
    for line in table.lines().map_while(Result::ok) {
        let mut words = line.split_whitespace();
        let (Some(address), _, Some(name)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if let Some(at) = names.iter().position(|it| *it == name) {
            found[at] = u64::from_str_radix(address, 16).unwrap_or(0);
        }
    }
    found
}

impl Symbols {
    /// Reads the running kernel's table.
    ///
    /// # Errors
    /// The table can't be read, or hides its addresses.
    pub fn load() -> Result<Self, NoKernelNames> {
        let table = File::open("/proc/kallsyms").and_then(|file| {
            // Line by line: the whole text is many times what is kept, and touched memory
            // stays locked.
            let mut symbols = Self::default();
            for line in BufReader::with_capacity(1 << 16, file).lines() {
                symbols.add_line(&line?);
            }
            Ok(symbols.sorted())
        });
        let symbols = table.map_err(|error| NoKernelNames::Unreadable {
            error: error.to_string(),
        })?;
        if symbols.places.is_empty() {
            return Err(NoKernelNames::Hidden);
        }
        Ok(symbols)
    }

    /// Parses a table in the format of /proc/kallsyms; other lines are ignored.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut symbols = Self::default();
        text.lines().for_each(|line| symbols.add_line(line));
        symbols.sorted()
    }

    fn add_line(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let (Some(address), Some(class), Some(name)) = (words.next(), words.next(), words.next())
        else {
            return;
        };
        let Ok(address) = u64::from_str_radix(address, 16) else {
            return;
        };
        // Data is not executed.
        if address == 0 || !matches!(class, "t" | "T" | "w" | "W") {
            return;
        }
        let (Ok(at), Ok(length)) = (u32::try_from(self.names.len()), u16::try_from(name.len()))
        else {
            return;
        };
        self.names.push_str(name);
        self.places.push((address, at, length));
    }

    fn sorted(mut self) -> Self {
        self.places.sort_by_key(|(address, ..)| *address);
        self.places.shrink_to_fit();
        self.names.shrink_to_fit();
        self
    }

    /// `function+0x1a`, or only the function at its beginning.
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

    /// The names of some addresses, if they have any.
    #[must_use]
    pub fn names_of(&self, addresses: impl Iterator<Item = u64>) -> BTreeMap<u64, String> {
        addresses
            .filter_map(|address| Some((address, self.name(address)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000100 t later
ffffffff81000040 W first
ffffffff82000000 D jiffies
ffffffffc0001000 t in_module\t[nf_tables]
nonsense
ffffffffzz T bad
";

    #[test]
    fn an_address_has_the_name_of_the_function_before_it() {
        let symbols = Symbols::parse(TABLE);
        let name = |address| symbols.name(address);
        assert_eq!(name(0xffff_ffff_8100_0000).as_deref(), Some("_text"));
        assert_eq!(name(0xffff_ffff_8100_003f).as_deref(), Some("_text+0x3f"));
        assert_eq!(name(0xffff_ffff_8100_0041).as_deref(), Some("first+0x1"));
        assert_eq!(name(0xffff_ffff_8100_0123).as_deref(), Some("later+0x23"));
        assert_eq!(
            name(0xffff_ffff_c000_1008).as_deref(),
            Some("in_module+0x8")
        );
        assert_eq!(
            name(0xffff_ffff_8200_0000),
            None,
            "too far, and data has no code"
        );
        assert_eq!(name(0x1000), None);
        assert_eq!(name(u64::MAX), None);
    }

    #[test]
    fn functions_are_found_by_their_names() {
        let found = addresses_in(TABLE.as_bytes(), ["later", "missing", "first"]);
        assert_eq!(found, [0xffff_ffff_8100_0100, 0, 0xffff_ffff_8100_0040]);
    }

    #[test]
    fn a_table_of_zeroes_has_no_names() {
        let symbols = Symbols::parse("0000000000000000 T _text\n0000000000000000 t other\n");
        assert_eq!(symbols.name(0), None);
        assert!(symbols.places.is_empty());
    }
}
