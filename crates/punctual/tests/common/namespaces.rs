//! Two network namespaces with a link between them: two machines on one.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::Place;
use super::needs::{self, Absent};

/// The address of the near side.
pub const NEAR: &str = "10.79.1.1";
/// The address of the far side.
pub const FAR: &str = "10.79.1.2";

/// A side of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Near,
    Far,
}

/// Two namespaces; they are removed when dropped.
pub struct Namespaces {
    names: [String; 2],
}

impl Namespaces {
    /// Makes them.
    ///
    /// # Errors
    /// What is missing for them.
    pub fn pair() -> Result<Self, Absent> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        needs::root()?;
        needs::program("ip")?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = format!("punctual-{}-{number}", std::process::id());
        let pair = Self {
            names: ["near", "far"].map(|side| format!("{base}-{side}")),
        };
        let [near, far] = &pair.names;
        let steps = [
            format!("netns add {near}"),
            format!("netns add {far}"),
            format!("link add veth0 netns {near} type veth peer name veth0 netns {far}"),
            format!("-n {near} addr add {NEAR}/24 dev veth0"),
            format!("-n {far} addr add {FAR}/24 dev veth0"),
            format!("-n {near} link set lo up"),
            format!("-n {far} link set lo up"),
            format!("-n {near} link set veth0 up"),
            format!("-n {far} link set veth0 up"),
        ];
        for step in steps {
            ip(&step).map_err(|error| Absent::refused(&format!("ip {step}"), error))?;
        }
        Ok(pair)
    }

    fn name(&self, side: Side) -> &str {
        &self.names[side as usize]
    }

    /// A command on one side, in a place.
    pub fn command(&self, side: Side, place: &Place, program: &Path) -> Command {
        let mut command = place.command("ip");
        command
            .args(["netns", "exec", self.name(side)])
            .arg(program);
        command
    }

    /// Takes the link down on the far side, or up again.
    pub fn set_link(&self, up: bool) {
        let state = if up { "up" } else { "down" };
        ip(&format!(
            "-n {} link set veth0 {state}",
            self.name(Side::Far)
        ))
        .unwrap();
    }

    /// Runs a script of the shell on a side, and returns what it prints.
    ///
    /// # Errors
    /// What it says on standard error.
    pub fn shell(&self, side: Side, script: &str) -> Result<String, String> {
        let output = Command::new("ip")
            .args(["netns", "exec", self.name(side), "sh", "-ec", script])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }

    /// Filters what arrives on a side: rules of nftables' chain `input`, a line each.
    ///
    /// # Errors
    /// What is missing for it.
    pub fn filter(&self, side: Side, rules: &str) -> Result<(), Absent> {
        needs::program("nft")?;
        let table = format!(
            "flush ruleset\ntable inet t {{\nchain input {{\ntype filter hook input priority 0\n\
             {rules}\n}}\n}}\n"
        );
        let mut nft = Command::new("ip")
            .args(["netns", "exec", self.name(side), "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ip runs");
        let written = nft.stdin.take().unwrap().write_all(table.as_bytes());
        let output = nft.wait_with_output().expect("its end");
        match (written, output.status.success()) {
            (Ok(()), true) => Ok(()),
            _ => Err(Absent::refused(
                "nft",
                String::from_utf8_lossy(&output.stderr),
            )),
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(words.split(' '))
        .output()
        .map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
