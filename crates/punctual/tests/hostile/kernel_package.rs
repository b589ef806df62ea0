//! A Debian package: its members, its control data, and its files. The same bytes are
//! also read as the tar alone, so that the fuzzer reaches it without compression.

use std::io::Cursor;

use punctual_lab::kernel::package::{control, files, members, paragraph, tar};

pub fn check(bytes: &[u8]) {
    let mut file = Cursor::new(bytes);
    if let Ok(members) = members(&mut file, bytes.len() as u64) {
        for member in &members {
            assert!(member.offset + member.size <= bytes.len() as u64);
        }
        for name in ["control.tar", "data.tar"] {
            if let Ok(tar) = tar(&mut file, &members, name) {
                let _ = control(tar);
            }
        }
    }
    let _ = files(
        bytes,
        |error| error,
        |path, _| {
            assert!(path.split('/').all(|part| !["", ".", ".."].contains(&part)));
            Ok(())
        },
    );
    let _ = paragraph(&String::from_utf8_lossy(bytes));
}
