//! The kind of a file by its headers, and every compression of a stream.

use std::io::Read;

use punctual_lab::kernel::image::{has_entry_for_guests, kind, stated_release};
use punctual_lab::kernel::modules::depends;
use punctual_lab::kernel::unpack::Packing;

pub fn check(bytes: &[u8]) {
    let _ = kind(bytes);
    let _ = has_entry_for_guests(bytes);
    let _ = stated_release(bytes);
    let _ = depends(bytes);
    if let Some(packing) = Packing::detect(bytes)
        && let Ok(stream) = packing.unpack(bytes)
    {
        let _ = stream.take(1 << 22).read_to_end(&mut Vec::new());
    }
}
