//! What a library gives to programs, as Rust without bodies: `crates/NAME/api.txt`. A change of it is
//! seen in a diff, and is meant.
//!
//! The sources are read, and no compiler asked: rustdoc's JSON is for nightly compilers, and changes
//! with them. Impls that a type has by itself (`Send`) aren't seen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, iter};

use syn::{Item, ItemMod, UseTree};

use self::bare::{
    attributes, bare, bare_impl, is_for_tests, is_hidden, is_kept, is_public, name_of, visibility,
};
use crate::root;

mod bare;

/// The libraries whose items are kept.
pub const CRATES: &[&str] = &["rt", "stats"];

/// `crates/NAME/api.txt`.
pub fn snapshot(name: &str) -> PathBuf {
    root().join("crates").join(name).join("api.txt")
}

/// The public items of a crate, as its sources have them now.
///
/// # Errors
/// A file that can't be read or parsed, or a name that leads nowhere.
pub fn of_crate(name: &str) -> Result<String, String> {
    let mut modules = Modules::default();
    modules.read(&root().join("crates").join(name).join("src/lib.rs"), &[])?;
    modules.text()
}

/// The path of a module from the root of its crate.
type Place = Vec<String>;

#[derive(Default)]
struct Modules {
    items: BTreeMap<Place, Vec<Item>>,
}

impl Modules {
    /// Reads a file and those of the modules that it names.
    fn read(&mut self, file: &Path, place: &[String]) -> Result<(), String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = fs::read_to_string(file).map_err(|error| named(&error))?;
        let parsed = syn::parse_file(&text).map_err(|error| named(&error))?;
        // `a.rs` and `a/mod.rs` have their modules in `a`.
        let folder = match file.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "mod") => file.parent().map(Path::to_owned).unwrap_or_default(),
            _ => file.with_extension(""),
        };
        self.keep(parsed.items, place, &folder)
    }

    fn keep(&mut self, items: Vec<Item>, place: &[String], folder: &Path) -> Result<(), String> {
        let items = items
            .into_iter()
            .filter(|item| !is_for_tests(attributes(item)));
        let items: Vec<Item> = items.collect();
        for item in &items {
            let Item::Mod(module) = item else { continue };
            let name = module.ident.to_string();
            let inner = [place, std::slice::from_ref(&name)].concat();
            if let Some((_, items)) = &module.content {
                self.keep(items.clone(), &inner, &folder.join(&name))?;
                continue;
            }
            let files = [format!("{name}.rs"), format!("{name}/mod.rs")];
            let file = files
                .iter()
                .map(|file| folder.join(file))
                .find(|file| file.exists());
            let file = file.ok_or(format!("{name}: no file in {}", folder.display()))?;
            self.read(&file, &inner)?;
        }
        self.items.insert(place.to_vec(), items);
        Ok(())
    }

    fn text(&self) -> Result<String, String> {
        let mut items = self.public(&[])?;
        // Of types that are others': whoever has both gets them.
        let foreign = self.impls().filter(|(place, of)| {
            self_name(of).is_some_and(|name| self.find(place, &name).is_none())
        });
        items.extend(sorted(foreign.map(|(_, of)| bare_impl(of)).collect()));
        let file = syn::File {
            shebang: None,
            attrs: Vec::new(),
            items,
        };
        Ok(prettyplease::unparse(&file))
    }

    /// What a public module shows: in order of names, and each type with its impls.
    fn public(&self, place: &[String]) -> Result<Vec<Item>, String> {
        let mut shown: Vec<(String, Vec<Item>)> = Vec::new();
        for item in &self.items[place] {
            if is_hidden(attributes(item)) || !is_public(visibility(item)) {
                continue;
            }
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let inner = self.public(&[place, std::slice::from_ref(&name)].concat())?;
                    let mut module: ItemMod = module.clone();
                    module.attrs.retain(is_kept);
                    module.semi = None;
                    module.content = Some((syn::token::Brace::default(), inner));
                    shown.push((name, vec![Item::Mod(module)]));
                }
                Item::Use(import) => {
                    for (path, name) in leaves(&import.tree) {
                        shown.push((name.clone(), self.imported(place, &path, &name)?));
                    }
                }
                other => {
                    let name = name_of(other).unwrap_or_default();
                    shown.push((name, self.whole(place, other)));
                }
            }
        }
        shown.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(shown.into_iter().flat_map(|(_, items)| items).collect())
    }

    /// What a `pub use` gives: the item itself where its own module is private.
    fn imported(&self, place: &[String], path: &[String], name: &str) -> Result<Vec<Item>, String> {
        let said = || format!("pub use {} in {}", path.join("::"), place.join("::"));
        let (own, home) = path.split_last().ok_or_else(said)?;
        let home = self.resolve(place, home).ok_or_else(said)?;
        let is_open = self.is_open(&home);
        let found = self.items[&home].iter();
        let mut found = found.filter(|item| name_of(item).as_ref() == Some(own));
        let itself = match found.next() {
            _ if is_open => Vec::new(),
            Some(item) => self.whole(&home, item),
            // It comes from yet elsewhere.
            None => {
                let (path, _) = imports(&self.items[&home])
                    .find(|(_, bound)| bound == own)
                    .ok_or_else(said)?;
                self.imported(&home, &path, own)?
            }
        };
        let from = if is_open {
            [vec!["crate".to_owned()], home.clone(), vec![own.clone()]].concat()
        } else {
            vec!["self".to_owned(), own.clone()]
        };
        let renamed = if own == name {
            String::new()
        } else {
            format!(" as {name}")
        };
        let text = format!("pub use {}{renamed};", from.join("::"));
        let import: Item = syn::parse_str(&text).map_err(|error| error.to_string())?;
        let import = (is_open || own != name).then_some(import);
        Ok(import.into_iter().chain(itself).collect())
    }

    /// The module that a path names from a place.
    fn resolve(&self, place: &[String], path: &[String]) -> Option<Place> {
        let mut at = place.to_vec();
        for (index, word) in path.iter().enumerate() {
            match word.as_str() {
                "crate" => at = Vec::new(),
                "self" => {}
                "super" => drop(at.pop()?),
                name => {
                    let inner = [at.as_slice(), &[name.to_owned()]].concat();
                    if self.items.contains_key(&inner) {
                        at = inner;
                        continue;
                    }
                    // Imported by a `use` of this module.
                    let items = self.items.get(&at).filter(|_| index == 0)?;
                    let (path, _) = imports(items).find(|(_, bound)| bound == name)?;
                    at = self.resolve(&at.clone(), &path)?;
                }
            }
        }
        self.items.contains_key(&at).then_some(at)
    }

    /// Whether each module on the way is public.
    fn is_open(&self, place: &[String]) -> bool {
        (0..place.len()).all(|depth| {
            self.items[&place[..depth]].iter().any(|item| match item {
                Item::Mod(module) if module.ident == place[depth] => {
                    is_public(Some(&module.vis)) && !is_hidden(&module.attrs)
                }
                _ => false,
            })
        })
    }

    /// An item without bodies, and after it what is implemented for it anywhere.
    fn whole(&self, place: &[String], item: &Item) -> Vec<Item> {
        let mut impls = Vec::new();
        if matches!(item, Item::Struct(_) | Item::Enum(_) | Item::Union(_)) {
            let its = self.impls().filter(|(of, found)| {
                self_name(found).is_some_and(|name| {
                    Some(&name) == name_of(item).as_ref()
                        && self.find(of, &name).as_deref() == Some(place)
                })
            });
            impls = its.map(|(_, found)| bare_impl(found)).collect();
            // Empty where it had private functions alone.
            impls.retain(
                |it| matches!(it, Item::Impl(it) if it.trait_.is_some() || !it.items.is_empty()),
            );
        }
        iter::once(bare(item)).chain(sorted(impls)).collect()
    }

    fn impls(&self) -> impl Iterator<Item = (&Place, &syn::ItemImpl)> {
        self.items.iter().flat_map(move |(place, items)| {
            items.iter().filter_map(move |item| match item {
                Item::Impl(it) if self.is_visible(place, it) => Some((place, it)),
                _ => None,
            })
        })
    }

    /// Not that of a trait which nobody outside can name.
    fn is_visible(&self, place: &[String], it: &syn::ItemImpl) -> bool {
        let Some((_, path, _)) = &it.trait_ else {
            return true;
        };
        let Some(name) = path.segments.last().map(|last| last.ident.to_string()) else {
            return true;
        };
        let Some(home) = self.find(place, &name) else {
            return true;
        };
        self.items[&home].iter().any(|item| match item {
            Item::Trait(it) => it.ident == name && is_public(Some(&it.vis)),
            _ => false,
        })
    }

    /// Where a type or a trait that a module names by one word is defined, if it is of this crate:
    /// there, where it is imported from, or above for what `use super::*` brings.
    fn find(&self, place: &[String], name: &str) -> Option<Place> {
        let items = self.items.get(place)?;
        if items
            .iter()
            .any(|item| is_type(item) && name_of(item).as_deref() == Some(name))
        {
            return Some(place.to_vec());
        }
        for (path, bound) in imports(items).filter(|(_, bound)| bound == name || bound == "*") {
            let Some((own, home)) = path.split_last() else {
                continue;
            };
            let own = if bound == "*" { name } else { own };
            let home = self
                .resolve(place, home)
                .filter(|home| home.as_slice() != place);
            if let Some(found) = home.and_then(|home| self.find(&home, own)) {
                return Some(found);
            }
        }
        None
    }
}

/// What a module imports.
fn imports(items: &[Item]) -> impl Iterator<Item = (Vec<String>, String)> {
    let trees = items.iter().filter_map(|item| match item {
        Item::Use(import) => Some(&import.tree),
        _ => None,
    });
    trees.flat_map(leaves)
}

/// The paths that a `use` names, and the name that each is bound to.
fn leaves(tree: &UseTree) -> Vec<(Vec<String>, String)> {
    match tree {
        UseTree::Path(path) => {
            let mut inner = leaves(&path.tree);
            for (leaf, bound) in &mut inner {
                if leaf.last().is_some_and(|last| last == "self") {
                    leaf.pop();
                    *bound = path.ident.to_string();
                }
                leaf.insert(0, path.ident.to_string());
            }
            inner
        }
        UseTree::Name(name) => vec![(vec![name.ident.to_string()], name.ident.to_string())],
        UseTree::Rename(to) => vec![(vec![to.ident.to_string()], to.rename.to_string())],
        UseTree::Glob(_) => vec![(vec!["*".to_owned()], "*".to_owned())],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
    }
}

fn self_name(it: &syn::ItemImpl) -> Option<String> {
    match &*it.self_ty {
        syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

fn sorted(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by_cached_key(|item| {
        let file = syn::File {
            shebang: None,
            attrs: Vec::new(),
            items: vec![item.clone()],
        };
        prettyplease::unparse(&file)
    });
    items
}

fn is_type(item: &Item) -> bool {
    let alias = matches!(item, Item::Type(_) | Item::Trait(_));
    alias || matches!(item, Item::Struct(_) | Item::Enum(_) | Item::Union(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(source: &str) -> String {
        let mut modules = Modules::default();
        let items = syn::parse_file(source).expect("Rust").items;
        modules.keep(items, &[], Path::new("")).expect("modules");
        modules.text().expect("resolved")
    }

    /// `PUNCTUAL_BLESS=1 cargo test -p xtask api` renews it: look at the diff.
    #[test]
    fn the_public_items_are_those_that_were_agreed_on() {
        for name in CRATES {
            let now = of_crate(name).expect("the sources");
            let file = snapshot(name);
            if std::env::var_os("PUNCTUAL_BLESS").is_some() {
                fs::write(&file, &now).expect("written");
            }
            let kept = fs::read_to_string(&file).unwrap_or_default();
            let other = now
                .lines()
                .zip(kept.lines())
                .find(|(now, kept)| now != kept);
            assert!(
                now == kept,
                "the public items of {name} have changed, first at {other:?}: \
                 PUNCTUAL_BLESS=1 cargo test -p xtask api renews crates/{name}/api.txt"
            );
        }
    }

    #[test]
    fn what_is_private_is_no_part_of_it() {
        let shown = of("
            //! Words.
            use std::fmt;
            pub mod open {
                mod closed {
                    use super::Kept;
                    pub struct Taken<T> { pub a: T, b: u8 }
                    impl<T> Taken<T> { pub fn a(&self) -> &T { &self.a } fn b(&self) {} }
                    impl Kept { pub(crate) fn c() {} #[doc(hidden)] pub fn d() {} }
                    struct Never;
                    pub fn never() {}
                }
                /// More words.
                #[derive(Clone)] #[expect(dead_code)]
                pub struct Kept(pub u32, u32);
                pub use closed::Taken as Renamed;
                pub const LEAST: usize = 1 + 1;
                pub(crate) fn inner() {}
                #[doc(hidden)] pub fn hidden() {}
                #[cfg(test)] pub fn tested() {}
            }
            pub use open::Kept;
            impl fmt::Display for Kept { fn fmt(&self) {} }
            impl fmt::Display for Nowhere { fn fmt(&self) {} }
            trait Own { fn own(); }
            impl Own for Kept { fn own() {} }
            pub trait Other { type Of; fn other(&self) -> u8 { 1 } }
            impl Iterator for Kept { type Item = u8; fn next(&mut self) {} }
            pub unsafe extern \"C\" fn raw(place: *const u8) -> bool { true }
            ");
        let wanted = "\
pub use crate::open::Kept;
pub trait Other {
    type Of;
    fn other(&self) -> u8 {}
}
pub mod open {
    #[derive(Clone)]
    pub struct Kept(pub u32, _);
    impl Iterator for Kept {
        type Item = u8;
    }
    impl fmt::Display for Kept {}
    pub const LEAST: usize = _;
    pub use self::Taken as Renamed;
    pub struct Taken<T> {
        pub a: T,
        private: _,
    }
    impl<T> Taken<T> {
        pub fn a(&self) -> &T {}
    }
}
pub unsafe extern \"C\" fn raw(place: *const u8) -> bool {}
impl fmt::Display for Nowhere {}
";
        assert_eq!(shown, wanted);
    }

    #[test]
    fn a_change_of_a_signature_is_seen() {
        let before = of("pub fn f(a: u8) -> u8 { a }");
        assert_eq!(before, of("/// Words.\npub fn f(a: u8) -> u8 { a + 1 }"));
        for after in [
            "pub fn f(a: u16) -> u8 { a }",
            "pub unsafe fn f(a: u8) -> u8 { a }",
            "#[must_use] pub fn f(a: u8) -> u8 { a }",
            "pub(crate) fn f(a: u8) -> u8 { a }",
        ] {
            assert_ne!(before, of(after), "{after}");
        }
    }
}
