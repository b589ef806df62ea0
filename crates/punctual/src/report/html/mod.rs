//! `report.html`: one file that needs nothing from anywhere, that can be read
//! without scripts, in light and dark, on paper and on a telephone.

mod explained;
mod page;
mod parts;
mod sections;
mod tables;

pub use page::page;
