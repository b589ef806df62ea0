//! Capabilities of a program's file, for one group only.

/// The group in the advice.
pub const GROUP: &str = "realtime";

/// The command that gives a program's file capabilities and lets only a group execute it, with
/// its purpose: such a copy runs any program at any priority for every user who may execute it. The
/// group comes first, because a change of owner removes a file's capabilities.
#[must_use]
pub fn advice(capabilities: &str, program: &str) -> String {
    format!("`{}` {}", command(capabilities, program), reason())
}

/// Only the command.
#[must_use]
pub fn command(capabilities: &str, program: &str) -> String {
    format!(
        "sudo groupadd -f {GROUP} && sudo usermod -aG {GROUP} \"$(id -un)\" && \
         sudo chgrp {GROUP} {program} && sudo chmod 750 {program} && \
         sudo setcap {capabilities} {program}"
    )
}

/// Why a group, in parentheses.
#[must_use]
pub fn reason() -> String {
    format!(
        "(log in again; without the group any user of this machine could run any program at FIFO \
         99 with `punctual run -p 99`: let only those into the group {GROUP} who may)"
    )
}
