//! What a fit keeps, as files that make the changes again after a reboot.

use std::fmt::Write as _;
use std::path::Path;

use punctual_record::cpu_list;
use punctual_record::fit::Fit;
use punctual_record::tuning::Setting;

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
        let (path, value) = match &kept.setting {
            Setting::File { path } => (path.as_str(), kept.value.as_str()),
            // The path of the one that is in force, and its number.
            Setting::Pair { .. } => kept.value.split_once(' ').unwrap_or_default(),
            _ => ("", ""),
        };
        // Numbers of interrupts and threads change with a reboot: their knobs are turned again.
        if let Some(name) = path.strip_prefix("/proc/sys/") {
            // With slashes the name of an interface may have dots.
            let _ = writeln!(sysctl, "{name} = {value}");
        } else if path.starts_with("/sys/") {
            let _ = writeln!(tmpfiles, "w {path} - - - - {value}");
        } else if !knobs.contains(&kept.knob.name()) {
            knobs.push(kept.knob.name());
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
             ExecStart=punctual tune apply{} --state {} {}\n\
             ExecStop=punctual tune restore --state {} {}\n\n\
             [Install]\nWantedBy=multi-user.target\n",
            request(fit),
            state.display(),
            knobs.join(" "),
            state.display(),
            knobs.join(" "),
        );
        files.push((UNIT, unit));
    }
    files
}

/// What the settings were made for, as flags of `tune`.
fn request(fit: &Fit) -> String {
    let mut flags = String::new();
    if !fit.tuned_for.is_empty() {
        let _ = write!(flags, " -a {}", cpu_list(&fit.tuned_for));
    }
    if fit.priority > 0 {
        let _ = write!(flags, " -p {}", fit.priority);
    }
    flags
}
