//! The contents of a real terminal of 80 columns and 24 lines during a run and
//! after it: read from tmux.

use crate::common;
use std::thread::sleep;
use std::time::Duration;

use crate::common::{Place, Running, need, needs, until};

/// A terminal with its own tmux server; closed when dropped.
struct Terminal<'a> {
    place: &'a Place,
}

impl Terminal<'_> {
    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.place.command("tmux");
        command
            .args(["-S", "socket", "-f", "/dev/null"])
            .args(arguments);
        command.env_remove("TMUX");
        Running::start(command).end().expect(0).stdout
    }

    fn start<'a>(place: &'a Place, width: &str, height: &str, command: &str) -> Terminal<'a> {
        let terminal = Terminal { place };
        // The pane stays after the command has ended.
        // The first line is ours: tmux keeps a screen that is cleared from its top.
        let script = format!("echo before; {command}; echo status $?; sleep 1000");
        terminal.tmux(&["new-session", "-d", "-x", width, "-y", height, &script]);
        terminal
    }

    /// The screen, including the lines that have scrolled out above.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e", "-S", "-"])
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let mut command = self.place.command("tmux");
        command.args(["-S", "socket", "kill-server"]);
        let _ = command.status();
    }
}

fn run(flags: &str) -> String {
    format!("{} measure -o run {flags}", common::program().display())
}

#[test]
fn the_block_is_redrawn_in_place_and_ctrl_c_leaves_nothing_of_it() {
    need!(needs::program("tmux"));
    let place = Place::new();
    let flags = "-D 600 --load timers --deadline 1ms --miss 0.99";
    let terminal = Terminal::start(&place, "80", "24", &run(flags));
    until("the block", || terminal.screen().contains("left"));
    // By now it was drawn several times.
    sleep(Duration::from_millis(1200));
    let during = terminal.screen();
    let lines: Vec<&str> = during.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(during.matches("measure ").count(), 1, "{during}");
    assert_eq!(during.matches("min/µs").count(), 1, "{during}");
    assert!(
        lines[1].starts_with("measure ") && lines[1].contains(" % "),
        "{during}"
    );
    assert!(during.contains("load: timers"), "{during}");
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{during}"
    );
    // The cursor is on the line below the block.
    let cursor = terminal.tmux(&["display-message", "-p", "#{cursor_x} #{cursor_y}"]);
    assert_eq!(cursor.trim(), format!("0 {}", lines.len()), "{during}");

    // Echoed at the cursor.
    terminal.tmux(&["send-keys", "x", "C-c"]);
    until("the end", || terminal.screen().contains("status "));
    let after = terminal.screen();
    assert!(!after.contains("^C"), "{after}");
    assert!(!after.contains(" left") && !after.contains('━'), "{after}");
    assert!(
        after.contains("Latency in") && after.contains("Report"),
        "{after}"
    );
    assert!(
        after.lines().all(|line| line.chars().count() <= 80),
        "{after}"
    );
    let first = after.lines().nth(1).unwrap_or_default();
    assert!(
        ["PASS: ", "INCONCLUSIVE: ", "INVALID: "]
            .iter()
            .any(|word| first.starts_with(word)),
        "{after}"
    );
    assert!(terminal.coloured().contains("\x1b["), "in colour");
}

#[test]
fn no_color_is_honoured_on_a_terminal() {
    need!(needs::program("tmux"));
    let place = Place::new();
    let command = format!("NO_COLOR=1 {}", run("-D 1"));
    let terminal = Terminal::start(&place, "80", "24", &command);
    until("the end", || terminal.screen().contains("status "));
    let text = terminal.coloured();
    assert!(
        text.contains("Latency in") && !text.contains('\x1b'),
        "{text}"
    );
}

#[test]
fn the_block_fits_into_a_small_terminal() {
    need!(needs::program("tmux"));
    let place = Place::new();
    // A light load, because the terminal itself needs a CPU on a small machine.
    let flags = "-D 600 -t 12 --load timers --deadline 1ms";
    let terminal = Terminal::start(&place, "50", "8", &run(flags));
    until("the block", || terminal.screen().contains("left"));
    sleep(Duration::from_millis(1500));
    let during = terminal.screen();
    assert_eq!(during.matches("measure ").count(), 1, "{during}");
    assert!(
        during.lines().all(|line| line.chars().count() <= 50),
        "{during}"
    );
    // The previous line may have scrolled, to make room for the cursor.
    assert!(
        during.lines().count() <= 9,
        "nothing scrolled away: {during}"
    );
}

#[test]
fn cyclictests_lines_are_redrawn_too() {
    need!(needs::program("tmux"));
    let place = Place::new();
    let terminal = Terminal::start(&place, "120", "24", &run("-D 600 --live -t 2"));
    until("the lines", || terminal.screen().contains("T: 1 ("));
    sleep(Duration::from_millis(800));
    let during = terminal.screen();
    assert_eq!(during.matches("T: 0 (").count(), 1, "{during}");
    assert_eq!(during.matches("T: 1 (").count(), 1, "{during}");
}
