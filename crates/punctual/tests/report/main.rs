//! What people see: terminal, page, pictures.

#[path = "../common/bills.rs"]
mod bills;
mod browser;
#[path = "../attribute/data.rs"]
mod data;
mod explained;
mod fixtures;
mod gallery;
mod gaps;
mod gnuplot;
mod lab;
mod lab_table;
#[path = "../common/labs.rs"]
mod labs;
mod page;
mod terminal;
mod total;
mod watched;
#[path = "../common/watches.rs"]
mod watches;
