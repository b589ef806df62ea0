//! Names for addresses in the watched programs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::path::PathBuf;

use object::ReadCache;

use super::mappings::Mapping;
use super::marks::image::Image;

/// Programs, files and the bytes of their symbols that are kept at once: beyond that, addresses have
/// no names.
const MOST_PROGRAMS: usize = 256;
const MOST_FILES: usize = 256;
const MOST_BYTES: usize = 512 << 20;
/// If a function's length isn't known, an address farther from its beginning is not in it.
const FAR: u64 = 1 << 20;

/// Functions by address, of the programs that were looked up.
#[derive(Debug, Default)]
pub struct UserSymbols {
    programs: BTreeMap<u32, Vec<MappedFile>>,
    /// By inode and path: several programs may map one file.
    files: BTreeMap<(u64, String), Functions>,
    /// The memory that these need.
    bytes: usize,
}

/// Code of a file that a program has mapped.
#[derive(Debug)]
struct MappedFile {
    addresses: Range<u64>,
    offset: u64,
    file: (u64, String),
    reached: PathBuf,
}

/// The functions of a file, sorted by place.
type Functions = Vec<(Range<u64>, String)>;

impl UserSymbols {
    /// The function that contains an address of a program, `function+0x1a`; without a symbol the
    /// file and the place in it, `libx.so+0x1f00`; `None` if no file is mapped there.
    pub fn name(&mut self, pid: u32, address: u64) -> Option<String> {
        let known = self.find(pid, address);
        // It may have mapped more since.
        let at = match known {
            Some(at) => at,
            None => {
                self.read_mappings(pid);
                self.find(pid, address)?
            }
        };
        let loaded = &self.programs[&pid][at];
        let offset = address - loaded.addresses.start + loaded.offset;
        let (key, reached) = (loaded.file.clone(), loaded.reached.clone());
        let file = key.1.rsplit('/').next().unwrap_or_default().to_owned();
        let in_file = || format!("{file}+{offset:#x}");
        if !self.files.contains_key(&key) {
            if self.files.len() >= MOST_FILES || self.bytes >= MOST_BYTES {
                return Some(in_file());
            }
            let (functions, bytes) = functions(&reached);
            self.files.insert(key.clone(), functions);
            self.bytes += bytes;
        }
        Some(named(&self.files[&key], offset).unwrap_or_else(in_file))
    }

    /// Reads a program's mappings again: it may have executed another program since.
    fn read_mappings(&mut self, pid: u32) {
        if self.programs.len() >= MOST_PROGRAMS && !self.programs.contains_key(&pid) {
            return;
        }
        let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else {
            return;
        };
        let loaded = maps
            .lines()
            .filter_map(Mapping::parse)
            .map(|mapping| MappedFile {
                addresses: mapping.addresses.clone(),
                offset: mapping.offset,
                file: (mapping.inode, mapping.path.to_owned()),
                reached: mapping.reachable_path(pid),
            });
        self.programs.insert(pid, loaded.collect());
    }

    fn find(&self, pid: u32, address: u64) -> Option<usize> {
        let loaded = self.programs.get(&pid)?;
        loaded.iter().position(|it| it.addresses.contains(&address))
    }
}

/// The functions, and the memory that they need; none if a file can't be read, or isn't an ELF file.
fn functions(reached: &PathBuf) -> (Functions, usize) {
    let image = File::open(reached)
        .ok()
        .and_then(|file| Image::read(&ReadCache::new(file)).ok());
    let image = image.unwrap_or_default();
    let bytes = image.bytes();
    let functions = image.functions;
    let mut functions: Functions = functions
        .into_iter()
        .map(|function| {
            // Without a length it extends up to the next function.
            let size = if function.size == 0 {
                FAR
            } else {
                function.size
            };
            let end = function.offset.saturating_add(size);
            (function.offset..end, function.name)
        })
        .collect();
    // Of several names for one place the shortest, which is the plainest.
    functions.sort_by(|(a, one), (b, other)| {
        (a.start, one.len(), one).cmp(&(b.start, other.len(), other))
    });
    functions.dedup_by_key(|(range, _)| range.start);
    (functions, bytes)
}

fn named(functions: &Functions, offset: u64) -> Option<String> {
    let after = functions.partition_point(|(range, _)| range.start <= offset);
    let (range, name) = &functions[after.checked_sub(1)?];
    match offset - range.start {
        0 => Some(name.clone()),
        within if range.contains(&offset) => Some(format!("{name}+{within:#x}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    extern "C" fn punctual_known_place() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn a_function_of_our_own_has_its_name_and_what_is_not_loaded_none() {
        let mut symbols = UserSymbols::default();
        let pid = std::process::id();
        let address = punctual_known_place as extern "C" fn() -> u64 as usize as u64;
        let name = symbols.name(pid, address + 1).expect("a name");
        assert!(name.contains("punctual_known_place"), "{name}");
        assert!(name.ends_with("+0x1"), "{name}");
        assert_eq!(symbols.name(pid, 0x10), None);
        assert_eq!(symbols.name(0, address), None);
    }

    #[test]
    fn an_address_has_the_name_of_the_function_before_it() {
        let functions = vec![
            (16..48, "first".to_owned()),
            (64..64 + FAR, "second".to_owned()),
        ];
        let name = |offset| named(&functions, offset);
        assert_eq!(name(15), None);
        assert_eq!(name(16).as_deref(), Some("first"));
        assert_eq!(name(47).as_deref(), Some("first+0x1f"));
        assert_eq!(name(48), None, "no symbol is here");
        assert_eq!(name(65).as_deref(), Some("second+0x1"));
        assert_eq!(name(65 + FAR), None, "too far");
    }
}
