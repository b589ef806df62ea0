//! Which parameters of modules are built into a kernel: those with a dot, which a kernel that
//! doesn't know them ignores without a word.

use std::fs;
use std::io;

use super::Kernel;
use super::image::{self, Kind};

impl Kernel {
    /// Whether a built-in module has this parameter, named as on the command line
    /// (`rcutree.kthread_prio`): its image then has the name as a text. `None` if the image is
    /// packed.
    ///
    /// # Errors
    /// The image cannot be read.
    pub fn has_built_in(&self, name: &str) -> io::Result<Option<bool>> {
        let bytes = fs::read(&self.image)?;
        Ok(match image::kind(&bytes) {
            Kind::Elf(_) => Some(has_text(&bytes, name)),
            _ => None,
        })
    }
}

/// Whether one of the texts, each of which ends with a 0, is this name. The kernel takes `-` and
/// `_` for the same.
fn has_text(bytes: &[u8], name: &str) -> bool {
    let plain = |byte: &u8| if *byte == b'-' { b'_' } else { *byte };
    let wanted: Vec<u8> = name.bytes().map(|byte| plain(&byte)).collect();
    let mut texts = bytes.split(|byte| *byte == 0);
    texts
        .any(|text| text.len() == wanted.len() && text.iter().map(plain).eq(wanted.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_whole_text() {
        let image = b"\x7fELF\0\0rcutree.kthread_prio\0x.intel-a\0";
        for name in ["rcutree.kthread_prio", "rcutree.kthread-prio", "x.intel_a"] {
            assert!(has_text(image, name), "{name}");
        }
        for name in ["rcutree.kthread", "kthread_prio", "cutree.kthread_prio"] {
            assert!(!has_text(image, name), "{name}");
        }
    }
}
