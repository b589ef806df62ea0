//! Scripts that mount file systems, in a mount namespace of their own.

use std::process::{Command, Output};

use super::needs::{self, Absent};
use super::{Place, program};

/// A machine with Debian's GRUB.
pub const GRUB: &str = "for folder in /usr/sbin /boot /etc/default; do
            mount -t tmpfs none $folder || exit 77
        done
        mkdir /boot/grub
        echo 'for x in /etc/default/grub.d/*.cfg' > /usr/sbin/grub-mkconfig
        echo GRUB_CMDLINE_LINUX_DEFAULT=quiet > /etc/default/grub
        cat > /usr/sbin/update-grub <<'END'
#!/bin/sh
. /etc/default/grub
for file in /etc/default/grub.d/*.cfg; do [ ! -e $file ] || . $file; done
echo \"linux /vmlinuz $GRUB_CMDLINE_LINUX_DEFAULT\" | tee /boot/grub/grub.cfg
END
        chmod +x /usr/sbin/update-grub
";

/// Runs a script that mounts file systems, in a mount namespace of its own; it ends with 77 if a
/// mount fails.
///
/// # Errors
/// No file system can be mounted here.
pub fn in_own_mounts(place: &Place, script: &str) -> Result<Output, Absent> {
    needs::mounts()?;
    let ended = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .env("PUNCTUAL", program())
        .current_dir(place.path())
        .output()
        .expect("unshare runs");
    assert_ne!(ended.status.code(), Some(77), "a mount failed: {ended:?}");
    Ok(ended)
}
