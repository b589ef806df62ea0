//! Files that a user named: what belongs to them stays, and comes back.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use punctual_machine::tune::{
    Journal, RestoreRequest, TuneError, apply, persist, restore, setting_of_named_file, status,
};
use punctual_record::tuning::{Applied, Change, Knob, Restored};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use tempfile::TempDir;

use crate::needs::{Absent, skip};
use crate::{FORCED, open_again};

/// A file with a line, and its change.
fn named(folder: &TempDir) -> (Change, std::path::PathBuf) {
    let path = folder.path().join("named");
    fs::write(&path, "before\n").expect("a file");
    let text = path.to_str().expect("UTF-8");
    let (setting, value) = setting_of_named_file(text, "after").expect("a file");
    let knob = Knob::File(text.to_owned());
    let change = Change {
        knob,
        setting,
        value,
    };
    (change, path)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("a file")
}

#[test]
fn one_that_was_removed_since_comes_back_if_it_is_forced() {
    let folder = TempDir::new().expect("a folder");
    let (change, path) = named(&folder);
    let mut journal = open_again(&folder);
    apply(&mut journal, &[change]).expect("changed");
    fs::remove_file(&path).expect("another program");
    let is_absent = |it: &Applied| matches!(it, Applied::Changed(now) if now == "absent");
    assert!(is_absent(&status(&journal)[0].1), "{:?}", status(&journal));
    let results = restore(&mut journal, &RestoreRequest::default()).expect("a journal");
    assert!(matches!(results[0].1, Restored::Conflict(_)), "{results:?}");
    assert!(!path.exists());
    assert_eq!(journal.entries().len(), 1, "its bytes are known");
    restore(&mut journal, &FORCED).expect("restored");
    assert_eq!(text(&path), "before\n");
    // Its rights are not known: it may have been a secret.
    assert_eq!(fs::metadata(&path).expect("it").mode() & 0o7777, 0o600);
    assert!(!Journal::is_in(folder.path()));
}

#[test]
fn one_that_persist_wrote_and_that_was_removed_since_is_gone() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("ours.conf");
    fs::write(&path, "of another\n").expect("a file");
    let file = (path.display().to_string(), Some("1\n".to_owned()));
    let mut journal = open_again(&folder);
    persist(&mut journal, &[file], &["ksm".to_owned()]).expect("written");
    fs::remove_file(&path).expect("another program");
    let results = restore(&mut journal, &FORCED).expect("a journal");
    assert!(matches!(results[0].1, Restored::Gone), "{results:?}");
    assert!(!path.exists());
}

#[test]
fn extended_attributes_owner_and_rights_stay() {
    let folder = TempDir::new().expect("a folder");
    let (change, path) = named(&folder);
    let value = |name: &str| {
        let mut value = [0; 100];
        let length = getxattr(&path, name, &mut value[..]).expect(name);
        value[..length].to_vec()
    };
    if setxattr(&path, "user.note", b"theirs", XattrFlags::empty()).is_err() {
        skip!(Absent::kernel("extended attributes of a temporary file"));
    }
    setxattr(&path, "user.empty", b"", XattrFlags::empty()).expect("another");
    // What the folder gives to new files is not the file's own: user::rwx, user:7:rwx, group::rwx,
    // mask::rwx, other::--- (linux/posix_acl_xattr.h).
    let mut acl = vec![2, 0, 0, 0];
    for (tag, id) in [
        (1_u8, u32::MAX),
        (2, 7),
        (4, u32::MAX),
        (16, u32::MAX),
        (32, u32::MAX),
    ] {
        acl.extend([tag, 0, if tag == 32 { 0 } else { 7 }, 0]);
        acl.extend(id.to_le_bytes());
    }
    let default = "system.posix_acl_default";
    let has_acl = setxattr(folder.path(), default, &acl, XattrFlags::empty()).is_ok();
    println!("lists of access rights: {has_acl}");
    let is_root = punctual_rt::sys::file::effective_user() == 0;
    // VFS_CAP_REVISION_2 with CAP_NET_BIND_SERVICE (linux/capability.h).
    let mut capability = [0_u8; 20];
    capability[3] = 2;
    capability[5] = 4;
    if is_root {
        std::os::unix::fs::chown(&path, Some(1), Some(2)).expect("given away");
        setxattr(
            &path,
            "security.capability",
            &capability,
            XattrFlags::empty(),
        )
        .expect("root");
    }
    // A change of the owner takes these bits away.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4750)).expect("rights");
    let before = fs::metadata(&path).expect("it");
    let mut journal = open_again(&folder);
    let check = |content: &str| {
        assert_eq!(text(&path), content);
        assert_eq!(value("user.note"), b"theirs");
        assert_eq!(value("user.empty"), b"");
        if is_root {
            assert_eq!(value("security.capability"), capability);
        }
        assert!(getxattr(&path, "system.posix_acl_access", &mut [0; 100][..]).is_err());
        let now = fs::metadata(&path).expect("it");
        let of = |it: &fs::Metadata| (it.uid(), it.gid(), it.mode());
        assert_eq!(of(&now), of(&before));
    };
    apply(&mut journal, &[change]).expect("changed");
    check("after\n");
    restore(&mut journal, &RestoreRequest::default()).expect("restored");
    check("before\n");
}

#[test]
fn a_file_with_the_name_of_an_unfinished_one_is_left_alone() {
    let folder = TempDir::new().expect("a folder");
    let (change, path) = named(&folder);
    let theirs = folder.path().join("named.punctual-new");
    fs::write(&theirs, "theirs\n").expect("a file");
    let mut journal = open_again(&folder);
    let error = apply(&mut journal, std::slice::from_ref(&change)).expect_err("it is in the way");
    assert!(matches!(error, TuneError::InTheWay { .. }), "{error}");
    assert!(error.to_string().contains("named.punctual-new"), "{error}");
    assert_eq!(
        (text(&path), text(&theirs)),
        ("before\n".into(), "theirs\n".into())
    );
    assert!(journal.entries().is_empty());
    let files = [(path.display().to_string(), Some("1\n".to_owned()))];
    persist(&mut journal, &files, &["ksm".to_owned()]).expect_err("it is in the way");
    assert_eq!(text(&theirs), "theirs\n");
    // A link to nowhere is a file of theirs as well.
    fs::remove_file(&theirs).expect("it");
    std::os::unix::fs::symlink("/nowhere", &theirs).expect("a link");
    apply(&mut journal, std::slice::from_ref(&change)).expect_err("it is in the way");
    assert!(theirs.is_symlink());
    fs::remove_file(&theirs).expect("it");
    apply(&mut journal, &[change]).expect("changed");
    // What a kill leaves is ours: the journal has the file.
    fs::write(&theirs, "aft").expect("a file");
    restore(&mut journal, &RestoreRequest::default()).expect("restored");
    assert_eq!(text(&path), "before\n");
    assert!(!theirs.exists());
}
