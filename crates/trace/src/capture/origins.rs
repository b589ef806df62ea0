//! Where threads come from, for those that began during the recording: decodes `bpf/origins.h`. A
//! short-lived thread has ended before `/proc` is read.

use std::collections::BTreeMap;

use super::Capture;
use super::slot::text;
use crate::attribute::event::{Origin, Window};
use punctual_record::explanation::{Ancestor, Culprit};

/// Threads that are kept; a later one with the same remainder replaces an earlier one.
#[cfg(feature = "kernel")]
pub(super) const THREADS: usize = 4096;
/// Words of each.
pub(super) const WORDS: usize = COMMAND + COMMAND_WORDS + GROUPS * GROUP_WORDS;
/// Where its parts begin, and their lengths, in words.
pub(super) const SINCE: usize = 3;
const ANCESTORS: usize = 4;
const ANCESTOR_WORDS: usize = 3;
const COMMAND: usize = ANCESTORS + Culprit::PARENTS * ANCESTOR_WORDS;
const COMMAND_WORDS: usize = 16;
const GROUPS: usize = 8;
const GROUP_WORDS: usize = 12;
/// In the flags of a thread: it is the kernel's.
const OF_KERNEL: u32 = 0x20_0000;

/// The origin of a thread, if these are its words, and not those of a later thread with its number.
fn decode(words: &[u64], tid: u32, until_ns: u64) -> Option<Origin> {
    let words = words.get(..WORDS)?;
    let (start_ns, numbers) = (words[1], words[2]);
    if tid == 0 || words[0] != u64::from(tid) || start_ns > until_ns {
        return None;
    }
    let (ancestors, rest) = words[ANCESTORS..].split_at(COMMAND - ANCESTORS);
    let (command, groups) = rest.split_at(COMMAND_WORDS);
    let parents = ancestors.chunks(ANCESTOR_WORDS).map(|words| Ancestor {
        tid: Some(words[0] as u32).filter(|tid| *tid != 0),
        name: text(&words[1..]),
        start: None,
    });
    // What it executed later is another program, which can have moved it first.
    let is_later = words[SINCE] > until_ns;
    let command = match (numbers >> 32) as u32 & OF_KERNEL {
        0 => Some(arguments(command)).filter(|command| !command.is_empty()),
        _ => Some(String::new()),
    };
    Some(Origin {
        pid: numbers as u32,
        parents: parents.take_while(|it| it.tid.is_some()).collect(),
        command: command.filter(|_| !is_later),
        group: path(groups).filter(|_| !is_later),
    })
}

/// A command line, whose arguments end with zeros.
fn arguments(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
    line.trim_end().to_owned()
}

/// The path of a group, from the names of it and those above; `None` for the root.
fn path(words: &[u64]) -> Option<String> {
    let names = words.chunks(GROUP_WORDS).map(text);
    let mut names: Vec<String> = names.take_while(|name| !name.is_empty()).collect();
    if names.len() == GROUPS {
        // There may be more above.
        names.push("…".to_owned());
    }
    names.reverse();
    (!names.is_empty()).then(|| format!("/{}", names.join("/")))
}

impl Capture {
    /// Where a thread comes from that ran until an instant, if it began during the recording.
    #[must_use]
    pub fn origin(&self, tid: u32, until_ns: u64) -> Option<Origin> {
        decode(&self.recorder.origin(tid), tid, until_ns)
    }

    /// Adds the origins of the threads in a window.
    pub(super) fn add_origins(&self, window: &mut Window) {
        let until_ns = window.woken_ns;
        let tasks = window.events.iter().flat_map(|event| event.kind.tasks());
        let mut origins = BTreeMap::new();
        for task in tasks {
            let origin = || self.origin(task.tid, until_ns);
            origins.entry(task.tid).or_insert_with(origin);
        }
        let known = origins.into_iter();
        window.origins = known.filter_map(|(tid, it)| Some((tid, it?))).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel writes, by the offsets in `bpf/origins.h`.
    struct Memory(Vec<u8>);

    impl Memory {
        fn new(tid: u64, start_ns: u64, pid: u32, flags: u32) -> Self {
            let mut memory = Self(vec![0; 1024]);
            memory.put(0, &tid.to_ne_bytes());
            memory.put(8, &start_ns.to_ne_bytes());
            memory.put(16, &pid.to_ne_bytes());
            memory.put(20, &flags.to_ne_bytes());
            memory.put(24, &start_ns.to_ne_bytes());
            memory
        }

        fn put(&mut self, at: usize, bytes: &[u8]) {
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
        }

        fn words(&self) -> Vec<u64> {
            let words = self.0.chunks(8);
            words
                .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
                .collect()
        }
    }

    fn gzip() -> Memory {
        let mut memory = Memory::new(4713, 1_000, 4713, 0);
        memory.put(32, &4711_u64.to_ne_bytes());
        memory.put(40, b"backup.sh\0");
        memory.put(56, &812_u64.to_ne_bytes());
        memory.put(64, b"cron\0");
        memory.put(128, b"gzip\0-9\0a file\0");
        memory.put(256, b"backup.service\0");
        memory.put(256 + 96, b"system.slice\0");
        memory
    }

    fn ancestor(tid: u32, name: &str) -> Ancestor {
        Ancestor {
            tid: Some(tid),
            name: name.to_owned(),
            start: None,
        }
    }

    #[test]
    fn an_origin_has_ancestors_a_command_line_and_a_group() {
        let words = gzip().words();
        assert_eq!(words.len(), WORDS);
        let expected = Origin {
            pid: 4713,
            parents: vec![ancestor(4711, "backup.sh"), ancestor(812, "cron")],
            command: Some("gzip -9 a file".to_owned()),
            group: Some("/system.slice/backup.service".to_owned()),
        };
        assert_eq!(decode(&words, 4713, 1_000), Some(expected));
        // Another thread has its place; it began later; it is being written.
        assert_eq!(decode(&words, 4713 + 4096, 1_000), None);
        assert_eq!(decode(&words, 4713, 999), None);
        assert_eq!(decode(&Memory::new(0, 1, 1, 0).words(), 0, 1_000), None);
        assert_eq!(decode(&words[..WORDS - 1], 4713, 1_000), None);
    }

    #[test]
    fn a_kernel_thread_has_an_empty_command_line_and_a_root_group_no_path() {
        let mut memory = Memory::new(90, 5, 90, 0x20_8040);
        memory.put(32, &2_u64.to_ne_bytes());
        memory.put(40, b"kthreadd\0");
        let expected = Origin {
            pid: 90,
            parents: vec![ancestor(2, "kthreadd")],
            command: Some(String::new()),
            group: None,
        };
        assert_eq!(decode(&memory.words(), 90, 5), Some(expected.clone()));
        // Its command line could not be read.
        let program = Memory::new(90, 5, 90, 0).words();
        assert_eq!(decode(&program, 90, 5).unwrap().command, None);
    }

    #[test]
    fn texts_that_fill_their_place_end_there() {
        let mut memory = gzip();
        memory.put(128, &[b'x'; 128]);
        (0..8).for_each(|level| memory.put(256 + 96 * level, b"g\0"));
        let origin = decode(&memory.words(), 4713, 1_000).unwrap();
        assert_eq!(origin.command.as_deref(), Some(&*"x".repeat(128)));
        assert_eq!(origin.group.as_deref(), Some("/…/g/g/g/g/g/g/g/g"));
    }

    /// A shell's child that was in the way before it executed the program.
    #[test]
    fn a_program_that_was_executed_later_is_left_out() {
        let mut memory = gzip();
        memory.put(24, &2_000_u64.to_ne_bytes());
        let of = |until_ns| decode(&memory.words(), 4713, until_ns).unwrap();
        let (before, then) = (of(1_999), of(2_000));
        assert_eq!((before.command, before.group), (None, None));
        assert_eq!((before.pid, &before.parents), (4713, &then.parents));
        assert_eq!(then.command.as_deref(), Some("gzip -9 a file"));
        assert!(then.group.is_some());
    }
}
