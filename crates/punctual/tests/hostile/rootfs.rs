//! A root file system from an archive: whatever its bytes, no path leads out of it, no link is
//! followed for writing, and it uses no more memory than the guest has.

use punctual_lab::initramfs::Initramfs;
use punctual_lab::room::Room;
use punctual_lab::rootfs::archive::unpack;
use punctual_lab::rootfs::tree::Tree;

pub fn check(bytes: &[u8]) {
    for is_layer in [false, true] {
        let mut room = Room::for_memory(256);
        let mut tree = Tree::new();
        for _ in 0..2 {
            tree.next_layer();
            if let Err(error) = unpack(bytes, is_layer, &mut tree, &mut room) {
                let error = error.to_string();
                assert!(!error.contains('\n'), "{error}");
            }
        }
        let _ = tree.file("/bin/sh");
        let mut archive = Initramfs::new();
        tree.put(&mut archive, "/root");
        let cpio = archive.bytes();
        assert!(cpio.len() < 300 << 20);
        for path in archive.paths() {
            assert!(path == "root" || path.starts_with("root/"), "{path}");
            assert!(
                !path.split('/').any(|part| part == ".." || part.is_empty()),
                "{path}"
            );
            assert_eq!(archive.file_above(path), None, "{path}");
        }
    }
}
