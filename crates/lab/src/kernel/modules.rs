//! A kernel's modules: which are kept in the cache, and which must be loaded for a module.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader64, SectionHeader64};
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{LittleEndian, ReadRef as _};

use punctual_record::laboratory::Architecture;

use super::super::board::Board;
use super::Kernel;
use super::error::{Error, ModuleError, ModuleFileError};
use super::unpack::Packing;

type Header = FileHeader64<LittleEndian>;

/// The longest unpacked module, in bytes. Debian's longest has 20 million.
pub(super) const LONGEST: u64 = 256 << 20;
/// The most modules that are loaded for one module.
const MOST: usize = 256;

/// A module to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The name in `lsmod`: `null_blk`.
    pub name: String,
    /// The unpacked ELF file, for `init_module`.
    pub bytes: Vec<u8>,
}

/// Whether a file below `lib/modules/RELEASE` is kept: all except drivers of devices that no guest
/// has, three quarters of the whole.
#[must_use]
pub fn is_kept(path: &str) -> bool {
    /// Drivers of virtual devices, or of devices on top of others.
    const DRIVERS: &[&str] = &["base", "block", "char", "dax", "md", "net", "virtio"];
    let Some(path) = path.strip_prefix("kernel/") else {
        // modules.builtin, modules.order.
        return true;
    };
    let mut parts = path.split('/');
    match (parts.next(), parts.next(), parts.clone().count()) {
        (Some("sound"), ..) => false,
        // veth.ko, but no vendor's adapter.
        (Some("drivers"), Some("net"), below) => {
            let folder = if below > 1 { parts.next() } else { None };
            folder.is_none_or(|folder| {
                [
                    "bonding",
                    "ipvlan",
                    "netdevsim",
                    "team",
                    "vxlan",
                    "wireguard",
                ]
                .contains(&folder)
            })
        }
        (Some("drivers"), Some(kind), _) => DRIVERS.contains(&kind),
        _ => true,
    }
}

impl Kernel {
    /// The modules that must be loaded for the requested ones, in this order, each once: for a name
    /// the kernel's own module, for a file (`./mine.ko`) that file, and the modules that they need.
    ///
    /// # Errors
    /// Those of [`Kernel::module`], or a file is not a module for this kernel.
    pub fn modules(&self, asked: &[String]) -> Result<Vec<Module>, Error> {
        let mut all: Vec<Module> = Vec::new();
        for name in asked {
            let found = if is_file(name) {
                self.module_file(Path::new(name), &all)?
            } else {
                self.module(name)?
            };
            for module in found {
                match all.iter().find(|known| known.name == module.name) {
                    None => all.push(module),
                    Some(known) if !is_file(name) || known.bytes == module.bytes => {}
                    Some(known) => {
                        return Err(Error::ModuleFile {
                            path: PathBuf::from(name),
                            why: ModuleFileError::Before {
                                other: known.name.clone(),
                                asked: name.clone(),
                            },
                        });
                    }
                }
            }
        }
        Ok(all)
    }

    /// The user's module file, after the modules that it needs and that are not in `known`.
    fn module_file(&self, path: &Path, known: &[Module]) -> Result<Vec<Module>, Error> {
        let failed = |why: ModuleFileError| Error::ModuleFile {
            path: path.to_owned(),
            why,
        };
        let data = fs::metadata(path).map_err(|error| Error::unreadable(path, error))?;
        if !data.is_file() {
            return Err(failed(ModuleFileError::NoFile));
        }
        let bytes = load(path).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => failed(ModuleFileError::Long),
            _ if error.raw_os_error().is_some() => Error::unreadable(path, error),
            _ => failed(ModuleFileError::Unpack(error)),
        })?;
        check(&bytes, self.architecture).map_err(failed)?;
        let stated = field(&bytes, b"vermagic=").unwrap_or_default();
        if let Some(reason) = self.refuses(&stated) {
            return Err(failed(reason));
        }
        let named = field(&bytes, b"name=").or_else(|| name_of(&path.to_string_lossy()));
        let name = canonical(&named.unwrap_or_default());
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !(1..=60).contains(&name.len()) || !name.bytes().all(plain) {
            return Err(failed(ModuleFileError::NoName));
        }
        let mut all = Vec::new();
        for needed in depends(&bytes).unwrap_or_default() {
            if !known.iter().any(|module| module.name == needed) {
                let found = self.module(&needed);
                let found = found.map_err(|error| {
                    failed(ModuleFileError::Needs {
                        needed,
                        error: Box::new(error),
                    })
                })?;
                all.extend(found);
            }
        }
        all.push(Module { name, bytes });
        Ok(all)
    }

    /// Why this kernel would refuse a module with this `vermagic`, if that can be known.
    fn refuses(&self, stated: &str) -> Option<ModuleFileError> {
        let release = stated.split_whitespace().next().unwrap_or_default();
        if release != self.release {
            return Some(ModuleFileError::OtherRelease {
                built_for: release.to_owned(),
                release: self.release.clone(),
            });
        }
        // The kernel's own modules have its `vermagic`.
        let own = index(self.modules.as_deref()?).into_values().next()?;
        let own = field(&load(&own).ok()?, b"vermagic=")?;
        (own.trim() != stated.trim()).then(|| {
            let trimmed = |text: &str| text.trim().to_owned();
            ModuleFileError::OtherOptions {
                stated: trimmed(stated),
                own: trimmed(&own),
            }
        })
    }

    /// The modules that must be loaded for `name`, in this order, `name` last; none if it is built into
    /// the kernel. `-` and `_` are equal, as for modprobe.
    ///
    /// # Errors
    /// There is no such module, or it or one that it needs is not in the cache or cannot be read.
    pub fn module(&self, name: &str) -> Result<Vec<Module>, Error> {
        let failed = |why: ModuleError| Error::Module {
            name: name.to_owned(),
            release: self.release.clone(),
            why,
        };
        let Some(directory) = &self.modules else {
            return Err(failed(ModuleError::NoModules));
        };
        let wanted = canonical(name);
        let read = |file: &str| {
            let mut text = String::new();
            let file = File::open(directory.join(file)).ok();
            let read = file.and_then(|file| file.take(1 << 24).read_to_string(&mut text).ok());
            read.map_or_else(String::new, |_| text)
        };
        if lists(&read("modules.builtin"), &wanted) {
            return Ok(Vec::new());
        }
        let files = index(directory);
        if !files.contains_key(&wanted) {
            return Err(failed(if lists(&read("modules.order"), &wanted) {
                ModuleError::OfADevice
            } else {
                ModuleError::Unknown
            }));
        }
        order(&wanted, |name| {
            let Some(path) = files.get(name) else {
                return Err(ModuleError::NotKept(name.to_owned()));
            };
            load(path).map_err(|source| ModuleError::Read {
                path: path.clone(),
                source,
            })
        })
        .map_err(failed)
    }
}

/// A module after the modules that it needs, which `load` reads.
fn order(
    wanted: &str,
    load: impl Fn(&str) -> Result<Vec<u8>, ModuleError>,
) -> Result<Vec<Module>, ModuleError> {
    struct Open {
        module: Module,
        needs: std::vec::IntoIter<String>,
    }
    let open = |name: &str| {
        let bytes = load(name)?;
        let needs = depends(&bytes).ok_or_else(|| ModuleError::NoModule(name.to_owned()))?;
        Ok::<_, ModuleError>(Open {
            module: Module {
                name: name.to_owned(),
                bytes,
            },
            needs: needs.into_iter(),
        })
    };
    let mut ordered: Vec<Module> = Vec::new();
    let mut stack = vec![open(wanted)?];
    while let Some(top) = stack.last_mut() {
        match top.needs.next() {
            Some(name) if ordered.iter().any(|module| module.name == name) => {}
            Some(name) if stack.iter().any(|open| open.module.name == name) => {
                return Err(ModuleError::NeedsItself(name));
            }
            Some(name) => {
                if stack.len() + ordered.len() >= MOST {
                    return Err(ModuleError::TooMany { most: MOST });
                }
                stack.push(open(&name)?);
            }
            None => ordered.extend(stack.pop().map(|open| open.module)),
        }
    }
    Ok(ordered)
}

/// Whether a value of `--module` is a file, not a name.
#[must_use]
pub fn is_file(asked: &str) -> bool {
    asked.contains('/') || name_of(asked).is_some()
}

/// Checks that the bytes are a complete module for a processor.
fn check(bytes: &[u8], architecture: Architecture) -> Result<(), ModuleFileError> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(ModuleFileError::NotElf);
    }
    let Ok(header) = bytes.read_at::<Header>(0) else {
        return Err(ModuleFileError::Short { bytes: bytes.len() });
    };
    let is_64 = header.is_class_64() && header.is_little_endian();
    let is_fit = is_64 && header.e_machine(LittleEndian) == Board::of(architecture).elf_machine;
    match header.e_type(LittleEndian) {
        elf::ET_REL if is_fit => {}
        elf::ET_REL => return Err(ModuleFileError::Processor),
        _ => return Err(ModuleFileError::Program),
    }
    let length =
        u64::from(header.e_shentsize(LittleEndian)) * u64::from(header.e_shnum(LittleEndian));
    match header.e_shoff(LittleEndian).checked_add(length) {
        Some(end) if end <= bytes.len() as u64 => {}
        end => {
            return Err(ModuleFileError::Cut {
                end: end.unwrap_or(u64::MAX),
                bytes: bytes.len(),
            });
        }
    }
    match section(bytes, b".modinfo") {
        Some(_) => Ok(()),
        None => Err(ModuleFileError::NoModinfo),
    }
}

/// The value of a module's `.modinfo` field; the name ends with `=`.
fn field(bytes: &[u8], name: &[u8]) -> Option<String> {
    let info = section(bytes, b".modinfo")?;
    let value = info
        .split(|&byte| byte == 0)
        .find_map(|field| field.strip_prefix(name))?;
    Some(String::from_utf8_lossy(&value[..value.len().min(512)]).into_owned())
}

/// The names of the modules that a module needs, as its section `.modinfo` states them;
/// `None` if it is not a module.
#[must_use]
pub fn depends(bytes: &[u8]) -> Option<Vec<String>> {
    let info = section(bytes, b".modinfo")?;
    let mut fields = info.split(|&byte| byte == 0);
    let list = fields.find_map(|field| field.strip_prefix(b"depends="));
    let list = String::from_utf8_lossy(list.unwrap_or_default());
    let names = list.split(',').filter(|name| !name.is_empty());
    Some(names.map(canonical).collect())
}

/// A section of an ELF file of 64 bits.
fn section<'a>(bytes: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.section_headers(endian, bytes).ok()?;
    let names = header.section_strings_index(endian, bytes).ok()?;
    let names = sections.get(names.0)?.data(endian, bytes).ok()?;
    // Compares only the length of the name: a hostile file may have names without an end, for which
    // the search would take very long.
    let is_it = |section: &&SectionHeader64<LittleEndian>| {
        let name = usize::try_from(section.sh_name(endian)).ok();
        let name = name.and_then(|at| names.get(at..));
        name.and_then(|name| name.strip_prefix(wanted)?.first()) == Some(&0)
    };
    sections.iter().find(is_it)?.data(endian, bytes).ok()
}

/// The path of each module.
fn index(directory: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![directory.join("kernel")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Some(name) = name_of(&path.to_string_lossy()) {
                found.insert(name, path);
            }
        }
    }
    found
}

/// Whether a list of paths, one per line, has a module.
fn lists(text: &str, wanted: &str) -> bool {
    let mut names = text.lines().filter_map(name_of);
    names.any(|name| name == wanted)
}

/// The module's name from its file's name, packed or not.
fn name_of(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let (name, end) = file.split_once(".ko")?;
    ["", ".xz", ".zst", ".gz"]
        .contains(&end)
        .then(|| canonical(name))
}

fn canonical(name: &str) -> String {
    name.trim().replace('-', "_")
}

fn load(path: &Path) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut packed)?;
    let packing = Packing::detect(&packed)
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "is not a module"))?;
    if packing == Packing::Plain {
        return Ok(packed);
    }
    let mut bytes = Vec::new();
    let mut stream = packing.unpack(packed.as_slice())?.take(LONGEST + 1);
    stream.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}
