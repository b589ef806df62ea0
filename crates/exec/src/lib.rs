//! Executes a set of real-time tasks, and states of each job when it arrived, was released, began
//! and ended.
//!
//! One thread for each task. Nothing but the task's own work happens between the release and the end
//! of a job: no allocation, no page fault, no additional system call. What is found out goes to a
//! [`Sink`] of the task's own.

pub mod call;
pub mod chain;
pub mod end;
mod job;
mod leave;
pub mod means;
pub mod release;
pub mod speed;
mod sys;
pub mod task;
mod timer;
pub mod work;

pub use call::{Call, Calls, Used};
pub use chain::Passed;
pub use end::End;
pub use job::{Job, Sink};
pub use leave::Unended;
pub use speed::{Speed, SpeedError};
pub use task::{Ended, Fault, Outcome, Prepared, Ready, Running, StartError, prepare};
