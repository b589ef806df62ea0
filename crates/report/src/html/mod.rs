//! `report.html`: one file that needs nothing from anywhere, that can be read
//! without scripts, in light and dark, on paper and on a telephone.

mod budgets;
mod executed;
mod explained;
pub(super) mod frame;
mod page;
pub(super) mod parts;
pub(super) mod sections;
mod tables;

pub use page::page;
pub(super) use page::{capital, class};
