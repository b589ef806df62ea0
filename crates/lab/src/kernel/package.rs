//! Reads a Debian package, an `ar` of two packed `tar`s, as a stream.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};

use tar::{Archive, EntryType};

use super::unpack::Packing;

/// The most files and bytes in a kernel's package.
const MOST_FILES: usize = 100_000;
const MOST_BYTES: u64 = 8 << 30;
/// The longest path, in bytes.
const LONGEST_PATH: u64 = 4096;
/// The longest control file, in bytes.
const LONGEST_CONTROL: u64 = 1 << 20;

/// A member of the `ar`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// `data.tar.xz`.
    pub name: String,
    /// Where its bytes begin.
    pub offset: u64,
    /// Its length.
    pub size: u64,
}

/// What a package's control file states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Control {
    /// `linux-image-6.1.0-49-rt-amd64`.
    pub package: String,
    /// `6.1.172-1`.
    pub version: String,
    /// `amd64`.
    pub architecture: String,
    /// The packages that it depends on, the first of each alternative.
    pub depends: Vec<String>,
}

/// The members of a package that is `length` bytes long.
///
/// # Errors
/// `InvalidData` if it is not a package; `UnexpectedEof` if it is truncated.
pub fn members(file: &mut (impl Read + Seek), length: u64) -> io::Result<Vec<Member>> {
    const HEADER: u64 = 60;
    let mut found: Vec<Member> = Vec::new();
    let mut at = 8;
    while at < length {
        let mut header = [0; HEADER as usize];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut header)?;
        let text = |range: std::ops::Range<usize>| {
            let text = header
                .get(range)
                .and_then(|bytes| std::str::from_utf8(bytes).ok());
            text.map(str::trim_end)
        };
        let size = text(48..58).and_then(|digits| digits.parse::<u64>().ok());
        let (Some(name), Some(size), Some("`")) = (text(0..16), size, text(58..60)) else {
            return Err(invalid("its members have no proper headers"));
        };
        let offset = at + HEADER;
        let end = offset.saturating_add(size);
        if end > length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        found.push(Member {
            name: name.trim_end_matches('/').to_owned(),
            offset,
            size,
        });
        // dpkg refuses more than a few.
        if found.len() > 16 {
            return Err(invalid("it has too many members"));
        }
        at = end.saturating_add(end % 2);
    }
    Ok(found)
}

/// The member of this name, packed or not: `data.tar` for `data.tar.xz`.
///
/// # Errors
/// `UnexpectedEof` if there is none, as in a truncated package; `InvalidData`; errors of reading.
pub fn tar<'a>(
    file: &'a mut (impl Read + Seek),
    members: &[Member],
    name: &str,
) -> io::Result<Box<dyn Read + 'a>> {
    let is_it = |member: &&Member| {
        let end = member.name.strip_prefix(name);
        end.is_some_and(|end| end.is_empty() || end.starts_with('.'))
    };
    let Some(member) = members.iter().find(is_it) else {
        return Err(ErrorKind::UnexpectedEof.into());
    };
    file.seek(SeekFrom::Start(member.offset))?;
    let mut packed = BufReader::with_capacity(1 << 16, file.take(member.size));
    let packing = match Packing::detect(packed.fill_buf()?) {
        Some(packing) => packing,
        None if member.name == name => Packing::Plain,
        None => {
            return Err(invalid(format!(
                "{} is not packed with gzip, xz or zstd",
                member.name
            )));
        }
    };
    Ok(Box::new(Limited {
        stream: packing.unpack(packed)?,
        left: MOST_BYTES,
    }))
}

/// A stream with a limited length.
struct Limited<R> {
    stream: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(into)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => return Err(invalid("it holds more than 8 GiB: too large for a kernel")),
        }
        Ok(read)
    }
}

/// Calls `each` for the regular files of a `tar`, with their installed paths, `usr/lib/modules/...`,
/// and their contents.
///
/// # Errors
/// Those of `each`; `failed` converts an error of the archive.
pub fn files<E>(
    tar: impl Read,
    failed: impl Fn(io::Error) -> E,
    mut each: impl FnMut(&str, &mut dyn Read) -> Result<(), E>,
) -> Result<(), E> {
    let mut archive = Archive::new(tar);
    // Raw, since the crate would read a long name of any length into memory.
    let entries = archive.entries().map_err(&failed)?.raw(true);
    let mut long = None;
    for (number, entry) in entries.enumerate() {
        if number > MOST_FILES {
            return Err(failed(invalid("it has too many files")));
        }
        let mut entry = entry.map_err(&failed)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => {
                let mut name = Vec::new();
                let mut start = (&mut entry).take(LONGEST_PATH);
                start.read_to_end(&mut name).map_err(&failed)?;
                name.truncate(
                    name.iter()
                        .position(|&byte| byte == 0)
                        .unwrap_or(name.len()),
                );
                long = Some(name);
            }
            EntryType::GNULongLink => {}
            EntryType::Regular | EntryType::Continuous => {
                let name = match long.take() {
                    Some(name) => name,
                    None => entry.header().path_bytes().into_owned(),
                };
                if let Some(path) = plain_path(&name) {
                    each(&path, &mut entry)?;
                }
            }
            _ => long = None,
        }
    }
    // The checksum follows the end of the archive.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(&failed)?;
    Ok(())
}

/// Reads a package's `control.tar`.
///
/// # Errors
/// Errors of the archive; `InvalidData` if the control file is missing or not valid.
pub fn control(tar: impl Read) -> io::Result<Control> {
    let mut text = None;
    files(
        tar,
        |error| error,
        |path, from| {
            if path == "control" {
                let mut bytes = Vec::new();
                from.take(LONGEST_CONTROL).read_to_end(&mut bytes)?;
                text = Some(String::from_utf8_lossy(&bytes).into_owned());
            }
            Ok(())
        },
    )?;
    let text = text.ok_or_else(|| invalid("it has no control file"))?;
    let stated = paragraph(&text);
    if stated.package.is_empty() || stated.version.is_empty() {
        return Err(invalid("its control file states no name or no version"));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".+~-:".contains(&byte);
    if !(stated.package.bytes().all(plain) && stated.version.bytes().all(plain)) {
        return Err(invalid("its name or version is not valid for Debian"));
    }
    Ok(stated)
}

/// A paragraph as in `control` and in apt's lists, to the first empty line.
#[must_use]
pub fn paragraph(text: &str) -> Control {
    let mut control = Control::default();
    for line in text.lines().take_while(|line| !line.trim().is_empty()) {
        let Some((field, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        match field {
            "Package" => value.clone_into(&mut control.package),
            "Version" => value.clone_into(&mut control.version),
            "Architecture" => value.clone_into(&mut control.architecture),
            "Depends" => {
                let first = |choice: &str| choice.split_whitespace().next().map(str::to_owned);
                control.depends = value.split(',').filter_map(first).collect();
            }
            _ => {}
        }
    }
    control
}

/// A path below the root, without `./`; `None` if it would lead elsewhere.
fn plain_path(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    let parts: Vec<&str> = name
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    let leads_elsewhere = parts.contains(&"..") || name.contains('\0');
    (!parts.is_empty() && !leads_elsewhere).then(|| parts.join("/"))
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.into())
}
