//! Finds the places of the marks of a running program: in its own file, or in a library that it
//! has loaded.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use object::ReadCache;

use super::super::mappings::Mapping;
use super::error::{FunctionError, NotFound, PlaceError, SimilarNames};
use super::image::{Function, Image};
use super::preset::Preset;
use super::spec::{LONGEST, MarkPlace, MarkShape, PlaceKind, Spec};
use super::{Mark, Role, Site};

/// Places of one mark, at most: a USDT probe may be at many.
const MOST_SITES: usize = 64;

/// Names of probes that are compared with one that is missing, at most.
const MOST_KNOWN: usize = 1 << 16;
/// Bytes of the images that are kept, at most; an image beyond that is read again when it is needed.
const MOST_KEPT: usize = 512 << 20;

/// A file whose code a program has mapped.
struct MappedFile {
    /// As the program sees it.
    path: String,
    /// The path by which we reach it, even if it was renamed or deleted.
    reached: PathBuf,
    /// Its contents, read on first use.
    image: Option<Image>,
}

/// Finds the places of all marks.
///
/// # Errors
/// In one line: what does not exist, with similar names.
pub fn find(pid: u32, specs: &[Spec]) -> Result<Vec<Mark>, NotFound> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    let mut files = Files::mapped_by(pid)?;
    marks(&mut files, specs)
}

/// Finds the places of a runtime's marks.
///
/// # Errors
/// In one line: that the program has no such runtime, or one without the marks, and what to do.
pub fn find_preset(pid: u32, preset: &'static Preset) -> Result<Vec<Mark>, NotFound> {
    let mut files = Files::mapped_by(pid)?;
    let at = match preset.files {
        [] => Some(0),
        _ => files
            .loaded
            .iter()
            .position(|file| preset.is_in(file.name())),
    };
    let Some(at) = at else {
        let program = files.loaded[0].path.clone();
        return Err(NotFound::NoRuntime { preset, program });
    };
    let found = marks(&mut files, &preset.specs());
    found.map_err(|why| match why {
        NotFound::Place {
            source: PlaceError::NoProbe { .. } | PlaceError::Function { .. },
            ..
        } => NotFound::Unmarked {
            preset,
            file: files.loaded[at].path.clone(),
        },
        other => other,
    })
}

fn marks(files: &mut Files, specs: &[Spec]) -> Result<Vec<Mark>, NotFound> {
    let mark = |spec: &Spec| {
        let mut all = Vec::new();
        let places = match &spec.shape {
            MarkShape::Point(place) => vec![(place, Role::Point)],
            MarkShape::Pair(from, to) => vec![(from, Role::Begin), (to, Role::End)],
            MarkShape::Call(place) => vec![(place, Role::Call)],
        };
        for (place, role) in places {
            let found = files.sites(place, role);
            all.extend(found.map_err(|source| NotFound::Place {
                mark: spec.name.clone(),
                source,
            })?);
        }
        Ok(Mark {
            name: spec.name.clone(),
            text: spec.text.clone(),
            is_point: matches!(spec.shape, MarkShape::Point(_)),
            sites: all,
        })
    };
    specs.iter().map(mark).collect()
}

impl MappedFile {
    /// Without its directory.
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn read(&self) -> Result<Image, PlaceError> {
        let path = || self.path.clone();
        let opened = File::open(&self.reached).map_err(|source| PlaceError::Unreadable {
            path: path(),
            source,
        })?;
        let cache = ReadCache::new(opened);
        Image::read(&cache).map_err(|source| PlaceError::Image {
            path: path(),
            source,
        })
    }
}

/// The files of a program, each read on first use.
struct Files {
    loaded: Vec<MappedFile>,
}

impl Files {
    fn mapped_by(pid: u32) -> Result<Self, NotFound> {
        let exe = format!("/proc/{pid}/exe");
        let maps = format!("/proc/{pid}/maps");
        let own = fs::read_link(&exe);
        let own = own.map_err(|source| NotFound::Program { file: exe, source })?;
        let text = fs::read_to_string(&maps);
        let maps = text.map_err(|source| NotFound::Program { file: maps, source })?;
        let mut loaded = vec![MappedFile {
            path: own.display().to_string(),
            reached: PathBuf::from(format!("/proc/{pid}/exe")),
            image: None,
        }];
        for mapping in maps.lines().filter_map(Mapping::parse) {
            if loaded.iter().all(|it| it.path != mapping.path) {
                loaded.push(MappedFile {
                    path: mapping.path.to_owned(),
                    reached: mapping.reachable_path(pid),
                    image: None,
                });
            }
        }
        Ok(Self { loaded })
    }

    fn image(&mut self, index: usize) -> Result<&Image, PlaceError> {
        let image = match self.loaded[index].image.take() {
            Some(image) => image,
            None => {
                let images = self.loaded.iter().filter_map(|it| it.image.as_ref());
                if images.map(Image::bytes).sum::<usize>() > MOST_KEPT {
                    self.loaded.iter_mut().for_each(|it| it.image = None);
                }
                self.loaded[index].read()?
            }
        };
        Ok(self.loaded[index].image.insert(image))
    }

    fn which(&self, wanted: Option<&str>) -> Result<usize, PlaceError> {
        let Some(wanted) = wanted else {
            return Ok(0);
        };
        let is_it = |file: &MappedFile| {
            let path = file.path.trim_end_matches(" (deleted)");
            let name = path.rsplit('/').next().unwrap_or(path);
            path == wanted
                || name == wanted
                || name
                    .strip_prefix(wanted)
                    .is_some_and(|rest| rest.starts_with(".so"))
        };
        let found: Vec<usize> = (0..self.loaded.len())
            .filter(|index| is_it(&self.loaded[*index]))
            .collect();
        match found[..] {
            [one] => Ok(one),
            [] => {
                let names = self.loaded.iter().map(|file| file.path.as_str());
                let short = names.map(|path| path.rsplit('/').next().unwrap_or(path));
                Err(PlaceError::NoFile {
                    wanted: wanted.to_owned(),
                    mapped: listed(short),
                })
            }
            _ => {
                let paths = found.iter().map(|index| self.loaded[*index].path.as_str());
                Err(PlaceError::SeveralFiles {
                    wanted: wanted.to_owned(),
                    paths: listed(paths),
                })
            }
        }
    }

    fn sites(&mut self, place: &MarkPlace, role: Role) -> Result<Vec<Site>, PlaceError> {
        let file = place.file.as_deref();
        let (index, offset) = match &place.kind {
            PlaceKind::Probe { provider, name } => return self.probes(provider, name, role),
            PlaceKind::Offset(offset) => self.code(file, *offset)?,
            PlaceKind::Function(wanted) => self.function(file, wanted)?,
        };
        let path = self.loaded[index].path.clone();
        let reached = self.loaded[index].reached.clone();
        let site = |role| Site {
            path: reached.clone(),
            offset,
            semaphore: 0,
            role,
        };
        if role != Role::Call {
            return Ok(vec![site(role)]);
        }
        if self.image(index)?.moves_stacks {
            return Err(PlaceError::MovingStacks { path });
        }
        Ok(vec![site(Role::Call), site(Role::Return)])
    }

    /// The file that contains this code, and the place in it.
    fn code(&mut self, file: Option<&str>, offset: u64) -> Result<(usize, u64), PlaceError> {
        let index = self.which(file)?;
        if self.image(index)?.is_code(offset) {
            return Ok((index, offset));
        }
        let path = self.loaded[index].path.clone();
        Err(PlaceError::NoCode { path, offset })
    }

    /// The file that has this function, and the place for a mark of its start.
    fn function(&mut self, file: Option<&str>, wanted: &str) -> Result<(usize, u64), PlaceError> {
        let index = self.which(file)?;
        match function(self.image(index)?, wanted) {
            Ok(offset) => {
                // The marker of an indirect call's target has no effect here, and the kernel can't
                // emulate it: a probe on it costs the program ten times as much as one behind it.
                let marked = begins_with(&self.loaded[index].reached, offset, &ENDBR64);
                let behind = if marked { ENDBR64.len() as u64 } else { 0 };
                Ok((index, offset + behind))
            }
            Err(why) => {
                let source = self.elsewhere(index, wanted).unwrap_or(why);
                let path = self.loaded[index].path.clone();
                Err(PlaceError::Function { path, source })
            }
        }
    }

    /// A hint if another of the files has that function.
    fn elsewhere(&mut self, but: usize, wanted: &str) -> Option<FunctionError> {
        for index in (0..self.loaded.len()).filter(|index| *index != but) {
            let has = |image: &Image| function(image, wanted).is_ok();
            if self.image(index).is_ok_and(has) {
                let path = &self.loaded[index].path;
                let name = path.rsplit('/').next().unwrap_or(path);
                return Some(FunctionError::Elsewhere {
                    wanted: wanted.to_owned(),
                    file: name.to_owned(),
                });
            }
        }
        None
    }

    fn probes(&mut self, provider: &str, name: &str, role: Role) -> Result<Vec<Site>, PlaceError> {
        let mut sites = Vec::new();
        let mut known: BTreeSet<String> = BTreeSet::new();
        for index in 0..self.loaded.len() {
            let reached = self.loaded[index].reached.clone();
            // A file that can't be read is no reason to reject what another one has.
            let Ok(image) = self.image(index) else {
                continue;
            };
            for probe in &image.probes {
                if probe.provider == provider && probe.name == name {
                    sites.push(Site {
                        path: reached.clone(),
                        offset: probe.offset,
                        semaphore: probe.semaphore,
                        role,
                    });
                }
                if known.len() < MOST_KNOWN {
                    known.insert(format!("usdt:{}:{}", probe.provider, probe.name));
                }
            }
        }
        sites.sort_by(|a, b| (&a.path, a.offset).cmp(&(&b.path, b.offset)));
        sites.dedup();
        match sites.len() {
            0 => {
                let wanted = format!("usdt:{provider}:{name}");
                let known = if known.is_empty() {
                    SimilarNames::None
                } else {
                    match near(&wanted, known.iter().map(String::as_str)) {
                        near if near.is_empty() => {
                            SimilarNames::Some(listed(known.iter().map(String::as_str)))
                        }
                        near => SimilarNames::Near(near.join(", ")),
                    }
                };
                Err(PlaceError::NoProbe { wanted, known })
            }
            found if found > MOST_SITES => Err(PlaceError::TooManyPlaces {
                found,
                most: MOST_SITES,
            }),
            _ => Ok(sites),
        }
    }
}

/// Where a function begins.
fn function(image: &Image, wanted: &str) -> Result<u64, FunctionError> {
    let first = image
        .functions
        .partition_point(|it| it.name.as_str() < wanted);
    let of_name = image.functions[first..].iter();
    let found: Vec<&Function> = of_name.take_while(|it| it.name == wanted).collect();
    let mut offsets: Vec<u64> = found.iter().map(|it| it.offset).collect();
    offsets.dedup();
    let name = wanted.to_owned();
    match offsets[..] {
        [_] if found.iter().any(|it| it.is_ifunc) => Err(FunctionError::Selects { wanted: name }),
        [offset] => Ok(offset),
        [] => {
            let near = near(wanted, image.functions.iter().map(|it| it.name.as_str()));
            Err(if !near.is_empty() {
                FunctionError::Near {
                    wanted: name,
                    near: near.join(", "),
                }
            } else if image.omitted_functions > 0 {
                FunctionError::Omitted {
                    wanted: name,
                    functions: image.omitted_functions,
                }
            } else if image.has_symbol_table {
                FunctionError::Absent { wanted: name }
            } else {
                FunctionError::Stripped { wanted: name }
            })
        }
        _ => {
            let places = offsets.iter().take(4).map(|offset| format!("+{offset:#x}"));
            Err(FunctionError::Several {
                wanted: name,
                functions: offsets.len(),
                offsets: places.collect::<Vec<_>>().join(", "),
            })
        }
    }
}

/// What compilers put at targets of indirect calls.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Whether these bytes are at that offset.
fn begins_with(path: &Path, offset: u64, wanted: &[u8; 4]) -> bool {
    let mut found = [0; 4];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut found, offset));
    read.is_ok() && found == *wanted
}

/// Names that may be meant, the most similar first.
fn near<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = wanted.to_lowercase();
    // No mark could name a longer one.
    let mut found: Vec<(usize, &str)> = names
        .filter(|name| name.len() <= LONGEST)
        .filter_map(|name| {
            let all = name.to_lowercase();
            // A mangled name contains the original one.
            if wanted.len() >= 3 && all.contains(&lower) {
                return Some((name.len() - wanted.len().min(name.len()), name));
            }
            if name.len().abs_diff(wanted.len()) > 2 {
                return None;
            }
            let far = strsim::osa_distance(&all, &lower);
            (far <= 2 && far < wanted.len()).then_some((far, name))
        })
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = names.collect();
    let more = if all.len() > 8 { ", ..." } else { "" };
    all[..all.len().min(8)].join(", ") + more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::marks::spec;

    fn found(text: &str) -> Result<Vec<Mark>, NotFound> {
        let spec = spec::parse(text).expect(text);
        find(std::process::id(), &[spec])
    }

    #[test]
    fn our_own_main_is_found_and_a_misspelt_name_gets_a_suggestion() {
        let marks = found("it=main()").expect("main");
        assert_eq!(marks[0].sites.len(), 2);
        assert_eq!(marks[0].sites[0].offset, marks[0].sites[1].offset);
        let why = found("it=mian").expect_err("there is no mian").to_string();
        assert!(why.contains("near: main"), "{why}");
        for (text, wanted) in [
            ("libnone.so:f", "no code of a file 'libnone.so'"),
            ("+0x0", "no code at +0x0"),
            ("usdt:no:such", "usdt:no:such"),
            ("no_such_function_zzzz", "no function"),
        ] {
            let why = found(text).expect_err(text).to_string();
            assert!(why.contains(wanted), "{why}");
            assert_eq!(why.lines().count(), 1, "{why}");
        }
    }
}
