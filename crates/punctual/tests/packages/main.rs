//! What users install: Debian packages and a container image.
#![allow(unsafe_code, reason = "the builder of the C library ends what hangs")]

#[path = "../common/mod.rs"]
mod common;
mod deb;
mod image;
mod installed;
mod made;
#[path = "../../../capi/tests/support/mod.rs"]
#[allow(dead_code, reason = "some of it is used")]
mod support;
