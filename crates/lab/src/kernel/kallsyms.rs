//! The symbol table in a kernel's image, for `/proc/kallsyms`.
//!
//! Its parts are in the read-only data, one after the other, each aligned to 8 bytes, and no header
//! says where: `scripts/kallsyms.c` of the kernel's source writes them. Frequent parts of names are
//! replaced by tokens of one byte. The tables are found by the relations between them, and every entry
//! is checked:
//!
//! | Linux 4.20 to 6.3 | since |
//! |---|---|
//! | offsets, relative base | |
//! | number, names, markers | number, names, markers |
//! | order of names, in some | |
//! | tokens, index of tokens | tokens, index of tokens |
//! | | offsets, relative base |

use super::image::{u16_at, u32_at, u64_at};
use super::symbols::{MOST, Symbols};

/// There is one marker with the position of each name of this many.
const STRIDE: usize = 256;
const TOKENS: usize = 256;
/// The longest name, in bytes.
const LONGEST_NAME: usize = 1024;
/// The largest size of the tables, in bytes; Debian's have 4 million.
const FARTHEST: usize = 64 << 20;
/// Candidates that are checked in an image that seems to have tables everywhere.
const MOST_STEPS: usize = 50_000_000;
/// The lowest address of a kernel: that of an arm64 kernel with addresses of 48 bits. Others are in the
/// topmost 2 GiB.
const LOWEST: u64 = 0xffff_8000_0000_0000;
/// An arm64 kernel is linked to a multiple of this.
const IMAGE_ALIGNMENT: u64 = 2 << 20;
/// `R_AARCH64_RELATIVE`.
const RELATIVE: u64 = 0x403;

/// The symbols in an ELF image; `None` if they are not found.
#[must_use]
pub fn symbols(image: &[u8]) -> Option<Symbols> {
    // In every kernel, the digits are tokens for themselves.
    const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\0";
    let mut from = 0;
    while let Some(at) = find(image.get(from..)?, DIGITS) {
        let digit = from + at;
        if let Some(symbols) = Tokens::around(image, digit).and_then(|tokens| read(image, &tokens))
        {
            return Some(symbols);
        }
        from = digit + 1;
    }
    None
}

/// The token of each byte of a name.
struct Tokens {
    /// Where the table begins.
    begin: usize,
    /// Where the index ends, which follows it.
    end: usize,
    /// Each token's place in the image.
    places: Vec<(usize, usize)>,
}

impl Tokens {
    /// From the place of the token `0`.
    fn around(image: &[u8], digit: usize) -> Option<Self> {
        let ended = |begin: usize| {
            let token = image.get(begin..)?.iter().take(LONGEST_NAME);
            let length = token.clone().position(|&byte| byte == 0)?;
            Some(begin + length)
        };
        let mut at = digit;
        for _ in usize::from(b'0')..TOKENS {
            at = ended(at)? + 1;
        }
        let index = at.checked_next_multiple_of(8)?;
        let place = |token: usize| u16_at(image, index.checked_add(token * 2)?).map(usize::from);
        let begin = digit.checked_sub(place(usize::from(b'0'))?)?;
        let mut places = Vec::with_capacity(TOKENS);
        let mut at = begin;
        for token in 0..TOKENS {
            if place(token)? != at - begin {
                return None;
            }
            let end = ended(at)?;
            places.push((at, end));
            at = end + 1;
        }
        let end = index + TOKENS * 2;
        Some(Self { begin, end, places })
    }
}

fn read(image: &[u8], tokens: &Tokens) -> Option<Symbols> {
    let mut steps = MOST_STEPS;
    let mut names = tokens.begin & !7;
    let earliest = names.saturating_sub(FARTHEST).max(16);
    while names > earliest && steps > 0 {
        names -= 8;
        let number = u64_at(image, names - 8)?;
        if number == 0 || number > MOST as u64 {
            continue;
        }
        let number = usize::try_from(number).ok()?;
        if let Some(found) = places_of_names(image, names, number, tokens.begin, &mut steps)
            && let Some(addresses) = Addresses::find(image, names - 8, tokens.end, number)
        {
            return spell(image, tokens, found, &addresses);
        }
    }
    None
}

fn spell(
    image: &[u8],
    tokens: &Tokens,
    places: Vec<(usize, usize)>,
    addresses: &Addresses,
) -> Option<Symbols> {
    let mut symbols = Symbols::default();
    let mut name = Vec::new();
    for (number, (begin, end)) in places.into_iter().enumerate() {
        name.clear();
        for &token in image.get(begin..end)? {
            let (begin, end) = *tokens.places.get(usize::from(token))?;
            name.extend_from_slice(image.get(begin..end)?);
            if name.len() > LONGEST_NAME {
                return None;
            }
        }
        let (kind, name) = name.split_first()?;
        symbols.add(addresses.of(image, number)?, *kind, name);
    }
    Some(symbols.sorted())
}

/// The position of each of `number` names, if they are names: they end before `limit`, and the
/// following markers agree.
fn places_of_names(
    image: &[u8],
    names: usize,
    number: usize,
    limit: usize,
    steps: &mut usize,
) -> Option<Vec<(usize, usize)>> {
    let mut found = Vec::new();
    let mut marks = Vec::new();
    let mut at = names;
    for name in 0..number {
        *steps = steps.checked_sub(1)?;
        if name % STRIDE == 0 {
            marks.push(at - names);
        }
        // Long names have their length in two bytes.
        let mut length = usize::from(*image.get(at)?);
        at += 1;
        if length & 0x80 != 0 {
            length = length & 0x7f | usize::from(*image.get(at)?) << 7;
            at += 1;
        }
        if length == 0 || at + length > limit {
            return None;
        }
        found.push((at, at + length));
        at += length;
    }
    let markers = at.checked_next_multiple_of(8)?;
    let agrees = |(number, mark): (usize, &usize)| {
        u32_at(image, markers + number * 4).is_some_and(|stated| stated as usize == *mark)
    };
    marks.iter().enumerate().all(agrees).then_some(found)
}

/// Addresses are kept as offsets.
struct Addresses {
    offsets: usize,
    base: u64,
    /// Negative offsets count from the base, others are addresses in per-CPU data.
    has_per_cpu: bool,
}

impl Addresses {
    /// `before` ends what may lie before the names, `behind` begins what may lie behind the
    /// tokens.
    fn find(image: &[u8], before: usize, behind: usize, number: usize) -> Option<Self> {
        let length = (number * 4).checked_next_multiple_of(8)?;
        let older = || {
            let base = before.checked_sub(8)?;
            Some((base.checked_sub(length)?, base_at(image, base)?))
        };
        let newer = || Some((behind, base_at(image, behind.checked_add(length)?)?));
        let is_address = |found: &(usize, u64)| found.1 >= LOWEST;
        let (offsets, base) = older()
            .filter(is_address)
            .or_else(|| newer().filter(is_address))?;
        let table = image.get(offsets..offsets.checked_add(number * 4)?)?;
        let has_per_cpu = table
            .chunks_exact(4)
            .any(|offset| offset.last().is_some_and(|byte| byte & 0x80 != 0));
        Some(Self {
            offsets,
            base,
            has_per_cpu,
        })
    }

    fn of(&self, image: &[u8], number: usize) -> Option<u64> {
        let offset = u32_at(image, self.offsets + number * 4)?;
        Some(match offset.cast_signed() {
            _ if !self.has_per_cpu => self.base.wrapping_add(u64::from(offset)),
            negative @ ..0 => self
                .base
                .wrapping_add((-1 - i64::from(negative)).unsigned_abs()),
            absolute => u64::from(absolute.unsigned_abs()),
        })
    }
}

/// The base at a place of an image. A kernel that relocates itself may have 0 there, and the address in
/// its table of relocations: arm64 is linked with `--no-apply-dynamic-relocs`.
fn base_at(image: &[u8], place: usize) -> Option<u64> {
    match u64_at(image, place)? {
        0 => relocated(image, place as u64),
        stated => Some(stated),
    }
}

/// The address that a flat image has at a place once it has relocated itself.
fn relocated(image: &[u8], place: u64) -> Option<u64> {
    let length = image.len() as u64;
    let relocations = || {
        let entries = image.as_chunks::<8>().0.windows(3);
        entries.filter_map(|entry| {
            let [at, kind, address] = entry else {
                return None;
            };
            let [at, kind, address] = [at, kind, address].map(|it| u64::from_le_bytes(*it));
            (kind == RELATIVE && at >= LOWEST && address >= LOWEST).then_some((at, address))
        })
    };
    // Data at the image's end is relocated, too: where the image begins follows from the last of them.
    let last = relocations().map(|(at, _)| at).max()?;
    let first = last
        .checked_sub(length)?
        .checked_next_multiple_of(IMAGE_ALIGNMENT)?;
    let wanted = first.checked_add(place)?;
    let (_, address) = relocations().find(|(at, _)| *at == wanted)?;
    (first..first.checked_add(length)?)
        .contains(&address)
        .then_some(address)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}
