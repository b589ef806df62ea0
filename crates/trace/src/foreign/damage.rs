//! Whether the file of a recording is complete: what its headers state, compared with its length.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

use super::open::{PERF_MAGIC_REVERSED, RecordingKind};

/// Bytes of perf's header. A recording that was written to a pipe has another, and states no sizes.
const HEADER: u64 = 104;
const PIPE_HEADER: u64 = 16;

/// A file, up to where it was examined, and the section that is examined.
struct Headers<F> {
    file: F,
    length: u64,
    at: u64,
    is_big_endian: bool,
    section: &'static str,
}

/// Total, with bounded memory.
///
/// # Errors
/// What is wrong with the file, and where; or it can't be read.
pub fn check(mut file: impl Read + Seek, kind: RecordingKind) -> io::Result<()> {
    let mut headers = Headers {
        length: file.seek(SeekFrom::End(0))?,
        file,
        at: 0,
        is_big_endian: false,
        section: "header",
    };
    match kind {
        RecordingKind::Perf => headers.perf(),
        RecordingKind::TraceCmd => headers.trace_cmd(),
        RecordingKind::Text => Ok(()),
    }
}

impl<F: Read + Seek> Headers<F> {
    fn wrong<T>(&self) -> io::Result<T> {
        let why = format!("damaged before byte {}, in its {}", self.at, self.section);
        Err(io::Error::new(ErrorKind::InvalidData, why))
    }

    /// The end of a part of the section, which the file contains.
    fn end(&self, from: u64, size: u64) -> io::Result<u64> {
        let end = from.checked_add(size).filter(|end| *end <= self.length);
        end.ok_or_else(|| {
            let place = if from <= self.length {
                "within"
            } else {
                "before"
            };
            let (length, section) = (self.length, self.section);
            let why = format!("cut off at byte {length}, {place} its {section}");
            io::Error::new(ErrorKind::UnexpectedEof, why)
        })
    }

    fn skip(&mut self, size: u64) -> io::Result<()> {
        self.at = self.end(self.at, size)?;
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.at))?;
        self.skip(into.len() as u64)?;
        self.file.read_exact(into)
    }

    /// A number of at most 8 bytes.
    fn number(&mut self, size: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(&mut bytes[..size])?;
        let append = |sum, byte: &u8| sum << 8 | u64::from(*byte);
        Ok(match self.is_big_endian {
            true => bytes[..size].iter().fold(0, append),
            false => u64::from_le_bytes(bytes),
        })
    }

    /// A text that ends with a zero byte.
    fn name(&mut self) -> io::Result<Vec<u8>> {
        let (mut name, mut byte) = (Vec::new(), [0]);
        while name.len() < 256 {
            self.read(&mut byte)?;
            match byte {
                [0] => return Ok(name),
                [byte] => name.push(byte),
            }
        }
        self.wrong()
    }

    /// What follows its size.
    fn sized(&mut self, size: usize) -> io::Result<()> {
        let size = self.number(size)?;
        self.skip(size)
    }

    fn perf(&mut self) -> io::Result<()> {
        let mut magic = [0; 8];
        self.read(&mut magic)?;
        self.is_big_endian = magic == *PERF_MAGIC_REVERSED;
        match self.number(8)? {
            PIPE_HEADER => return Ok(()),
            HEADER.. => {}
            _ => return self.wrong(),
        }
        let mut fields = [0; 11];
        for field in &mut fields {
            *field = self.number(8)?;
        }
        let [_, attributes, size, data, data_size, _, _, features @ ..] = fields;
        self.section = "list of events";
        self.end(attributes, size)?;
        self.section = "events";
        if data_size == 0 {
            return self.unfinished();
        }
        self.at = self.end(data, data_size)?;
        self.section = "features, with the formats of its events";
        let mut last = self.at;
        for _ in 0..features.map(u64::count_ones).iter().sum::<u32>() {
            let (from, size) = (self.number(8)?, self.number(8)?);
            last = last.max(from.saturating_add(size));
        }
        self.end(self.at, last.saturating_sub(self.at)).map(drop)
    }

    /// The tool writes where a section is once that is complete.
    fn unfinished(&self) -> io::Result<()> {
        let why = format!("not finished: its header has no {}", self.section);
        Err(io::Error::new(ErrorKind::UnexpectedEof, why))
    }

    fn trace_cmd(&mut self) -> io::Result<()> {
        self.skip(3 + 7)?;
        let version = self.name()?;
        self.is_big_endian = match self.number(1)? {
            order @ 0..=1 => order == 1,
            _ => return self.wrong(),
        };
        // The sizes of a long and of a page.
        self.skip(1 + 4)?;
        match &*version {
            b"6" => self.version_6(),
            b"7" => {
                // How it is compressed.
                self.name()?;
                self.name()?;
                let first = self.number(8)?;
                self.section = "options";
                if first == 0 {
                    self.unfinished()
                } else {
                    self.options(first)
                }
            }
            // trace-cmd itself knows whether it can read these.
            _ => Ok(()),
        }
    }

    /// Sections one after the other.
    fn version_6(&mut self) -> io::Result<()> {
        self.section = "formats";
        for _ in ["header_page", "header_event"] {
            self.name()?;
            self.sized(8)?;
        }
        for _ in 0..self.number(4)? {
            self.sized(8)?;
        }
        for _ in 0..self.number(4)? {
            self.name()?;
            for _ in 0..self.number(4)? {
                self.sized(8)?;
            }
        }
        self.section = "names of functions and threads";
        for size in [4, 4, 8] {
            self.sized(size)?;
        }
        self.section = "options";
        let cpus = self.number(4)?;
        loop {
            match &*self.name()? {
                b"options  " => {
                    while self.number(2)? != 0 {
                        self.sized(4)?;
                    }
                }
                b"latency  " => return Ok(()),
                b"flyrecord" => break,
                _ => return self.wrong(),
            }
        }
        self.section = "events";
        for _ in 0..cpus {
            let (from, size) = (self.number(8)?, self.number(8)?);
            self.end(from, size)?;
        }
        Ok(())
    }

    /// Version 7: a chain of sections with options, which state where all other sections are.
    fn options(&mut self, first: u64) -> io::Result<()> {
        let (mut next, mut earlier) = (first, 0);
        while next > earlier {
            if self.open_section(next)? {
                return Ok(());
            }
            earlier = next;
            loop {
                let (id, size) = (self.number(2)?, self.number(4)?);
                let end = self.end(self.at, size)?;
                match id {
                    0 => break,
                    // The trace data; the formats, and names.
                    3 | 16..=22 => {
                        let from = self.number(8)?;
                        self.section = if id == 3 {
                            "events"
                        } else {
                            "formats and names"
                        };
                        self.open_section(from)?;
                        self.section = "options";
                    }
                    _ => {}
                }
                self.at = end;
            }
            next = self.number(8)?;
        }
        // No option states where the strings are, at the end.
        let last = self.at;
        if last < self.length && self.number(2)? == 15 {
            self.open_section(last)?;
        }
        Ok(())
    }

    /// The header of a section; whether its content is compressed.
    fn open_section(&mut self, from: u64) -> io::Result<bool> {
        self.at = from;
        self.skip(2)?;
        let flags = self.number(2)?;
        self.skip(4)?;
        let size = self.number(8)?;
        self.end(self.at, size)?;
        Ok(flags & 1 != 0)
    }
}
