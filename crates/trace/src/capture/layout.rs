//! Offsets of per-CPU variables, read from the kernel's description of its types.
//!
//! The format is BTF: Documentation/bpf/btf.rst of the kernel.

/// Offsets in a CPU's per-CPU area; 0 if the kernel has no such variable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layout {
    /// The run queue: the address of a thread's run queue gives the area's address.
    pub runqueues: u64,
    /// The registers that the current interrupt saved.
    pub irq_regs: u64,
    /// The preemption count.
    pub preempt_count: u64,
    /// The hypervisor's account of stolen time.
    pub steal_time: u64,
}

const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;

/// Reads the layout; what can't be found is 0.
#[must_use]
pub fn parse(btf: &[u8]) -> Layout {
    read(btf).unwrap_or_default()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn read(btf: &[u8]) -> Option<Layout> {
    let header = btf.get(..24)?;
    if u16::from_le_bytes([header[0], header[1]]) != MAGIC {
        return None;
    }
    let body = btf.get(usize::try_from(u32_at(btf, 4)?).ok()?..)?;
    let part = |from: usize, length: usize| {
        let from = u32_at(btf, from)? as usize;
        let length = u32_at(btf, length)? as usize;
        body.get(from..from.checked_add(length)?)
    };
    let types = part(8, 12)?;
    let strings = part(16, 20)?;
    let is = |offset: u32, name: &str| {
        strings
            .get(offset as usize..)
            .and_then(|rest| rest.get(..=name.len()))
            .is_some_and(|rest| rest[..name.len()] == *name.as_bytes() && rest[name.len()] == 0)
    };
    // The variables by their type numbers, and for a member of a structure its offset within that.
    let mut variables: [(&str, Option<u32>); 5] = [
        ("runqueues", None),
        ("__irq_regs", None),
        ("__preempt_count", None),
        ("steal_time", None),
        ("pcpu_hot", None),
    ];
    let mut within_hot = None;
    let mut layout = Layout::default();
    let (mut at, mut id) = (0, 0_u32);
    while at < types.len() {
        id = id.checked_add(1)?;
        let name = u32_at(types, at)?;
        let info = u32_at(types, at + 4)?;
        let (kind, entries) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let more = at + 12;
        let size = match kind {
            // For pointers, forward declarations, typedefs and qualifiers the header is everything.
            2 | 7 | 8 | 9 | 10 | 11 | 12 | 16 | 18 => 0,
            1 | KIND_VAR | 17 => 4,
            3 => 12,
            KIND_STRUCT | KIND_UNION | KIND_DATASEC | 19 => entries * 12,
            6 | 13 => entries * 8,
            _ => return None,
        };
        if kind == KIND_VAR {
            for (known, number) in &mut variables {
                if is(name, known) {
                    *number = Some(id);
                }
            }
        } else if kind == KIND_STRUCT && is(name, "pcpu_hot") {
            within_hot = member(types, more, entries, |name| is(name, "preempt_count"));
        } else if kind == KIND_DATASEC && is(name, ".data..percpu") {
            for entry in 0..entries {
                let variable = u32_at(types, more + entry * 12)?;
                let offset = u64::from(u32_at(types, more + entry * 12 + 4)?);
                let known = |index: usize| variables[index].1 == Some(variable);
                if known(0) {
                    layout.runqueues = offset;
                } else if known(1) {
                    layout.irq_regs = offset;
                } else if known(2) {
                    layout.preempt_count = offset;
                } else if known(3) {
                    layout.steal_time = offset;
                } else if known(4) && layout.preempt_count == 0 {
                    layout.preempt_count = within_hot.map_or(0, |within| offset + within);
                }
            }
        }
        at = more.checked_add(size)?;
    }
    Some(layout)
}

/// The offset of a structure's member, in bytes.
fn member(types: &[u8], at: usize, entries: usize, is: impl Fn(u32) -> bool) -> Option<u64> {
    (0..entries).find_map(|entry| {
        let place = at + entry * 12;
        is(u32_at(types, place)?).then_some(())?;
        Some(u64::from(u32_at(types, place + 8)? & 0x00ff_ffff) / 8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description of types, made by hand: the format's header, then its sections.
    struct Btf {
        types: Vec<u8>,
        strings: Vec<u8>,
    }

    impl Btf {
        fn new() -> Self {
            Self {
                types: Vec::new(),
                strings: vec![0],
            }
        }

        fn string(&mut self, text: &str) -> u32 {
            let at = self.strings.len() as u32;
            self.strings.extend(text.bytes().chain([0]));
            at
        }

        fn entry(&mut self, name: &str, kind: u32, entries: u32, words: &[u32]) {
            let name = self.string(name);
            for word in [name, kind << 24 | entries, 0].iter().chain(words) {
                self.types.extend(word.to_le_bytes());
            }
        }

        fn bytes(&self) -> Vec<u8> {
            let mut bytes = MAGIC.to_le_bytes().to_vec();
            bytes.extend([1, 0]);
            let types = self.types.len() as u32;
            let strings = self.strings.len() as u32;
            for word in [24, 0, types, types, strings] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend(&self.types);
            bytes.extend(&self.strings);
            bytes
        }
    }

    fn percpu() -> Btf {
        let mut btf = Btf::new();
        // 1: an int, 2: an array, 3: an enum of two, 4: the structure, 5 and 6: variables.
        btf.entry("int", 1, 0, &[0]);
        btf.entry("", 3, 0, &[1, 1, 8]);
        btf.entry("e", 6, 2, &[0; 4]);
        let member = btf.string("preempt_count");
        btf.entry("pcpu_hot", KIND_STRUCT, 2, &[0, 1, 0, member, 1, 64]);
        btf.entry("runqueues", KIND_VAR, 0, &[1]);
        btf.entry("pcpu_hot", KIND_VAR, 0, &[1]);
        btf.entry(
            ".data..percpu",
            KIND_DATASEC,
            2,
            &[5, 0x1000, 8, 6, 0x2000, 8],
        );
        btf
    }

    #[test]
    fn a_variable_and_a_member_of_a_variable_are_found() {
        assert_eq!(
            parse(&percpu().bytes()),
            Layout {
                runqueues: 0x1000,
                irq_regs: 0,
                preempt_count: 0x2008,
                steal_time: 0,
            }
        );
    }

    #[test]
    fn truncated_and_damaged_descriptions_are_read_without_a_panic() {
        let whole = percpu().bytes();
        for length in 0..whole.len() {
            let _ = parse(&whole[..length]);
        }
        for at in 0..whole.len() {
            for bent in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = bent;
                let _ = parse(&bytes);
            }
        }
    }

    #[test]
    fn the_running_kernels_description_is_read() {
        let Ok(btf) = std::fs::read(super::super::unavailable::BTF) else {
            return;
        };
        let layout = parse(&btf);
        assert_ne!(layout.runqueues, 0, "{layout:?}");
    }
}
