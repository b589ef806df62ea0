//! Running programs, from trees with made-up lines of `/proc/PID/stat`.

use punctual_machine::survey::process::find;

use super::support::Machine;

const STAT: &str = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 0";

/// A machine where this line is the kernel's state of program 7.
fn saying(stat: &str) -> Machine {
    let machine = Machine::empty();
    machine.write("/proc/7/status", "Name:\ta) b (c)\nTgid:\t7\n");
    machine.write("/proc/7/stat", stat);
    machine
}

#[test]
fn a_name_may_contain_anything_and_field_22_identifies_a_later_program() {
    let machine = saying(STAT);
    let program = find(&machine.root, "7").expect("it runs");
    assert_eq!((program.pid, program.name.as_str()), (7, "a) b (c)"));
    assert!(program.runs(&machine.root));
    for (what, becomes) in [(" 12345 ", " 12346 "), (") S ", ") Z "), (") S ", ") X ")] {
        let later = saying(&STAT.replace(what, becomes));
        assert!(!program.runs(&later.root), "{becomes}");
    }
    // Any other field may change.
    assert!(program.runs(&saying(&STAT.replace(" 20 0 1 ", " 21 0 2 ")).root));
}

#[test]
fn a_line_truncated_anywhere_causes_no_panic() {
    let machine = saying(STAT);
    let program = find(&machine.root, "7").expect("it runs");
    let begins = STAT.find("12345").expect("the field");
    for cut in 0..begins {
        machine.write("/proc/7/stat", &STAT[..cut]);
        assert!(!program.runs(&machine.root), "{cut}");
    }
}
