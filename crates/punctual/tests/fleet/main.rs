//! Runs on many machines: a real Slurm and a real Ansible, with four nodes on this host; manifests of Kubernetes.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod ansible;
mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod dataset;
mod fakes;
mod farm;
mod kubernetes;
mod slurm;
mod tools;
