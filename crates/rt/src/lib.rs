//! What a real-time program on Linux needs, and what punctual's own probes run on.
pub mod stack;
pub mod sys;
