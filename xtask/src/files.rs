//! The files of the repository.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A file that the repository keeps.
#[derive(Debug)]
pub struct Tracked {
    /// Its path from the root of the workspace.
    pub path: String,
    /// What it holds; nothing where that is no text.
    pub text: String,
}

#[cfg(test)]
impl Tracked {
    /// One that a test made up.
    pub fn made(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }
}

/// Every file that is tracked or would be: what is ignored is left out.
pub fn tracked(root: &Path) -> Vec<Tracked> {
    let listed = Command::new("git")
        .current_dir(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output();
    let paths: Vec<String> = match listed {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split_terminator('\0')
            .map(str::to_owned)
            .collect(),
        // An unpacked archive has no history.
        _ => below(root, root),
    };
    paths
        .into_iter()
        .filter_map(|path| {
            let bytes = fs::read(root.join(&path)).ok()?;
            let text = String::from_utf8(bytes).unwrap_or_default();
            Some(Tracked { path, text })
        })
        .collect()
}

fn below(root: &Path, directory: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "target" && name != ".git" {
                paths.extend(below(root, &path));
            }
        } else if let Ok(path) = path.strip_prefix(root) {
            paths.push(path.display().to_string());
        }
    }
    paths.sort();
    paths
}
