//! The guest's files as a `newc` archive, which the kernel unpacks at boot. The same files give the
//! same bytes: no times, no users, inode numbers in order.

use std::collections::BTreeMap;

const FILE: u32 = 0o100_000;
const FOLDERS: u32 = 0o040_000;
const FOLDER: u32 = FOLDERS | 0o755;
const LINK: u32 = 0o120_777;
const DEVICE: u32 = 0o020_600;

/// The entry of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    mode: u32,
    device: (u32, u32),
    bytes: Vec<u8>,
}

/// An archive that is being built. Paths have no leading slash.
#[derive(Debug, Clone, Default)]
pub struct Initramfs {
    // Ordered by path, so that a folder comes before its content.
    entries: BTreeMap<String, Entry>,
}

impl Initramfs {
    /// An empty archive.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file; folders above it are added too.
    pub fn file(&mut self, path: &str, bytes: Vec<u8>, runs: bool) {
        self.file_with_mode(path, bytes, if runs { 0o755 } else { 0o644 });
    }

    /// Adds a file with these permissions.
    pub fn file_with_mode(&mut self, path: &str, bytes: Vec<u8>, mode: u32) {
        self.add(path, FILE | mode & 0o7777, (0, 0), bytes);
    }

    /// Adds a folder.
    pub fn folder(&mut self, path: &str) {
        self.add(path, FOLDER, (0, 0), Vec::new());
    }

    /// Adds a folder with these permissions.
    pub fn folder_with_mode(&mut self, path: &str, mode: u32) {
        self.add(path, FOLDERS | mode & 0o7777, (0, 0), Vec::new());
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.add(path, LINK, (0, 0), target.as_bytes().to_vec());
    }

    /// Adds a character device by its major and minor number.
    pub fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.add(path, DEVICE, (major, minor), Vec::new());
    }

    /// Whether a path has an entry.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        self.entries.contains_key(path.trim_matches('/'))
    }

    /// All paths, in their order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The part of a path that is not a folder, so that nothing can be below it.
    #[must_use]
    pub fn file_above<'a>(&self, path: &'a str) -> Option<&'a str> {
        let path = path.trim_matches('/');
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        above.into_iter().find(|above| {
            let entry = self.entries.get(*above);
            entry.is_some_and(|entry| entry.mode & 0o170_000 != FOLDERS)
        })
    }

    /// The type and the permissions of a path's entry.
    #[must_use]
    pub fn mode(&self, path: &str) -> Option<u32> {
        let entry = self.entries.get(path.trim_matches('/'))?;
        Some(entry.mode)
    }

    fn add(&mut self, path: &str, mode: u32, device: (u32, u32), bytes: Vec<u8>) {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/') {
            self.entries
                .entry(path[..at].to_owned())
                .or_insert_with(|| Entry {
                    mode: FOLDER,
                    device: (0, 0),
                    bytes: Vec::new(),
                });
        }
        let entry = Entry {
            mode,
            device,
            bytes,
        };
        self.entries.insert(path.to_owned(), entry);
    }

    /// The archive's bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let room = self.entries.iter();
        let room: usize = room.map(|(path, e)| path.len() + e.bytes.len() + 128).sum();
        let mut out = Vec::with_capacity(room + 1024);
        for (at, (path, entry)) in self.entries.iter().enumerate() {
            member(&mut out, at + 1, path, entry);
        }
        let end = Entry {
            mode: 0,
            device: (0, 0),
            bytes: Vec::new(),
        };
        member(&mut out, 0, "TRAILER!!!", &end);
        out.resize(out.len().next_multiple_of(512), 0);
        out
    }
}

/// One member: thirteen numbers of eight hexadecimal digits, the name, the bytes.
fn member(out: &mut Vec<u8>, inode: usize, path: &str, entry: &Entry) {
    let links = if entry.mode & 0o170_000 == FOLDERS {
        2
    } else {
        1
    };
    let numbers = [
        inode as u32,
        entry.mode,
        0,
        0,
        links,
        0,
        // The format has 32 bits for a size; all our files are much smaller.
        entry.bytes.len() as u32,
        0,
        0,
        entry.device.0,
        entry.device.1,
        path.len() as u32 + 1,
        0,
    ];
    out.extend_from_slice(b"070701");
    for number in numbers {
        out.extend_from_slice(format!("{number:08x}").as_bytes());
    }
    out.extend_from_slice(path.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(&entry.bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Initramfs {
        let mut archive = Initramfs::new();
        archive.file("lab/job.json", b"{}".to_vec(), false);
        archive.file("/init", vec![7; 5], true);
        archive.link("bin/punctual", "/init");
        archive.device("dev/console", 5, 1);
        archive.folder("proc");
        archive
    }

    /// An independent reading of the format, as its definition has it.
    fn members(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        loop {
            assert_eq!(&bytes[..6], b"070701");
            let number = |index: usize| {
                let digits = std::str::from_utf8(&bytes[6 + index * 8..14 + index * 8]).unwrap();
                u32::from_str_radix(digits, 16).unwrap()
            };
            let (mode, size, name) = (number(1), number(6) as usize, number(11) as usize);
            let path = String::from_utf8(bytes[110..110 + name - 1].to_vec()).unwrap();
            if path == "TRAILER!!!" {
                return found;
            }
            let begin = (110 + name).next_multiple_of(4);
            found.push((path, mode, bytes[begin..begin + size].to_vec()));
            bytes = &bytes[(begin + size).next_multiple_of(4)..];
        }
    }

    #[test]
    fn members_stand_in_order_with_their_folders_before_them() {
        let names: Vec<String> = members(&sample().bytes())
            .into_iter()
            .map(|(path, mode, bytes)| format!("{path} {mode:o} {}", bytes.len()))
            .collect();
        assert_eq!(
            names,
            [
                "bin 40755 0",
                "bin/punctual 120777 5",
                "dev 40755 0",
                "dev/console 20600 0",
                "init 100755 5",
                "lab 40755 0",
                "lab/job.json 100644 2",
                "proc 40755 0",
            ]
        );
    }

    #[test]
    fn the_order_of_adding_does_not_show() {
        let mut other = Initramfs::new();
        other.folder("proc");
        other.device("dev/console", 5, 1);
        other.link("bin/punctual", "/init");
        other.file("init", vec![7; 5], true);
        other.file("/lab/job.json", b"{}".to_vec(), false);
        assert_eq!(sample().bytes(), other.bytes());
        assert_eq!(sample().bytes().len() % 512, 0);
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn cpio_reads_it() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let child = Command::new("cpio")
            .arg("-t")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else {
            return eprintln!("SKIPPED: program: cpio");
        };
        let mut input = child.stdin.take().unwrap();
        input.write_all(&sample().bytes()).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let listed = String::from_utf8(output.stdout).unwrap();
        let names = members(&sample().bytes())
            .into_iter()
            .map(|(path, ..)| path);
        assert_eq!(
            listed.lines().collect::<Vec<_>>(),
            names.collect::<Vec<_>>()
        );
    }
}
