//! What `tune` prints to be copied does what it says.

use std::fs;
use std::process::Command;

use punctual_record::tuning::{Change, Entry, Knob, Restored, Setting};
use punctual_report::style::Style;
use punctual_report::tuning::{plan, restored};

/// What a dry run of a restore prints for a file, without the names before the command.
fn printed(path: &str, original: &str, style: &Style) -> String {
    let setting = Setting::ConfigFile {
        path: path.to_owned(),
    };
    let entry = Entry {
        boot: String::new(),
        knob: "KNOB".to_owned(),
        setting,
        original: original.to_owned(),
        value: "text:ours\n".to_owned(),
        holder: None,
    };
    let text = restored(&[(entry, Restored::Written)], true, style);
    let commands = text.split_once("printf ").expect("a command").1;
    format!("printf {commands}")
}

#[test]
fn a_printed_command_gives_a_file_its_very_bytes() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let ascii = Style {
        unicode: false,
        ..Style::plain()
    };
    for name in [
        "file",
        "with 'quotes' $HOME",
        "größe",
        "two\nlines",
        "100%\\",
    ] {
        let place = folder.path().join(name);
        let path = place.to_str().expect("UTF-8");
        for text in [
            "",
            "\n",
            "one",
            "one\n",
            "one\n\n\ntwo\n",
            "a\tb\r\n\u{1}1\u{7f}\u{0}0",
            "gr\u{f6}\u{df}e \u{202e}turned\u{1f600}",
            "it's \"quoted\" `$HOME` $(id) ; # & \\n \\\\ %s 100% %%\n",
            "-n\n--help",
            "--",
            "\\\n\\101\\",
        ] {
            for style in [&Style::plain(), &ascii] {
                let command = printed(path, &format!("text:{text}"), style);
                assert_eq!(command.lines().count(), 1, "{command}");
                // Each may be what reads it.
                for shell in ["sh", "dash", "bash"] {
                    fs::write(&place, "changed\n").expect("a file");
                    let Ok(ended) = Command::new(shell).arg("-c").arg(&command).output() else {
                        continue;
                    };
                    assert!(ended.status.success(), "{shell}: {command}: {ended:?}");
                    let now = fs::read(&place).expect("it");
                    assert_eq!(now, text.as_bytes(), "{shell}: {command}");
                }
            }
        }
        fs::remove_file(&place).expect("it");
    }
}

#[test]
fn lines_of_a_planned_file_can_be_read() {
    let change = Change {
        knob: Knob::File("/etc/x".to_owned()),
        setting: Setting::ConfigFile {
            path: "/etc/x".to_owned(),
        },
        value: "text:# a 'b'\nc=100%\n".to_owned(),
    };
    assert_eq!(
        plan(&[change], &Style::plain()),
        "/etc/x\n  printf '# a '\\''b'\\''\\nc=100%%\\n' > /etc/x\n"
    );
}
