//! Unpacks streams with bounded memory; counts and hashes their bytes.

use std::io::{self, BufRead, ErrorKind, Read, Write};

use lzma_rust2::{Action, Status, XzStream};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest, Sha256};

/// The most memory for unpacking a stream: enough for the strongest settings of xz and zstd, and for
/// the kernel's own build.
const WINDOW: u32 = 128 << 20;

/// How a stream is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// gzip.
    Gzip,
    /// xz.
    Xz,
    /// zstd.
    Zstd,
    /// lz4 in the frame of its first versions, which kernels use.
    Lz4,
    /// lzma, before xz.
    Lzma,
    /// Not packed.
    Plain,
}

impl Packing {
    /// Detects it from the first bytes; `None` if it cannot be unpacked here.
    #[must_use]
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        let known: [(&[u8], Self); 6] = [
            (b"\x1f\x8b", Self::Gzip),
            (b"\xfd7zXZ\0", Self::Xz),
            (b"\x28\xb5\x2f\xfd", Self::Zstd),
            (b"\x02\x21\x4c\x18", Self::Lz4),
            (b"\x5d\0\0", Self::Lzma),
            (b"\x7fELF", Self::Plain),
        ];
        let mut known = known.into_iter();
        known.find_map(|(magic, packing)| bytes.starts_with(magic).then_some(packing))
    }

    /// Like [`Packing::detect`], for a file that may contain several streams: `pzstd` begins with a frame
    /// that states the length of the next one.
    #[must_use]
    pub fn detect_several(bytes: &[u8]) -> Option<Self> {
        let skipped = is_skippable(bytes).then_some(Self::Zstd);
        skipped.or_else(|| Self::detect(bytes))
    }

    /// A reader of all consecutive streams, as parallel packers write them.
    ///
    /// # Errors
    /// Those of [`Packing::unpack`].
    pub fn unpack_all<'a>(self, packed: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
        match self {
            Self::Gzip => Ok(Box::new(flate2::bufread::MultiGzDecoder::new(packed))),
            other => other.reader(packed, true),
        }
    }

    /// A reader of the unpacked stream. Bytes after the stream are not read.
    ///
    /// # Errors
    /// The stream's header is damaged, or unpacking needs too much memory.
    pub fn unpack<'a>(self, packed: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
        self.reader(packed, false)
    }

    /// `several`: all streams of xz and zstd, not only the first.
    fn reader<'a>(
        self,
        packed: impl BufRead + 'a,
        several: bool,
    ) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Self::Gzip => Box::new(flate2::bufread::GzDecoder::new(packed)),
            Self::Xz => Box::new(Xz {
                packed,
                stream: XzStream::new_mem_limit(several, WINDOW / 1024 + 1024),
                ended: false,
            }),
            Self::Zstd => Box::new(Zstd::new(packed, several)?),
            Self::Lz4 => Box::new(Lz4::new(packed)?),
            Self::Lzma => Box::new(lzma_rust2::LzmaReader::new_mem_limit(
                packed,
                WINDOW / 1024 + 1024,
                None,
            )?),
            Self::Plain => Box::new(packed),
        })
    }
}

/// A reader of xz, with the decoder compiled once, not for each reader type.
struct Xz<R> {
    packed: R,
    stream: XzStream,
    ended: bool,
}

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !into.is_empty() {
            let packed = self.packed.fill_buf()?;
            let is_last = packed.is_empty();
            let action = if is_last { Action::Finish } else { Action::Run };
            let done = self.stream.process(packed, into, action)?;
            self.packed.consume(done.bytes_consumed);
            self.ended = done.status == Status::StreamEnd;
            if done.bytes_produced > 0 {
                return Ok(done.bytes_produced);
            }
            if is_last && !self.ended {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}

/// Whether this is a skippable frame of zstd.
fn is_skippable(bytes: &[u8]) -> bool {
    bytes.len() >= 4 && bytes[0] & 0xf0 == 0x50 && bytes[1..4] == *b"\x2a\x4d\x18"
}

/// A reader of zstd frames, or of the first only, that checks their checksums.
struct Zstd<R> {
    packed: R,
    decoder: FrameDecoder,
    /// Whether a frame has begun and not ended.
    within: bool,
    is_all: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(packed: R, is_all: bool) -> io::Result<Self> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW.into());
        let mut stream = Self {
            packed,
            decoder,
            within: false,
            is_all,
        };
        stream.begin()?;
        Ok(stream)
    }

    fn begin(&mut self) -> io::Result<()> {
        use FrameDecoderError::ReadFrameHeaderError as Head;
        match self.decoder.init(&mut self.packed) {
            Ok(()) => self.within = true,
            Err(Head(ReadFrameHeaderError::SkipFrame { length, .. })) if self.is_all => {
                let length = u64::from(length);
                let mut skipped = self.packed.by_ref().take(length);
                if io::copy(&mut skipped, &mut io::sink())? < length {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(invalid(error)),
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !into.is_empty() {
            if !self.within {
                if !self.is_all || self.packed.fill_buf()?.is_empty() {
                    break;
                }
                self.begin()?;
                continue;
            }
            let decoder = &mut self.decoder;
            while decoder.can_collect() == 0 && !decoder.is_finished() {
                decoder
                    .decode_blocks(&mut self.packed, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(invalid)?;
            }
            let read = decoder.read(into)?;
            if read > 0 {
                return Ok(read);
            }
            if let Some(stated) = decoder.get_checksum_from_data()
                && decoder.get_calculated_checksum() != Some(stated)
            {
                return Err(invalid("its checksum is wrong"));
            }
            self.within = false;
        }
        Ok(0)
    }
}

/// The frame that `lz4 -l` writes: blocks of up to 8 MiB, each after its length.
struct Lz4<R> {
    packed: R,
    block: Vec<u8>,
    given: usize,
    ended: bool,
}

impl<R: Read> Lz4<R> {
    const BLOCK: usize = 8 << 20;

    fn new(mut packed: R) -> io::Result<Self> {
        packed.read_exact(&mut [0; 4])?;
        Ok(Self {
            packed,
            block: Vec::new(),
            given: 0,
            ended: false,
        })
    }

    fn next(&mut self) -> io::Result<()> {
        let mut length = [0; 4];
        let filled = fill(&mut self.packed, &mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        self.block.clear();
        self.given = 0;
        if filled == 0 {
            self.ended = true;
            return Ok(());
        }
        if length == 0 || length > lz4_flex::block::get_maximum_output_size(Self::BLOCK) {
            return Err(invalid("a block has an impossible length"));
        }
        let mut packed = vec![0; length];
        if filled < 4 || fill(&mut self.packed, &mut packed)? < length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.block.resize(Self::BLOCK, 0);
        let unpacked =
            lz4_flex::block::decompress_into(&packed, &mut self.block).map_err(invalid)?;
        self.block.truncate(unpacked);
        Ok(())
    }
}

impl<R: Read> Read for Lz4<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.block.len() && !self.ended && !into.is_empty() {
            self.next()?;
        }
        let left = &self.block[self.given..];
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.given += count;
        Ok(count)
    }
}

/// Reads until the buffer is full or the stream at its end; returns how many bytes it read.
pub(super) fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// The size and the hash of copied bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sum {
    /// Bytes.
    pub size: u64,
    /// In hexadecimal.
    pub sha256: String,
}

/// Why a copy ended early.
#[derive(Debug)]
pub(super) enum CopyError {
    /// The source cannot be read or unpacked.
    Read(io::Error),
    /// The copy cannot be written.
    Write(io::Error),
    /// The source is too long.
    TooLong,
}

/// Copies a stream; refuses more than `limit` bytes.
pub(super) fn copy(from: &mut dyn Read, to: &mut dyn Write, limit: u64) -> Result<Sum, CopyError> {
    let mut hash = Sha256::new();
    let mut size = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(CopyError::Read(error)),
        };
        size += read as u64;
        if size > limit {
            return Err(CopyError::TooLong);
        }
        hash.update(&buffer[..read]);
        to.write_all(&buffer[..read]).map_err(CopyError::Write)?;
    }
    let sha256 = hex(&hash.finalize());
    Ok(Sum { size, sha256 })
}

/// SHA-256 of all of a stream, in hexadecimal.
///
/// # Errors
/// Errors of reading.
pub fn hash(from: &mut dyn Read) -> io::Result<String> {
    copy(from, &mut io::sink(), u64::MAX)
        .map(|sum| sum.sha256)
        .map_err(|error| match error {
            CopyError::Read(error) | CopyError::Write(error) => error,
            CopyError::TooLong => ErrorKind::FileTooLarge.into(),
        })
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
