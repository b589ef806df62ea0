//! The function of an address.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::Error;
use super::fault::Unfit;
use super::{Kernel, LONGEST_IMAGE, LONGEST_TEXT, kallsyms};

/// The most symbols of a kernel; Debian's have 200,000.
pub(super) const MOST: usize = 4_000_000;

/// The symbols of a kernel, by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Names one after the other.
    names: String,
    /// Sorted by address, each address once.
    table: Vec<Symbol>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Symbol {
    address: u64,
    begin: usize,
    end: usize,
    /// The preference of its name over others with the same address.
    rank: u8,
}

impl Symbols {
    /// Parses lines of `ADDRESS TYPE NAME`, as in `System.map`, or with ` [MODULE]` at the end, as in
    /// `/proc/kallsyms`. Skips other lines.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let mut symbols = Self::default();
        for line in text.split(|&byte| byte == b'\n') {
            let mut words = line
                .split(|byte| byte.is_ascii_whitespace())
                .filter(|word| !word.is_empty());
            let (Some(address), Some(&[kind]), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let address = std::str::from_utf8(address).ok();
            let address = address.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            if let Some(address) = address {
                symbols.add(address, kind, name);
            }
        }
        symbols.sorted()
    }

    pub(super) fn add(&mut self, address: u64, kind: u8, name: &[u8]) {
        if let Ok(name) = std::str::from_utf8(name)
            && self.table.len() < MOST
        {
            let begin = self.names.len();
            self.names.push_str(name);
            self.table.push(Symbol {
                address,
                begin,
                end: self.names.len(),
                rank: rank(kind, name),
            });
        }
    }

    pub(super) fn sorted(mut self) -> Self {
        // Stable: among equals, the first one is kept.
        self.table
            .sort_by_key(|symbol| (symbol.address, std::cmp::Reverse(symbol.rank)));
        self.table.dedup_by_key(|symbol| symbol.address);
        self
    }

    /// The function of an address, and the offset in it; `None` before the first function, and if the
    /// nearest symbol is data.
    #[must_use]
    pub fn name(&self, address: u64) -> Option<(&str, u64)> {
        let behind = self
            .table
            .partition_point(|symbol| symbol.address <= address);
        let symbol = self.table.get(behind.checked_sub(1)?)?;
        (symbol.rank > DATA).then(|| (self.name_of(symbol), address - symbol.address))
    }

    /// Where a function begins.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<u64> {
        let is_it = |symbol: &&Symbol| symbol.rank > DATA && self.name_of(symbol) == name;
        self.table.iter().find(is_it).map(|symbol| symbol.address)
    }

    /// Where a function begins, or the only one that the compiler has made of it
    /// (`NAME.isra.0`), and where the next symbol does.
    #[must_use]
    pub fn range(&self, name: &str) -> Option<(u64, u64)> {
        let is_it = |symbol: &Symbol| {
            let rest = self.name_of(symbol).strip_prefix(name);
            symbol.rank > DATA && rest.is_some_and(|it| it.is_empty() || it.starts_with('.'))
        };
        let mut found = (0..self.table.len()).filter(|at| is_it(&self.table[*at]));
        let (at, None) = (found.next()?, found.next()) else {
            return None;
        };
        Some((self.table[at].address, self.table.get(at + 1)?.address))
    }

    /// The address of a variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<u64> {
        let is_it = |symbol: &&Symbol| symbol.rank == DATA && self.name_of(symbol) == name;
        self.table.iter().find(is_it).map(|symbol| symbol.address)
    }

    /// The functions whose names begin so, with their addresses.
    pub fn beginning(&self, start: &str) -> impl Iterator<Item = (&str, u64)> {
        let is_code = |symbol: &&Symbol| symbol.rank > DATA;
        let all = self.table.iter().filter(is_code);
        let all = all.map(|symbol| (self.name_of(symbol), symbol.address));
        all.filter(move |(name, _)| name.starts_with(start))
    }

    fn name_of(&self, symbol: &Symbol) -> &str {
        self.names.get(symbol.begin..symbol.end).unwrap_or_default()
    }

    /// Where the first function is.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        let mut functions = self.table.iter().filter(|symbol| symbol.rank > DATA);
        functions.next().map(|symbol| symbol.address)
    }

    /// The number of symbols.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no symbols.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

/// The symbols of several kernels, each read once.
#[derive(Debug, Default)]
pub struct SymbolTables {
    /// By the hash of the image.
    known: Mutex<BTreeMap<String, Arc<Symbols>>>,
}

impl SymbolTables {
    /// Those of a kernel.
    ///
    /// # Errors
    /// Those of [`Kernel::symbols`].
    pub fn of(&self, kernel: &Kernel) -> Result<Arc<Symbols>, Error> {
        // A panic while it was locked has left it consistent.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&kernel.sha256) {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(kernel.symbols()?);
        known.insert(kernel.sha256.clone(), Arc::clone(&found));
        Ok(found)
    }
}

const DATA: u8 = 0;

/// Code before data, usual names of functions before markers in the text.
fn rank(kind: u8, name: &str) -> u8 {
    match kind {
        _ if name.starts_with("__pfx_") => 1,
        b'T' => 4,
        b't' => 3,
        b'W' | b'w' => 2,
        _ => DATA,
    }
}

impl Kernel {
    /// The names of its functions: from its `System.map`, else from the kernel's own table for
    /// `/proc/kallsyms`. Modules are not included. Addresses are those without randomisation
    /// (`nokaslr`).
    ///
    /// # Errors
    /// It has neither, or the file cannot be read.
    pub fn symbols(&self) -> Result<Symbols, Error> {
        let read = |path: &std::path::Path, longest: u64| {
            let mut bytes = Vec::new();
            File::open(path)
                .and_then(|file| file.take(longest).read_to_end(&mut bytes))
                .map_err(|error| Error::unreadable(path, error))?;
            Ok::<_, Error>(bytes)
        };
        if let Some(path) = &self.system_map {
            return Ok(Symbols::parse(&read(path, LONGEST_TEXT)?));
        }
        kallsyms::symbols(&read(&self.image, LONGEST_IMAGE)?)
            .ok_or_else(|| Error::unfit(&self.image, Unfit::NoNames))
    }
}
