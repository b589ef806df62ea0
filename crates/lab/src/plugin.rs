//! What our plugins of QEMU have in common.

/// The version of QEMU's interface that a plugin requests follows this word.
const VERSION_FOLLOWS: &[u8] = b"punctual-api";

/// A plugin for this QEMU. QEMU 9.0 accepts only version 2 of its interface; 9.1 and later accept
/// version 3.
pub fn for_version(plugin: &[u8], version: &str) -> Vec<u8> {
    let mut bytes = plugin.to_vec();
    let mut numbers = version.split('.').map(|word| word.parse::<u32>().ok());
    let mut number = || numbers.next().flatten().unwrap_or(0);
    let wanted: u32 = match (number(), number()) {
        (0..=8, _) => 1,
        (9, 0) => 2,
        _ => 3,
    };
    let place = bytes
        .windows(VERSION_FOLLOWS.len())
        .position(|window| window == VERSION_FOLLOWS)
        .map(|at| at + VERSION_FOLLOWS.len());
    if let Some(number) = place.and_then(|at| bytes.get_mut(at..at + 4)) {
        number.copy_from_slice(&wanted.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_asks_for_the_version_that_qemu_takes() {
        let plugins: [&[u8]; 2] = [
            include_bytes!(concat!(env!("OUT_DIR"), "/observer.so")),
            include_bytes!(concat!(env!("OUT_DIR"), "/windows.so")),
        ];
        for plugin in plugins {
            let numbers = |version| {
                let bytes = for_version(plugin, version);
                let at = bytes
                    .windows(VERSION_FOLLOWS.len())
                    .position(|window| window == VERSION_FOLLOWS)
                    .expect("the word");
                let number = &bytes[at + VERSION_FOLLOWS.len()..][..4];
                u32::from_ne_bytes(number.try_into().expect("four bytes"))
            };
            assert!(plugin.starts_with(b"\x7fELF"), "built with the tool");
            assert_eq!([numbers("7.2.22"), numbers("8.2.0")], [1, 1]);
            assert_eq!([numbers("9.0.0"), numbers("9.0.4")], [2, 2]);
            assert_eq!([numbers("9.1.0"), numbers("10.0.8")], [3, 3]);
        }
    }
}
