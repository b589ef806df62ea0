//! Which runs a batch has: a file of their ids beside its tables.
//!
//! The tables have them, too. But to read a damaged Parquet file is to trust a large library with what
//! may be anything, for each run that is added; this file is read by a total function, and the batch's
//! name says whether it is whole.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use sha2::{Digest, Sha256};

/// The name of the file.
pub const FILE: &str = "ids";
/// A batch has thousands of runs, not more: 33 bytes each.
const MOST_BYTES: u64 = 64 << 20;

/// The id of a run. Its text is 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(u128);

impl Id {
    /// An id, from its digits.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    fn read(text: &str) -> Option<Self> {
        let is_plain = text.len() == 32 && text.bytes().all(is_digit);
        let number = u128::from_str_radix(text, 16).ok();
        number.filter(|_| is_plain).map(Self)
    }

    /// The number that joins the tables.
    #[must_use]
    pub fn key(self) -> i64 {
        let first = self.0 >> 64;
        i64::try_from(first & u128::from(i64::MAX.unsigned_abs())).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The name of a batch: it depends on its runs alone. The ids are sorted.
pub fn batch_name(ids: &[Id]) -> String {
    let mut digest = Sha256::new();
    ids.iter().for_each(|id| digest.update(id.to_string()));
    let digest = digest.finalize();
    digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Writes the ids to the disk.
pub fn write(folder: &Path, ids: &[Id]) -> io::Result<()> {
    let mut file = File::create_new(folder.join(FILE))?;
    let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The ids of the batch with this name; none if the file is not the one that was written with it.
pub fn read(folder: &Path, batch: &str) -> io::Result<Option<Vec<Id>>> {
    let mut text = Vec::new();
    let file = File::open(folder.join(FILE))?;
    file.take(MOST_BYTES).read_to_end(&mut text)?;
    Ok(parse(&text, batch))
}

fn parse(text: &[u8], batch: &str) -> Option<Vec<Id>> {
    let text = std::str::from_utf8(text).ok()?;
    let lines = text.strip_suffix('\n')?.split('\n');
    let ids: Option<Vec<Id>> = lines.map(Id::read).collect();
    ids.filter(|ids| batch_name(ids) == batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "8123456789abcdef0123456789abcdef";
    const TWO: &str = "ffffffffffffffffffffffffffffffff";

    #[test]
    fn an_id_is_32_digits_and_its_key_is_positive() {
        let one = Id::read(ONE).expect("one");
        assert_eq!(
            (one.key(), one.to_string().as_str()),
            (0x0123_4567_89ab_cdef, ONE)
        );
        assert_eq!(Id::read(TWO).expect("two").key(), i64::MAX);
        for text in [
            "",
            "+123456789abcdef0123456789abcdef0",
            &ONE[1..],
            &ONE.to_uppercase(),
            "8123456789abcdef0123456789abcdeé",
        ] {
            assert_eq!(Id::read(text), None, "{text}");
        }
    }

    #[test]
    fn only_the_whole_file_of_a_batch_is_read() {
        let name = batch_name(&[ONE, TWO].map(|text| Id::read(text).expect("an id")));
        let whole = format!("{ONE}\n{TWO}\n");
        assert_eq!(parse(whole.as_bytes(), &name).map(|all| all.len()), Some(2));
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole.as_bytes()[..cut], &name), None, "{cut}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone().into_bytes();
                flipped[at] ^= 1 << bit;
                assert_eq!(parse(&flipped, &name), None, "{at} {bit}");
            }
        }
    }
}
