//! What a fit keeps, as files that make the changes again after a reboot.

use std::fmt::Write as _;
use std::path::Path;

use punctual_record::fit::Fit;
use punctual_record::tuning::Setting;

use super::cpus;

/// For `/etc/sysctl.d`.
const SYSCTL: &str = "90-punctual.sysctl.conf";
/// For `/etc/tmpfiles.d`.
const TMPFILES: &str = "punctual.tmpfiles.conf";
/// For `/etc/systemd/system`.
const UNIT: &str = "punctual-tune.service";

/// Names and texts of the files; threads of the kernel are changed by a unit that calls
/// `punctual tune` with the journal in `state`.
#[must_use]
pub fn persistent(fit: &Fit, state: &Path) -> Vec<(&'static str, String)> {
    let (mut sysctl, mut tmpfiles, mut knobs) = (String::new(), String::new(), Vec::new());
    for kept in &fit.kept {
        match &kept.setting {
            Setting::File { path } => file(path, &kept.value, &mut sysctl, &mut tmpfiles),
            Setting::Pair { .. } => {
                // The path of the one that is in force, and its number.
                if let Some((path, number)) = kept.value.split_once(' ') {
                    file(path, number, &mut sysctl, &mut tmpfiles);
                }
            }
            _ => {
                if !knobs.contains(&kept.knob.name()) {
                    knobs.push(kept.knob.name());
                }
            }
        }
    }
    let mut files = Vec::new();
    if !sysctl.is_empty() {
        files.push((
            SYSCTL,
            format!("# Copy to /etc/sysctl.d/90-punctual.conf\n{sysctl}"),
        ));
    }
    if !tmpfiles.is_empty() {
        files.push((
            TMPFILES,
            format!("# Copy to /etc/tmpfiles.d/punctual.conf\n{tmpfiles}"),
        ));
    }
    if !knobs.is_empty() {
        let unit = format!(
            "# Copy to /etc/systemd/system, then: systemctl enable {UNIT}\n\
             [Unit]\nDescription=Settings for real-time work\n\n\
             [Service]\nType=oneshot\nRemainAfterExit=yes\n\
             ExecStart=punctual tune apply -a {} --state {} {}\n\
             ExecStop=punctual tune restore --state {} {}\n\n\
             [Install]\nWantedBy=multi-user.target\n",
            cpus(fit),
            state.display(),
            knobs.join(" "),
            state.display(),
            knobs.join(" "),
        );
        files.push((UNIT, unit));
    }
    files
}

fn file(path: &str, value: &str, sysctl: &mut String, tmpfiles: &mut String) {
    match path.strip_prefix("/proc/sys/") {
        // With slashes the name of an interface may have dots.
        Some(name) => {
            let _ = writeln!(sysctl, "{name} = {value}");
        }
        None => {
            let _ = writeln!(tmpfiles, "w {path} - - - - {value}");
        }
    }
}
