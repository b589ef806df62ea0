//! For a program that was built without tracing.
use super::slot::Slot;
use super::{Options, Unavailable};
use punctual_record::explanation::NotSeen;

/// It can't exist.
pub enum Recorder {}

impl Recorder {
    pub fn start(_: &Options) -> Result<Self, Unavailable> {
        Err(Unavailable::BuiltWithout)
    }
    pub fn lanes(&self) -> usize {
        match *self {}
    }
    pub fn drain(&mut self, _: usize, _: impl FnMut(Slot)) -> u64 {
        match *self {}
    }
    pub fn stack(&self, _: u64, _: u64) -> Vec<u64> {
        match *self {}
    }
    pub fn origin(&self, _: u32) -> Vec<u64> {
        match *self {}
    }
    pub fn stacks(&self, _: usize) -> u64 {
        match *self {}
    }
    pub fn stacks_read(&self, _: usize, _: u64) {
        match *self {}
    }
    pub fn stacks_above(&self, _: u64) {
        match *self {}
    }
    pub fn follow(&mut self, _: u32) -> Result<(), Unavailable> {
        match *self {}
    }
    pub fn forget(&mut self, _: u32) {
        match *self {}
    }
    pub fn events(&self) -> u64 {
        match *self {}
    }
    pub fn missing(&self) -> &[NotSeen] {
        match *self {}
    }
}
