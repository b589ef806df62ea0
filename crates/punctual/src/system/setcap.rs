//! Capabilities of a program's file, for one group and nobody else.

/// The group that the advice is about.
pub const GROUP: &str = "realtime";

/// The command that gives a program's file capabilities and lets only a group execute it, and
/// what it is for: such a copy runs any program at any priority for whoever may execute it. The
/// group comes first: a change of owner takes a file's capabilities away.
#[must_use]
pub fn advice(capabilities: &str, program: &str) -> String {
    format!("`{}` {}", command(capabilities, program), reason())
}

/// The command alone.
#[must_use]
pub fn command(capabilities: &str, program: &str) -> String {
    format!(
        "sudo groupadd -f {GROUP} && sudo usermod -aG {GROUP} \"$(id -un)\" && \
         sudo chgrp {GROUP} {program} && sudo chmod 750 {program} && \
         sudo setcap {capabilities} {program}"
    )
}

/// Why a group, in brackets.
#[must_use]
pub fn reason() -> String {
    format!(
        "(log in again; without the group any user of this machine could run any program at FIFO \
         99 with `punctual run -p 99`: let only those into the group {GROUP} who may)"
    )
}
