//! The plugin's file: blocks of code, marks, and the blocks that ran before the latest marks.
//! Little-endian; written by `plugin/observer.c`.

use punctual_record::lab::NoBill;

const BEGIN: &[u8] = b"punctOB1";
const END: &[u8] = b"punctEND";
/// The most stretches that the plugin keeps.
const MOST_STRETCHES: u64 = 16;

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trail {
    blocks: Vec<Block>,
    /// At each mark, how many instructions had been executed since the first.
    pub marks: Vec<u64>,
    stretches: Vec<Stretch>,
}

/// A block of code as it was translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Where it begins in the guest's memory.
    pub address: u64,
    /// Its instructions.
    pub instructions: u32,
    /// Whether its last instruction reads the clock.
    pub reads_clock: bool,
}

/// What ran between two marks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    /// The mark at its end.
    mark: u64,
    /// Blocks in order, and the lower half of the count of instructions before each.
    steps: Vec<(u32, u32)>,
}

/// One executed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The block.
    pub block: Block,
    /// Its executed instructions: fewer than all if it was left early.
    pub executed: u32,
}

/// Reads from the front of the remaining bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let count = usize::try_from(count).ok()?;
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    /// Reads this many entries of `N` bytes: allocates no memory before it knows that they exist.
    fn entries<const N: usize>(&mut self, count: u64) -> Option<impl Iterator<Item = [u8; N]>> {
        let bytes = self.bytes(count.checked_mul(N as u64)?)?;
        Some(bytes.chunks_exact(N).map(|chunk| {
            let mut entry = [0; N];
            entry.copy_from_slice(chunk);
            entry
        }))
    }

    fn number(&mut self) -> Option<u64> {
        self.entries(1)?.next().map(u64::from_le_bytes)
    }
}

fn word(entry: &[u8], at: usize) -> u32 {
    entry[at..at + 4]
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u32::from(*byte))
}

impl Trail {
    /// Parses a file. Never panics, and uses at most a few times the file's size of memory.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoBill> {
        let mut from = Reader(bytes);
        let short = || NoBill::TrailCut;
        if from.bytes(BEGIN.len() as u64) != Some(BEGIN) {
            return Err(NoBill::NoTrail);
        }
        let mut number = || from.number().ok_or_else(short);
        let (blocks, marks, stretches) = (number()?, number()?, number()?);
        if stretches > MOST_STRETCHES {
            return Err(NoBill::Stretches { stretches });
        }
        let block = |entry: [u8; 16]| Block {
            address: u64::from(word(&entry, 4)) << 32 | u64::from(word(&entry, 0)),
            instructions: word(&entry, 8),
            reads_clock: word(&entry, 12) & 1 == 1,
        };
        let blocks: Vec<Block> = from.entries(blocks).ok_or_else(short)?.map(block).collect();
        let marks: Vec<u64> = from
            .entries(marks)
            .ok_or_else(short)?
            .map(u64::from_le_bytes)
            .collect();
        let mut read = Vec::new();
        for _ in 0..stretches {
            let mut number = || from.number().ok_or_else(short);
            let (mark, _whole, length) = (number()?, number()?, number()?);
            let step = |entry: [u8; 8]| (word(&entry, 0), word(&entry, 4));
            let steps: Vec<(u32, u32)> =
                from.entries(length).ok_or_else(short)?.map(step).collect();
            if usize::try_from(mark).map_or(true, |mark| mark >= marks.len()) {
                return Err(NoBill::NoMark { mark });
            }
            if steps
                .iter()
                .any(|(block, _)| *block as usize >= blocks.len())
            {
                return Err(NoBill::NoBlock);
            }
            read.push(Stretch { mark, steps });
        }
        if from.0 != END {
            return Err(short());
        }
        Ok(Self {
            blocks,
            marks,
            stretches: read,
        })
    }

    /// The blocks that ran before a mark, the last first; `None` if they were not kept.
    #[must_use]
    pub fn before(&self, mark: u64) -> Option<impl Iterator<Item = Step> + use<'_>> {
        let stretch = self.stretches.iter().find(|stretch| stretch.mark == mark)?;
        let end = *self.marks.get(usize::try_from(mark).ok()?)?;
        // The lower half is enough: no block has that many instructions.
        let mut after = end as u32;
        Some(stretch.steps.iter().rev().map(move |(block, before)| {
            let executed = after.wrapping_sub(*before);
            after = *before;
            Step {
                block: self.blocks[*block as usize],
                executed,
            }
        }))
    }

    /// The marks whose preceding blocks were kept.
    pub fn kept(&self) -> impl Iterator<Item = u64> + use<'_> {
        self.stretches.iter().map(|stretch| stretch.mark)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A file of these blocks (address, instructions, flags), marks and stretches.
    pub fn file(
        blocks: &[(u64, u32, u32)],
        marks: &[u64],
        stretches: &[(u64, &[(u32, u32)])],
    ) -> Vec<u8> {
        let mut bytes = BEGIN.to_vec();
        for count in [blocks.len(), marks.len(), stretches.len()] {
            bytes.extend((count as u64).to_le_bytes());
        }
        for (address, instructions, flags) in blocks {
            bytes.extend(address.to_le_bytes());
            bytes.extend(instructions.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
        }
        marks
            .iter()
            .for_each(|mark| bytes.extend(mark.to_le_bytes()));
        for (mark, steps) in stretches {
            for number in [*mark, 1, steps.len() as u64] {
                bytes.extend(number.to_le_bytes());
            }
            for (block, before) in *steps {
                bytes.extend(block.to_le_bytes());
                bytes.extend(before.to_le_bytes());
            }
        }
        bytes.extend(END);
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        let near_wrap = u64::from(u32::MAX) - 1;
        let bytes = file(
            &[(0xffff_ffff_8100_0000, 5, 0), (0x7000, 3, 1)],
            &[0, near_wrap + 9],
            &[(1, &[(0, near_wrap as u32), (1, 3), (0, 6)])],
        );
        let trail = Trail::parse(&bytes).expect("a whole file");
        assert_eq!(trail.kept().collect::<Vec<_>>(), [1]);
        let steps: Vec<_> = trail.before(1).expect("kept").collect();
        let executed: Vec<_> = steps.iter().map(|step| step.executed).collect();
        assert_eq!(executed, [1, 3, 5], "over the end of 32 bits");
        assert!(steps[1].block.reads_clock && !steps[0].block.reads_clock);
        assert_eq!(steps[0].block.address, 0xffff_ffff_8100_0000);
        assert!(trail.before(0).is_none());
    }

    #[test]
    fn hostile_files_are_refused() {
        let good = file(&[(1, 1, 0)], &[0, 1], &[(1, &[(0, 0)])]);
        assert!(Trail::parse(&good).is_ok());
        for cut in 0..good.len() {
            assert!(Trail::parse(&good[..cut]).is_err(), "cut at {cut}");
        }
        for (at, value) in [(8, u64::MAX), (16, u64::MAX / 8), (24, 17), (24, u64::MAX)] {
            let mut bad = good.clone();
            bad[at..at + 8].copy_from_slice(&value.to_le_bytes());
            assert!(Trail::parse(&bad).is_err(), "{value} at {at}");
        }
        for bad in [
            file(&[(1, 1, 0)], &[0, 1], &[(2, &[(0, 0)])]),
            file(&[(1, 1, 0)], &[0, 1], &[(1, &[(1, 0)])]),
            [good.clone(), vec![0]].concat(),
        ] {
            assert!(Trail::parse(&bad).is_err());
        }
    }
}
