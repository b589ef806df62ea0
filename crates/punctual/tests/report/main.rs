//! What people see: terminal, page, pictures.

mod browser;
mod fixtures;
mod gallery;
mod gnuplot;
mod terminal;
mod total;
