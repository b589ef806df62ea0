//! A program that executes another one (exec) while it keeps the CPU: its thread has another name from
//! then on, and no switch shows that.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use punctual_rt::clock;
use punctual_rt::sched::Policy;
use punctual_rt::sys::time;

use super::stint::{Gaps, Was, spin_until};
use super::strike::be;

/// The flag with which this program is that other one.
pub const FLAG: &str = "--spin-until";

/// The other program: this one, under the culprit's name.
pub struct Renamed {
    link: PathBuf,
}

impl Renamed {
    pub fn new(name: &str) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("truth-exec-{}", std::process::id()));
        let link = folder.join(name);
        let failed = |why: std::io::Error| format!("{}: {why}", link.display());
        fs::create_dir_all(&folder).map_err(failed)?;
        let _ = fs::remove_file(&link);
        let own = std::env::current_exe().map_err(failed)?;
        std::os::unix::fs::symlink(own, &link).map_err(failed)?;
        Ok(Self { link })
    }

    /// Executes it at an instant until another one; returns the first instant, and when it was there.
    pub fn spin(&self, cpu: usize, from_ns: u64, until_ns: u64) -> Option<Was> {
        let mut command = Command::new(&self.link);
        command.args([FLAG, &until_ns.to_string()]);
        let wait = move || {
            be(&[cpu], Policy::Fifo(99)).map_err(|_| std::io::ErrorKind::PermissionDenied)?;
            time::sleep_until(from_ns)
        };
        // SAFETY: the closure only makes system calls; it allocates nothing unless one is refused.
        unsafe { command.pre_exec(wait) };
        let child = command.stdout(std::process::Stdio::piped()).spawn().ok()?;
        let by = child.id();
        let output = child.wait_with_output().ok()?;
        let last_ns = clock::now_ns();
        let text = String::from_utf8(output.stdout).ok()?;
        let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
        let (begin_ns, end_ns) = (numbers.next()?, numbers.next()?);
        let mut gaps = Gaps::default();
        while let (Some(from), Some(to)) = (numbers.next(), numbers.next()) {
            gaps.push(from, to);
        }
        Some(Was {
            first_ns: from_ns,
            last_ns,
            gaps,
            by,
            ..Was::between(begin_ns, end_ns)
        })
    }
}

impl Drop for Renamed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.link);
        if let Some(folder) = self.link.parent() {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The other program: it returns when it was there, and its gaps.
pub fn main(until_ns: &str) -> Option<String> {
    let was = spin_until(until_ns.parse().ok()?);
    let gaps = was.gaps.all()?.iter();
    let gaps = gaps.map(|(from, to)| format!(" {from} {to}"));
    let gaps: String = gaps.collect();
    Some(format!("{} {}{gaps}", was.begin_ns, was.end_ns))
}
