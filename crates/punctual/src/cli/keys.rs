//! Keys that are pressed while a block is redrawn: the terminal passes on each at once, and shows
//! none. It is restored when this is dropped; signals, such as that of Ctrl-C, come as ever.

use std::io::{self, IsTerminal};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

/// Keys of the terminal at standard input.
pub struct Keys {
    before: Termios,
}

impl Keys {
    /// Begins to read keys; `None` where standard input is no terminal, or this program is in its
    /// background.
    pub fn begin() -> Option<Self> {
        let input = io::stdin();
        if !input.is_terminal() || tcgetpgrp(&input).ok()? != rustix::process::getpgrp() {
            return None;
        }
        let before = tcgetattr(&input).ok()?;
        let mut now = before.clone();
        now.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO);
        now.special_codes[SpecialCodeIndex::VMIN] = 0;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&input, OptionalActions::Now, &now).ok()?;
        Some(Self { before })
    }

    /// The keys that were pressed since the last call, at most 16; it doesn't wait.
    pub fn pressed(&self) -> Vec<u8> {
        let input = io::stdin();
        let mut ready = [PollFd::new(&input, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // Polled first: a terminal that was lost would make the reading an error each time.
        if !matches!(poll(&mut ready, Some(&at_once)), Ok(1..)) {
            return Vec::new();
        }
        let mut bytes = [0; 16];
        let count = rustix::io::read(&input, &mut bytes).unwrap_or(0);
        bytes[..count].to_vec()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
