//! Takes a CPU offline, and brings it back in any case.

use std::fs;
use std::process::{Child, Command, Stdio};

/// Brings a CPU back when dropped; if this process is killed before, a child
/// process does.
pub struct Offline {
    switch: String,
    rescuer: Child,
}

impl Offline {
    pub fn take(switch: &str) -> std::io::Result<Self> {
        let rescuer = Command::new("setsid")
            .args(["sh", "-c", &format!("sleep 20; echo 1 > {switch}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let offline = Self {
            switch: switch.to_owned(),
            rescuer,
        };
        fs::write(switch, "0")?;
        Ok(offline)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        if fs::write(&self.switch, "1").is_ok() {
            let _ = self.rescuer.kill();
        }
        let _ = self.rescuer.wait();
    }
}
