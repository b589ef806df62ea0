//! A root file system that is built from its layers. Paths are resolved as in a `chroot`: no name and
//! no link leads out of it.

use std::collections::BTreeMap;

use super::super::initramfs::Initramfs;
use super::super::room::Room;
use super::error::RootfsError;

/// The kernel's limit of symbolic links in a path.
const MOST_LINKS: usize = 40;
/// A path or a link's target, in bytes; the kernel's limit is 4096.
const LONGEST: usize = 4000;
/// Parts of paths that are resolved in total: a hostile archive would otherwise take hours.
const MOST_STEPS: u64 = 50_000_000;

/// The entry of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Folder,
    /// A file with these bytes.
    File(Vec<u8>),
    /// A symbolic link.
    Link(String),
}

#[derive(Debug, Clone)]
struct Entry {
    node: Node,
    mode: u32,
    layer: u32,
}

/// The tree.
#[derive(Debug, Default)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
    layer: u32,
    steps: u64,
}

impl Tree {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the next layer.
    pub fn next_layer(&mut self) {
        self.layer += 1;
    }

    /// Adds an entry; replaces an existing one.
    ///
    /// # Errors
    /// The path leads out, is too long, or leads through a file.
    pub fn add(
        &mut self,
        path: &str,
        mode: u32,
        node: Node,
        room: &mut Room,
    ) -> Result<(), RootfsError> {
        let Some(place) = self.place(path, room)? else {
            // The root itself.
            return Ok(());
        };
        let bytes = match &node {
            Node::Folder => 0,
            Node::File(bytes) => bytes.len(),
            Node::Link(target) if target.len() > LONGEST || target.contains('\0') => {
                return Err(RootfsError::BadTarget);
            }
            Node::Link(target) => target.len(),
        };
        room.reserve((bytes + place.len()) as u64)?;
        let is_folder = |node: &Node| matches!(node, Node::Folder);
        let replaced = self.entries.get(&place);
        if replaced.is_some_and(|old| is_folder(&old.node) && !is_folder(&node)) {
            self.remove_below(&place, u32::MAX)?;
        }
        let entry = Entry {
            node,
            mode: mode & 0o7777,
            layer: self.layer,
        };
        self.entries.insert(place, entry);
        Ok(())
    }

    /// Adds another name of a file.
    ///
    /// # Errors
    /// Those of [`Tree::add`], or there is no such file.
    pub fn add_name(
        &mut self,
        path: &str,
        target: &str,
        room: &mut Room,
    ) -> Result<(), RootfsError> {
        let parts = plain(target)?;
        let place = self.resolve(&parts, false)?;
        let Some(entry) = self.entries.get(&place) else {
            let target = target.to_owned();
            return Err(RootfsError::LinkToNothing { target });
        };
        if entry.node == Node::Folder {
            let target = target.to_owned();
            return Err(RootfsError::LinkToFolder { target });
        }
        let (node, mode) = (&entry.node, entry.mode);
        if let Node::File(bytes) = node {
            // Before the copy is made.
            room.clone().reserve(bytes.len() as u64)?;
        }
        self.add(path, mode, node.clone(), room)
    }

    /// Removes a path's entry of the layers below.
    ///
    /// # Errors
    /// The path leads out.
    pub fn hide(&mut self, path: &str) -> Result<(), RootfsError> {
        let place = self.resolve(&plain(path)?, false)?;
        let below = self.layer;
        self.remove_below(&place, below)?;
        let of_lower = |entry: &Entry| entry.layer < below;
        if self.entries.get(&place).is_some_and(of_lower) && !self.has_children(&place) {
            self.entries.remove(&place);
        }
        Ok(())
    }

    /// Removes the entries of the layers below in a directory.
    ///
    /// # Errors
    /// The path leads out.
    pub fn hide_contents(&mut self, path: &str) -> Result<(), RootfsError> {
        let place = self.resolve(&plain(path)?, true)?;
        self.remove_below(&place, self.layer)
    }

    /// Makes sure that a path is a directory; replaces anything else.
    ///
    /// # Errors
    /// There is no room.
    pub fn need_folder(&mut self, path: &str, room: &mut Room) -> Result<(), RootfsError> {
        let kept = self.entries.get(path).map(|entry| &entry.node) == Some(&Node::Folder);
        if kept {
            Ok(())
        } else {
            self.add(path, 0o755, Node::Folder, room)
        }
    }

    /// The file that a path resolves to, with its place and permissions.
    #[must_use]
    pub fn file(&mut self, path: &str) -> Option<(String, &[u8], u32)> {
        let parts: Vec<&str> = path.split('/').collect();
        let place = self.resolve(&parts, true).ok()?;
        match self.entries.get(&place)? {
            Entry {
                node: Node::File(bytes),
                mode,
                ..
            } => Some((place, bytes, *mode)),
            _ => None,
        }
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts everything into an archive, under a path.
    pub fn put(self, archive: &mut Initramfs, under: &str) {
        archive.folder(under);
        for (path, entry) in self.entries {
            let path = format!("{under}/{path}");
            match entry.node {
                Node::Folder => archive.folder_with_mode(&path, entry.mode),
                Node::File(bytes) => archive.file_with_mode(&path, bytes, entry.mode),
                Node::Link(target) => archive.link(&path, &target),
            }
        }
    }

    /// The place of a new entry, after making the directories above it; `None` for the root.
    fn place(&mut self, path: &str, room: &mut Room) -> Result<Option<String>, RootfsError> {
        let mut parts = plain(path)?;
        let Some(name) = parts.pop() else {
            return Ok(None);
        };
        let above = self.resolve(&parts, true)?;
        let ends = above.match_indices('/').map(|(at, _)| at);
        let ends: Vec<usize> = ends.chain([above.len()]).filter(|end| *end > 0).collect();
        for end in ends {
            let folder = &above[..end];
            match self.entries.get(folder).map(|entry| &entry.node) {
                Some(Node::Folder) => {}
                Some(_) => {
                    let path = folder.to_owned();
                    return Err(RootfsError::Through { path });
                }
                None => {
                    room.reserve(folder.len() as u64)?;
                    let entry = Entry {
                        node: Node::Folder,
                        mode: 0o755,
                        layer: self.layer,
                    };
                    self.entries.insert(folder.to_owned(), entry);
                }
            }
        }
        let place = join(&above, name);
        if place.len() > LONGEST {
            return Err(RootfsError::LongPath);
        }
        Ok(Some(place))
    }

    /// Follows links like a process in this root file system.
    fn resolve(&mut self, parts: &[&str], follow_last: bool) -> Result<String, RootfsError> {
        let mut todo: Vec<String> = parts.iter().rev().map(|part| (*part).to_owned()).collect();
        let mut at = String::new();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            self.step(1)?;
            match &*part {
                "" | "." => continue,
                ".." => {
                    at.truncate(at.rfind('/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            let next = join(&at, &part);
            if next.len() > LONGEST {
                return Err(RootfsError::LongPath);
            }
            match self.entries.get(&next).map(|entry| &entry.node) {
                Some(Node::Link(target)) if follow_last || !todo.is_empty() => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(RootfsError::Circle { at: next });
                    }
                    if target.starts_with('/') {
                        at.clear();
                    }
                    todo.extend(target.rsplit('/').map(str::to_owned));
                }
                _ => at = next,
            }
        }
        Ok(at)
    }

    fn remove_below(&mut self, folder: &str, layer: u32) -> Result<(), RootfsError> {
        let (from, is_below) = below(folder);
        let range = self.entries.range(from..);
        let found: Vec<(String, bool)> = range
            .take_while(|(path, _)| is_below(path))
            .map(|(path, entry)| (path.clone(), entry.layer < layer))
            .collect();
        self.step(found.len() as u64)?;
        // From the leaves up: a directory is kept while it contains something of this layer.
        for (path, _) in found.into_iter().rev().filter(|(_, lower)| *lower) {
            if !self.has_children(&path) {
                self.entries.remove(&path);
            }
        }
        Ok(())
    }

    fn has_children(&self, folder: &str) -> bool {
        let (from, is_below) = below(folder);
        let mut range = self.entries.range(from..);
        range.next().is_some_and(|(path, _)| is_below(path))
    }

    fn step(&mut self, count: u64) -> Result<(), RootfsError> {
        self.steps += count;
        if self.steps > MOST_STEPS {
            return Err(RootfsError::Entangled);
        }
        Ok(())
    }
}

/// The first key below a directory, and a test whether a key is below it.
fn below(folder: &str) -> (String, impl Fn(&str) -> bool) {
    let from = if folder.is_empty() {
        String::new()
    } else {
        format!("{folder}/")
    };
    let prefix = from.clone();
    (from, move |path: &str| path.starts_with(&prefix))
}

/// The parts of a path in an archive.
fn plain(path: &str) -> Result<Vec<&str>, RootfsError> {
    if path.len() > LONGEST || path.contains('\0') {
        return Err(RootfsError::BadPath);
    }
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    if parts.contains(&"..") {
        return Err(RootfsError::LeadsOut);
    }
    Ok(parts)
}

fn join(above: &str, name: &str) -> String {
    if above.is_empty() {
        name.to_owned()
    } else {
        format!("{above}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::archive::unpack;
    use super::*;

    const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/rootfs/");

    /// What an archive gives; `Err` has what was said.
    fn unpacked(name: &str, is_layer: bool) -> (Result<(), String>, Tree) {
        let bytes = std::fs::read(format!("{DATA}{name}")).expect("an archive");
        let (mut tree, mut room) = (Tree::new(), Room::for_memory(256));
        let done = unpack(&bytes[..], is_layer, &mut tree, &mut room);
        (done.map_err(|error| error.to_string()), tree)
    }

    fn paths(tree: &Tree) -> Vec<&str> {
        tree.entries.keys().map(String::as_str).collect()
    }

    #[test]
    fn an_entry_goes_where_a_process_within_would_put_it() {
        let (done, mut tree) = unpacked("plain", false);
        assert_eq!(done, Ok(()));
        assert_eq!(
            paths(&tree),
            ["a", "a/b", "a/b/c", "bin", "usr", "usr/bin", "usr/bin/sh"]
        );
        let (place, bytes, mode) = tree.file("/bin/../bin/sh").expect("a file");
        assert_eq!((&*place, bytes, mode), ("usr/bin/sh", &b"#!x"[..], 0o4755));
        // Links that would lead out end at the root.
        let (done, tree) = unpacked("through-a-link", false);
        assert_eq!(done, Ok(()));
        assert_eq!(paths(&tree), ["a", "b", "b2", "b2/x", "etc", "etc/passwd"]);
    }

    #[test]
    fn what_does_harm_is_refused_by_its_name() {
        for (name, words) in [
            ("leads-out", "../../etc/passwd: its path leads out"),
            ("circle", "a/x: its symbolic links form a loop"),
            ("hard", "z: its path leads out"),
            ("huge", "huge: no room for 1099511627776 bytes"),
            (
                "file-above",
                "a/b: leads through a, which is not a directory",
            ),
        ] {
            let error = unpacked(name, false).0.expect_err(name);
            assert!(error.contains(words), "{error}");
        }
        for name in ["sparse-0.0", "sparse-0.1", "sparse-1.0"] {
            let error = unpacked(name, false).0.expect_err(name);
            assert!(error.contains("hole: is a sparse file"), "{error}");
        }
        for name in ["long-pax", "long-gnu"] {
            let (done, tree) = unpacked(name, false);
            assert_eq!(done, Ok(()), "{name}");
            let lengths: Vec<usize> = tree.entries.keys().map(String::len).collect();
            assert_eq!(lengths, [1, 200, 401], "{name}");
        }
    }

    #[test]
    fn whiteouts_take_away_what_is_below_and_nothing_of_their_own_layer() {
        let mut room = Room::for_memory(256);
        let mut tree = Tree::new();
        let file = |tree: &mut Tree, path: &str, room: &mut Room| {
            tree.add(path, 0o644, Node::File(Vec::new()), room)
                .expect(path);
        };
        for path in ["a/b", "a/old/x", "c/d", "e", "f/g"] {
            file(&mut tree, path, &mut room);
        }
        tree.next_layer();
        file(&mut tree, "a/new", &mut room);
        tree.hide_contents("a").expect("hidden");
        tree.hide("c").expect("hidden");
        tree.hide("e").expect("hidden");
        // A directory in the place of a file, and a file in that of a directory.
        tree.add("e", 0o755, Node::Folder, &mut room)
            .expect("added");
        file(&mut tree, "f", &mut room);
        tree.hide("nothing/there").expect("hidden");
        assert_eq!(paths(&tree), ["a", "a/new", "e", "f"]);
    }
}
