//! The part of Thrift's compact protocol that Parquet's index needs.
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A varint as Thrift and Parquet write it: seven bits a byte, lowest first.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A signed value, small in either direction.
pub(super) fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// The kind of a list's entries.
#[derive(Clone, Copy)]
pub(super) enum Entries {
    I32,
    Binary,
    Struct,
}

/// Writes one struct, field by field, in order of their numbers.
pub(super) struct Struct<'a> {
    out: &'a mut Vec<u8>,
    last: u8,
}

impl<'a> Struct<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, last: 0 }
    }

    fn header(&mut self, field: u8, kind: u8) {
        // Parquet's structs have no gap above fifteen, so the short form does.
        debug_assert!(field > self.last && field - self.last < 16);
        self.out.push((field - self.last) << 4 | kind);
        self.last = field;
    }

    pub(super) fn i32(&mut self, field: u8, value: i32) {
        self.header(field, I32);
        put_zigzag(self.out, value.into());
    }

    pub(super) fn i64(&mut self, field: u8, value: i64) {
        self.header(field, I64);
        put_zigzag(self.out, value);
    }

    pub(super) fn text(&mut self, field: u8, value: &str) {
        self.header(field, BINARY);
        put_text(self.out, value);
    }

    pub(super) fn nested(&mut self, field: u8, write: impl FnOnce(&mut Struct<'_>)) {
        self.header(field, STRUCT);
        write_struct(self.out, write);
    }

    /// A list; `write` appends the entries.
    pub(super) fn list(
        &mut self,
        field: u8,
        entries: Entries,
        count: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.header(field, LIST);
        let kind = match entries {
            Entries::I32 => I32,
            Entries::Binary => BINARY,
            Entries::Struct => STRUCT,
        };
        if count < 15 {
            self.out.push((count as u8) << 4 | kind);
        } else {
            self.out.push(0xf0 | kind);
            put_varint(self.out, count as u64);
        }
        write(self.out);
    }
}

pub(super) fn put_text(out: &mut Vec<u8>, value: &str) {
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value.as_bytes());
}

/// A struct with its end.
pub(super) fn write_struct(out: &mut Vec<u8>, write: impl FnOnce(&mut Struct<'_>)) {
    write(&mut Struct::new(out));
    out.push(0);
}
